"""Reward components shared by the tasks: vectorised checks of completions against prompts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from rlexp.core.types import PerCompletion

NO_TOKEN = -1


def check_weights(weights: Mapping[str, float], components: Sequence[str]) -> None:
    """Raise ValueError unless every component has a weight and some weight is above 0."""
    if set(weights) != set(components) or not any(weights.values()):
        raise ValueError(f"weights must name {', '.join(components)}, at least one of them above 0")


def total_reward(components: Mapping[str, PerCompletion], weights: Mapping[str, float]) -> PerCompletion:
    """Σ weight · component over the components that apply; NaN where none does.

    Source: TRL ``GRPOTrainer`` (``nansum`` over reward functions). Components without a weight do not enter.
    """
    stack = torch.stack([weight * components[name] for name, weight in weights.items() if weight])
    return stack.nansum(0).masked_fill(stack.isnan().all(0), float("nan"))


def pack(tokens: Tensor, keep: Tensor) -> Tensor:
    """Move the kept tokens to the front in their order, fill the rest with ``NO_TOKEN``: ``[..., T] -> [..., T]``."""
    order = (~keep).to(torch.int8).argsort(dim=-1, stable=True)
    return tokens.masked_fill(~keep, NO_TOKEN).gather(-1, order)


def right_places(answers: Tensor, targets: Tensor) -> Tensor:
    """Number of positions where answer and target agree on a symbol (lecture 17: ``sort_distance_reward``)."""
    return ((answers == targets) & (targets != NO_TOKEN)).sum(-1)


def included(prompts: Tensor, answers: Tensor) -> Tensor:
    """Number of prompt items that occur in the answer: an answer ``[1, 2, 2]`` holds all of ``[1, 1, 2]``."""
    return ((prompts.unsqueeze(-1) == answers.unsqueeze(-2)).any(-1) & (prompts != NO_TOKEN)).sum(-1)


def included_counted(prompts: Tensor, answers: Tensor, symbols: int) -> Tensor:
    """Size of the common multiset: each answer symbol pays for one prompt item only, which closes the hack above."""
    symbol = torch.arange(symbols, device=prompts.device)
    wanted, given = ((x.unsqueeze(-1) == symbol).sum(-2) for x in (prompts, answers))
    return torch.minimum(wanted, given).sum(-1)


def in_order(answers: Tensor) -> Tensor:
    """Number of neighbouring pairs that do not descend."""
    left, right = answers[..., :-1], answers[..., 1:]
    return ((left <= right) & (left != NO_TOKEN) & (right != NO_TOKEN)).sum(-1)
