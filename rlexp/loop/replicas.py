"""Some of the replicas of a batch: which of them want something, and what is computed for these alone."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor, nn

from rlexp.loop.rollout import Rollout, sample
from rlexp.loop.state import Network, TrainState, token_log_probs
from rlexp.loop.variant import Variant
from rlexp.models.policy import Policy


def replicas_where(state: TrainState, wanted: Callable[[Variant], object]) -> Tensor:
    """Return the indices of the replicas whose variant is wanted."""
    chosen = [bool(wanted(variant)) for variant, size in state.blocks for _ in range(size)]
    return torch.tensor(chosen, device=state.temperature.device).nonzero().squeeze(-1)


def compute_for_subset(
    replicas: Tensor, state: TrainState, policy: Policy, function: Callable, rollout: Rollout
) -> Tensor:
    """Return ``function(policy, rollout, temperature)`` ``[R, ...]`` for at least one of the replicas, else 0."""
    if len(replicas) == len(state.seeds):
        return function(policy, rollout, state.temperature)
    part = Rollout(*(tensor[replicas] for tensor in rollout))
    computed = function(take_replicas(policy, replicas), part, state.temperature[replicas])
    return computed.new_zeros(len(state.seeds), *computed.shape[1:]).index_copy(0, replicas, computed)


def take_replicas(module: nn.Module, replicas: Tensor) -> nn.Module:
    """Return a network of some of the replicas: the same module with their rows of every parameter, copied."""
    rows = {id(each): nn.Parameter(each.detach()[replicas], requires_grad=False) for each in module.parameters()}
    return copy.deepcopy(module, rows)


def subset(state: TrainState, replicas: Tensor) -> TrainState:
    """Return a state of these replicas, in their order, to sample and judge with: its networks are not to be trained.

    Its sampling is not compiled, whatever that of the whole state is: another number of runs would compile it again.
    """
    variants, sizes = zip(*state.blocks, strict=True)
    owners = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    counts = owners[replicas.cpu()].bincount(minlength=len(sizes)).tolist()
    names = [name for name in state.networks if name == "policy" or name.startswith("reward_model")]
    return replace(
        state,
        networks={name: Network(take_replicas(state.networks[name].module, replicas)) for name in names},
        seeds=[state.seeds[replica] for replica in replicas.tolist()],
        temperature=state.temperature[replicas],
        sample=sample,
        log_probs=token_log_probs,
        blocks=[(variant, size) for variant, size in zip(variants, counts, strict=True) if size],
    )
