"""What is written down of a step: the metrics of docs/metrics.md, and a few completions as text."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from rlexp.backends.trl.objective import Objective, Scored
from rlexp.core.masked import masked_mean
from rlexp.loop import metrics
from rlexp.loop.dynamic_sampling import Groups
from rlexp.loop.metrics import Row
from rlexp.loop.state import Experience
from rlexp.record.samples import COMPLETIONS, PROMPTS

SUMS = {"entropy": "policy/entropy", "k1": "kl/ref_k1", "k3": "kl/ref_k3"}


def step_row(
    objective: Objective, scored: Scored, experience: Experience, rows: Sequence[Row], bounds: tuple[float, float]
) -> dict[str, float]:
    """Return the metrics of a step of which ``rows`` are those of its micro-batches.

    Of what TRL computes anyway: the KL to the reference where its log-probabilities are needed, and never the
    exact one, which needs whole distributions; entropy and KL are those of the policy in each update, which in the
    first one is the policy that sampled.
    """
    rollout, rewards = scored.rollout, scored.rewards
    made = torch.full((1,), rollout.mask.shape[1])
    groups = Groups(rollout, made * 0 + 1, rollout.mask.sum((-1, -2, -3)), made, made, None, rewards, made)
    limits = rewards.total.new_tensor(bounds).unsqueeze(-1)
    row = (
        metrics.reward_metrics(rewards, experience.rewards)
        | metrics.group_metrics(rewards.total, limits)
        | metrics.filter_metrics(groups, experience.mask)
        | metrics.advantage_metrics(experience.advantages, rollout.mask)
        | metrics.length_metrics(rollout.mask, rollout.finished, rewards.correct)
        | metrics.penalty_metrics(objective.variant, objective.memory)
    )
    updates = [{name: values for name, values in each.items() if not name.startswith("sum/")} for each in rows]
    row |= metrics.over_updates(updates)
    sums = {name: sum(each[name] for each in rows) for name in rows[0] if name.startswith("sum/")}
    for short, name in SUMS.items():
        if f"sum/{short}" in sums:
            row[name] = sums[f"sum/{short}"] / sums["sum/tokens"]
    return metrics.written({name: values.item() for name, values in row.items()})


def text_samples(
    scored: Scored, experience: Experience, step: int, prompts: Sequence[str], texts: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """Yield the first completions of a step as text: as ``record.samples``, of the rollout that the step trained on."""
    advantages = masked_mean(experience.advantages, scored.rollout.mask, (-1,)).squeeze(-1)
    group = scored.rollout.mask.shape[2]
    for p in range(min(PROMPTS, scored.rollout.mask.shape[1])):
        for g in range(min(COMPLETIONS, group)):
            reward = scored.rewards.total[0, p, g].item()
            yield {
                "step": step,
                "prompt": prompts[p],
                "completion": texts[p * group + g],
                "correct": bool(scored.rewards.correct[0, p, g]),
                "reward": round(reward, 4) if math.isfinite(reward) else math.nan,
                "advantage": round(advantages[0, p, g].item(), 4),
            }
