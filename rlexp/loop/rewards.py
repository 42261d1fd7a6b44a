"""Rewards: the one place where completions are scored."""

from __future__ import annotations

from typing import NamedTuple

from rlexp.core.types import CompletionMask, PerCompletion, PerToken
from rlexp.loop.rollout import Rollout
from rlexp.loop.state import TrainState
from rlexp.tasks import Task, total_reward


class Rewards(NamedTuple):
    """What completions earn: in total, by component, and token by token where the task says so.

    ``total`` is NaN where no component applies, as is a component where it does not. ``per_token`` is None where the
    task scores completions as a whole.
    """

    total: PerCompletion
    components: dict[str, PerCompletion]
    correct: CompletionMask
    per_token: PerToken | None


def score(state: TrainState, rollout: Rollout) -> Rewards:
    """Score the completions of a state's rollout; its variants shape the result, they do not choose the judge."""
    return score_with(state.task, rollout)


def score_with(task: Task, rollout: Rollout) -> Rewards:
    """Score completions by the verifier of a task."""
    scores = task.score(rollout.prompts, rollout.completions, rollout.mask, rollout.finished)
    total = total_reward(scores.components, task.weights)
    return Rewards(total, scores.components, scores.correct, scores.token_rewards)
