"""A few completions of the policy as text, with what they earn: the files' answer to "what does it write by now?"."""

from __future__ import annotations

import math
from typing import Any

import torch

from rlexp.blocks import by_block
from rlexp.collect import collect
from rlexp.rollout import distributions, taken
from rlexp.step import Fleet, beside, experience
from rlexp.tasks import combine

PROMPTS, COMPLETIONS = 2, 4  # of each moment
Sample = dict[str, Any]


def moments(steps: int) -> set[int]:
    """Steps after which samples are kept: before training, half-way, at the end."""
    return {0, steps // 2, steps}


@torch.no_grad()
def samples(fleet: Fleet, step: int) -> list[list[Sample]]:
    """For each run, the first completions of the rollout that step ``step + 1`` draws, or would draw.

    Judged as a whole rollout, since advantages compare a completion with others. ``reward`` is before shaping,
    ``advantage`` what the variant makes of it. Changes nothing: the same random numbers give the next step the same
    rollout.
    """
    task, rollout = fleet.task, collect(fleet, step + 1).rollout
    scores = task.score(rollout.prompts, rollout.completions, rollout.mask, rollout.finished)
    rewards = combine(scores.components, task.weights)
    references = taken(distributions(fleet.reference, *rollout[:2], fleet.temperature), rollout.completions)
    extras = beside(fleet, step + 1, rollout)
    advantages = by_block(experience, fleet.blocks, rollout, rewards, references, extras).advantages
    return [
        [
            {
                "step": step,
                "prompt": task.render(rollout.prompts[run, p].tolist()),
                "completion": task.render(rollout.completions[run, p, g][rollout.mask[run, p, g]].tolist()),
                "correct": bool(scores.correct[run, p, g]),
                "reward": _number(rewards[run, p, g]),
                "advantage": _number(advantages[run, p, g]),
            }
            for p in range(min(PROMPTS, fleet.prompts))
            for g in range(min(COMPLETIONS, fleet.group))
        ]
        for run in range(len(fleet.seeds))
    ]


def _number(value: torch.Tensor) -> float:
    """Four decimals are enough to read; NaN becomes null in the file."""
    return round(value.item(), 4) if math.isfinite(value.item()) else math.nan
