"""The feed-forward part of a block, with its own backward pass."""

from __future__ import annotations

import torch
from torch import Tensor

from rlexp.core.exact import baddbmm, bmm
from rlexp.models.shapes import Rows
from rlexp.models.transformer.cache import TokenActivations
from rlexp.models.transformer.shapes import DownWeight, UpWeight


class FeedForward(torch.autograd.Function):
    """x + relu(y U) D for y = norm(x), with a gradient that masks in place; a cache may hold both results."""

    @staticmethod
    def forward(ctx, x: Rows, y: Rows, up: UpWeight, down: DownWeight, cache: TokenActivations | None) -> Rows:
        """``[R, N, W], [R, N, W], [R, W, F], [R, F, W] -> [R, N, W]``."""
        if cache is None:
            hidden = bmm(y, up).relu_()
            output = baddbmm(x, hidden, down)
        else:
            hidden, output = cache.hidden, cache.output
        ctx.save_for_backward(y, up, down, hidden)
        return output

    @staticmethod
    def backward(ctx, upstream: Rows) -> tuple[Tensor | None, ...]:
        """Return the gradients in x, y and both weights."""
        y, up, down, hidden = ctx.saved_tensors
        for_hidden = bmm(upstream, down.transpose(1, 2))
        torch.ops.aten.threshold_backward.grad_input(for_hidden, hidden, 0, grad_input=for_hidden)
        for_y = bmm(for_hidden, up.transpose(1, 2))
        return upstream, for_y, bmm(y.transpose(1, 2), for_hidden), bmm(hidden.transpose(1, 2), upstream), None
