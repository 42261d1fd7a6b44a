"""Policy losses that treat the few tokens apart whose log-probability and advantage vary together most.

Their covariance drives the entropy down (arXiv 2505.22617). cov = (A − mean A) · (log π − mean log π), means over all
tokens of the minibatch that count: these losses depend on how a rollout is split. The interface is in ``clip``.
"""

from __future__ import annotations

from pydantic import FiniteFloat
from torch import Tensor

from rlexp.axes.clip.token import ppo, unclipped
from rlexp.core.facts import Curves, LossFacts, ordered
from rlexp.core.masked import count, masked_mean
from rlexp.core.types import FiniteNonNegative, NonNegative, PerReplica, PerToken, Positive, TokenMask

ALL = (-1, -2, -3)


@LossFacts(
    idle_on_policy=False,  # it leaves tokens out whatever their ratio
    problems=(ordered("lb", "ub"),),
    curves=Curves("clip_cov: of tokens that are not drawn."),
    breaks=("policy gradient", "alone"),
)
def clip_cov(
    log_probs: PerToken,
    old_log_probs: PerToken,
    advantages: PerToken,
    mask: TokenMask,
    log_ratio_bound: PerReplica,
    uniforms: PerToken,
    *,
    low: NonNegative,
    high: NonNegative,
    share: Positive,
    lb: FiniteFloat,
    ub: FiniteFloat,
) -> PerToken:
    """``ppo``, and 0 for k random tokens with lb < cov < ub that it does not clip; k = max(1, ⌊share · tokens⌋).

    The k are those with the smallest ``uniforms``. They stay in the denominator. Source: Clip-Cov (arXiv 2505.22617);
    verl ``clip_cov`` with ``clip_cov_ratio`` = share, ``clip_cov_lb``, ``clip_cov_ub``.
    """
    bounded = ppo(log_probs, old_log_probs, advantages, mask, log_ratio_bound, low=low, high=high)
    clipped = bounded > unclipped(log_probs, old_log_probs, advantages, mask, log_ratio_bound)
    cov = covariance(log_probs, advantages, mask)
    eligible = mask & (cov > lb) & (cov < ub) & ~clipped
    return bounded.masked_fill(eligible & among_smallest(uniforms.where(eligible, 1.0), mask, share), 0.0)


@LossFacts(curves=Curves("kl_cov: of tokens that are not drawn."), breaks=("no advantage", "alone"))
def kl_cov(
    log_probs: PerToken,
    old_log_probs: PerToken,
    advantages: PerToken,
    mask: TokenMask,
    log_ratio_bound: PerReplica,
    *,
    share: Positive,
    coef: FiniteNonNegative,
) -> PerToken:
    """ℓ = −ρ · A, plus coef · |log ρ| for the k tokens of the largest cov; k = max(1, ⌊share · tokens⌋).

    No bound anywhere. Of equal covariances the first come first. Source: KL-Cov (arXiv 2505.22617); verl ``kl_cov``
    with ``kl_cov_ratio`` = share and ``ppo_kl_coef`` = coef, 1 in its docstring and 0.1 in its config.
    """
    order = -covariance(log_probs, advantages, mask)
    largest = mask & among_smallest(order.where(mask, float("inf")), mask, share)
    penalties = (log_probs - old_log_probs).abs()
    return unclipped(log_probs, old_log_probs, advantages, mask, log_ratio_bound) + coef * penalties.where(largest, 0.0)


def covariance(log_probs: Tensor, advantages: Tensor, mask: Tensor) -> Tensor:
    """(A − mean A) · (log π − mean log π), without a gradient."""
    log_probs = log_probs.detach()
    return (advantages - masked_mean(advantages, mask, ALL)) * (log_probs - masked_mean(log_probs, mask, ALL))


def among_smallest(order: Tensor, mask: Tensor, share: float) -> Tensor:
    """Whether a token is among the max(1, ⌊share · tokens⌋) smallest of its replica's ``order``; ties by place."""
    flat = order.flatten(-3)
    ranks = flat.argsort(dim=-1, stable=True).argsort(dim=-1).view_as(order)
    return ranks < (share * count(mask, ALL, order.dtype)).floor().clamp(min=1)


FUNCTIONS = {"clip_cov": clip_cov, "kl_cov": kl_cov}
