"""Rewards: the one place where completions are scored, by the task and by who judges in its place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from rlexp.axes.reward.voting import NUMBERS
from rlexp.core.blocks import by_block
from rlexp.core.registry import call_with, requested_names
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
    made = makers(state, rollout, scores, rewards.gold, draw)
    names = {name for variant, _ in state.blocks for name in requested_names(variant.reward)}
    offered = rollout._asdict() | {name: make() for name, make in made.items() if name in names}
    total = by_block(judge, state.blocks, {name: offered[name] for name in names})
    return rewards._replace(total=total.masked_fill(rewards.gold.isnan(), float("nan")))


def judge(variant: Variant, offered: Mapping[str, Tensor]) -> PerCompletion:
    """Return the rewards of the replicas of one variant."""
    return call_with(variant.reward, offered)


def makers(
    state: TrainState, rollout: Rollout, scores: Scores, gold: PerCompletion, draw: Callable[..., Tensor]
) -> Mapping[str, Callable[[], Tensor]]:
    """Return for each name in ``OFFERED`` of the reward, those of the rollout aside, what makes the tensor."""
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
