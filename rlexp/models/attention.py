"""Attention of completions to their prompt and to themselves, forward and backward, with the prompt read once a group.

Written out because a chain of torch's own operations stores and copies several times as much as the result needs, and
because its fused attention wants the prompt repeated for every completion of a group.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

BARRED = -1e9


def barrier(barred: Tensor) -> Tensor:
    """What is added to scores: 0, or a number that no score outweighs where ``barred``. Finite, so that a padding
    position, from which everything is barred, holds no NaN."""
    return torch.zeros(barred.shape, device=barred.device).masked_fill_(barred, BARRED)


def weights(*scores: Tensor) -> list[Tensor]:
    """Softmax over the last axes of all scores together, in place; why not ``softmax``: see ``layers``."""
    highest = scores[0].amax(-1, keepdim=True)
    for more in scores[1:]:
        highest = torch.maximum(highest, more.amax(-1, keepdim=True))
    powers = [each.sub_(highest).exp_() for each in scores]
    total = sum(power.sum(-1, keepdim=True) for power in powers)
    return [power.div_(total) for power in powers]


def slopes(upstream: Sequence[Tensor], weighed: Sequence[Tensor]) -> list[Tensor]:
    """Gradient of ``weights`` in the scores, in place of ``upstream``."""
    mean = sum((up * weight).sum(-1, keepdim=True) for up, weight in zip(upstream, weighed, strict=True))
    return [up.sub_(mean).mul_(weight) for up, weight in zip(upstream, weighed, strict=True)]


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    prompt_key: Tensor,
    prompt_value: Tensor,
    absent: Tensor,
    future: Tensor | float = 0.0,
) -> tuple[Tensor, list[Tensor]]:
    """softmax(query · keys) · values over the keys of the prompt and a completion's own.

    ``query``, ``key``, ``value`` ``[R, P, H, G, T, D]`` (the query scaled), those of the prompt ``[R, P, H, L, D]``;
    ``absent`` ``[R, P, 1, 1, 1, L]`` and ``future`` ``[T, T]`` are barriers. Return ``[R, P, H, G, T, D]`` and the
    weights of both. Source: Vaswani et al. (arXiv 1706.03762, eq. 1).
    """
    on_prompt = by_group(query, prompt_key.transpose(-1, -2)).add_(absent)
    weighed = weights(on_prompt, (query @ key.transpose(-1, -2)).add_(future))
    return by_group(weighed[0], prompt_value).add_(weighed[1] @ value), weighed


class Softmax(torch.autograd.Function):
    """Softmax over the last axis of ``scores`` plus ``barrier``."""

    @staticmethod
    def forward(ctx, scores: Tensor, barrier: Tensor) -> Tensor:
        """Return weights of the shape of the scores."""
        (weighed,) = weights(scores + barrier)
        ctx.save_for_backward(weighed)
        return weighed

    @staticmethod
    def backward(ctx, upstream: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradient in the scores."""
        return *slopes([upstream.clone()], ctx.saved_tensors), None


class Attention(torch.autograd.Function):
    """``attend`` with a gradient that keeps the weights and nothing else beside the inputs."""

    @staticmethod
    def forward(ctx, *tensors: Tensor) -> Tensor:
        """Return what the completions read, for the arguments of ``attend``."""
        attended, weighed = attend(*tensors)
        ctx.save_for_backward(*tensors[:5], *weighed)
        return attended

    @staticmethod
    def backward(ctx, upstream: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients in queries, keys and values."""
        query, key, value, prompt_key, prompt_value, on_prompt, on_own = ctx.saved_tensors
        reached = [by_group(upstream, prompt_value.transpose(-1, -2)), upstream @ value.transpose(-1, -2)]
        to_prompt, to_own = slopes(reached, [on_prompt, on_own])
        return (
            by_group(to_prompt, prompt_key).add_(to_own @ key),
            to_own.transpose(-1, -2) @ query,
            on_own.transpose(-1, -2) @ upstream,
            over_group(to_prompt, query),
            over_group(on_prompt, upstream),
            None,
            None,
        )


def by_group(rows: Tensor, shared: Tensor) -> Tensor:
    """Multiply all rows of a group with what it shares: ``[R, P, H, G, T, A] · [R, P, H, A, B]``."""
    return (rows.flatten(3, 4) @ shared).unflatten(3, rows.shape[3:5])


def over_group(left: Tensor, right: Tensor) -> Tensor:
    """Sum of outer products over a group: ``[R, P, H, G, T, A], [R, P, H, G, T, B] -> [R, P, H, A, B]``."""
    return left.flatten(3, 4).transpose(-1, -2) @ right.flatten(3, 4)
