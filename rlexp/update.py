"""Adam over stacked parameters ``[R, ...]``: gradient norm, clipping and learning rate are each run's own."""

from __future__ import annotations

from collections.abc import Iterable

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


class Adam:
    """Adam (Kingma and Ba, arXiv 1412.6980, algorithm 1) with β = (0.9, 0.999), ε = 1e-8, as ``torch.optim.Adam``.

    ``rates`` are the learning rates ``[R]``, reached linearly in ``warmup`` ``[R]`` updates; gradients whose norm exceeds
    ``limits`` ``[R]`` (inf: no limit) are scaled down to it, as ``torch.nn.utils.clip_grad_norm_`` does.
    """

    BETAS, EPS = (0.9, 0.999), 1e-8

    def __init__(self, module: nn.Module, rates: Tensor, warmup: Tensor, limits: Tensor):
        self.parameters = list(module.parameters())
        self.rates, self.warmup, self.limits = rates, warmup.clamp(min=1), limits
        self.first = [torch.zeros_like(p) for p in self.parameters]
        self.second = [torch.zeros_like(p) for p in self.parameters]
        self.updates = 0

    def current_rates(self) -> Tensor:
        """Return the learning rate of the next update, ``[R]``."""
        return self.rates * ((self.updates + 1) / self.warmup).clamp(max=1)

    @torch.no_grad()
    def step(self) -> Tensor:
        """Apply the gradients, clear them, return their norms before clipping ``[R]``."""
        gradients = [p.grad for p in self.parameters]
        norms = gradient_norms(gradients)
        scales = (self.limits / (norms + 1e-6)).clamp(max=1)
        rates = self.current_rates()
        self.updates += 1
        corrections = [1 - beta**self.updates for beta in self.BETAS]
        for p, g, m, v in zip(self.parameters, gradients, self.first, self.second, strict=True):
            g.mul_(per_replica(scales, g))
            m.mul_(self.BETAS[0]).add_(g * (1 - self.BETAS[0]))
            v.mul_(self.BETAS[1]).add_(g.square_().mul_(1 - self.BETAS[1]))
            p.sub_(per_replica(rates / corrections[0], p) * m / ((v / corrections[1]).sqrt_().add_(self.EPS)))
            p.grad = None
        return norms
