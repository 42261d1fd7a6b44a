"""Ratios of probabilities, whose logarithm is bounded before it is exponentiated, for a token and for a completion.

e¹⁰⁰ is no float32: without a bound one token can make the loss and the gradient of a run infinite or NaN. The default,
20 nats, is a ratio of 4.9e8. verl bounds at ±20 in most of its losses, in k3 and in the correction of the mismatch,
OpenRLHF in its PPO loss; TRL nowhere.
"""

from __future__ import annotations

from torch import Tensor

from rlexp.core.types import PerReplica


def bounded(log_ratio: Tensor, bound: PerReplica) -> Tensor:
    """Return a log-ratio ``[*R P G T]`` within ±bound; beyond it has no gradient, as ``torch.clamp`` has it."""
    bound = bound[..., None, None, None]
    return log_ratio.clamp(-bound, bound)


def bounded_exp(log_ratio: Tensor, bound: PerReplica) -> Tensor:
    """Return the ratio whose logarithm is within ±bound."""
    return bounded(log_ratio, bound).exp()
