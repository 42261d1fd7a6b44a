"""Rewards: the one place where completions are scored, and what is added to their scores or spread over tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from rlexp.axes.reward import NUMBERS
from rlexp.core.blocks import map_variants
from rlexp.core.masked import at_last_token
from rlexp.core.registry import call_with, required_inputs
from rlexp.core.streams import Purpose, hashed_streams
from rlexp.core.types import CompletionMask, PerCompletion, PerToken
from rlexp.loop.rollout import Rollout
from rlexp.loop.state import TrainState
from rlexp.loop.variant import Variant
from rlexp.tasks import Scores, Task, total_reward


class Rewards(NamedTuple):
    """What completions earn: in total, by component, and token by token where the task says so.

    ``total`` is what the run is trained on and ``gold`` what the task says; they are the same where the task judges.
    Both are NaN where no component applies, as is a component where it does not. ``per_token`` is None where the task
    scores completions as a whole. All but ``total`` is the task's own.
    """

    total: PerCompletion
    components: dict[str, PerCompletion]
    correct: CompletionMask
    per_token: PerToken | None
    gold: PerCompletion


@torch.no_grad()
def score(
    state: TrainState, rollout: Rollout, step: int, *, round: int = 0, occasion: Purpose = Purpose.VOTES
) -> Rewards:
    """Score the completions of a state's rollout, each variant's by its judge.

    A judge who errs draws its errors from the stream of an occasion, step and round: to score twice is to judge twice.
    """
    scores = scores_of(state.task, rollout)
    rewards = of_task(state.task, scores)
    if not state.judged_at_all:
        return rewards
    draw = partial(state.uniforms, occasion, step, round=round)
    made = lazy_inputs(state, rollout, scores, rewards.gold, draw)
    names = {name for variant, _ in state.blocks for name in required_inputs(variant.reward)}
    offered = rollout._asdict() | {name: make() for name, make in made.items() if name in names}
    total = map_variants(judge, state.blocks, {name: offered[name] for name in names})
    return rewards._replace(total=total.masked_fill(rewards.gold.isnan(), float("nan")))


def judge(variant: Variant, offered: Mapping[str, Tensor]) -> PerCompletion:
    """Return the rewards of the replicas of one variant."""
    return call_with(variant.reward, offered)


def lazy_inputs(
    state: TrainState, rollout: Rollout, scores: Scores, gold: PerCompletion, draw: Callable[..., Tensor]
) -> Mapping[str, Callable[[], Tensor]]:
    """Return for each name in ``INPUTS`` of the reward, those of the rollout aside, what makes the tensor."""
    dtype = gold.dtype
    shape = (*rollout.finished.shape[1:], NUMBERS)
    judged = rollout.prompts, rollout.completions, rollout.mask

    def quality() -> Tensor:
        return 2 * scores.correct.to(dtype) - 1 if scores.quality is None else scores.quality.to(dtype)

    return {
        "verified": lambda: gold,
        "correct": lambda: scores.correct.to(dtype),
        "quality": quality,
        "lengths": lambda: rollout.mask.to(dtype).sum(-1),
        "proxies": lambda: torch.stack([each(*judged) for each in state.judges], -1),
        "vote_draws": lambda: draw(*shape),
        "vote_hashes": lambda: hashed_streams(state.seeds, Purpose.PERSISTENT_VOTES, *rollout.pairs, NUMBERS),
    }


def score_with(task: Task, rollout: Rollout) -> Rewards:
    """Score completions by the verifier of a task."""
    return of_task(task, scores_of(task, rollout))


def scores_of(task: Task, rollout: Rollout) -> Scores:
    """Return what a task says about completions."""
    return task.score(rollout.prompts, rollout.completions, rollout.mask, rollout.finished)


def of_task(task: Task, scores: Scores) -> Rewards:
    """Weigh the components of a task's scores and sum them."""
    total = total_reward(scores.components, task.weights)
    return Rewards(total, scores.components, scores.correct, scores.token_rewards, total)


def kl_penalties(variant: Variant, rollout: Rollout, tensors: Mapping[str, Tensor]) -> PerToken:
    """What KL in the reward takes off each token, 0 outside the mask; there π is π_old."""
    if not variant.kl_in_reward:
        return torch.zeros_like(rollout.old_log_probs)
    offered = {"log_probs": rollout.old_log_probs, "ref_log_probs": tensors["ref_log_probs"]}
    offered |= variant.bound(tensors["kl_factor"])
    penalties = call_with(variant.kl, rollout._asdict() | offered)
    coef = variant.kl_in_reward * tensors["kl_factor"][..., None, None, None]
    return (coef * penalties).where(rollout.mask, 0.0)


def token_rewards(variant: Variant, offered: Mapping[str, Tensor], penalties: PerToken) -> dict[str, PerToken]:
    """Outcomes where they are due, minus the penalties, for a norm that asks; 0 where there is no reward.

    A task that pays each token says where its reward is due, unless somebody else judges; what shaping has added to it,
    and all of the outcome elsewhere, is due at the last token.
    """
    if "token_rewards" not in variant.requested:
        return {}
    nothing = torch.zeros_like(penalties)
    paid = nothing if variant.judged else offered.get("token_rewards", nothing)
    paid = paid.where(offered["mask"] & offered["scored"].unsqueeze(-1), 0.0)
    due = paid + at_last_token(offered["outcomes"] - paid.sum(-1), offered["mask"])
    return {"token_rewards": due - penalties}
