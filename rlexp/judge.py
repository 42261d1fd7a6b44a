"""Rollouts to experience: what the task says of them, and what each variant makes of that."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from rlexp import metrics
from rlexp.blocks import by_block
from rlexp.choose import ask
from rlexp.collect import Collected, collect, narrowed
from rlexp.fleet import Experience, Fleet, Variant, asked
from rlexp.masked import per_token
from rlexp.models.tape import Tape
from rlexp.rollout import Rollout, best, distributions, sample, taken
from rlexp.streams import Purpose, hashed
from rlexp.tasks import Scores, combine


class Judged(NamedTuple):
    """The groups of a step, what the task says of them, and the experience that the variants make of it.

    ``references`` are the reference's log-probabilities of the whole vocabulary; None where nothing needs them.
    """

    groups: Collected
    scores: Scores
    rewards: Tensor
    references: Tensor | None
    batch: Experience


def judged(fleet: Fleet, step: int, measure: bool) -> Judged:
    """Sample and judge, and learn nothing: done twice, it gives the same twice."""
    task, groups, references = fleet.task, collect(fleet, step), None
    rollout = groups.rollout
    scores = task.score(rollout.prompts, rollout.completions, rollout.mask, rollout.finished)
    rewards = combine(scores.components, task.weights)
    if measure:
        references = distributions(fleet.reference, *rollout[:2], fleet.temperature).detach()
        ref_log_probs = taken(references, rollout.completions)
    else:
        penalised = those(fleet, lambda variant: variant.kl_in_loss or variant.kl_in_reward)
        ref_log_probs = of_some(penalised, fleet, fleet.reference, log_probs, rollout)
    more = beside(fleet, step, rollout, scores, groups.tape)
    batch = by_block(experience, fleet.blocks, rollout, rewards, ref_log_probs, more)
    return Judged(groups, scores, rewards, references, batch)


@torch.no_grad()
def measured(fleet: Fleet, found: Judged) -> metrics.Row:
    """Return the metrics of a rollout, of the policy before it learns from it."""
    rollout, batch = found.groups.rollout, found.batch
    return (
        metrics.reward_metrics(found.scores, found.rewards, batch.rewards)
        | metrics.group_metrics(found.rewards, fleet.task.reward_range)
        | metrics.filter_metrics(found.groups, batch.mask)
        | metrics.advantage_metrics(batch.advantages, rollout.mask)
        | metrics.length_metrics(rollout.mask, rollout.finished, found.scores.correct)
        | metrics.policy_metrics(own(fleet, rollout, found.groups.tape), found.references, rollout)
        | by_block(coefficients, fleet.blocks, fleet.memory)
    )


def coefficients(variant: Variant, memory: Mapping[str, Tensor]) -> metrics.Row:
    """Return the weight of the penalty in this step, wherever it is."""
    return {"kl/coef": (variant.kl_in_loss + variant.kl_in_reward) * memory["kl_factor"]}


@torch.no_grad()
def own(fleet: Fleet, rollout: Rollout, tape: Tape | None) -> Tensor:
    """Log-probabilities of the whole vocabulary, of the policy that sampled."""
    return distributions(fleet.policy, *rollout[:2], fleet.temperature, tape)


@torch.no_grad()
def beside(
    fleet: Fleet, step: int, rollout: Rollout, scores: Scores, tape: Tape | None = None
) -> dict[str, Tensor]:
    """Return what shaping, filter, norm and teacher may ask for beside the rollout: memories, and what one takes.

    What costs a pass through a network is 0 for the replicas whose variant does not ask for it.
    """
    weights = {name: weight for name, weight in fleet.task.weights.items() if weight}
    like = rollout.old_log_probs

    def asking(name: str) -> Tensor:
        return those(fleet, lambda variant: name in asked(variant))

    makers = {
        "entropies": lambda: metrics.entropy(own(fleet, rollout, tape)),
        "drawn": lambda: fleet.uniforms(Purpose.VERDICTS, step, fleet.prompts, fleet.group),
        "hashed": lambda: hashed(fleet.seeds, Purpose.PERSISTENT_VERDICTS, *rollout.pairs),
        "greedy_rewards": lambda: of_some(asking("greedy_rewards"), fleet, fleet.policy, greedy_rewards, rollout),
        "sum_pi_squared": lambda: own(fleet, rollout, tape).exp().square().sum(-1),
        "components": lambda: torch.stack([scores.components[name] for name in weights], -1),
        "weights": lambda: like.new_tensor(list(weights.values())).expand(len(fleet.seeds), -1),
        "teacher_log_probs": lambda: of_some(
            asking("teacher_log_probs"), fleet, fleet.teacher, log_probs, rollout
        ),
        "correct": lambda: scores.correct.to(like.dtype),
    }
    return fleet.memory | {name: make() for name, make in makers.items() if name in fleet.asked}


def those(fleet: Fleet, wanted: Callable[[Variant], object]) -> Tensor:
    """Return the indices of the replicas whose variant is wanted."""
    chosen = [bool(wanted(variant)) for variant, size in fleet.blocks for _ in range(size)]
    return torch.tensor(chosen, device=fleet.temperature.device).nonzero().squeeze(-1)


def of_some(replicas: Tensor, fleet: Fleet, network: nn.Module, function: Callable, rollout: Rollout) -> Tensor:
    """Return ``function(network, task, rollout, temperature)`` ``[R, ...]`` for some replicas, 0 for the others."""
    if len(replicas) == len(fleet.seeds):
        return function(network, fleet.task, rollout, fleet.temperature)
    if not len(replicas):
        return torch.zeros_like(rollout.old_log_probs)
    some = Rollout(*(tensor[replicas] for tensor in rollout))
    found = function(narrowed(network, replicas), fleet.task, some, fleet.temperature[replicas])
    return found.new_zeros(len(fleet.seeds), *found.shape[1:]).index_copy(0, replicas, found)


@torch.no_grad()
def log_probs(network: nn.Module, task: Any, rollout: Rollout, temperature: Tensor) -> Tensor:
    """Log-probabilities of the completions' tokens by another network than the one that sampled, ``[R P G T]``."""
    return taken(distributions(network, *rollout[:2], temperature), rollout.completions)


def greedy_rewards(policy: nn.Module, task: Any, rollout: Rollout, temperature: Tensor) -> Tensor:
    """Reward of the most likely completion of every prompt, ``[R P 1]``; 0 where it has none."""
    unused = torch.zeros_like(rollout.old_log_probs[:, :, :1])
    greedy = sample(policy, task, rollout.prompts, unused, temperature, best)
    scores = task.score(greedy.prompts, greedy.completions, greedy.mask, greedy.finished)
    return combine(scores.components, task.weights).nan_to_num(0.0)


def experience(
    variant: Variant, rollout: Rollout, rewards: Tensor, ref_log_probs: Tensor, beside: Mapping[str, Tensor]
) -> Experience:
    """Rewards ``[R P G]`` to advantages ``[R P G T]``: first shaping, then KL in the reward, then the baseline.

    ``norm`` is offered the result whole and in parts, of which it takes one or the other: rewards = outcomes −
    Σ_t token_penalties = rewards of the task + adjustments.

    A completion outside the statistics, because of the filter or because it has no reward (NaN), has advantage 0: its
    distance from a group that it is not part of has no scale.
    """
    offered = {**rollout._asdict(), **beside, "rewards": rewards, "lengths": rollout.mask.to(rewards.dtype).sum(-1)}
    outcomes = ask(variant.shaping, offered)
    token_penalties = penalties_in_reward(variant, rollout, ref_log_probs, beside)
    final = outcomes - token_penalties.sum(-1)
    scored = ~final.isnan()
    parts = {"rewards": final, "outcomes": outcomes, "adjustments": final - rewards}
    offered |= {name: values.where(scored, 0.0) for name, values in parts.items()} | {"scored": scored}
    counted = ask(variant.filter_statistics, offered) & scored
    kept = ask(variant.filter_loss, offered)
    advantages = ask(variant.norm, offered | {"keep": counted, "token_penalties": token_penalties})
    mask = rollout.mask & per_token(kept, rollout.mask)
    advantages = per_token(advantages, mask).where(counted.unsqueeze(-1), 0.0).expand(mask.shape)
    advantages = ask(variant.teacher, offered | {"advantages": advantages})
    return Experience(*rollout[:3], ref_log_probs, mask, counted, final, advantages, rollout.sampler_log_probs)


def penalties_in_reward(
    variant: Variant, rollout: Rollout, ref_log_probs: Tensor, memory: Mapping[str, Tensor]
) -> Tensor:
    """What each token takes off the reward, ``[R P G T]``; 0 outside the mask."""
    if not variant.kl_in_reward:
        return torch.zeros_like(rollout.old_log_probs)
    offered = {"log_probs": rollout.old_log_probs, "ref_log_probs": ref_log_probs}
    penalties = ask(variant.kl, rollout._asdict() | offered)
    coef = variant.kl_in_reward * memory["kl_factor"][..., None, None, None]
    return (coef * penalties).where(rollout.mask, 0.0)
