"""The algorithm box: one training step, from prompts to new weights. Read it beside a paper's pseudo-code.

A ``variant`` holds one choice on each axis. ``call_with`` hands an axis function the tensors that it asks for by name,
of those offered here. Each variant owns a contiguous block of replicas, and ``by_block`` applies its functions to that
block; policy, sampling and optimiser are one call for all. Shapes: R replicas, P prompts, G completions, T tokens.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from rlexp.core.blocks import by_block, minibatches
from rlexp.core.exact import as_before
from rlexp.core.masked import at_last_token, count, per_token
from rlexp.core.memory import apply_updates
from rlexp.core.registry import call_with, requested_names
from rlexp.core.streams import Purpose
from rlexp.core.types import PerCompletion, PerReplica, PerToken, PerVocabulary
from rlexp.loop import metrics
from rlexp.loop.critic import train_critic
from rlexp.loop.data import gather_groups, store
from rlexp.loop.dynamic_sampling import Groups
from rlexp.loop.judged.bradley_terry import refresh_judges
from rlexp.loop.judged.metrics import judged_metrics
from rlexp.loop.requested import requested_tensors
from rlexp.loop.rollout import Rollout
from rlexp.loop.state import Experience, TrainState
from rlexp.loop.updates import kl_stop
from rlexp.loop.variant import Variant
from rlexp.models.policy import ForwardCache

TOKENS = (-1, -2, -3)


class Collected(NamedTuple):
    """What a step learns from; ``reference`` are the reference's log-probabilities, known where it is measured."""

    groups: Groups
    reference: PerVocabulary | None
    experience: Experience


def train_step(state: TrainState, step: int, measure: bool) -> metrics.Row:
    """Sample, score, weigh, then update the weights; return what was sampled and, if ``measure``, the metrics."""
    collected = collect(state, step, measure)
    groups, experience = collected.groups, collected.experience
    row = {"tokens": groups.tokens, "completions": groups.sampled * state.group}
    row["verdicts"] = groups.judged * state.group * state.verdicts
    if measure:
        row |= {} if groups.age is None else {"data/age": groups.age * state.inner_steps * state.minibatches}
        row |= metrics.rollout_metrics(state, groups, collected.reference, experience)
        row |= judged_metrics(state, groups, collected.reference)
    mean_tokens = count(experience.mask, TOKENS, experience.advantages.dtype).squeeze(TOKENS).clamp(min=1)
    mean_tokens = mean_tokens / state.minibatches
    parts = [*minibatches(experience, state.prompts, state.minibatches)] * state.inner_steps
    cache = groups.forward_cache and groups.forward_cache.slice_prompts(slice(state.prompts // state.minibatches))
    stopped = kl_stop.nobody(state)
    rows = [update(state, parts[0], mean_tokens, measure, cache, stopped)]
    rows += [update(state, part, mean_tokens, measure, None, stopped) for part in parts[1:]]
    row |= train_critic(state, experience, measure)
    store(state, step, groups.stored)
    update_reference(state, step)
    refresh_judges(state, step)
    state.memory.update(by_block(update_memory, state.blocks, state.memory, experience))
    return row | metrics.over_updates(rows) if measure else row


def collect(state: TrainState, step: int, measure: bool = False) -> Collected:
    """Sample and score completions, turn rewards into advantages; learns nothing: done twice, it gives the same."""
    groups = gather_groups(state, step)
    reference = reference_distributions(state, groups.rollout) if measure else None
    tensors = requested_tensors(state, step, groups, reference)
    experience = by_block(weigh, state.blocks, groups.rollout, groups.rewards.total, tensors)
    return Collected(groups, reference, experience)


def weigh(variant: Variant, rollout: Rollout, rewards: PerCompletion, tensors: Mapping[str, Tensor]) -> Experience:
    """Rewards ``[R P G]`` to advantages ``[R P G T]``: shape, penalise, filter, normalise, bound, ask the teacher.

    ``norm`` is offered the result whole and in parts, of which it takes one or the other: rewards = outcomes −
    Σ_t token_penalties = rewards of the task + adjustments. A completion outside the statistics, because of the filter
    or because it has no reward (NaN), has advantage 0: its distance from a group that it is not part of has no scale.
    """
    offered = {**rollout._asdict(), **tensors, "rewards": rewards, "lengths": rollout.mask.to(rewards.dtype).sum(-1)}
    outcomes = call_with(variant.shaping, offered)
    token_penalties = reward_penalties(variant, rollout, tensors)
    final = outcomes - token_penalties.sum(-1)
    scored = ~final.isnan()
    parts = {"rewards": final, "outcomes": outcomes, "adjustments": final - rewards}
    offered |= {name: values.where(scored, 0.0) for name, values in parts.items()} | {"scored": scored}
    keep = call_with(variant.filter_statistics, offered) & scored
    mask = rollout.mask & per_token(call_with(variant.filter_loss, offered), rollout.mask)
    offered |= {"keep": keep, "token_penalties": token_penalties} | rewards_of_tokens(variant, offered, token_penalties)
    advantages = call_with(variant.norm, offered)
    advantages = per_token(advantages, mask).where(keep.unsqueeze(-1), 0.0).expand(mask.shape)
    if variant.advantage_clip is not None:
        advantages = advantages.clamp(-variant.advantage_clip, variant.advantage_clip)
    advantages = call_with(variant.teacher, offered | {"advantages": advantages})
    return Experience(
        prompts=rollout.prompts,
        completions=rollout.completions,
        old_log_probs=rollout.old_log_probs,
        ref_log_probs=tensors["ref_log_probs"],
        mask=mask,
        keep=keep,
        rewards=final,
        advantages=advantages,
        sampler_log_probs=rollout.sampler_log_probs,
        prompt_numbers=tensors["prompt_numbers"],
        critic=of_critic(variant, offered),
    )


def reward_penalties(variant: Variant, rollout: Rollout, tensors: Mapping[str, Tensor]) -> PerToken:
    """What KL in the reward takes off each token, 0 outside the mask; there π is π_old."""
    if not variant.kl_in_reward:
        return torch.zeros_like(rollout.old_log_probs)
    offered = {"log_probs": rollout.old_log_probs, "ref_log_probs": tensors["ref_log_probs"]}
    offered |= variant.bound(tensors["kl_factor"])
    penalties = call_with(variant.kl, rollout._asdict() | offered)
    coef = variant.kl_in_reward * tensors["kl_factor"][..., None, None, None]
    return (coef * penalties).where(rollout.mask, 0.0)


def rewards_of_tokens(variant: Variant, offered: Mapping[str, Tensor], token_penalties: PerToken) -> dict[str, Tensor]:
    """Outcomes where they are due, minus the penalties, for a norm that asks; 0 where there is no reward.

    A task that pays each token says where its reward is due, unless somebody else judges; what shaping has added to it,
    and all of the outcome elsewhere, is due at the last token.
    """
    if "token_rewards" not in variant.requested:
        return {}
    nothing = torch.zeros_like(token_penalties)
    paid = nothing if variant.judged else offered.get("token_rewards", nothing)
    paid = paid.where(offered["mask"] & offered["scored"].unsqueeze(-1), 0.0)
    due = paid + at_last_token(offered["outcomes"] - paid.sum(-1), offered["mask"])
    return {"token_rewards": due - token_penalties}


def of_critic(variant: Variant, offered: Mapping[str, Tensor]) -> dict[str, PerToken]:
    """Return the values of tokens and what they are trained to, for a variant with a critic."""
    if variant.value_target is None:
        return {}
    return {"values": offered["values"][..., :-1], "returns": call_with(variant.value_target, offered)}


def update(
    state: TrainState,
    part: Experience,
    mean_tokens: PerReplica,
    measure: bool,
    cache: ForwardCache | None = None,
    stopped: PerReplica | None = None,
) -> metrics.Row:
    """One optimiser step on a minibatch; return its metrics, taken before the weights change.

    ``mean_tokens``: see ``agg.token``. ``cache`` is that of sampling the minibatch, while the weights are those that
    sampled. ``stopped`` is 1 for runs that are done with this rollout, and is set here for those that now are.
    """
    optimizer = state.optimizer
    bonus = any(variant.has_bonus for variant, _ in state.blocks)
    log_probs, entropies = state.log_probs(
        state.policy, part.prompts, part.completions, state.temperature, entropies=bonus, forward_cache=cache
    )
    tensors = state.memory | {"mean_tokens": mean_tokens}
    tensors["progress"] = torch.full_like(mean_tokens, optimizer.progress)
    if "uniforms" in state.requested:
        tensors["uniforms"] = state.uniforms(Purpose.LOSS, optimizer.updates, *part.mask.shape[1:])
    if stopped is not None:
        tensors["stopped"] = kl_stop.stop(state, stopped, log_probs, part)
    entropies = torch.zeros_like(log_probs) if entropies is None else entropies
    losses = by_block(loss_terms, state.blocks, log_probs, entropies, part, tensors)
    losses["loss/total"] = sum(losses.values())
    with as_before(state.policy, "backward", part.prompts.shape, part.completions.shape, cache is None):
        losses["loss/total"].sum().backward()
    row = {"optim/lr": optimizer.schedule.rates(optimizer.updates)}
    with kl_stop.kept(optimizer, stopped):
        row["optim/grad_norm"] = optimizer.step()
    if measure:
        row |= {name: loss.detach() for name, loss in losses.items()}
        row |= by_block(metrics.update_metrics, state.blocks, log_probs.detach(), part, tensors)
        row |= metrics.own_metrics(state.blocks, log_probs.detach(), part, tensors)
    return row


def loss_terms(
    variant: Variant, log_probs: PerToken, entropies: PerToken, part: Experience, tensors: Mapping[str, Tensor]
) -> dict[str, PerReplica]:
    """Return the terms of the loss; their sum is what is minimised.

    All are aggregated in the same way, as in verl and OpenRLHF (TRL averages the entropy over tokens).
    """
    offered = {**part._asdict(), **tensors, **variant.bound(tensors["mean_tokens"])}
    offered["log_probs"] = log_probs.where(part.mask, part.old_log_probs)

    def aggregate(losses: PerToken) -> PerReplica:
        return call_with(variant.agg, offered | {"losses": losses})

    losses = call_with(variant.clip, offered)
    policy = aggregate(call_with(variant.mismatch, offered | {"losses": losses}))
    terms = {"loss/policy": policy, "loss/kl": torch.zeros_like(policy), "loss/entropy": torch.zeros_like(policy)}
    if variant.kl_in_loss:
        coef = variant.kl_in_loss * tensors["kl_factor"]
        terms["loss/kl"] = coef * aggregate(call_with(variant.kl, offered))
    if variant.has_bonus:
        coef = call_with(variant.entropy_control, {**tensors, "entropy_coef": variant.entropy_coef})
        terms["loss/entropy"] = -coef * aggregate(entropies)
    return terms


@torch.no_grad()
def update_reference(state: TrainState, step: int) -> None:
    """Let the references of the variants that have one that moves follow their policies."""

    def moved(variant: Variant, reference: Tensor, policy: Tensor) -> dict[str, Tensor]:
        offered = {"reference": reference, "policy": policy, "step": step}
        return {"reference": call_with(variant.reference, offered)}

    if any("policy" in requested_names(variant.reference) for variant, _ in state.blocks):
        for reference, policy in zip(state.reference.parameters(), state.policy.parameters(), strict=True):
            reference.copy_(by_block(moved, state.blocks, reference, policy)["reference"])


def update_memory(variant: Variant, memory: Mapping[str, Tensor], experience: Experience) -> dict[str, Tensor]:
    """Return the memories after a step; they are offered the experience, with rewards 0 outside the statistics."""
    rewards = experience.rewards.where(experience.keep, 0.0)
    return apply_updates(variant, memory, experience._asdict() | {"rewards": rewards})


def reference_distributions(state: TrainState, rollout: Rollout) -> PerVocabulary:
    """Return the reference's log-probabilities of the whole vocabulary at every token of the rollout."""
    return state.reference.distributions(rollout.prompts, rollout.completions, state.temperature).detach()
