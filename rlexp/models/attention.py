"""Attention of completions to their prompt and to themselves, forward and backward, with the prompt read once a group.

Written out because a chain of torch's own operations stores and copies several times as much as the result needs, and
because its fused attention wants the prompt repeated for every completion of a group.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from rlexp.models.tape import Kept

BARRED = -1e9


def barrier(barred: Tensor) -> Tensor:
    """What is added to scores: 0, or a number that no score outweighs where ``barred``. Finite, so that a padding
    position, from which everything is barred, holds no NaN."""
    return torch.zeros(barred.shape, device=barred.device).masked_fill_(barred, BARRED)


def weights(scores: Tensor) -> Tensor:
    """Softmax over the last axis, in place; why not ``softmax``: see ``layers``."""
    powers = scores.sub_(scores.amax(-1, keepdim=True)).exp_()
    return powers.div_(powers.sum(-1, keepdim=True))


def slopes(upstream: Tensor, weighed: Tensor) -> Tensor:
    """Gradient of ``weights`` in the scores, in place of ``upstream``."""
    return upstream.sub_((upstream * weighed).sum(-1, keepdim=True)).mul_(weighed)


def by_heads(rows: Tensor, shape: Sequence[int], heads: int) -> Tensor:
    """Queries, keys and values of rows of ``shape`` T, P, G: ``[R, T·P·G, 3·H·D] -> [3, R, P, H, G, T, D]``."""
    return rows.view(len(rows), *shape, 3, heads, -1).permute(4, 0, 2, 5, 3, 1, 6)


def by_rows(values: Tensor) -> Tensor:
    """``[R, P, H, G, T, D] -> [R, T·P·G, H·D]``."""
    return values.permute(0, 4, 1, 3, 2, 5).flatten(4).flatten(1, 3)


def attend(
    query: Tensor, key: Tensor, value: Tensor, prompt_key: Tensor, prompt_value: Tensor, absent: Tensor, future: Tensor
) -> tuple[Tensor, Tensor]:
    """softmax(query · keys) · values over the keys of the prompt and a completion's own.

    ``query``, ``key``, ``value`` are ``[R, P, H, G, T, D]``, the query scaled already, those of the prompt
    ``[R, P, H, L, D]``; ``absent`` ``[R, P, 1, 1, 1, L]`` and ``future`` ``[T, T]`` are barriers. Return
    ``[R, P, H, G, T, D]`` and the weights ``[R, P, H, G, T, L + T]``. Source: Vaswani et al. (arXiv 1706.03762, eq. 1).
    """
    on_prompt = by_group(query, prompt_key.transpose(-1, -2)).add_(absent)
    weighed = weights(torch.cat([on_prompt, (query @ key.transpose(-1, -2)).add_(future)], -1))
    on_prompt, on_own = parts(weighed, prompt_key)
    return by_group(on_prompt, prompt_value).add_(on_own @ value), weighed


def parts(weighed: Tensor, prompt_key: Tensor) -> tuple[Tensor, Tensor]:
    """Split what belongs to all keys into that of the prompt's and that of a completion's own."""
    length = prompt_key.shape[-2]
    return weighed[..., :length], weighed[..., length:]


class Cache:
    """Keys and values of a block that decodes: those of its prompts, and room for what its completions have."""

    def __init__(self, prompt_key: Tensor, prompt_value: Tensor, absent: Tensor, kept: Kept):
        """Take those of the prompts, ``[R, P, H, L, D]``, and the barrier of their padding, ``[R, P, 1, 1, 1, L]``."""
        self.kept, self.shape = kept, kept.key.shape[:4]
        self.prompt_key, self.prompt_value = prompt_key.flatten(0, 2).transpose(1, 2), prompt_value.flatten(0, 2)
        self.absent = absent.to(prompt_key).squeeze(3).expand(-1, -1, self.shape[2], -1, -1).flatten(0, 2)

    def attend(self, qkv: Tensor, t: int) -> Tensor:
        """Take in the t-th token ``[R, P·G, 3W]``; return what it reads, ``[R, P, G, H, D]``.

        ``attend`` for one query a completion, in fewer operations; the weights are kept if there is room for them.
        """
        kept, (replicas, prompts, heads, group) = self.kept, self.shape
        query, key, value = qkv.view(replicas, prompts, group, 3, heads, -1).permute(3, 0, 1, 4, 2, 5).unbind(0)
        kept.key[..., t, :], kept.value[..., t, :] = key, value
        query = kept.query[..., t, :].copy_(query).flatten(0, 2)
        on_prompt = torch.baddbmm(self.absent, query, self.prompt_key)
        on_own = torch.bmm(query.flatten(0, 1).unsqueeze(1), kept.key.flatten(0, 3)[:, : t + 1].transpose(1, 2))
        weighed = weights(torch.cat([on_prompt.flatten(0, 1), on_own.squeeze(1)], 1))
        length = on_prompt.shape[-1]
        if kept.weights is not None:
            kept.weights[..., t, : length + t + 1] = weighed.view(*self.shape, -1)
        own = torch.bmm(weighed[:, length:].unsqueeze(1), kept.value.flatten(0, 3)[:, : t + 1])
        on_prompt = weighed.unflatten(0, query.shape[:2])[..., :length]
        return torch.baddbmm(own.view_as(query), on_prompt, self.prompt_value).view(*self.shape, -1).transpose(2, 3)


class Softmax(torch.autograd.Function):
    """Softmax over the last axis of ``scores`` plus ``barrier``."""

    @staticmethod
    def forward(ctx, scores: Tensor, barrier: Tensor) -> Tensor:
        """Return weights of the shape of the scores."""
        weighed = weights(scores + barrier)
        ctx.save_for_backward(weighed)
        return weighed

    @staticmethod
    def backward(ctx, upstream: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradient in the scores."""
        return slopes(upstream.clone(), *ctx.saved_tensors), None


class Attention(torch.autograd.Function):
    """``attend`` from rows to rows, with a gradient that keeps no more than its factors; they may be known."""

    @staticmethod
    def forward(
        ctx,
        x: Tensor,
        weight: Tensor,
        prompt_key: Tensor,
        prompt_value: Tensor,
        absent: Tensor,
        future: Tensor,
        shape: Sequence[int],
        kept: Kept,
    ) -> Tensor:
        """Return what the completions read, ``[R, T·P·G, W]``.

        ``x`` ``[R, T·P·G, W]`` are rows of ``shape`` T, P, G, and ``weight`` ``[R, W, 3W]`` makes queries, keys and
        values of them; for the others see ``attend``.
        """
        query, key, value, weighed, attended = kept[:5]
        if query is None:
            query, key, value = by_heads(torch.bmm(x, weight), shape, prompt_key.shape[2]).contiguous().unbind(0)
            attended, weighed = attend(query, key, value, prompt_key, prompt_value, absent, future)
            attended = by_rows(attended)
        ctx.save_for_backward(x, weight, query, key, value, prompt_key, prompt_value, weighed)
        return attended

    @staticmethod
    def backward(ctx, upstream: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients in x, weight, and the keys and values of the prompt."""
        x, weight, query, key, value, prompt_key, prompt_value, weighed = ctx.saved_tensors
        replicas, prompts, heads, group, length, size = query.shape
        shape = length, prompts, group
        upstream = upstream.view(replicas, *shape, heads, size).permute(0, 2, 4, 3, 1, 5).contiguous()
        reached = by_group(upstream, prompt_value.transpose(-1, -2)), upstream @ value.transpose(-1, -2)
        to_prompt, to_own = parts(slopes(torch.cat(reached, -1), weighed), prompt_key)
        on_prompt, on_own = parts(weighed, prompt_key)
        rows = torch.empty(replicas, length * prompts * group, 3 * heads * size, dtype=x.dtype, device=x.device)
        for_query, for_key, for_value = by_heads(rows, shape, heads).unbind(0)
        for_query.copy_(by_group(to_prompt, prompt_key).add_(to_own @ key))
        for_key.copy_(to_own.transpose(-1, -2) @ query)
        for_value.copy_(on_own.transpose(-1, -2) @ upstream)
        return (
            torch.bmm(rows, weight.transpose(1, 2)),
            torch.bmm(x.transpose(1, 2), rows),
            over_group(to_prompt, query),
            over_group(on_prompt, upstream),
            *[None] * 4,
        )


def by_group(rows: Tensor, shared: Tensor) -> Tensor:
    """Multiply all rows of a group with what it shares: ``[R, P, H, G, T, A] · [R, P, H, A, B]``."""
    return (rows.flatten(3, 4) @ shared).unflatten(3, rows.shape[3:5])


def over_group(left: Tensor, right: Tensor) -> Tensor:
    """Sum of outer products over a group: ``[R, P, H, G, T, A], [R, P, H, G, T, B] -> [R, P, H, A, B]``."""
    return left.flatten(3, 4).transpose(-1, -2) @ right.flatten(3, 4)
