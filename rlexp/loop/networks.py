"""What networks other than the policy make of rollouts, of some replicas or of all."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from rlexp.loop.rollout import Rollout
from rlexp.loop.state import TrainState, take_replicas
from rlexp.models.policy import Policy


def of_replicas(
    state: TrainState,
    replicas: Tensor,
    network: str,
    rollout: Rollout,
    function: Callable[[Policy, Rollout, Tensor], Tensor],
    into: Tensor | None = None,
) -> Tensor | None:
    """Return what a network makes of the rollouts of some replicas, 0 or what ``into`` has for the others.

    None for no replicas at all, if nothing is given.
    """
    if not len(replicas):
        return into
    policy = state.networks[network].module
    if len(replicas) == len(state.seeds):
        return function(policy, rollout, state.temperature)
    part = Rollout(*(tensor[replicas] for tensor in rollout))
    computed = function(take_replicas(policy, replicas), part, state.temperature[replicas])
    into = computed.new_zeros(len(state.seeds), *computed.shape[1:]) if into is None else into
    return into.index_copy(0, replicas, computed)


def distributions_of(policy: Policy, rollout: Rollout, temperature: Tensor) -> Tensor:
    """Log-probabilities of the vocabulary at the completions' tokens by another network, ``[R P G T V]``."""
    return as_one_each(policy.distributions, rollout, temperature)


def log_probs_of(policy: Policy, rollout: Rollout, temperature: Tensor) -> Tensor:
    """Log-probabilities of the completions' tokens by another network than the one that sampled, ``[R P G T]``."""
    return as_one_each(lambda *inputs: policy.log_probs(*inputs).log_probs, rollout, temperature)


def as_one_each(function: Callable, rollout: Rollout, temperature: Tensor) -> Tensor:
    """Call a function of prompts and completions; completions with prompts of their own are groups of one."""
    prompts, completions = rollout.prompts, rollout.completions
    if prompts.dim() == 3:
        return function(prompts, completions, temperature)
    result = function(prompts.flatten(1, 2), completions.flatten(1, 2).unsqueeze(2), temperature)
    return result.view(*completions.shape[:3], *result.shape[3:])
