"""A few completions of the policy as text, with what they earn: the files' answer to "what does it write by now?"."""

from __future__ import annotations

from typing import Any

import torch

from rlexp.core.blocks import map_variants
from rlexp.core.masked import masked_mean
from rlexp.loop.data import gather_groups
from rlexp.loop.requested import tensors_of_rollout
from rlexp.loop.rollout import response_mask
from rlexp.loop.state import TrainState
from rlexp.loop.step import compute_advantages

PROMPTS, COMPLETIONS = 2, 4  # of each moment
DIGITS = 4  # enough to read
Sample = dict[str, Any]


@torch.no_grad()
def samples(state: TrainState, step: int) -> list[list[Sample]]:
    """For each run, the first completions of the rollout that step ``step + 1`` draws, or would draw.

    Judged as a whole rollout, since advantages compare a completion with others. ``reward`` is before shaping,
    ``gold`` what the task says where another judges, ``advantage`` the mean over the policy's tokens of what the
    variant makes of it. Changes nothing: the same random numbers give the next step the same rollout.
    """
    groups = gather_groups(state, step + 1)
    tensors = tensors_of_rollout(state, step + 1, groups)
    experience = map_variants(compute_advantages, state.blocks, groups.rollout, groups.rewards.total, tensors)
    rewards, judged = groups.rewards, state.judged.tolist()
    render, rollout, mask = state.task.render, groups.rollout, groups.rollout.mask
    own = response_mask(state.task, rollout.prompts, rollout.completions, mask)
    advantages = masked_mean(experience.advantages, own, (-1,)).squeeze(-1)
    return [
        [
            {
                "step": step,
                "prompt": render(rollout.prompts[run, p].tolist()),
                "completion": render(rollout.completions[run, p, g][mask[run, p, g]].tolist()),
                "correct": bool(rewards.correct[run, p, g]),
                "reward": round(rewards.total[run, p, g].item(), DIGITS),
                "advantage": round(advantages[run, p, g].item(), DIGITS),
            }
            | ({"gold": round(rewards.gold[run, p, g].item(), DIGITS)} if judged[run] else {})
            for p in range(min(PROMPTS, state.prompts))
            for g in range(min(COMPLETIONS, state.group))
            if rollout.there[run, p, g]
        ]
        for run in range(len(state.seeds))
    ]
