"""Operations whose result for one replica is the same bits alone and in a batch of any size.

The rule, stated here and nowhere else:

- Products are ``bmm`` and ``baddbmm`` of stacks ``[R, N, in] · [R, in, out]``, or ``@`` of stacks, which becomes
  ``bmm``. MKL gives them the same bits for every R only in its strict reproducible mode (``MKL_CBWR`` in
  ``rlexp/__init__.py``), and cuts the product of a stack of one between threads, which changes its last bit: a batch of
  one run has one thread (``sweep/threads.py``).
- Sums and means go over one axis after another (``sum_over``). A joint reduction over several large axes is split
  between threads when it is alone and not when it is part of a batch.
- ``tanh``, ``exp``, ``log_softmax``, ``relu`` and ``layer_norm`` of torch may be used, ``sigmoid``, ``silu`` and
  ``softmax`` may not: their vector and scalar paths round differently, and which one an element meets depends on its
  place in the batch. Those below stand in for them.
- A slice with gaps between its rows is made contiguous before it enters a product or a reduction, which otherwise may
  choose another path for it than for the whole.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, baddbmm, bmm

__all__ = ["Product", "Softmax", "baddbmm", "bmm", "sigmoid", "softmax_", "softmax_backward_", "sum_over"]


def sigmoid(x: Tensor) -> Tensor:
    """1 / (1 + exp(−x)), through ``tanh``."""
    return 0.5 * (0.5 * x).tanh() + 0.5


def softmax_(scores: Tensor) -> Tensor:
    """exp(x) / Σ exp(x) over the last axis, in place."""
    powers = scores.sub_(scores.amax(-1, keepdim=True)).exp_()
    return powers.div_(powers.sum(-1, keepdim=True))


def softmax_backward_(upstream: Tensor, weights: Tensor) -> Tensor:
    """Gradient in the scores whose softmax is ``weights``, in place of the gradient ``upstream`` in the weights."""
    return upstream.sub_((upstream * weights).sum(-1, keepdim=True)).mul_(weights)


class Softmax(torch.autograd.Function):
    """Softmax over the last axis of ``scores + bias``; the bias has no gradient."""

    @staticmethod
    def forward(ctx, scores: Tensor, bias: Tensor) -> Tensor:
        """Return weights of the shape of the scores."""
        weights = softmax_(scores + bias)
        ctx.save_for_backward(weights)
        return weights

    @staticmethod
    def backward(ctx, upstream: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradient in the scores."""
        return softmax_backward_(upstream.clone(), *ctx.saved_tensors), None


class Product(torch.autograd.Function):
    """x W + ``addend``, or x W where that is None.

    With ``result``, what an earlier pass with the same numbers has computed, only the backward pass is left.
    """

    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, addend: Tensor | None, result: Tensor | None) -> Tensor:
        """``[R, N, in], [R, in, out] -> [R, N, out]``."""
        ctx.save_for_backward(x, weight)
        ctx.has_addend = addend is not None
        if result is not None:
            return result
        return bmm(x, weight) if addend is None else baddbmm(addend, x, weight)

    @staticmethod
    def backward(ctx, upstream: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients in x, weight and addend."""
        x, weight = ctx.saved_tensors
        for_x = bmm(upstream, weight.transpose(1, 2))
        return for_x, bmm(x.transpose(1, 2), upstream), upstream if ctx.has_addend else None, None


def sum_over(values: Tensor, dims: Sequence[int]) -> Tensor:
    """Σ values over ``dims``, one axis after another; reduced axes stay with size 1."""
    for dim in dims:
        values = values.sum(dim, keepdim=True)
    return values
