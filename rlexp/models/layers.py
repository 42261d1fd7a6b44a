"""Stacked layers: R independent copies of a layer, applied by one batched product.

Weights are ``[R, in, out]``, inputs ``[R, ..., in]``. Only operations whose result for one replica is the same bits
alone and in a batch are used: ``tanh`` and ``log_softmax`` are, ``sigmoid``, ``silu`` and ``softmax`` are not (their
vector and scalar paths round differently, and which one an element meets depends on its place in the batch).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rlexp.models.tape import Kept
from rlexp.streams import Purpose, generator


class Init:
    """Initial parameters, drawn for each replica from its own seed in the order in which they are asked for."""

    def __init__(self, seeds: Sequence[int]):
        self.generators = [generator(seed, Purpose.WEIGHTS) for seed in seeds]

    def normal(self, *shape: int, std: float = 1.0) -> nn.Parameter:
        """Return parameters ``[R, *shape]`` from N(0, std²)."""
        return self._stack(lambda g: std * g.standard_normal(shape, dtype=np.float32))

    def uniform(self, *shape: int, bound: float) -> nn.Parameter:
        """Return parameters ``[R, *shape]`` from U(−bound, bound)."""
        return self._stack(lambda g: bound * (2 * g.random(shape, dtype=np.float32) - 1))

    def constant(self, *shape: int, value: float) -> nn.Parameter:
        """Return parameters ``[R, *shape]`` that all have one value."""
        return nn.Parameter(torch.full((len(self.generators), *shape), value))

    def _stack(self, draw) -> nn.Parameter:
        return nn.Parameter(torch.from_numpy(np.stack([draw(g) for g in self.generators]).astype(np.float32)))


def sigmoid(x: Tensor) -> Tensor:
    """1 / (1 + exp(−x)) through ``tanh``, for the reason given at the top."""
    return 0.5 * (0.5 * x).tanh() + 0.5


class Product(torch.autograd.Function):
    """x W, or x W + ``plus``, whose value may be known already."""

    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, plus: Tensor | None, known: Tensor | None) -> Tensor:
        """``[R, N, in], [R, in, out] -> [R, N, out]``."""
        ctx.save_for_backward(x, weight)
        ctx.summed = plus is not None
        if known is not None:
            return known
        return torch.bmm(x, weight) if plus is None else torch.baddbmm(plus, x, weight)

    @staticmethod
    def backward(ctx, upstream: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients in x, weight and what was added."""
        x, weight = ctx.saved_tensors
        slope = torch.bmm(upstream, weight.transpose(1, 2))
        return slope, torch.bmm(x.transpose(1, 2), upstream), upstream if ctx.summed else None, None


class FeedForward(torch.autograd.Function):
    """x + relu(y U) D for y = norm(x), with a gradient that masks in place; both results may be known."""

    @staticmethod
    def forward(ctx, x: Tensor, y: Tensor, up: Tensor, down: Tensor, kept: Kept) -> Tensor:
        """``[R, N, W], [R, N, W], [R, W, F], [R, F, W] -> [R, N, W]``."""
        hidden, output = kept.hidden, kept.output
        if hidden is None:
            hidden = torch.bmm(y, up).relu_()
            output = torch.baddbmm(x, hidden, down)
        ctx.save_for_backward(y, up, down, hidden)
        return output

    @staticmethod
    def backward(ctx, upstream: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients in x, y and both weights."""
        y, up, down, hidden = ctx.saved_tensors
        slope = torch.bmm(upstream, down.transpose(1, 2))
        torch.ops.aten.threshold_backward.grad_input(slope, hidden, 0, grad_input=slope)
        into = torch.bmm(slope, up.transpose(1, 2))
        return upstream, into, torch.bmm(y.transpose(1, 2), slope), torch.bmm(hidden.transpose(1, 2), upstream), None


class Projection(nn.Module):
    """x W with W from U(−1/√in, 1/√in), as ``torch.nn.Linear`` without bias."""

    def __init__(self, init: Init, inputs: int, outputs: int):
        super().__init__()
        self.weight = init.uniform(inputs, outputs, bound=inputs**-0.5)

    def forward(self, x: Tensor, plus: Tensor | None = None, known: Tensor | None = None) -> Tensor:
        """``[R, N, in] -> [R, N, out]``, added to ``plus``; ``known`` is the result, if it was computed before."""
        return Product.apply(x, self.weight, plus, known)


class Linear(Projection):
    """x W + b with W and b from U(−1/√in, 1/√in), as ``torch.nn.Linear``."""

    def __init__(self, init: Init, inputs: int, outputs: int):
        super().__init__(init, inputs, outputs)
        self.bias = init.uniform(1, outputs, bound=inputs**-0.5)

    def forward(self, x: Tensor) -> Tensor:
        """``[R, ..., in] -> [R, ..., out]``."""
        return torch.baddbmm(self.bias, x.flatten(1, -2), self.weight).view(*x.shape[:-1], self.weight.shape[-1])


class Embedding(nn.Module):
    """A row of N(0, std²) numbers for each token, as ``torch.nn.Embedding``."""

    def __init__(self, init: Init, tokens: int, width: int, std: float = 1.0):
        super().__init__()
        self.weight = init.normal(tokens, width, std=std)

    def forward(self, tokens: Tensor) -> Tensor:
        """``[R, ...] -> [R, ..., width]``."""
        replicas, rows, width = self.weight.shape
        first = torch.arange(replicas, device=tokens.device).view(-1, *[1] * (tokens.dim() - 1)) * rows
        return F.embedding(tokens + first, self.weight.view(replicas * rows, width))
