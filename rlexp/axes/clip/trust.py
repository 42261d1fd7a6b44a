"""Policy losses −ρ · A that leave out tokens which have moved too far; the interface is in ``clip``."""

from __future__ import annotations

from torch import Tensor, arange

from rlexp.axes.clip.token import unclipped
from rlexp.axes.ratio import bounded
from rlexp.core.facts import Curves, LossFacts
from rlexp.core.types import FiniteNonNegative, NonNegative, PerReplica, PerToken, TokenMask


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
    keep = ~outward | within_budget(log_ratio.square().where(outward, float("inf")), budget)
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
    reach = widest(log_ratio.abs(), mask & outward, budget)[..., None, None, None]
    ratio, bound = bounded_ratio.exp(), reach.exp()
    floor, ceiling = (1 / bound).clamp(max=1 - low), bound.clamp(min=1 + high)
    beyond = outward & (log_ratio.abs() > reach) & ((ratio < floor) | (ratio > ceiling))
    return -ratio.where(~beyond, floor.where(advantages < 0, ceiling)) * advantages


def widest(distances: Tensor, counted: Tensor, budget: float) -> Tensor:
    """Return a replica's largest distance τ that counts with a mean min(d², τ²) of at most ``budget``; 0 if none."""
    ordered, order = distances.where(counted, float("inf")).flatten(-3).sort(dim=-1)
    counted = counted.flatten(-3).gather(-1, order)
    squares, number = ordered.square().where(counted, 0.0), counted.sum(-1, keepdim=True)
    above = number - 1 - arange(ordered.shape[-1], device=ordered.device)
    within = counted & (squares.cumsum(-1) + squares * above <= budget * number)
    return ordered.where(within, 0.0).amax(-1)


def within_budget(squares: Tensor, budget: float) -> Tensor:
    """Whether a number is among as many of a replica's smallest as have a mean of at most ``budget``; inf never is."""
    flat = squares.flatten(-3)
    ordered, order = flat.sort(dim=-1, stable=True)
    numbers = arange(1, flat.shape[-1] + 1, device=flat.device, dtype=flat.dtype)
    enough = (ordered.cumsum(-1) <= budget * numbers).sum(-1, keepdim=True)
    return (order.argsort(dim=-1) < enough).view_as(squares)


FUNCTIONS = {"ipo_prime_rl": ipo_prime_rl, "m2po": m2po, "m2po_clipped": m2po_clipped}
