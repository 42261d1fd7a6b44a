"""Attention of completions to their prompt and to themselves, forward and backward, with the prompt read once a group.

Written out because a chain of torch's own operations stores and copies several times as much as the result needs, and
because its fused attention wants the prompt repeated for every completion of a group.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from rlexp.core.exact import baddbmm, bmm, matmul, softmax_, softmax_backward_
from rlexp.models.shapes import Rows
from rlexp.models.transformer import shapes as s
from rlexp.models.transformer.cache import AttentionCache, BlockCache, KeyValue

MASKED = -1e9


def attention_bias(masked: Tensor) -> Tensor:
    """Return what is added to scores so that keys are not attended to where ``masked``.

    Finite, so that a padding position, from which everything is masked, holds no NaN.
    """
    return torch.zeros(masked.shape, device=masked.device).masked_fill_(masked, MASKED)


def split_heads(rows: Rows, shape: Sequence[int], heads: int) -> Tensor:
    """Queries, keys and values of rows of ``shape`` T, P, G: ``[R, T·P·G, 3·H·D] -> [3, R, P, H, G, T, D]``."""
    return rows.view(len(rows), *shape, 3, heads, -1).permute(4, 0, 2, 5, 3, 1, 6)


def split_keys(weights: s.AttentionWeights, prompt_key: s.PromptByHead) -> tuple[Tensor, Tensor]:
    """Split what belongs to all keys into that of the prompt's L and that of a completion's own T."""
    length = prompt_key.shape[-2]
    return weights[..., :length], weights[..., length:]


def group_product(values: Tensor, shared: Tensor) -> Tensor:
    """Multiply all rows of a group with what it shares: ``[R, P, H, G, T, A] · [R, P, H, A, B]``."""
    return matmul(values.flatten(3, 4), shared).unflatten(3, values.shape[3:5])


def group_outer(left: Tensor, right: Tensor) -> Tensor:
    """Sum of outer products over a group: ``[R, P, H, G, T, A], [R, P, H, G, T, B] -> [R, P, H, A, B]``."""
    return matmul(left.flatten(3, 4).transpose(-1, -2), right.flatten(3, 4))


def attend(
    query: s.ByHead,
    key: s.ByHead,
    value: s.ByHead,
    prompt_key: s.PromptByHead,
    prompt_value: s.PromptByHead,
    padding_bias: s.PaddingBias,
    causal_bias: s.CausalBias,
) -> tuple[s.ByHead, s.AttentionWeights]:
    """softmax(query · keys) · values over the keys of the prompt and a completion's own, and the weights.

    The query is scaled already. Source: Vaswani et al. (arXiv 1706.03762, eq. 1).
    """
    prompt_scores = group_product(query, prompt_key.transpose(-1, -2)).add_(padding_bias)
    weights = softmax_(torch.cat([prompt_scores, matmul(query, key.transpose(-1, -2)).add_(causal_bias)], -1))
    prompt_weights, own_weights = split_keys(weights, prompt_key)
    return group_product(prompt_weights, prompt_value).add_(matmul(own_weights, value)), weights


class DecodingAttention:
    """Attention of a block that decodes: keys and values of its prompts, and room for those of its completions."""

    def __init__(self, prompts: KeyValue, padding_bias: s.PaddingBias, cache: AttentionCache):
        self.cache, self.shape = cache, cache.key.shape[:4]
        self.prompt_key, self.prompt_value = prompts.key.flatten(0, 2).transpose(1, 2), prompts.value.flatten(0, 2)
        bias = padding_bias.to(prompts.key).squeeze(3)
        self.bias = bias.expand(-1, -1, self.shape[2], -1, -1).flatten(0, 2)

    def attend(self, qkv: Tensor, t: int) -> Tensor:
        """Take in the t-th token ``[R, P·G, 3W]``; return what it reads, ``[R, P, G, H, D]``.

        ``attend`` for one query a completion, in fewer operations; the weights are kept if there is room for them.
        """
        cache, (replicas, prompts, heads, group) = self.cache, self.shape
        query, key, value = qkv.view(replicas, prompts, group, 3, heads, -1).permute(3, 0, 1, 4, 2, 5).unbind(0)
        cache.key[..., t, :], cache.value[..., t, :] = key, value
        query = cache.query[..., t, :].copy_(query).flatten(0, 2)
        prompt_scores = baddbmm(self.bias, query, self.prompt_key)
        own_scores = bmm(query.flatten(0, 1).unsqueeze(1), cache.key.flatten(0, 3)[:, : t + 1].transpose(1, 2))
        weights = softmax_(torch.cat([prompt_scores.flatten(0, 1), own_scores.squeeze(1)], 1))
        length = prompt_scores.shape[-1]
        if cache.weights is not None:
            cache.weights[..., t, : length + t + 1] = weights.view(*self.shape, -1)
        own = bmm(weights[:, length:].unsqueeze(1), cache.value.flatten(0, 3)[:, : t + 1])
        prompt_weights = weights.unflatten(0, query.shape[:2])[..., :length]
        return baddbmm(own.view_as(query), prompt_weights, self.prompt_value).view(*self.shape, -1).transpose(2, 3)


class Attention(torch.autograd.Function):
    """``attend`` from rows to rows, with a gradient that keeps no more than its factors; a cache may hold them."""

    @staticmethod
    def forward(
        ctx,
        x: Rows,
        weight: s.Weight,
        prompt_key: s.PromptByHead,
        prompt_value: s.PromptByHead,
        padding_bias: s.PaddingBias,
        causal_bias: s.CausalBias,
        shape: Sequence[int],
        cache: BlockCache | None,
    ) -> Rows:
        """Return what completions read.

        ``x`` ``[R, T·P·G, W]`` are rows of ``shape`` T, P, G, and ``weight`` ``[R, W, 3W]`` makes queries, keys and
        values of them; for the others see ``attend``.
        """
        if cache is None:
            qkv = split_heads(bmm(x, weight), shape, prompt_key.shape[2]).contiguous()
            query, key, value = qkv.unbind(0)
            attended, weights = attend(query, key, value, prompt_key, prompt_value, padding_bias, causal_bias)
            attended = attended.permute(0, 4, 1, 3, 2, 5).flatten(4).flatten(1, 3)  # [R, T·P·G, H·D]
        else:
            query, key, value, weights = cache.attention
            attended = cache.activations.attended
        ctx.save_for_backward(x, weight, query, key, value, prompt_key, prompt_value, weights)
        return attended

    @staticmethod
    def backward(ctx, upstream: Rows) -> tuple[Tensor | None, ...]:
        """Return the gradients in x, weight, and the keys and values of the prompt."""
        x, weight, query, key, value, prompt_key, prompt_value, weights = ctx.saved_tensors
        replicas, prompts, heads, group, time, size = query.shape
        shape = time, prompts, group
        upstream = upstream.view(replicas, *shape, heads, size).permute(0, 2, 4, 3, 1, 5).contiguous()
        for_weights = group_product(upstream, prompt_value.transpose(-1, -2)), matmul(upstream, value.transpose(-1, -2))
        for_scores = softmax_backward_(torch.cat(for_weights, -1), weights)
        for_prompt_scores, for_own_scores = split_keys(for_scores, prompt_key)
        prompt_weights, own_weights = split_keys(weights, prompt_key)
        rows = torch.empty(replicas, time * prompts * group, 3 * heads * size, dtype=x.dtype, device=x.device)
        for_query, for_key, for_value = split_heads(rows, shape, heads).unbind(0)
        for_query.copy_(group_product(for_prompt_scores, prompt_key).add_(matmul(for_own_scores, key)))
        for_key.copy_(matmul(for_own_scores.transpose(-1, -2), query))
        for_value.copy_(matmul(own_weights.transpose(-1, -2), upstream))
        return (
            bmm(rows, weight.transpose(1, 2)),
            bmm(x.transpose(1, 2), rows),
            group_outer(for_prompt_scores, query),
            group_outer(prompt_weights, upstream),
            *[None] * 4,
        )
