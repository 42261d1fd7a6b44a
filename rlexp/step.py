"""One training step, from prompts to new weights, in the order of the algorithm box.

Everything up to the advantages happens once for a rollout; clip, kl, agg and the update happen once for every inner
step and minibatch. Each variant owns a contiguous block of replicas and applies its own functions to it; the policy,
the sampling and the update are one call for all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rlexp import metrics
from rlexp.blocks import by_block, minibatches
from rlexp.choose import ask, needs
from rlexp.collect import Collected, collect
from rlexp.masked import count, per_token
from rlexp.memory import Memory, remember
from rlexp.rollout import Rollout, best, distributions, sample, taken
from rlexp.streams import Purpose, hashed, uniforms
from rlexp.tasks import Scores, combine
from rlexp.update import Adam

TOKENS = (-1, -2, -3)


@dataclass(frozen=True)
class Variant:
    """The bound functions of one choice on every axis, what they remember, and the weights of the penalties.

    ``inexact`` says whether the sampler differs from the policy.
    """

    shaping: Callable
    filter_loss: Callable
    filter_statistics: Callable
    refill: Callable
    rounds: int
    norm: Callable
    teacher: Callable
    clip: Callable
    agg: Callable
    kl: Callable
    follow: Callable
    memories: Mapping[str, Memory]
    sampler: Callable
    mismatch: Callable
    inexact: bool
    kl_in_loss: float
    kl_in_reward: float
    entropy_bonus: float


@dataclass(frozen=True)
class Fleet:
    """R runs that train as one batch: what they share, and what is each run's own, ``[R]``.

    ``memory`` holds what runs remember from step to step, ``[R, ...]``, and is the only part that a step replaces.
    """

    task: Any
    policy: torch.nn.Module
    reference: torch.nn.Module
    teacher: torch.nn.Module | None
    adam: Adam
    blocks: Sequence[tuple[Variant, int]]
    seeds: Sequence[int]
    temperature: Tensor
    memory: dict[str, Tensor]
    prompts: int
    group: int
    inner_steps: int
    minibatches: int
    sample: Callable = sample
    distributions: Callable = distributions

    def uniforms(self, purpose: Purpose, step: int, *shape: int, round: int = 0) -> Tensor:
        """Each run's own random numbers in [0, 1) for a purpose at a step, ``[R, *shape]``."""
        return uniforms(self.seeds, purpose, step, shape, self.temperature.device, round)

    def uses(self, *weights: str) -> bool:
        """Whether any variant gives one of these penalties a weight."""
        return any(getattr(variant, weight) for variant, _ in self.blocks for weight in weights)

    @cached_property
    def asked(self) -> frozenset[str]:
        """Names of the tensors that shaping, filters, norm, teacher or policy loss of some variant take."""
        axes = ("shaping", "filter_loss", "filter_statistics", "norm", "teacher", "clip")
        chosen = (getattr(variant, axis) for variant, _ in self.blocks for axis in axes)
        return frozenset(name for function in chosen for name in needs(function))


class Experience(NamedTuple):
    """A rollout and what it was worth: prompts ``[R P L]``, rewards and keep ``[R P G]``, the others ``[R P G T]``.

    ``mask`` leaves out completions and tokens filtered from the loss, ``keep`` says which completions are in the
    statistics; ``rewards`` are those after shaping and KL-in-reward, NaN where there is none.
    """

    prompts: Tensor
    completions: Tensor
    old_log_probs: Tensor
    ref_log_probs: Tensor
    mask: Tensor
    keep: Tensor
    rewards: Tensor
    advantages: Tensor
    sampler_log_probs: Tensor


def train_step(fleet: Fleet, step: int, measure: bool) -> metrics.Row:
    """Sample, judge, learn; return what was sampled and, if ``measure``, the metrics of the step."""
    groups, scores, rewards, references, batch = judged(fleet, step, measure)
    rollout = groups.rollout
    row = {"tokens": groups.tokens, "completions": groups.rounds * fleet.prompts * fleet.group}
    if measure:
        row |= metrics.reward_metrics(scores, rewards, batch.rewards)
        row |= metrics.group_metrics(rewards, fleet.task.reward_range)
        row |= metrics.filter_metrics(groups, batch.mask)
        row |= metrics.advantage_metrics(batch.advantages, rollout.mask)
        row |= metrics.length_metrics(rollout.mask, rollout.finished, scores.correct)
        with torch.no_grad():
            own = distributions(fleet.policy, *rollout[:2], fleet.temperature)
            row |= metrics.policy_metrics(own, references, rollout)
        row |= by_block(coefficients, fleet.blocks, fleet.memory)
    mean_tokens = count(batch.mask, TOKENS, batch.advantages.dtype).squeeze(TOKENS).clamp(min=1) / fleet.minibatches
    rows = [
        update(fleet, part, mean_tokens, measure)
        for _ in range(fleet.inner_steps)
        for part in minibatches(batch, fleet.prompts, fleet.minibatches)
    ]
    lead(fleet, step)
    fleet.memory.update(by_block(remembered, fleet.blocks, fleet.memory, batch))
    return row | metrics.over_updates(rows) if measure else row


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
    ref_log_probs = torch.zeros_like(rollout.old_log_probs)
    if measure or fleet.uses("kl_in_loss", "kl_in_reward"):
        references = distributions(fleet.reference, *rollout[:2], fleet.temperature).detach()
        ref_log_probs = taken(references, rollout.completions)
    more = beside(fleet, step, rollout, scores)
    batch = by_block(experience, fleet.blocks, rollout, rewards, ref_log_probs, more)
    return Judged(groups, scores, rewards, references, batch)


@torch.no_grad()
def beside(fleet: Fleet, step: int, rollout: Rollout, scores: Scores) -> dict[str, Tensor]:
    """Return what shaping, filter, norm and teacher may ask for beside the rollout: memories, and what one takes."""
    weights = {name: weight for name, weight in fleet.task.weights.items() if weight}
    like = rollout.old_log_probs
    makers = {
        "entropies": lambda: metrics.entropy(distributions(fleet.policy, *rollout[:2], fleet.temperature)),
        "drawn": lambda: fleet.uniforms(Purpose.VERDICTS, step, fleet.prompts, fleet.group),
        "hashed": lambda: hashed(fleet.seeds, Purpose.PERSISTENT_VERDICTS, *rollout.pairs),
        "greedy_rewards": lambda: greedy_rewards(fleet, rollout),
        "sum_pi_squared": lambda: distributions(fleet.policy, *rollout[:2], fleet.temperature).exp().square().sum(-1),
        "components": lambda: torch.stack([scores.components[name] for name in weights], -1),
        "weights": lambda: like.new_tensor(list(weights.values())).expand(len(fleet.seeds), -1),
        "teacher_log_probs": lambda: taken(
            distributions(fleet.teacher, *rollout[:2], fleet.temperature), rollout.completions
        ),
        "correct": lambda: scores.correct.to(like.dtype),
    }
    return fleet.memory | {name: make() for name, make in makers.items() if name in fleet.asked}


def greedy_rewards(fleet: Fleet, rollout: Rollout) -> Tensor:
    """Reward of the most likely completion of every prompt, ``[R P 1]``; 0 where it has none."""
    task, unused = fleet.task, torch.zeros_like(rollout.old_log_probs[:, :, :1])
    greedy = sample(fleet.policy, task, rollout.prompts, unused, fleet.temperature, best)
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


def coefficients(variant: Variant, memory: Mapping[str, Tensor]) -> metrics.Row:
    """Return the weight of the penalty in this step, wherever it is."""
    return {"kl/coef": (variant.kl_in_loss + variant.kl_in_reward) * memory["kl_factor"]}


def remembered(variant: Variant, memory: Mapping[str, Tensor], batch: Experience) -> dict[str, Tensor]:
    """Return the memories after a step; their updates are offered the experience, rewards 0 outside the statistics."""
    return remember(variant, memory, batch._asdict() | {"rewards": batch.rewards.where(batch.keep, 0.0)})


def objective(
    variant: Variant, log_probs: Tensor, entropies: Tensor, part: Experience, known: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Return the parts of the loss, each ``[R]``; their sum is what is minimised.

    All parts are aggregated in the same way, as in verl and OpenRLHF (TRL averages the entropy over tokens).
    """
    offered = {**part._asdict(), **known, "log_probs": log_probs.where(part.mask, part.old_log_probs)}
    losses = ask(variant.mismatch, offered | {"losses": ask(variant.clip, offered)})
    policy = aggregated(losses, variant, offered)
    parts = {"loss/policy": policy, "loss/kl": torch.zeros_like(policy), "loss/entropy": torch.zeros_like(policy)}
    if variant.kl_in_loss:
        coef = variant.kl_in_loss * known["kl_factor"]
        parts["loss/kl"] = coef * aggregated(ask(variant.kl, offered), variant, offered)
    if variant.entropy_bonus:
        parts["loss/entropy"] = -variant.entropy_bonus * aggregated(entropies, variant, offered)
    return parts


def aggregated(losses: Tensor, variant: Variant, offered: dict[str, Tensor]) -> Tensor:
    """Per-token losses ``[R P G T]`` to one a replica, ``[R]``, with what else was offered to the loss."""
    return ask(variant.agg, offered | {"losses": losses})


def update(fleet: Fleet, part: Experience, mean_tokens: Tensor, measure: bool) -> metrics.Row:
    """One optimizer step on a minibatch; return its metrics, taken before the weights change."""
    known = around(fleet, part, mean_tokens)
    every = fleet.distributions(fleet.policy, *part[:2], fleet.temperature)
    log_probs = taken(every, part.completions)
    entropies = metrics.entropy(every) if fleet.uses("entropy_bonus") else torch.zeros_like(log_probs)
    losses = by_block(objective, fleet.blocks, log_probs, entropies, part, known)
    losses["loss/total"] = sum(losses.values())
    losses["loss/total"].sum().backward()
    row = {"optim/lr": fleet.adam.schedule.rates(fleet.adam.updates), "optim/grad_norm": fleet.adam.step()}
    if measure:
        row |= {name: loss.detach() for name, loss in losses.items()}
        row |= by_block(update_metrics, fleet.blocks, log_probs.detach(), part, known)
    return row


def around(fleet: Fleet, part: Experience, mean_tokens: Tensor) -> dict[str, Tensor]:
    """Return what an update knows beyond its minibatch: what is remembered, and more.

    ``mean_tokens`` ``[R]``: see ``agg.token``; ``progress`` ``[R]``: the share of the run's updates that are done;
    ``uniforms`` ``[R P G T]`` only if a policy loss asks for them.
    """
    known = {"mean_tokens": mean_tokens, "progress": torch.full_like(mean_tokens, fleet.adam.progress)}
    if "uniforms" in fleet.asked:
        known["uniforms"] = fleet.uniforms(Purpose.LOSS, fleet.adam.updates, *part.mask.shape[1:])
    return fleet.memory | known


@torch.no_grad()
def lead(fleet: Fleet, step: int) -> None:
    """Let the references of the variants that have one that moves follow their policies."""

    def followed(variant: Variant, reference: Tensor, policy: Tensor) -> dict[str, Tensor]:
        return {"reference": ask(variant.follow, {"reference": reference, "policy": policy, "step": step})}

    if any("policy" in needs(variant.follow) for variant, _ in fleet.blocks):
        for reference, policy in zip(fleet.reference.parameters(), fleet.policy.parameters(), strict=True):
            reference.copy_(by_block(followed, fleet.blocks, reference, policy)["reference"])


def update_metrics(variant: Variant, log_probs: Tensor, part: Experience, known: Mapping[str, Tensor]) -> metrics.Row:
    """Ratios and clipping of one update for the replicas of one variant."""
    offered = {**part._asdict(), **known, "log_probs": log_probs}
    row = metrics.ratio_metrics(log_probs, part.old_log_probs, part.mask)
    return row | metrics.clip_metrics(variant.clip, offered) | metrics.mismatch_metrics(variant.mismatch, offered)
