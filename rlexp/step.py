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
from rlexp.collect import collect
from rlexp.masked import count, masked_sum, per_token
from rlexp.rollout import Rollout, distributions, sample, taken
from rlexp.streams import Purpose, hashed, uniforms
from rlexp.tasks import combine
from rlexp.update import Adam

TOKENS = (-1, -2, -3)


@dataclass(frozen=True)
class Variant:
    """The bound functions of one choice on every axis, and the weights of the penalties.

    ``inexact`` says whether the sampler differs from the policy.
    """

    shaping: Callable
    filter_loss: Callable
    filter_statistics: Callable
    refill: Callable
    rounds: int
    norm: Callable
    clip: Callable
    agg: Callable
    kl: Callable
    sampler: Callable
    mismatch: Callable
    inexact: bool
    kl_in_loss: float
    kl_in_reward: float
    entropy_bonus: float


@dataclass(frozen=True)
class Fleet:
    """R runs that train as one batch: what they share, and what is each run's own, ``[R]``."""

    task: Any
    policy: torch.nn.Module
    reference: torch.nn.Module
    adam: Adam
    blocks: Sequence[tuple[Variant, int]]
    seeds: Sequence[int]
    temperature: Tensor
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
        """Names of the tensors that the shaping, the filters, the norm or the policy loss of some variant take."""
        chosen = ((v.shaping, v.filter_loss, v.filter_statistics, v.norm, v.clip) for v, _ in self.blocks)
        return frozenset(name for functions in chosen for function in functions for name in needs(function))


class Experience(NamedTuple):
    """A rollout and what it was worth: prompts ``[R P L]``, tokens ``[R P G T]``, rewards and advantages ``[R P G]``.

    ``mask`` leaves out filtered completions and tokens; ``rewards`` are those after shaping and KL-in-reward.
    """

    prompts: Tensor
    completions: Tensor
    old_log_probs: Tensor
    ref_log_probs: Tensor
    mask: Tensor
    rewards: Tensor
    advantages: Tensor
    sampler_log_probs: Tensor


def train_step(fleet: Fleet, step: int, measure: bool) -> metrics.Row:
    """Sample, judge, learn; return what was sampled and, if ``measure``, the metrics of the step."""
    task = fleet.task
    groups = collect(fleet, step)
    rollout = groups.rollout
    scores = task.score(rollout.prompts, rollout.completions, rollout.mask, rollout.finished)
    rewards = combine(scores.components, task.weights)
    ref_log_probs = torch.zeros_like(rollout.old_log_probs)
    row = {"tokens": groups.tokens, "completions": groups.rounds * fleet.prompts * fleet.group}
    if measure or fleet.uses("kl_in_loss", "kl_in_reward"):
        references = distributions(fleet.reference, *rollout[:2], fleet.temperature).detach()
        ref_log_probs = taken(references, rollout.completions)
    batch = by_block(experience, fleet.blocks, rollout, rewards, ref_log_probs, beside(fleet, step, rollout))
    if measure:
        row |= metrics.reward_metrics(scores, rewards, batch.rewards)
        row |= metrics.group_metrics(rewards, task.reward_range)
        row |= metrics.filter_metrics(groups, batch.mask)
        row |= metrics.advantage_metrics(batch.advantages)
        row |= metrics.length_metrics(rollout.mask, rollout.finished, scores.correct)
        with torch.no_grad():
            own = distributions(fleet.policy, *rollout[:2], fleet.temperature)
            row |= metrics.policy_metrics(own, references, rollout)
    mean_tokens = count(batch.mask, TOKENS, batch.advantages.dtype).squeeze(TOKENS).clamp(min=1) / fleet.minibatches
    rows = [
        update(fleet, part, mean_tokens, measure)
        for _ in range(fleet.inner_steps)
        for part in minibatches(batch, fleet.prompts, fleet.minibatches)
    ]
    return row | metrics.over_updates(rows) if measure else row


@torch.no_grad()
def beside(fleet: Fleet, step: int, rollout: Rollout) -> dict[str, Tensor]:
    """Return what shaping, filter and norm may ask for beside the rollout and costs something, if one of them does."""
    makers = {
        "entropies": lambda: metrics.entropy(distributions(fleet.policy, *rollout[:2], fleet.temperature)),
        "drawn": lambda: fleet.uniforms(Purpose.VERDICTS, step, fleet.prompts, fleet.group),
        "hashed": lambda: hashed(fleet.seeds, Purpose.PERSISTENT_VERDICTS, *rollout.pairs),
    }
    return {name: make() for name, make in makers.items() if name in fleet.asked}


def experience(
    variant: Variant, rollout: Rollout, rewards: Tensor, ref_log_probs: Tensor, beside: Mapping[str, Tensor]
) -> Experience:
    """Rewards ``[R P G]`` to advantages.

    A completion outside the statistics, because of the filter or because it has no reward (NaN), has advantage 0: its
    distance from a group that it is not part of has no scale.
    """
    offered = {**rollout._asdict(), **beside, "rewards": rewards, "lengths": rollout.mask.to(rewards.dtype).sum(-1)}
    rewards = ask(variant.shaping, offered)
    if variant.kl_in_reward:
        penalties = ask(variant.kl, {"log_probs": rollout.old_log_probs, "ref_log_probs": ref_log_probs})
        rewards = rewards - variant.kl_in_reward * masked_sum(penalties, rollout.mask, (-1,)).squeeze(-1)
    scored = ~rewards.isnan()
    offered |= {"rewards": rewards.where(scored, 0.0), "scored": scored}
    counted = ask(variant.filter_statistics, offered) & scored
    kept = ask(variant.filter_loss, offered)
    advantages = ask(variant.norm, offered | {"keep": counted}).where(counted, 0.0)
    mask = rollout.mask & per_token(kept, rollout.mask)
    return Experience(*rollout[:3], ref_log_probs, mask, rewards, advantages, rollout.sampler_log_probs)


def objective(
    variant: Variant, log_probs: Tensor, entropies: Tensor, part: Experience, known: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Return the parts of the loss, each ``[R]``; their sum is what is minimised.

    All parts are aggregated in the same way, as in verl and OpenRLHF (TRL averages the entropy over tokens).
    """
    offered = offered_to_losses(log_probs.where(part.mask, part.old_log_probs), part, known)
    losses = ask(variant.mismatch, offered | {"losses": ask(variant.clip, offered)})
    policy = aggregated(losses, variant, offered)
    parts = {"loss/policy": policy, "loss/kl": torch.zeros_like(policy), "loss/entropy": torch.zeros_like(policy)}
    if variant.kl_in_loss:
        parts["loss/kl"] = variant.kl_in_loss * aggregated(ask(variant.kl, offered), variant, offered)
    if variant.entropy_bonus:
        parts["loss/entropy"] = -variant.entropy_bonus * aggregated(entropies, variant, offered)
    return parts


def offered_to_losses(log_probs: Tensor, part: Experience, known: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors that the axes behind the advantages can ask for."""
    advantages = part.advantages.unsqueeze(-1).expand_as(log_probs)
    return {**part._asdict(), **known, "log_probs": log_probs, "advantages": advantages}


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
    """Return what an update knows beyond its minibatch.

    ``mean_tokens`` ``[R]``: see ``agg.token``; ``progress`` ``[R]``: the share of the run's updates that are done;
    ``uniforms`` ``[R P G T]`` only if a policy loss asks for them.
    """
    known = {"mean_tokens": mean_tokens, "progress": torch.full_like(mean_tokens, fleet.adam.progress)}
    if "uniforms" in fleet.asked:
        known["uniforms"] = fleet.uniforms(Purpose.LOSS, fleet.adam.updates, *part.mask.shape[1:])
    return known


def update_metrics(variant: Variant, log_probs: Tensor, part: Experience, known: Mapping[str, Tensor]) -> metrics.Row:
    """Ratios and clipping of one update for the replicas of one variant."""
    offered = offered_to_losses(log_probs, part, known)
    row = metrics.ratio_metrics(log_probs, part.old_log_probs, part.mask)
    return row | metrics.clip_metrics(variant.clip, offered) | metrics.mismatch_metrics(variant.mismatch, offered)
