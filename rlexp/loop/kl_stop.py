"""No more updates on a rollout for a run that has moved too far from the policy that sampled it (``kl_stop``).

At each update the distance is measured on its minibatch, before the weights change: the mean over the tokens that
count of ρ − 1 − log ρ, which estimates KL(π_old‖π) in nats a token. A run beyond its limit is not moved by this update,
nor by those that follow on the same rollout; its neighbours are, and its schedule goes on. Source: ``target_kl`` of
CleanRL's and Stable-Baselines3's PPO with this estimator (the latter stops at 1.5 times the number); Spinning Up takes
−log ρ.
"""

from __future__ import annotations

import torch
from torch import Tensor

from rlexp.core.blocks import map_variants
from rlexp.core.masked import ALL, masked_mean
from rlexp.core.types import PerReplica, PerToken, TokenMask
from rlexp.loop.optimizer import Optimizer
from rlexp.loop.state import Experience, Tensors, TrainState
from rlexp.loop.variant import Variant


def init_stopped(state: TrainState) -> dict[str, PerReplica]:
    """Return ``stopped``, 0 for each run as none is before the first update; nothing where no variant has a limit."""
    limited = any(variant.kl_stop is not None for variant, _ in state.blocks)
    return {"stopped": torch.zeros_like(state.temperature)} if limited else {}


@torch.no_grad()
def update_stopped(state: TrainState, tensors: dict[str, Tensor], log_probs: PerToken, part: Experience) -> None:
    """Set ``stopped`` to 1 for the runs that are too far away, in place; ``tensors`` gets a copy of it as it now is."""
    if (stopped := tensors.get("stopped")) is None:
        return

    def beyond(variant: Variant, log_probs: PerToken, old_log_probs: PerToken, mask: TokenMask) -> PerReplica:
        distance = distance_from_old(log_probs, old_log_probs, mask)
        limit = float("inf") if variant.kl_stop is None else variant.kl_stop
        return (distance > limit).to(distance.dtype)

    too_far = map_variants(beyond, state.blocks, log_probs, part.old_log_probs, part.mask)
    tensors["stopped"] = torch.maximum(stopped, too_far.to(stopped.dtype), out=stopped).clone()


def distance_from_old(log_probs: PerToken, old_log_probs: PerToken, mask: TokenMask) -> PerReplica:
    """Mean over the tokens that count of ρ − 1 − log ρ; 0 where none does."""
    log_ratio = (log_probs - old_log_probs).where(mask, 0.0)
    return masked_mean(log_ratio.exp() - 1 - log_ratio, mask, ALL).squeeze(ALL)


def step_optimizer(optimizer: Optimizer, tensors: Tensors) -> dict[str, Tensor]:
    """Apply the gradients but to stopped runs, whose weights and what the optimizer knows of them stay as they are."""
    row = {"optim/lr": optimizer.schedule.rates(optimizer.updates)}
    replicas = tensors["stopped"].nonzero().squeeze(-1).tolist() if "stopped" in tensors else []
    before = {replica: [each.clone() for each in optimizer.rows(replica)] for replica in replicas}
    row["optim/grad_norm"] = optimizer.step(tensors)
    for replica, rows in before.items():
        for held, values in zip(optimizer.rows(replica), rows, strict=True):
            held.copy_(values)
    return row
