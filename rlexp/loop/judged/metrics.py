"""What is logged of runs that somebody else than the task judges: their gold beside their rewards.

``docs/metrics.md`` has every name with its formula. Runs that the task judges have none of these.
"""

from __future__ import annotations

import torch
from torch import Tensor

from rlexp.core.blocks import OfSome
from rlexp.core.exact import sum_over
from rlexp.loop.metrics import Row, summary
from rlexp.loop.rewards import Rewards
from rlexp.loop.state import TrainState

PAIRS = (-1, -2, -3)


@torch.no_grad()
def judged_metrics(state: TrainState, rewards: Rewards) -> Row:
    """Return the gold of a rollout, and how its judge orders completions; nothing if the task judges all runs."""
    if not state.judged.any():
        return {}
    row = summary("gold", rewards.gold, ~rewards.gold.isnan())
    row["gold/agreement"] = agreement(rewards.total, rewards.gold)
    return of_judged(state, row)


def of_judged(state: TrainState, row: Row) -> Row:
    """Return numbers that only runs have that somebody else than the task judges."""
    return {name: OfSome(values, state.judged) for name, values in row.items()}


def agreement(rewards: Tensor, gold: Tensor) -> Tensor:
    """Share of the pairs of a group with different gold that the rewards order so, ``[R P G] -> [R]``.

    Equal rewards count half; NaN where no pair differs. Source: the accuracy of a reward model on pairs.
    """
    of_gold, of_rewards = (each.unsqueeze(-1) - each.unsqueeze(-2) for each in (gold, rewards))
    differs = of_gold > 0  # each pair once, none with a NaN
    right = (of_rewards > 0).to(rewards.dtype) + 0.5 * (of_rewards == 0)
    return (sum_over(right.where(differs, 0.0), PAIRS) / sum_over(differs.to(rewards.dtype), PAIRS)).squeeze(PAIRS)
