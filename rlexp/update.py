"""Adam over stacked parameters ``[R, ...]``: gradient norm, clipping and learning rate are each run's own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor, nn


def per_replica(values: Tensor, like: Tensor) -> Tensor:
    """Shape ``[R]`` so that it multiplies ``like`` ``[R, ...]``."""
    return values.view(-1, *[1] * (like.dim() - 1))


def gradient_norms(gradients: Iterable[Tensor]) -> Tensor:
    """Euclidean norm of each replica's whole gradient, ``[R]``; one axis at a time, see ``masked``."""
    total = 0
    for gradient in gradients:
        squares = gradient.square()
        while squares.dim() > 1:
            squares = squares.sum(-1)
        total = total + squares
    return total.sqrt()


class Schedule(NamedTuple):
    """Learning rates ``[R]``: linearly up to ``peak`` in ``warmup`` updates, times a linear descent to ``final``.

    The descent ends after ``total`` updates: to 0 in TRL's default, ``lr_scheduler_type="linear"``; 1 is no descent.
    """

    peak: Tensor
    warmup: Tensor
    final: Tensor
    total: int

    def rates(self, updates: int) -> Tensor:
        """Return the learning rates ``[R]`` of the update that follows ``updates`` others."""
        left = 1 - (1 - self.final) * (updates / self.total)
        return self.peak * left * ((updates + 1) / self.warmup.clamp(min=1)).clamp(max=1)


class Adam:
    """Adam (Kingma and Ba, arXiv 1412.6980, algorithm 1) with β = (0.9, 0.999), ε = 1e-8, as ``torch.optim.Adam``.

    Gradients whose norm exceeds ``limits`` ``[R]`` (inf: no limit) are scaled down to it, as
    ``torch.nn.utils.clip_grad_norm_`` does.
    """

    BETAS, EPS = (0.9, 0.999), 1e-8

    def __init__(self, module: nn.Module, schedule: Schedule, limits: Tensor):
        self.parameters = list(module.parameters())
        self.schedule, self.limits = schedule, limits
        self.first = [torch.zeros_like(p) for p in self.parameters]
        self.second = [torch.zeros_like(p) for p in self.parameters]
        self.updates = 0

    @property
    def progress(self) -> float:
        """Share of the updates of the run that are done."""
        return self.updates / self.schedule.total

    @torch.no_grad()
    def step(self) -> Tensor:
        """Apply the gradients, clear them, return their norms before clipping ``[R]``."""
        gradients = [p.grad for p in self.parameters]
        norms = gradient_norms(gradients)
        scales = (self.limits / (norms + 1e-6)).clamp(max=1)
        rates = self.schedule.rates(self.updates)
        self.updates += 1
        corrections = [1 - beta**self.updates for beta in self.BETAS]
        for p, g, m, v in zip(self.parameters, gradients, self.first, self.second, strict=True):
            g.mul_(per_replica(scales, g))
            m.mul_(self.BETAS[0]).add_(g * (1 - self.BETAS[0]))
            v.mul_(self.BETAS[1]).add_(g.square_().mul_(1 - self.BETAS[1]))
            p.sub_(per_replica(rates / corrections[0], p) * m / ((v / corrections[1]).sqrt_().add_(self.EPS)))
            p.grad = None
        return norms
