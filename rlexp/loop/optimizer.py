"""Adam over stacked parameters ``[R, ...]``: gradient norm, clipping and learning rate are each run's own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor, nn


def flat(tensors: Iterable[Tensor]) -> Tensor:
    """Return ``[R, ...]`` tensors side by side, ``[R, N]``."""
    return torch.cat([each.detach().flatten(1) for each in tensors], 1)


def per_replica(values: Tensor, like: Tensor) -> Tensor:
    """Shape ``[R]`` so that it multiplies ``like`` ``[R, ...]``."""
    return values.view(-1, *[1] * (like.dim() - 1))


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
    ``torch.nn.utils.clip_grad_norm_`` does. ``first`` and ``second`` ``[R, N]`` are the moments of all parameters.
    """

    BETAS, EPS = (0.9, 0.999), 1e-8

    def __init__(self, module: nn.Module, schedule: Schedule, limits: Tensor):
        self.parameters = list(module.parameters())
        self.schedule, self.limits = schedule, limits
        self.first, self.second = torch.zeros_like(torch.stack([flat(self.parameters)] * 2))
        self.updates = 0

    @property
    def progress(self) -> float:
        """Share of the updates of the run that are done."""
        return self.updates / self.schedule.total

    @property
    def rows(self) -> list[Tensor]:
        """All tensors ``[R, ...]`` that a step changes."""
        return [*self.parameters, self.first, self.second]

    @torch.no_grad()
    def step(self) -> Tensor:
        """Apply the gradients, clear them, return their norms before clipping ``[R]``."""
        gradient = flat([p.grad for p in self.parameters])
        norms = torch.linalg.vector_norm(gradient, dim=-1)
        gradient.mul_((self.limits / (norms + 1e-6)).clamp(max=1).unsqueeze(-1))
        rates = self.schedule.rates(self.updates)
        self.updates += 1
        corrections = [1 - beta**self.updates for beta in self.BETAS]
        self.first.mul_(self.BETAS[0]).add_(gradient, alpha=1 - self.BETAS[0])
        self.second.mul_(self.BETAS[1]).addcmul_(gradient, gradient, value=1 - self.BETAS[1])
        torch.div(self.second, corrections[1], out=gradient).sqrt_().add_(self.EPS)
        torch.div(self.first, gradient, out=gradient).mul_((rates / corrections[0]).unsqueeze(-1))
        moves = gradient.split([p[0].numel() for p in self.parameters], -1)
        for p, move in zip(self.parameters, moves, strict=True):
            p.sub_(move.view_as(p))
            p.grad = None
        return norms
