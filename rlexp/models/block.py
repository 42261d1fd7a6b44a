"""A transformer's block: all tokens at once with gradients, or one after another without."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from rlexp.models.attention import Attention, Cache, Softmax
from rlexp.models.layers import FeedForward, Init, Product, Projection
from rlexp.models.tape import Kept, Rows

NOTHING = Kept()


class Weights(NamedTuple):
    """What a block multiplies with while it decodes."""

    qkv: Tensor
    out: Tensor
    up: Tensor
    down: Tensor


def norm(x: Tensor) -> Tensor:
    """Layer norm without gain and bias, as in OLMo (arXiv 2402.00838): a product follows that can scale."""
    return torch.layer_norm(x, x.shape[-1:])


class Block(nn.Module):
    """x + attention(norm(x)), then x + feed-forward(norm(x)) with a ReLU."""

    def __init__(self, init: Init, width: int, heads: int, feedforward: int):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = Projection(init, width, 3 * width), Projection(init, width, width)
        self.up, self.down = Projection(init, width, feedforward), Projection(init, feedforward, width)

    def qkv_weight(self) -> Tensor:
        """Return what makes queries, keys and values ``[R, W, 3W]``, the queries with the scale of their products."""
        query, rest = self.qkv.weight.tensor_split((self.out.weight.shape[1],), -1)
        return torch.cat([query * (query.shape[-1] / self.heads) ** -0.5, rest], -1)

    def read(self, x: Tensor, barred: Tensor, places: slice) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Let prompts ``[R, P, L, W]`` attend to themselves; return the outputs at ``places``, keys and values."""
        qkv = Product.apply(norm(x).flatten(1, 2), self.qkv_weight(), None, None)
        split = qkv.view(*x.shape[:-1], 3, self.heads, -1)
        query, key, value = split.movedim((-3, -2), (0, 3)).contiguous().unbind(0)
        weights = Softmax.apply(query[..., places, :] @ key.transpose(-1, -2), barred[..., places, :])
        x = x[..., places, :]
        attended = (weights @ value).movedim(2, -2).flatten(1, 2).flatten(2)
        return self.finish(x.flatten(1, 2), attended, NOTHING).view(x.shape), (key, value)

    def extend(
        self,
        x: Tensor,
        prompt: tuple[Tensor, Tensor],
        absent: Tensor,
        later: Tensor,
        shape: Sequence[int],
        kept: Kept,
    ) -> Tensor:
        """Return the outputs at completion tokens, rows ``[R, T·P·G, W]`` of ``shape`` T, P, G."""
        return self.finish(x, Attention.apply(norm(x), self.qkv_weight(), *prompt, absent, later, shape, kept), kept)

    def finish(self, x: Tensor, attended: Tensor, kept: Kept) -> Tensor:
        """Add the attended values and the feed-forward part to ``x``, all rows ``[R, N, W]``."""
        x = self.out(attended, plus=x, known=kept.middle)
        return FeedForward.apply(x, norm(x), self.up.weight, self.down.weight, kept)

    def weights(self) -> Weights:
        """Return what decoding needs of the block."""
        return Weights(self.qkv_weight(), self.out.weight, self.up.weight, self.down.weight)


def follow(x: Tensor, weights: Weights, cache: Cache, t: int) -> Rows:
    """Return what a block computes at the t-th completion token from rows ``[R, P·G, W]``, without gradients."""
    attended = cache.attend(torch.bmm(norm(x), weights.qkv), t).reshape(x.shape)
    middle = torch.baddbmm(x, attended, weights.out)
    hidden = torch.bmm(norm(middle), weights.up).relu_()
    return Rows(attended, middle, hidden, torch.baddbmm(middle, hidden, weights.down))
