"""The algorithm box: one training step, from prompts to new weights. Read it beside a paper's pseudo-code.

A ``variant`` holds one choice on each axis. ``call_with`` hands an axis function the tensors that it asks for by name,
of those offered here. Each variant owns a contiguous block of replicas, to which ``map_variants`` applies its
functions; policy, sampling and optimizer are one call for all. Shapes: R replicas, P prompts, G completions, T tokens.
"""

from __future__ import annotations

import torch

from rlexp.core.blocks import map_variants, minibatches
from rlexp.core.masked import ALL, entropy_weights, per_token, whitened
from rlexp.core.registry import call_with
from rlexp.core.types import PerCompletion, PerReplica, PerToken
from rlexp.loop import critic, data, kl_stop, metrics, requested, reward_model, sampling, truncation
from rlexp.loop.losses import added_losses, offered_to_losses
from rlexp.loop.population import has_population
from rlexp.loop.rewards import kl_penalties, reward_parts
from rlexp.loop.rollout import Rollout
from rlexp.loop.state import KEPT, Experience, Tensors, TrainState, backward, update_memory, update_reference
from rlexp.loop.variant import Variant
from rlexp.models.policy import RolloutPolicy


def train_step(state: TrainState, step: int, measure: bool) -> metrics.Row:
    """Sample, score, compute advantages, update; return what was sampled and, if ``measure``, the metrics."""
    state = state.at_step(step)
    groups = data.gather_groups(state, step)
    reference = requested.reference_distributions(state, groups.rollout) if measure else None
    tensors = requested.tensors_of_rollout(state, step, groups, reference)
    batch = map_variants(compute_advantages, state.blocks, groups.rollout, groups.rewards.total, tensors)
    row = metrics.metrics_of_rollout(state, groups, reference, batch)

    passes = 0 if critic.trains_alone(state, step) else state.inner_steps
    parts = [*minibatches(batch, state.prompts, state.minibatches)] * passes
    shared = requested.tensors_of_step(state, batch)
    policies = sampling.policies_of_updates(state, groups)
    updates = [update(state, policy, part, shared, measure) for policy, part in zip(policies, parts, strict=False)]
    row |= critic.train_critic(state, batch, measure)

    if groups.stored is not None:
        state.data.store(state, step, groups.stored)
    update_reference(state, step)
    reward_model.refresh_judges(state, step)
    state.memory.update(map_variants(update_memory, state.blocks, state.memory, batch))
    return row | metrics.over_updates(updates)


def compute_advantages(variant: Variant, rollout: Rollout, rewards: PerCompletion, tensors: Tensors) -> Experience:
    """Rewards ``[R P G]`` to advantages ``[R P G T]``: shape, penalize, filter, normalize, whiten, weigh, bound, ask
    the teacher.

    A completion outside the statistics, because of the filter or because it has no reward (NaN), has advantage 0.
    Lengths are those of whole completions; beyond that nobody sees tokens that no loss sees.
    """
    lengths = rollout.mask.to(rewards.dtype).sum(-1)
    rollout = rollout._replace(mask=tensors.get("loss_mask", rollout.mask))
    offered = {**rollout._asdict(), **tensors, "rewards": rewards, "lengths": lengths}
    outcomes = call_with(variant.shaping, offered)
    penalties = kl_penalties(variant, rollout, tensors)
    final = outcomes - penalties.sum(-1)
    offered |= reward_parts(variant, offered, outcomes, penalties, final)

    keep = call_with(variant.filter_statistics, offered) & offered["scored"]
    mask = rollout.mask & per_token(call_with(variant.filter_loss, offered), rollout.mask)
    offered["keep"] = keep

    advantages = call_with(variant.norm, offered)
    advantages = per_token(advantages, mask).where(keep.unsqueeze(-1), 0.0).expand(mask.shape)
    if variant.whiten_advantages:
        advantages = whitened(advantages, mask & keep.unsqueeze(-1), ALL)
    if variant.advantage_entropy_weight:
        weights = entropy_weights(tensors["entropies"], rollout.mask, variant.advantage_entropy_weight)
        advantages = (advantages * weights).where(rollout.mask, 0.0)
    if variant.advantage_clip is not None:
        advantages = advantages.clamp(-variant.advantage_clip, variant.advantage_clip)
    advantages = call_with(variant.teacher, offered | {"advantages": advantages})
    made = {"mask": mask, "rewards": final, "advantages": advantages, "critic": critic.critic_targets(variant, offered)}
    made["kept"] = {name: tensors[name] for name in KEPT if name in tensors}
    return Experience(*((offered | made)[name] for name in Experience._fields))


def update(state: TrainState, policy: RolloutPolicy, part: Experience, shared: Tensors, measure: bool) -> metrics.Row:
    """One optimizer step on a minibatch; return its metrics, taken before the weights change."""
    bonus = any(variant.has_bonus for variant, _ in state.blocks)
    read = state.log_probs(
        policy,
        part.prompts,
        part.completions,
        state.temperature,
        entropies=bonus,
        distributions="distributions" in state.requested or truncation.trains_any(state.blocks),
    )
    (log_probs, entropies, distributions), outside = truncation.as_trained(state.blocks, read, part)
    part = part._replace(**map_variants(anchor, state.blocks, log_probs.detach(), part))
    tensors = requested.tensors_of_update(state, part, shared) | outside
    kl_stop.update_stopped(state, tensors, log_probs, part)
    losses = map_variants(loss_terms, state.blocks, log_probs, entropies, part, tensors)
    losses |= added_losses(state.blocks, losses["loss/policy"], log_probs, distributions, part, tensors)
    losses["loss/total"] = sum(losses.values())
    if not has_population(state):
        backward(losses["loss/total"], state.policy, part, policy is state.policy, "answers" in part.kept)
    row = kl_stop.step_optimizer(state.optimizer, tensors)
    return row | metrics.metrics_of_update(state.blocks, losses, log_probs.detach(), part, tensors) if measure else {}


def anchor(variant: Variant, log_probs: PerToken, part: Experience) -> dict[str, PerToken]:
    """Return the log-probabilities of the policy that the ratios of an update are against, as ``old_log_probs``."""
    offered = part._asdict() | part.kept | {"log_probs": log_probs}
    return {"old_log_probs": call_with(variant.anchor, offered)}


def loss_terms(
    variant: Variant, log_probs: PerToken, entropies: PerToken | None, part: Experience, tensors: Tensors
) -> dict[str, PerReplica]:
    """Return the terms of the loss, whose sum is minimized; all are aggregated alike, as in verl and OpenRLHF."""
    offered = offered_to_losses(variant, log_probs, part, tensors)

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
