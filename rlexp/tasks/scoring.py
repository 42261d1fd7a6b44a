"""Reward components shared by the tasks: vectorised checks of completions against prompts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

NOTHING = -1


class Scores(NamedTuple):
    """What a task says about completions: components by name and whether each is right, all ``[R, P, G]``.

    A component is NaN where it does not apply.
    """

    components: dict[str, Tensor]
    correct: Tensor


def combine(components: Mapping[str, Tensor], weights: Mapping[str, float]) -> Tensor:
    """Σ weight · component over the components that apply; NaN where none does.

    Source: TRL ``GRPOTrainer`` (``nansum`` over reward functions). Components without a weight do not enter.
    """
    stack = torch.stack([weight * components[name] for name, weight in weights.items() if weight])
    return stack.nansum(0).masked_fill(stack.isnan().all(0), float("nan"))


def pack(tokens: Tensor, keep: Tensor) -> Tensor:
    """Move the kept tokens to the front in their order and fill the rest with ``NOTHING``: ``[..., T] -> [..., T]``."""
    order = (~keep).to(torch.int8).argsort(dim=-1, stable=True)
    return tokens.masked_fill(~keep, NOTHING).gather(-1, order)


def right_places(answers: Tensor, targets: Tensor) -> Tensor:
    """Number of positions where answer and target agree on a symbol (lecture 17: ``sort_distance_reward``)."""
    return ((answers == targets) & (targets != NOTHING)).sum(-1)


def included(prompts: Tensor, answers: Tensor) -> Tensor:
    """Number of prompt items that occur in the answer: an answer ``[1, 2, 2]`` holds all of ``[1, 1, 2]``."""
    return ((prompts.unsqueeze(-1) == answers.unsqueeze(-2)).any(-1) & (prompts != NOTHING)).sum(-1)


def included_counted(prompts: Tensor, answers: Tensor, symbols: int) -> Tensor:
    """Size of the common multiset: each answer symbol pays for one prompt item only, which closes the hack above."""
    symbol = torch.arange(symbols, device=prompts.device)
    asked, given = ((x.unsqueeze(-1) == symbol).sum(-2) for x in (prompts, answers))
    return torch.minimum(asked, given).sum(-1)


def in_order(answers: Tensor) -> Tensor:
    """Number of neighbouring pairs that do not descend."""
    left, right = answers[..., :-1], answers[..., 1:]
    return ((left <= right) & (left != NOTHING) & (right != NOTHING)).sum(-1)
