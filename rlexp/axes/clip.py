"""Policy loss: ``clip(log_probs, old_log_probs, advantages, mask, *, hyperparameters) -> losses``, all ``[*R P G T]``.

``log_probs`` carries the gradient; ``old_log_probs`` are those of the policy before the inner steps, fixed through
them. ρ = exp(log_probs − old_log_probs), never a quotient of log-probabilities; sg stops the gradient. Losses are to be
minimised; positions outside ``mask`` hold numbers without a path to the gradient and are dropped by ``agg``. What is
exponentiated, log ρ of a token or its mean over a completion, is within ±``log_ratio_bound``, 20 nats by default: verl
bounds most of its losses so, OpenRLHF its PPO loss, TRL none. Beyond the bound a ratio has no gradient.

At ρ = 1 the gradient of every choice that acts on advantages is that of −A log π, but for the tokens that ``clip_cov``
drops, for the gate of ``delightful`` and for the losses of a group.

**Of tokens**, a ratio ρ, a weight or a decision each: first those whose gradient flows through ρ. Then −weight · A ·
log π with a weight that carries no gradient: unlike a clipped ratio, a bounded weight keeps the gradient of every
token, only smaller. Then −ρ · A without the tokens that have moved too far. Last those that treat the few tokens apart
whose log-probability and advantage vary together most: their covariance drives the entropy down (arXiv 2505.22617).
cov = (A − mean A) · (log π − mean log π), means over all tokens of the minibatch that count: these losses depend on how
a rollout is split.

**Of completions**, one ratio or decision each: ρ̄ = exp(mean_t log ρ) over the tokens that count, the
length-normalized ratio of the completion. A loss that is the same for all tokens of a completion weighs every
completion the same with ``agg=sequence``; with a mean or sum over tokens it weighs long completions more, with
``agg=sequence_sum`` on purpose (LUSPO).

**Of a whole group**: L of a group is a function of the log-probabilities of its n completions that count: those in the
statistics of ``norm`` that have tokens in the loss. Each of them carries L · G / n on all of its tokens, so that
``agg=sequence`` gives the mean of L over groups. Sums over tokens, Σ_t log ρ, are logarithms of the ratio of a
completion. Of advantages that differ from token to token the mean of the completion is taken.

**Over the pairs of a group** (``dpo``, ``ipo``) rewards only rank its completions. Δ = Σ_t (log π − log π_ref) is
summed over the tokens of a completion that count: not their mean, which some code takes. A pair is a preferred one w
and another one l of its group with r_w > r_l, both of which count: all such pairs, or the first of the largest reward
with the first of the smallest (``pairs``). Each completion carries the mean over the pairs of its group on all of its
tokens, 0 where the group has none, so that ``agg=sequence`` gives the mean over groups. Advantages and old
log-probabilities are not looked at, so that pairs can be of any age.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Annotated, Literal

import torch.nn.functional as F
from annotated_types import Ge, Lt
from pydantic import FiniteFloat
from torch import Tensor, arange, full_like, minimum, stack, zeros_like

from rlexp.axes.offered import LOSS
from rlexp.axes.ratio import bounded, bounded_exp
from rlexp.core.exact import sigmoid
from rlexp.core.facts import Curves, LossFacts, ordered
from rlexp.core.masked import ALL, GROUP, TIME, count, masked_extreme, masked_mean, masked_sum
from rlexp.core.registry import Offer, by_name
from rlexp.core.types import (
    AboveOne,
    CompletionMask,
    FiniteNonNegative,
    NonNegative,
    PerCompletion,
    PerReplica,
    PerToken,
    Positive,
    TokenMask,
)

PAIRS = (-1, -2)
Smoothing = Annotated[float, Ge(0), Lt(0.5)]
Pairs = Literal["all", "best_worst"]
OF_A_GROUP = LossFacts(unit="completion", idle_on_policy=False, breaks=("policy gradient", "no advantage", "alone"))
OF_A_RARE_TOKEN = Curves("dppo: of a token whose probability was 0.1.")


@LossFacts(idle_on_policy=False)
def naive(log_probs: PerToken, old_log_probs: PerToken, advantages: PerToken, mask: TokenMask) -> PerToken:
    """ℓ = −A · log π: vanilla policy gradient, no correction for reused rollouts (Williams, 1992).

    GPG (arXiv 2504.02546) and verl ``gpg`` are this loss with advantages of their own; ROLL ``pg_variant=vanilla``.
    """
    return -advantages * log_probs


def unclipped(
    log_probs: PerToken, old_log_probs: PerToken, advantages: PerToken, mask: TokenMask, log_ratio_bound: PerReplica
) -> PerToken:
    """ℓ = −ρ · A: importance-weighted policy gradient without a trust region (PPO, arXiv 1707.06347, eq. 6)."""
    return -bounded_exp(log_probs - old_log_probs, log_ratio_bound) * advantages


def ppo(
    log_probs: PerToken,
    old_log_probs: PerToken,
    advantages: PerToken,
    mask: TokenMask,
    log_ratio_bound: PerReplica,
    *,
    low: NonNegative,
    high: NonNegative,
) -> PerToken:
    """ℓ = −min(ρ·A, clip(ρ, 1 − low, 1 + high)·A).

    Source: PPO (arXiv 1707.06347, eq. 7) with low = high; clip-higher of DAPO (arXiv 2503.14476, eq. 8) with
    high > low. TRL ``epsilon``/``epsilon_high``, verl ``clip_ratio_low``/``clip_ratio_high`` (which adds ``dual`` at 3,
    always on).
    """
    ratio = bounded_exp(log_probs - old_log_probs, log_ratio_bound)
    return -minimum(ratio * advantages, ratio.clamp(1 - low, 1 + high) * advantages)


@LossFacts(curves=Curves("scheduled: at the start and at the end.", {"start": 0.0, "end": 1.0}))
def scheduled(
    log_probs: PerToken,
    old_log_probs: PerToken,
    advantages: PerToken,
    mask: TokenMask,
    log_ratio_bound: PerReplica,
    progress: PerReplica,
    *,
    low: NonNegative,
    high: FiniteNonNegative,
    high_final: FiniteNonNegative,
) -> PerToken:
    """``ppo`` whose upper bound moves linearly from 1 + high to 1 + high_final over the run.

    ``progress`` is the share of the run's updates that are done. Source: the Binary RL notebook's first challenge,
    where the bound decays; no framework ships it.
    """
    ratio = bounded_exp(log_probs - old_log_probs, log_ratio_bound)
    upper = (1 + high + (high_final - high) * progress)[..., None, None, None]
    return -minimum(ratio * advantages, ratio.clamp(full_like(upper, 1 - low), upper) * advantages)


def dual(
    log_probs: PerToken,
    old_log_probs: PerToken,
    advantages: PerToken,
    mask: TokenMask,
    log_ratio_bound: PerReplica,
    *,
    low: NonNegative,
    high: NonNegative,
    c: AboveOne,
) -> PerToken:
    """``ppo``, but for A < 0 at most −c·A: ℓ = min(−min(ρ·A, clip(ρ)·A), −c·A), so that ρ > c has no gradient.

    Source: dual-clip PPO (arXiv 1912.09729, eq. 5). verl ``clip_ratio_c``, always on with 3; slime ``--eps-clip-c``;
    OpenRLHF ``--actor.dual_clip``; ROLL ``dual_clip_loss`` with c = 1 + 2 · ``pg_clip``, no hyperparameter.
    """
    losses = ppo(log_probs, old_log_probs, advantages, mask, log_ratio_bound, low=low, high=high)
    return minimum(losses, -c * advantages).where(advantages < 0, losses)


def two_sided(
    log_probs: PerToken,
    old_log_probs: PerToken,
    advantages: PerToken,
    mask: TokenMask,
    log_ratio_bound: PerReplica,
    *,
    low: NonNegative,
    high: NonNegative,
    delta: AboveOne,
) -> PerToken:
    """ℓ = −min(min(ρ, delta)·A, clip(ρ, 1 − low, 1 + high)·A): ``dual`` with c = delta, if delta ≥ 1 + high.

    Source: INTELLECT-2 (arXiv 2505.07291), with 4. TRL ``delta``.
    """
    ratio = bounded_exp(log_probs - old_log_probs, log_ratio_bound)
    return -minimum(ratio.clamp(max=delta) * advantages, ratio.clamp(1 - low, 1 + high) * advantages)


def sapo(
    log_probs: PerToken,
    old_log_probs: PerToken,
    advantages: PerToken,
    mask: TokenMask,
    log_ratio_bound: PerReplica,
    *,
    tau_positive: Positive,
    tau_negative: Positive,
) -> PerToken:
    """ℓ = −(4/τ) σ(τ(ρ − 1)) · A with τ = tau_positive where A > 0, else tau_negative: a soft gate, no bound.

    The gradient is that of PPO times 4 σ (1 − σ), which is 1 at ρ = 1 and falls on both sides. Source: SAPO
    (arXiv 2511.20347). TRL ``loss_type="sapo"`` and verl ``sapo``, both with ``agg=sequence``.
    """
    ratio = bounded_exp(log_probs - old_log_probs, log_ratio_bound)
    tau = full_like(advantages, tau_negative).masked_fill(advantages > 0, tau_positive)
    return -4 / tau * sigmoid(tau * (ratio - 1)) * advantages


@LossFacts(problems=(ordered("lower", "upper"),))
def cispo(
    log_probs: PerToken,
    old_log_probs: PerToken,
    advantages: PerToken,
    mask: TokenMask,
    log_ratio_bound: PerReplica,
    *,
    lower: NonNegative,
    upper: Positive,
) -> PerToken:
    """ℓ = −sg(clip(ρ, lower, upper)) · A · log π; both bounds are ratios themselves, not distances from 1.

    Source: CISPO (MiniMax-M1, arXiv 2506.13585), which has no lower bound in use. TRL ``loss_type="cispo"``:
    lower = 0, upper = ``epsilon_high`` (absolute; unset it is 0.2, so that every weight is at most 0.2). verl: 1 −
    ``clip_ratio_low``, 1 + ``clip_ratio_high``. open-instruct: 0 and 1 + ε. ROLL's ``tis``: 0 and 1.
    """
    weights = bounded_exp(log_probs.detach() - old_log_probs, log_ratio_bound).clamp(lower, upper)
    return -weights * advantages * log_probs


def topr(
    log_probs: PerToken, old_log_probs: PerToken, advantages: PerToken, mask: TokenMask, log_ratio_bound: PerReplica
) -> PerToken:
    """ℓ = −A log π where A > 0, else −sg(min(ρ, 1)) · A · log π: only what went wrong is weighted.

    Source: TOPR (arXiv 2503.14286). There, and in ROLL ``topr``, the sign is that of the reward; here that of the
    advantage.
    """
    weights = bounded_exp(log_probs.detach() - old_log_probs, log_ratio_bound).clamp(max=1)
    return -weights.masked_fill(advantages > 0, 1.0) * advantages * log_probs


@LossFacts(curves=OF_A_RARE_TOKEN)
def dppo_tv(
    log_probs: PerToken,
    old_log_probs: PerToken,
    advantages: PerToken,
    mask: TokenMask,
    log_ratio_bound: PerReplica,
    *,
    low: NonNegative,
    high: NonNegative,
    upper: Positive,
) -> PerToken:
    """ℓ = −sg(min(ρ, upper)) · A · log π, and 0 where the probability has moved too far in the direction of A.

    Too far: π − π_old > high for A > 0, < −low otherwise; π and π_old are probabilities of the token, so that rare
    tokens have room. Source: DPPO-Binary-TV (arXiv 2602.04879); verl ``dppo_tv``, whose config supplies upper = 3 where
    20 is meant. prime-rl's default loss until 2026-08 had this mask with the gradient through ρ, unbounded.
    """
    moved = log_probs.detach().exp() - old_log_probs.exp()
    keep = (moved <= high).where(advantages > 0, moved >= -low)
    return bounded_weight(log_probs, old_log_probs, advantages, keep, upper, log_ratio_bound)


@LossFacts(curves=OF_A_RARE_TOKEN)
def dppo_kl(
    log_probs: PerToken,
    old_log_probs: PerToken,
    advantages: PerToken,
    mask: TokenMask,
    log_ratio_bound: PerReplica,
    *,
    low: NonNegative,
    high: NonNegative,
    upper: Positive,
) -> PerToken:
    """``dppo_tv`` with KL(π_old‖π) between "this token" and "any other" as the distance, in nats.

    Too far: more than high for A > 0 and π > π_old, more than low for A ≤ 0 and π < π_old. 1e-8 is added to the
    probabilities of "any other", as in verl ``dppo_kl``. Source: DPPO-Binary-KL (arXiv 2602.04879).
    """
    new, old = log_probs.detach(), old_log_probs
    others = ((1 - old.exp() + 1e-8) / (1 - new.exp() + 1e-8)).log()
    divergence = old.exp() * (old - new) + (1 - old.exp()) * others
    keep = ((divergence <= high) | (new <= old)).where(advantages > 0, (divergence <= low) | (new >= old))
    return bounded_weight(log_probs, old_log_probs, advantages, keep, upper, log_ratio_bound)


def bounded_weight(
    log_probs: Tensor,
    old_log_probs: Tensor,
    advantages: Tensor,
    keep: Tensor,
    upper: float,
    log_ratio_bound: PerReplica,
) -> Tensor:
    """Return −sg(min(ρ, upper)) · A · log π where ``keep`` holds, else 0."""
    weights = bounded_exp(log_probs.detach() - old_log_probs, log_ratio_bound).clamp(max=upper)
    return (-weights * advantages * log_probs).where(keep, 0.0)


@LossFacts(breaks=("no advantage",))
def dro(
    log_probs: PerToken, old_log_probs: PerToken, advantages: PerToken, mask: TokenMask, *, beta: FiniteNonNegative
) -> PerToken:
    """ℓ = −A · log π + beta/2 · (log ρ)²: no ratio, a quadratic pull to the old policy instead of a bound.

    Source: DRO (arXiv 2405.19107) and Kimi k1.5 (arXiv 2501.12599). verl ``dro``; ROLL ``kimi15`` with
    beta = ``tau`` = 0.1.
    """
    return -advantages * log_probs + beta / 2 * (log_probs - old_log_probs).square()


@LossFacts(
    breaks=("policy gradient",),
    idle_on_policy=False,
    curves=Curves("delightful: of a token whose probability was 0.1."),
)
def delightful(
    log_probs: PerToken, old_log_probs: PerToken, advantages: PerToken, mask: TokenMask, *, eta: Positive
) -> PerToken:
    """ℓ = −sg(σ(A · s / eta)) · A · log π with s = −log π, the surprisal of the token: a gate, and no ratio.

    The weight is ½ where a token is certain or has no advantage, nearer to 1 for a rare token with A > 0 and nearer to
    0 for a rare one with A < 0. So it acts on-policy too, and in other units of A it is another gate. Source:
    Delightful Policy Gradient (arXiv 2603.14608); it and a second paper (arXiv 2603.20521) take the surprisal of the
    policy that is trained, also on older completions. eta 1 is the default of public code written after the paper.
    """
    weights = sigmoid(-advantages * log_probs.detach() / eta)
    return -weights * advantages * log_probs


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


@LossFacts(unit="completion")
def gspo(
    log_probs: PerToken,
    old_log_probs: PerToken,
    advantages: PerToken,
    mask: TokenMask,
    log_ratio_bound: PerReplica,
    *,
    low: NonNegative,
    high: NonNegative,
) -> PerToken:
    """ℓ = −min(ρ̄·A, clip(ρ̄, 1 − low, 1 + high)·A), the gradient through ρ̄.

    Source: GSPO (arXiv 2507.18071, eq. 5), with 3e-4 and 4e-4. TRL ``importance_sampling_level="sequence"``, OpenRLHF
    and slime ``gspo``; their ε stays 0.2. verl ``gspo`` is ``gspo_token``. OpenRLHF's takes the ratio to the sampler
    as soon as its correction of the mismatch is on.
    """
    ratio = bounded_exp(masked_mean(log_probs - old_log_probs, mask, TIME), log_ratio_bound)
    return -minimum(ratio * advantages, ratio.clamp(1 - low, 1 + high) * advantages)


@LossFacts(unit="completion")
def gspo_token(
    log_probs: PerToken,
    old_log_probs: PerToken,
    advantages: PerToken,
    mask: TokenMask,
    log_ratio_bound: PerReplica,
    *,
    low: NonNegative,
    high: NonNegative,
) -> PerToken:
    """``gspo`` with the ratio sg(ρ̄) · π / sg(π): each token's gradient is its own, so that advantages can be too.

    The value is that of ``gspo``. So is the gradient, with ``agg=sequence`` and one advantage and one ``mismatch``
    weight a completion. Source: GSPO (arXiv 2507.18071, eq. 13-14). verl ``gspo``, which bounds log ρ̄ at 10 and takes
    no other ``agg``.
    """
    sequence = masked_mean(log_probs.detach() - old_log_probs, mask, TIME)
    ratio = bounded_exp(log_probs - log_probs.detach() + sequence, log_ratio_bound)
    return -minimum(ratio * advantages, ratio.clamp(1 - low, 1 + high) * advantages)


@LossFacts(unit="completion")
def gmpo(
    log_probs: PerToken,
    old_log_probs: PerToken,
    advantages: PerToken,
    mask: TokenMask,
    log_ratio_bound: PerReplica,
    *,
    low: NonNegative,
    high: NonNegative,
) -> PerToken:
    """ℓ = −A · exp(mean_t of log ρ, at most high where A > 0, at least −low where not): bounds are log-ratios.

    A token beyond its bound adds a constant to the mean and has no gradient. Source: GMPO (arXiv 2507.20673), with 0.4.
    TRL's experimental ``GMPOTrainer``, whose loss has ``agg=sequence``; verl ``geo_mean``, a plain mean over the
    completions of each micro-batch, where a ``mismatch`` by token becomes its geometric mean.
    """
    log_ratio = log_probs - old_log_probs
    bounded = log_ratio.clamp(max=high).where(advantages > 0, log_ratio.clamp(min=-low))
    return -bounded_exp(masked_mean(bounded, mask, TIME), log_ratio_bound) * advantages


def vespo(
    log_probs: PerToken,
    old_log_probs: PerToken,
    advantages: PerToken,
    mask: TokenMask,
    *,
    k_positive: FiniteNonNegative,
    lambda_positive: Positive,
    k_negative: FiniteNonNegative,
    lambda_negative: Positive,
) -> PerToken:
    """ℓ = −sg(W^k · exp(λ(1 − W))) · A · log π with W = exp(Σ_t log ρ), the ratio of the whole completion.

    k and λ are the positive ones where A ≥ 0. The weight is 1 at W = 1 and falls to 0 on both sides. log ρ is bounded
    at ±20 and W to [1e-8, e²⁰]. Source: VESPO (arXiv 2602.10693); TRL ``loss_type="vespo"``, with ``agg=token``. TRL
    multiplies W by the ratio between trainer and sampler; here ``mismatch`` multiplies the loss.
    """
    log_ratio = masked_sum((log_probs.detach() - old_log_probs).clamp(-20, 20), mask, TIME)
    log_ratio = log_ratio.clamp(math.log(1e-8), 20)
    positive = advantages >= 0
    k = full_like(advantages, k_negative).masked_fill(positive, k_positive)
    rate = full_like(advantages, lambda_negative).masked_fill(positive, lambda_positive)
    weights = (rate + k * log_ratio - rate * log_ratio.exp()).exp()
    return -weights * advantages * log_probs


def opsm(
    log_probs: PerToken,
    old_log_probs: PerToken,
    advantages: PerToken,
    mask: TokenMask,
    log_ratio_bound: PerReplica,
    *,
    low: NonNegative,
    high: NonNegative,
    delta: NonNegative,
) -> PerToken:
    """``ppo``, and 0 for a completion with A < 0 that has become unlikely: mean_t (log π_old − log π) > delta nats.

    Source: off-policy sequence masking of DeepSeek-V3.2 (arXiv 2512.02556, eq. 9). TRL ``off_policy_mask_threshold``
    (against the sampler's log-probs, if it has them); slime ``--use-opsm`` with 1e-4. The tokens stay in the
    denominator.
    """
    losses = ppo(log_probs, old_log_probs, advantages, mask, log_ratio_bound, low=low, high=high)
    drift = masked_mean(old_log_probs - log_probs.detach(), mask, TIME)
    return losses.where((advantages >= 0) | (drift <= delta), 0.0)


@OF_A_GROUP
def gvpo(
    log_probs: PerToken,
    old_log_probs: PerToken,
    advantages: PerToken,
    mask: TokenMask,
    keep: CompletionMask,
    *,
    beta: Positive,
) -> PerToken:
    """L = ½ · variance over the group, of n − 1, of beta · Σ_t log ρ − A.

    It is 0 where implicit rewards, beta · Σ_t log ρ, differ within the group as the advantages do, whatever the policy
    that sampled. A baseline of the group changes nothing: with ``norm=center`` and ``norm=none`` alike this is
    Σ [(beta · Σ_t log ρ − mean) − (r − mean)]² / 2(n − 1). Source: GVPO (arXiv 2504.19599) and its code, jszkc/GVPO
    627aa25 of 2025-10-27, with 0.1; there π_old is the policy that sampled too.
    """
    counted = completions_that_count(mask, keep)
    residuals = beta * masked_sum(log_probs - old_log_probs, mask, TIME) - masked_mean(advantages, mask, TIME)
    residuals = residuals.squeeze(-1)
    deviations = residuals - masked_mean(residuals, counted, GROUP)
    freedom = (count(counted, GROUP, residuals.dtype) - 1).clamp(min=1)
    return on_every_token(masked_sum(deviations.square(), counted, GROUP) / freedom / 2, counted, mask)


@OF_A_GROUP
def tpo(
    log_probs: PerToken,
    old_log_probs: PerToken,
    advantages: PerToken,
    mask: TokenMask,
    keep: CompletionMask,
    *,
    eta: Positive,
) -> PerToken:
    """L = −Σ_i q_i log p_i, q_i ∝ p_old,i · exp(A_i / eta): cross-entropy to a target over the group.

    p and p_old are the probabilities of the completions, Π_t π and Π_t π_old, each over its sum in the group; q stays
    what it is through the inner steps. The gradient in a completion's log-probability is p − q, 0 once the target is
    reached. Advantages are to be standardized rewards: ``norm=local``, there with ddof 0. Source: TPO (arXiv
    2604.06159, eq. 1-3) and its code, JeanKaddour/tpo 73473b9 of 2026-04-18, with 1.
    """
    counted = completions_that_count(mask, keep)
    old, scores = (masked_sum(each, mask, TIME).squeeze(-1) for each in (old_log_probs, log_probs))
    target = log_shares(old + masked_mean(advantages, mask, TIME).squeeze(-1) / eta, counted).exp()
    return on_every_token(-masked_sum(target * log_shares(scores, counted), counted, GROUP), counted, mask)


@OF_A_GROUP
def real(
    log_probs: PerToken,
    old_log_probs: PerToken,
    advantages: PerToken,
    mask: TokenMask,
    keep: CompletionMask,
    *,
    tau: Positive,
) -> PerToken:
    """L = log(1 + Σ₊ exp(−s/tau)) + log(1 + Σ₋ exp(s/tau)), s = mean_t log ρ; 0 for a group without both signs.

    + are the completions with A > 0, − the others: rewards are labels, and how large they are changes nothing. Source:
    REAL (arXiv 2602.05630) and its code, Red-RL/REAL 1c30726 of 2026-02-09, with 0.5, where + is reward 1 and − is
    reward 0; ms-swift ``loss_type=real`` takes the signs of the advantages, as here.
    """
    counted = completions_that_count(mask, keep)
    scores = masked_mean(log_probs - old_log_probs, mask, TIME).squeeze(-1) / tau
    better = counted & (masked_mean(advantages, mask, TIME).squeeze(-1) > 0)
    worse = counted & ~better
    both = better.any(-1, keepdim=True) & worse.any(-1, keepdim=True)
    losses = log_one_plus_sum(-scores, better) + log_one_plus_sum(scores, worse)
    return on_every_token(losses.where(both, 0.0), counted, mask)


def completions_that_count(mask: Tensor, keep: Tensor) -> Tensor:
    """Whether a completion is in the statistics and has tokens in the loss, ``[*R P G]``."""
    return keep & mask.any(-1)


def on_every_token(losses: Tensor, counted: Tensor, mask: Tensor) -> Tensor:
    """Losses of groups ``[*R P 1]`` for every token, ``[*R P G T]``: what ``agg=sequence`` averages is their mean."""
    numbers = count(counted, GROUP, losses.dtype).clamp(min=1)
    return (losses * mask.shape[-2] / numbers).where(counted, 0.0).unsqueeze(-1).expand(mask.shape)


def log_shares(scores: Tensor, counted: Tensor) -> Tensor:
    """Logarithm of exp(score) / Σ exp(score) over the group; numbers of no meaning where nothing counts."""
    some = counted.any(-1, keepdim=True)
    largest = masked_extreme(scores.detach(), counted, GROUP, 1).where(some, 0.0)
    shifted = (scores - largest).where(counted, 0.0)
    return shifted - masked_sum(shifted.exp(), counted, GROUP).where(some, 1.0).log()


def log_one_plus_sum(scores: Tensor, counted: Tensor) -> Tensor:
    """Return log(1 + Σ exp(score)) over those of the group that count, ``[*R P 1]``."""
    largest = masked_extreme(scores.detach(), counted, GROUP, 1).clamp(min=0)
    shifted = (scores - largest).where(counted, 0.0)
    return largest + ((-largest).exp() + masked_sum(shifted.exp(), counted, GROUP)).log()


def margins(log_probs: PerToken, ref_log_probs: PerToken, mask: TokenMask) -> Tensor:
    """Δ_i − Δ_j of completions i (rows) and j of a group, ``[*R P G G]``."""
    gains = masked_sum(log_probs - ref_log_probs, mask, TIME)
    return gains - gains.transpose(-1, -2)


def ranked(rewards: PerCompletion, keep: CompletionMask, mask: TokenMask, pairs: Pairs) -> Tensor:
    """Whether completion i (rows) is preferred to j, of those that count: r_i > r_j, ``[*R P G G]``."""
    better = worse = keep & mask.any(-1)
    if pairs == "best_worst":
        extremes = [better & (rewards == masked_extreme(rewards, better, GROUP, sign)) for sign in (1, -1)]
        better, worse = (extreme & (extreme.cumsum(-1) == 1) for extreme in extremes)  # the first of each
    return (rewards.unsqueeze(-1) > rewards.unsqueeze(-2)) & better.unsqueeze(-1) & worse.unsqueeze(-2)


def log_sigmoid(x: Tensor) -> Tensor:
    """log σ(x) through ``log_softmax``, which rounds the same wherever an element stands (``core.exact``)."""
    return F.log_softmax(stack([x, zeros_like(x)], -1), -1)[..., 0]


def margin(
    log_probs: PerToken,
    ref_log_probs: PerToken,
    rewards: PerCompletion,
    keep: CompletionMask,
    mask: TokenMask,
    *,
    pairs: Pairs,
) -> PerReplica:
    """Δ_w − Δ_l in nats, mean over all pairs of the minibatch; NaN where there is none."""
    return over_all_pairs(margins(log_probs, ref_log_probs, mask), ranked(rewards, keep, mask, pairs))


def accuracy(
    log_probs: PerToken,
    ref_log_probs: PerToken,
    rewards: PerCompletion,
    keep: CompletionMask,
    mask: TokenMask,
    *,
    pairs: Pairs,
) -> PerReplica:
    """Share of all pairs of the minibatch with Δ_w > Δ_l; NaN where there is none."""
    right = margins(log_probs, ref_log_probs, mask) > 0
    return over_all_pairs(right.to(log_probs.dtype), ranked(rewards, keep, mask, pairs))


def over_all_pairs(values: Tensor, chosen: Tensor) -> PerReplica:
    """Mean over the pairs of all groups, each the same weight, however many its group has."""
    total, number = masked_sum(values, chosen, ALL), count(chosen, ALL, values.dtype)
    return (total / number).squeeze(ALL)


def groups_with_pairs(rewards: PerCompletion, keep: CompletionMask, mask: TokenMask, *, pairs: Pairs) -> PerReplica:
    """Share of the minibatch's groups that have a pair."""
    return ranked(rewards, keep, mask, pairs).any(-1).any(-1).to(rewards.dtype).mean(-1)


OF_PAIRS = replace(
    OF_A_GROUP, metrics={"pairs/margin": margin, "pairs/accuracy": accuracy, "pairs/groups": groups_with_pairs}
)


@OF_PAIRS
def dpo(
    log_probs: PerToken,
    ref_log_probs: PerToken,
    rewards: PerCompletion,
    keep: CompletionMask,
    mask: TokenMask,
    *,
    beta: Positive,
    label_smoothing: Smoothing,
    pairs: Pairs,
) -> PerToken:
    """ℓ = −(1 − ε) log σ(h) − ε log σ(−h) with h = beta · (Δ_w − Δ_l), ε = label_smoothing, mean over pairs.

    ln 2 as long as π is the reference. A larger beta keeps the policy closer to it. Source: DPO (arXiv 2305.18290,
    eq. 7); ε > 0 is conservative DPO (Mitchell, 2023), for pairs of which a share ε is the wrong way round. TRL
    ``DPOTrainer`` with ``loss_type="sigmoid"``, whose mean is over pairs, so that groups with more of them weigh more;
    its ``label_smoothing`` does not enter that loss.
    """
    h = beta * margins(log_probs, ref_log_probs, mask)
    losses = (label_smoothing - 1) * log_sigmoid(h) - label_smoothing * log_sigmoid(-h)
    return masked_mean(losses, ranked(rewards, keep, mask, pairs), PAIRS).expand(mask.shape)


@OF_PAIRS
def ipo(
    log_probs: PerToken,
    ref_log_probs: PerToken,
    rewards: PerCompletion,
    keep: CompletionMask,
    mask: TokenMask,
    *,
    tau: Positive,
    pairs: Pairs,
) -> PerToken:
    """ℓ = (Δ_w − Δ_l − 1 / (2 tau))², mean over pairs: a margin to reach and to keep, not to widen without end.

    Source: IPO (arXiv 2310.12036, eq. 17). The target is 1 / (2 tau), not 1 / tau. TRL ``loss_type="ipo"`` with
    ``beta`` = tau divides each Δ by the number of tokens.
    """
    losses = (margins(log_probs, ref_log_probs, mask) - 1 / (2 * tau)).square()
    return masked_mean(losses, ranked(rewards, keep, mask, pairs), PAIRS).expand(mask.shape)


FUNCTIONS = by_name(naive, unclipped, ppo, scheduled, dual, two_sided, sapo)
FUNCTIONS |= by_name(cispo, topr, dppo_tv, dppo_kl, dro, delightful)
FUNCTIONS |= by_name(ipo_prime_rl, m2po, m2po_clipped, clip_cov, kl_cov)
FUNCTIONS |= by_name(gspo, gspo_token, gmpo, vespo, opsm, gvpo, tpo, real, dpo, ipo)
INPUTS = LOSS | {"uniforms": Offer(PerToken, "uniform in [0, 1), drawn anew at every update")}
