"""A transformer's block: all tokens at once with gradients, or one after another without."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from rlexp.core.exact import Product, Softmax, baddbmm, bmm, matmul
from rlexp.models.layers import Init, Projection, layer_norm
from rlexp.models.shapes import Rows
from rlexp.models.transformer import shapes as s
from rlexp.models.transformer.attention import Attention, DecodingAttention
from rlexp.models.transformer.cache import BlockCache, KeyValue, TokenActivations


class BlockWeights(NamedTuple):
    """What a block multiplies with while it decodes; ``qkv`` scales the queries."""

    qkv: s.Weight
    out: s.Weight
    up: s.UpWeight
    down: s.DownWeight


class FeedForward(torch.autograd.Function):
    """x + relu(y U) D for y = norm(x), with a gradient that masks in place; a cache may hold both results."""

    @staticmethod
    def forward(ctx, x: Rows, y: Rows, up: s.UpWeight, down: s.DownWeight, cache: TokenActivations | None) -> Rows:
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


class Block(nn.Module):
    """x + attention(norm(x)), then x + feed-forward(norm(x)) with a ReLU."""

    def __init__(self, init: Init, width: int, heads: int, feedforward: int):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = Projection(init, width, 3 * width), Projection(init, width, width)
        self.up, self.down = Projection(init, width, feedforward), Projection(init, feedforward, width)

    def qkv_weight(self) -> s.Weight:
        """Return what makes queries, keys and values ``[R, W, 3W]``, the queries with the scale of their products."""
        query, rest = self.qkv.weight.tensor_split((self.out.weight.shape[1],), -1)
        return torch.cat([query * (query.shape[-1] / self.heads) ** -0.5, rest], -1)

    def read_prompts(self, x: s.PromptRows, bias: s.PromptBias, places: slice) -> tuple[s.PlaceRows, KeyValue]:
        """Let prompts attend to themselves; return the outputs at ``places``, and all keys and values."""
        qkv = Product.apply(layer_norm(x).flatten(1, 2), self.qkv_weight(), None, None)
        by_head = qkv.view(*x.shape[:-1], 3, self.heads, -1).movedim((-3, -2), (0, 3))
        query, key, value = by_head.contiguous().unbind(0)
        weights = Softmax.apply(matmul(query[..., places, :], key.transpose(-1, -2)), bias[..., places, :])
        x = x[..., places, :]
        attended = matmul(weights, value).movedim(2, -2).flatten(1, 2).flatten(2)
        return self.add_parts(x.flatten(1, 2), attended, None).view(x.shape), KeyValue(key, value)

    def read_completions(
        self,
        x: Rows,
        prompts: KeyValue,
        padding_bias: s.PaddingBias,
        causal_bias: s.CausalBias,
        shape: Sequence[int],
        cache: BlockCache | None,
    ) -> Rows:
        """Return the outputs at completion tokens, rows of ``shape`` T, P, G; ``cache`` is what decoding has left."""
        biases = padding_bias, causal_bias
        attended = Attention.apply(layer_norm(x), self.qkv_weight(), prompts.key, prompts.value, *biases, shape, cache)
        return self.add_parts(x, attended, cache and cache.activations)

    def add_parts(self, x: Rows, attended: Rows, cache: TokenActivations | None) -> Rows:
        """Add the attended values, then the feed-forward part to ``x``."""
        x = self.out(attended, addend=x, result=cache and cache.middle)
        return FeedForward.apply(x, layer_norm(x), self.up.weight, self.down.weight, cache)

    def weights(self) -> BlockWeights:
        """Return what decoding needs of the block."""
        return BlockWeights(self.qkv_weight(), self.out.weight, self.up.weight, self.down.weight)


def decode_block(x: Rows, weights: BlockWeights, attention: DecodingAttention, t: int) -> TokenActivations:
    """Return what a block computes at the t-th completion token from rows ``[R, P·G, W]``, without gradients."""
    attended = attention.attend(bmm(layer_norm(x), weights.qkv), t).reshape(x.shape)
    middle = baddbmm(x, attended, weights.out)
    hidden = bmm(layer_norm(middle), weights.up).relu_()
    return TokenActivations(attended, middle, hidden, baddbmm(middle, hidden, weights.down))
