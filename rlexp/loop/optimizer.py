"""An optimizer of stacked parameters ``[R, ...]``: gradient norm, clipping and learning rate are each run's own.

What a gradient does to the weights is said by a function of ``axes.optimizer`` for each block of runs that share one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

import torch
from torch import Tensor, nn

from rlexp.axes.optimizer import MEMORIES_OF_WEIGHTS, OF_POPULATION, adam
from rlexp.core.registry import call_with, required_inputs


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


class Optimizer:
    """Functions of ``axes.optimizer``, each for so many of the runs: ``blocks``, in the order of the replicas.

    Gradients whose norm exceeds ``limits`` ``[R]`` (inf: no limit) are scaled down to it, as
    ``torch.nn.utils.clip_grad_norm_`` does. ``kept`` has for each block what its function asks to be kept, ``[R, N]``
    of the block.
    """

    def __init__(self, module: nn.Module, schedule: Schedule, limits: Tensor, blocks: Sequence[tuple[Callable, int]]):
        self.parameters = list(module.parameters())
        self.schedule, self.limits, self.blocks = schedule, limits, blocks
        width = sum(p[0].numel() for p in self.parameters)
        empty = self.parameters[0].new_zeros
        self.kept = [
            {name: empty(size, width) for name in required_inputs(function) if name in MEMORIES_OF_WEIGHTS}
            for function, size in blocks
        ]
        self.updates = 0

    @property
    def progress(self) -> float:
        """Share of the updates of the run that are done."""
        return self.updates / self.schedule.total

    def rows(self, replica: int) -> list[Tensor]:
        """Return everything of a replica that a step changes: rows of the stacks, not copies."""
        return [*(p.detach()[replica] for p in self.parameters), *self.kept_of(replica).values()]

    @torch.no_grad()
    def step(self, tensors: Mapping[str, Tensor] = MappingProxyType({})) -> Tensor:
        """Apply the gradients, clear them, return their norms before clipping ``[R]``; 0 where there are none.

        ``tensors`` has what a function asks for beside them: ``noise`` and ``fitness`` of a population.
        """
        gradient = flat([torch.zeros_like(p) if p.grad is None else p.grad for p in self.parameters])
        norms = torch.linalg.vector_norm(gradient, dim=-1)
        gradient.mul_((self.limits / (norms + 1e-6)).clamp(max=1).unsqueeze(-1))
        rates = self.schedule.rates(self.updates)
        self.updates += 1
        first = 0
        for (function, size), kept in zip(self.blocks, self.kept, strict=True):
            rows, first = slice(first, first + size), first + size
            offered = {"gradient": gradient[rows], "rates": rates[rows], "updates": self.updates, **kept}
            offered |= {name: tensors[name][rows] for name in OF_POPULATION & {*required_inputs(function)}}
            if "weights" in required_inputs(function):
                offered["weights"] = flat(p[rows] for p in self.parameters)
            call_with(function, offered)  # overwrites the gradients of its runs with their moves
        moves = gradient.split([p[0].numel() for p in self.parameters], -1)
        for p, move in zip(self.parameters, moves, strict=True):
            p.sub_(move.view_as(p))
            p.grad = None
        return norms

    def kept_of(self, replica: int) -> dict[str, Tensor]:
        """Return what is kept of a replica by name, ``[N]`` each: rows of this optimizer, not copies."""
        for (_, size), kept in zip(self.blocks, self.kept, strict=True):
            if replica < size:
                return {name: values[replica] for name, values in kept.items()}
            replica -= size
        raise IndexError(replica)


class Adam(Optimizer):
    """Adam with β = (0.9, 0.999), ε = 1e-8 for all replicas: what warms up a start, and trains reward models."""

    def __init__(self, module: nn.Module, schedule: Schedule, limits: Tensor):
        super().__init__(module, schedule, limits, [(partial(adam, beta1=0.9, beta2=0.999, eps=1e-8), len(limits))])
