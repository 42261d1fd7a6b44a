"""Policy losses of tokens that leave some out: those that have moved too far, or that drive the entropy down.

``clip_cov`` and ``kl_cov`` treat the few tokens apart whose log-probability and advantage vary together most: their
covariance drives the entropy down (arXiv 2505.22617). cov = (A − mean A) · (log π − mean log π), means over all tokens
of the minibatch that count: these losses depend on how a rollout is split.
"""

from __future__ import annotations

from pydantic import FiniteFloat
from torch import Tensor, arange

from rlexp.axes.clip.ratio import ppo, unclipped
from rlexp.axes.ratio import bounded, bounded_exp
from rlexp.core.facts import Curves, LossFacts, ordered
from rlexp.core.masked import ALL, TIME, count, masked_mean
from rlexp.core.types import (
    FiniteNonNegative,
    NonNegative,
    PerReplica,
    PerToken,
    Positive,
    TokenMask,
)


@LossFacts(curves=Curves("ipo_prime_rl: of a token whose probability was 0.1."))
def ipo_prime_rl(
    log_probs: PerToken,
    sampler_log_probs: PerToken,
    advantages: PerToken,
    mask: TokenMask,
    log_ratio_bound: PerReplica,
    *,
    eps: NonNegative,
) -> PerToken:
    """ℓ = −ρ · A with ρ = π / π_sampler, and 0 where |π − π_sampler| > eps, whatever the sign of A.

    π and π_sampler are probabilities of the token. The ratio is to the policy that the token was drawn from, for old
    data and for another engine alike. Source: prime-rl ``ipo`` ("INTELLECT policy optimization", not the IPO of arXiv
    2310.12036), its default since #3418 of 2026-08-27 with 0.1 and 1e-3 · (log ρ)² on all tokens; since #3586 of
    2026-09-18 with 0.3 and without the square. Function as in 559b4477; the tokens that are left out stay in the
    denominator, as here.
    """
    moved = (log_probs.detach().exp() - sampler_log_probs.exp()).abs()
    return unclipped(log_probs, sampler_log_probs, advantages, mask, log_ratio_bound).where(moved <= eps, 0.0)


@LossFacts(breaks=("alone",))
def m2po(
    log_probs: PerToken,
    old_log_probs: PerToken,
    advantages: PerToken,
    mask: TokenMask,
    log_ratio_bound: PerReplica,
    *,
    budget: FiniteNonNegative,
) -> PerToken:
    """ℓ = −ρ · A, and 0 for as few tokens as leave the others a mean (log ρ)² of at most ``budget``.

    Both are of tokens of the minibatch that ``ppo`` might clip, A · log ρ > 0; left out are those of the largest
    (log ρ)², which stay in the denominator. Of equal ones the last are left out. Source: M2PO (arXiv 2510.01161,
    algorithm 1), with 0.04: the rule of the paper. The code that its authors published has another one, which is
    ``m2po_clipped``. AReaL (4aef98d8) takes the mean over all tokens, π_old / π_sampler for ρ, and always keeps one
    token.
    """
    log_ratio = log_probs.detach() - old_log_probs
    outward = mask & (advantages * log_ratio > 0)
    squares = log_ratio.square().where(outward, float("inf"))
    ordered, order = squares.flatten(-3).sort(dim=-1, stable=True)
    numbers = arange(1, ordered.shape[-1] + 1, device=ordered.device, dtype=ordered.dtype)
    enough = (ordered.cumsum(-1) <= budget * numbers).sum(-1, keepdim=True)  # so many of the smallest
    keep = ~outward | (order.argsort(dim=-1) < enough).view_as(squares)
    return unclipped(log_probs, old_log_probs, advantages, mask, log_ratio_bound).where(keep, 0.0)


@LossFacts(breaks=("alone",))
def m2po_clipped(
    log_probs: PerToken,
    old_log_probs: PerToken,
    advantages: PerToken,
    mask: TokenMask,
    log_ratio_bound: PerReplica,
    *,
    budget: FiniteNonNegative,
    low: FiniteNonNegative,
    high: FiniteNonNegative,
) -> PerToken:
    """ℓ = −min(ρ · A, clip(ρ, 1 − max(low, 1 − e^−τ), 1 + max(high, e^τ − 1)) · A), τ by the budget of ``m2po``.

    τ is the largest |log ρ| of the tokens with A · log ρ > 0 that leaves their mean min((log ρ)², τ²) at most
    ``budget``, and 0 if none does. Source: the authors' own code of M2PO (Infini-AI-Lab/M2PO af54a3e,
    ``compute_m2po_policy_loss``), not the paper. ``m2po`` drops the tokens beyond its bound from the mean; here they
    stay in it as τ², so that more are clipped, and each adds its bound to the loss. ``low`` and ``high`` are least
    distances of the bounds from 1, by default 0.3 and 0.5 in that function; its trainer overrides both by none, which
    is 0 here, unless told. There rounding decides whether the token that τ is of is clipped; here it is not.
    """
    bounded_ratio = bounded(log_probs - old_log_probs, log_ratio_bound)
    log_ratio = bounded_ratio.detach()
    outward = advantages * log_ratio > 0

    # τ: of the distances in ascending order the last whose squares, with its own for all above, are within the budget
    distances, order = log_ratio.abs().where(mask & outward, float("inf")).flatten(-3).sort(dim=-1)
    counted = (mask & outward).flatten(-3).gather(-1, order)
    squares, number = distances.square().where(counted, 0.0), counted.sum(-1, keepdim=True)
    above = number - 1 - arange(distances.shape[-1], device=distances.device)
    within = counted & (squares.cumsum(-1) + squares * above <= budget * number)
    reach = distances.where(within, 0.0).amax(-1)[..., None, None, None]

    ratio, bound = bounded_ratio.exp(), reach.exp()
    floor, ceiling = (1 / bound).clamp(max=1 - low), bound.clamp(min=1 + high)
    beyond = outward & (log_ratio.abs() > reach) & ((ratio < floor) | (ratio > ceiling))
    return -ratio.where(~beyond, floor.where(advantages < 0, ceiling)) * advantages


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


def vaco(
    log_probs: PerToken,
    old_log_probs: PerToken,
    advantages: PerToken,
    mask: TokenMask,
    log_ratio_bound: PerReplica,
    *,
    delta: NonNegative,
) -> PerToken:
    """ℓ = −ρ · A, and 0 for tokens that move on, A · log ρ > 0, in completions whose mean_t |ρ − 1| is above delta.

    The mean estimates twice the total variation between π and π_old over the completion. Source: VACO
    (arXiv 2603.01365), as read in open-instruct e6c3044 (``rho_mask_tv_divergence``), which masks by the ratio of
    trainer to sampler instead. The tokens that are left out stay in the denominator.
    """
    log_ratio = log_probs.detach() - old_log_probs
    moved = masked_mean((bounded_exp(log_ratio, log_ratio_bound) - 1).abs(), mask, TIME)
    losses = unclipped(log_probs, old_log_probs, advantages, mask, log_ratio_bound)
    return losses.where((moved <= delta) | (advantages * log_ratio <= 0), 0.0)
