"""Stacked layers: R independent copies of a layer, applied by one batched product.

Weights are ``[R, in, out]``, inputs ``[R, ..., in]``; the operations are those that ``core/exact.py`` allows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rlexp.core.exact import Product, baddbmm
from rlexp.core.streams import Purpose, generator
from rlexp.models.shapes import Rows


class Init:
    """Initial parameters, drawn for each replica from its own seed in the order in which they are asked for.

    A network beside the policy draws from streams of its own ``purpose``, members of an ensemble each from their own.
    """

    def __init__(self, seeds: Sequence[int], purpose: Purpose = Purpose.WEIGHTS, member: int = 0):
        self.generators = [generator(seed, purpose, member) for seed in seeds]

    def normal(self, *shape: int, std: float = 1.0) -> nn.Parameter:
        """Return parameters ``[R, *shape]`` from N(0, std²)."""
        return self._stack(lambda g: std * g.standard_normal(shape, dtype=np.float32))

    def uniform(self, *shape: int, bound: float) -> nn.Parameter:
        """Return parameters ``[R, *shape]`` from U(−bound, bound)."""
        return self._stack(lambda g: bound * (2 * g.random(shape, dtype=np.float32) - 1))

    def _stack(self, draw) -> nn.Parameter:
        return nn.Parameter(torch.from_numpy(np.stack([draw(g) for g in self.generators]).astype(np.float32)))


class Shapes(Init):
    """Parameters ``[1, *shape]`` without numbers, which take no memory: what a network would take can be counted."""

    def __init__(self):
        super().__init__([])

    def normal(self, *shape: int, std: float = 1.0) -> nn.Parameter:
        return nn.Parameter(torch.empty(1, *shape, device="meta"))

    def uniform(self, *shape: int, bound: float) -> nn.Parameter:
        return self.normal(*shape)


class Projection(nn.Module):
    """x W with W from U(−1/√in, 1/√in), as ``torch.nn.Linear`` without bias."""

    def __init__(self, init: Init, inputs: int, outputs: int):
        super().__init__()
        self.weight = init.uniform(inputs, outputs, bound=inputs**-0.5)

    def forward(self, x: Rows, addend: Tensor | None = None, result: Tensor | None = None) -> Tensor:
        """``[R, N, in] -> [R, N, out]``, plus ``addend``; ``result`` is the outcome, if it was computed before."""
        return Product.apply(x, self.weight, addend, result)


class Linear(Projection):
    """x W + b with W and b from U(−1/√in, 1/√in), as ``torch.nn.Linear``."""

    def __init__(self, init: Init, inputs: int, outputs: int):
        super().__init__(init, inputs, outputs)
        self.bias = init.uniform(1, outputs, bound=inputs**-0.5)

    def forward(self, x: Tensor) -> Tensor:
        """``[R, ..., in] -> [R, ..., out]``."""
        return baddbmm(self.bias, x.flatten(1, -2), self.weight).view(*x.shape[:-1], self.weight.shape[-1])


class Embedding(nn.Module):
    """A row of N(0, std²) numbers for each token, as ``torch.nn.Embedding``."""

    def __init__(self, init: Init, tokens: int, width: int, std: float = 1.0):
        super().__init__()
        self.weight = init.normal(tokens, width, std=std)

    def forward(self, tokens: Tensor, owners: Tensor | None = None) -> Tensor:
        """``[R, ...] -> [R, ..., width]``; ``owners`` are the replicas of the tokens if they are not all in order."""
        replicas, rows, width = self.weight.shape
        whose = torch.arange(replicas, device=tokens.device) if owners is None else owners
        offset = whose.view(-1, *[1] * (tokens.dim() - 1)) * rows
        return F.embedding(tokens + offset, self.weight.view(replicas * rows, width))


def layer_norm(x: Tensor) -> Tensor:
    """Layer norm without gain and bias, as in OLMo (arXiv 2402.00838): a product follows that can scale."""
    return torch.layer_norm(x, x.shape[-1:])
