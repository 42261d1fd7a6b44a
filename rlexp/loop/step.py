"""The algorithm box: one training step, from prompts to new weights. Read it beside a paper's pseudo-code.

A ``variant`` holds one choice on each axis. ``call_with`` hands an axis function the tensors that it asks for by name,
of those offered here. Each variant owns a contiguous block of replicas, to which ``map_variants`` applies its
functions; policy, sampling and optimizer are one call for all. Shapes: R replicas, P prompts, G completions, T tokens.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from rlexp.core.blocks import map_variants, minibatches
from rlexp.core.exact import as_before
from rlexp.core.masked import per_token
from rlexp.core.registry import call_with
from rlexp.core.types import PerCompletion, PerReplica, PerToken, PerVocabulary
from rlexp.loop import kl_stop, metrics
from rlexp.loop.critic import critic_targets, train_critic
from rlexp.loop.data import gather_groups, write_slot
from rlexp.loop.dynamic_sampling import Groups, policies_of_updates
from rlexp.loop.judged.bradley_terry import refresh_judges
from rlexp.loop.judged.metrics import judged_metrics
from rlexp.loop.reference import reference_distributions, update_reference
from rlexp.loop.requested import mean_tokens_of, requested_tensors, tensors_of_update
from rlexp.loop.rewards import kl_penalties, token_rewards
from rlexp.loop.rollout import Rollout
from rlexp.loop.state import Experience, TrainState, update_memory
from rlexp.loop.variant import Variant
from rlexp.models.policy import RolloutPolicy


def train_step(state: TrainState, step: int, measure: bool) -> metrics.Row:
    """Sample, score, compute advantages, update; return what was sampled and, if ``measure``, the metrics."""
    groups = gather_groups(state, step)
    reference = reference_distributions(state, groups.rollout) if measure else None
    batch = make_experience(state, step, groups, reference)
    row = metrics.sampled_counts(state, groups)
    if measure:
        row |= metrics.rollout_metrics(state, groups, reference, batch) | judged_metrics(state, groups, reference)

    parts = [*minibatches(batch, state.prompts, state.minibatches)] * state.inner_steps
    shared = mean_tokens_of(state, batch) | kl_stop.init_stopped(state)
    policies = policies_of_updates(state, groups)
    updates = [update(state, policy, part, shared, measure) for policy, part in zip(policies, parts, strict=False)]
    row |= train_critic(state, batch, measure)

    write_slot(state, step, groups.stored)
    update_reference(state, step)
    refresh_judges(state, step)
    state.memory.update(map_variants(update_memory, state.blocks, state.memory, batch))
    return row | metrics.over_updates(updates)


def make_experience(state: TrainState, step: int, groups: Groups, reference: PerVocabulary | None = None) -> Experience:
    """Turn the rewards of groups into advantages; learns nothing: done twice, it gives the same.

    ``reference`` are the reference's log-probabilities of the whole vocabulary, where they are known.
    """
    tensors = requested_tensors(state, step, groups, reference)
    return map_variants(compute_advantages, state.blocks, groups.rollout, groups.rewards.total, tensors)


def compute_advantages(
    variant: Variant, rollout: Rollout, rewards: PerCompletion, tensors: Mapping[str, Tensor]
) -> Experience:
    """Rewards ``[R P G]`` to advantages ``[R P G T]``: shape, penalize, filter, normalize, bound, ask the teacher.

    ``norm`` is offered the result whole and in parts, of which it takes one or the other: rewards = outcomes −
    Σ_t token_penalties = rewards of the task + adjustments. A completion outside the statistics, because of the filter
    or because it has no reward (NaN), has advantage 0.
    """
    offered = {**rollout._asdict(), **tensors, "rewards": rewards, "lengths": rollout.mask.to(rewards.dtype).sum(-1)}
    outcomes = call_with(variant.shaping, offered)
    penalties = kl_penalties(variant, rollout, tensors)
    final = outcomes - penalties.sum(-1)
    scored = ~final.isnan()
    parts = {"rewards": final, "outcomes": outcomes, "adjustments": final - rewards}
    offered |= {name: values.where(scored, 0.0) for name, values in parts.items()} | {"scored": scored}

    keep = call_with(variant.filter_statistics, offered) & scored
    mask = rollout.mask & per_token(call_with(variant.filter_loss, offered), rollout.mask)
    offered |= {"keep": keep, "token_penalties": penalties} | token_rewards(variant, offered, penalties)

    advantages = call_with(variant.norm, offered)
    advantages = per_token(advantages, mask).where(keep.unsqueeze(-1), 0.0).expand(mask.shape)
    if variant.advantage_clip is not None:
        advantages = advantages.clamp(-variant.advantage_clip, variant.advantage_clip)
    advantages = call_with(variant.teacher, offered | {"advantages": advantages})
    made = {"mask": mask, "rewards": final, "advantages": advantages, "critic": critic_targets(variant, offered)}
    return Experience(*((offered | made)[name] for name in Experience._fields))


def update(
    state: TrainState, policy: RolloutPolicy, part: Experience, shared: Mapping[str, Tensor], measure: bool
) -> metrics.Row:
    """One optimizer step on a minibatch; return its metrics, taken before the weights change."""
    bonus = any(variant.has_bonus for variant, _ in state.blocks)
    log_probs, entropies = state.log_probs(policy, part.prompts, part.completions, state.temperature, entropies=bonus)
    tensors = tensors_of_update(state, part, shared)
    kl_stop.update_stopped(state, tensors, log_probs, part)
    losses = map_variants(loss_terms, state.blocks, log_probs, entropies, part, tensors)
    losses["loss/total"] = sum(losses.values())
    with as_before(state.policy, "backward", part.prompts.shape, part.completions.shape, policy is state.policy):
        losses["loss/total"].sum().backward()
    row = {"optim/lr": state.optimizer.schedule.rates(state.optimizer.updates)}
    with kl_stop.frozen(state.optimizer, tensors):
        row["optim/grad_norm"] = state.optimizer.step()
    return row | metrics.metrics_of_update(state, losses, log_probs.detach(), part, tensors) if measure else {}


def loss_terms(
    variant: Variant, log_probs: PerToken, entropies: PerToken | None, part: Experience, tensors: Mapping[str, Tensor]
) -> dict[str, PerReplica]:
    """Return the terms of the loss; their sum is what is minimized.

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
        terms["loss/kl"] = variant.kl_in_loss * tensors["kl_factor"] * aggregate(call_with(variant.kl, offered))
    if variant.has_bonus:
        coef = call_with(variant.entropy_control, {**tensors, "entropy_coef": variant.entropy_coef})
        terms["loss/entropy"] = -coef * aggregate(entropies)
    return terms
