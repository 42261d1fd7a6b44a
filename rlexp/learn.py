"""Experience to new weights: the loss of each variant, one optimizer step for all, and what follows the policy."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from rlexp import metrics
from rlexp.blocks import by_block
from rlexp.choose import ask, needs
from rlexp.fleet import Experience, Fleet, Variant
from rlexp.memory import remember
from rlexp.models.tape import Tape
from rlexp.rollout import taken
from rlexp.streams import Purpose


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


def update(
    fleet: Fleet, part: Experience, mean_tokens: Tensor, measure: bool, tape: Tape | None = None
) -> metrics.Row:
    """One optimizer step on a minibatch; return its metrics, taken before the weights change.

    ``tape`` is that of sampling the minibatch, if the weights still are those that sampled.
    """
    known = around(fleet, part, mean_tokens)
    every = fleet.distributions(fleet.policy, *part[:2], fleet.temperature, tape)
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


def update_metrics(variant: Variant, log_probs: Tensor, part: Experience, known: Mapping[str, Tensor]) -> metrics.Row:
    """Ratios and clipping of one update for the replicas of one variant."""
    offered = {**part._asdict(), **known, "log_probs": log_probs}
    row = metrics.ratio_metrics(log_probs, part.old_log_probs, part.mask)
    return row | metrics.clip_metrics(variant.clip, offered) | metrics.mismatch_metrics(variant.mismatch, offered)


@torch.no_grad()
def lead(fleet: Fleet, step: int) -> None:
    """Let the references of the variants that have one that moves follow their policies."""

    def followed(variant: Variant, reference: Tensor, policy: Tensor) -> dict[str, Tensor]:
        return {"reference": ask(variant.follow, {"reference": reference, "policy": policy, "step": step})}

    if any("policy" in needs(variant.follow) for variant, _ in fleet.blocks):
        for reference, policy in zip(fleet.reference.parameters(), fleet.policy.parameters(), strict=True):
            reference.copy_(by_block(followed, fleet.blocks, reference, policy)["reference"])


def remembered(variant: Variant, memory: Mapping[str, Tensor], batch: Experience) -> dict[str, Tensor]:
    """Return the memories after a step; their updates are offered the experience, rewards 0 outside the statistics."""
    return remember(variant, memory, batch._asdict() | {"rewards": batch.rewards.where(batch.keep, 0.0)})
