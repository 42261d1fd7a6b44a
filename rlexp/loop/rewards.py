"""Rewards: the one place where completions are scored, and what is added to their scores or spread over tokens."""

from __future__ import annotations

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
from rlexp.loop.state import Tensors, TrainState
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
    if state.allocates:
        rewards = of_those_there(rewards, rollout.there)
    if not state.judged_at_all:
        return rewards
    dtype, judged = rewards.gold.dtype, (rollout.prompts, rollout.completions, rollout.mask)
    shape = (*rollout.finished.shape[1:], NUMBERS)

    def quality() -> Tensor:
        return 2 * scores.correct.to(dtype) - 1 if scores.quality is None else scores.quality.to(dtype)

    made = {
        "verified": lambda: rewards.gold,
        "correct": lambda: scores.correct.to(dtype),
        "quality": quality,
        "lengths": lambda: rollout.mask.to(dtype).sum(-1),
        "proxies": lambda: torch.stack([each(*judged) for each in state.judges], -1),
        "vote_draws": lambda: state.uniforms(occasion, step, *shape, round=round),
        "vote_hashes": lambda: hashed_streams(state.seeds, Purpose.PERSISTENT_VOTES, *rollout.pairs, NUMBERS),
    }
    names = {name for variant, _ in state.blocks for name in required_inputs(variant.reward)}
    offered = rollout._asdict() | {name: make() for name, make in made.items() if name in names}
    asked = {name: offered[name] for name in names}
    total = map_variants(lambda variant, part: call_with(variant.reward, part), state.blocks, asked)
    return rewards._replace(total=total.masked_fill(rewards.gold.isnan(), float("nan")))


def score_with(task: Task, rollout: Rollout) -> Rewards:
    return of_task(task, scores_of(task, rollout))


def scores_of(task: Task, rollout: Rollout) -> Scores:
    return task.score(rollout.prompts, rollout.completions, rollout.mask, rollout.finished)


def of_task(task: Task, scores: Scores) -> Rewards:
    """Weigh the components of a task's scores and sum them."""
    total = total_reward(scores.components, task.weights)
    return Rewards(total, scores.components, scores.correct, scores.token_rewards, total)


def of_those_there(rewards: Rewards, there: CompletionMask) -> Rewards:
    """Return no reward for completions that there are not."""
    total, gold = (each.masked_fill(~there, torch.nan) for each in (rewards.total, rewards.gold))
    components = {name: each.masked_fill(~there, torch.nan) for name, each in rewards.components.items()}
    return rewards._replace(total=total, components=components, correct=rewards.correct & there, gold=gold)


def kl_penalties(variant: Variant, rollout: Rollout, tensors: Tensors) -> PerToken:
    """What KL in the reward takes off each token, 0 outside the mask; there π is π_old."""
    if not variant.kl_in_reward:
        return torch.zeros_like(rollout.old_log_probs)
    offered = {"log_probs": rollout.old_log_probs, "ref_log_probs": tensors["ref_log_probs"]}
    offered |= variant.bound(tensors["kl_factor"])
    penalties = call_with(variant.kl, rollout._asdict() | offered)
    coef = variant.kl_in_reward * tensors["kl_factor"][..., None, None, None]
    return (coef * penalties).where(rollout.mask, 0.0)


def reward_parts(
    variant: Variant, offered: Tensors, outcomes: PerCompletion, penalties: PerToken, final: PerCompletion
) -> dict[str, Tensor]:
    """Return the rewards ``final`` as an axis may ask for them, 0 where there is none, and which are ``scored``.

    They are offered whole and in parts, of which a norm takes one or the other: rewards = outcomes − Σ_t
    token_penalties = rewards of the task + adjustments. ``token_rewards``, for a norm that asks, are outcomes where
    they are due, minus the penalties. A task that pays each token says where its reward is due, unless somebody else
    judges; what shaping has added to it, and all of the outcome elsewhere, is due at the last token.
    """
    scored = ~final.isnan()
    whole = {"rewards": final, "outcomes": outcomes, "adjustments": final - offered["rewards"]}
    parts = {name: values.where(scored, 0.0) for name, values in whole.items()}
    parts |= {"scored": scored, "token_penalties": penalties}
    if "token_rewards" in variant.requested:
        nothing = torch.zeros_like(penalties)
        paid = nothing if variant.judged else offered.get("token_rewards", nothing)
        paid = paid.where(offered["mask"] & scored.unsqueeze(-1), 0.0)
        due = paid + at_last_token(parts["outcomes"] - paid.sum(-1), offered["mask"])
        parts["token_rewards"] = due - penalties
    return parts
