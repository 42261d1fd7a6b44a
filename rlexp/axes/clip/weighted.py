"""Policy losses −weight · A · log π of tokens, with a weight that carries no gradient.

Unlike a clipped ratio, a bounded weight keeps the gradient of every token, only smaller.
"""

from __future__ import annotations

from torch import Tensor

from rlexp.axes.ratio import bounded_exp
from rlexp.core.exact import sigmoid
from rlexp.core.facts import Curves, LossFacts, ordered
from rlexp.core.types import (
    FiniteNonNegative,
    NonNegative,
    PerReplica,
    PerToken,
    Positive,
    TokenMask,
)

OF_A_RARE_TOKEN = Curves("dppo: of a token whose probability was 0.1.")


@LossFacts(idle_on_policy=False)
def naive(log_probs: PerToken, old_log_probs: PerToken, advantages: PerToken, mask: TokenMask) -> PerToken:
    """ℓ = −A · log π: vanilla policy gradient, no correction for reused rollouts (Williams, 1992).

    GPG (arXiv 2504.02546) and verl ``gpg`` are this loss with advantages of their own; ROLL ``pg_variant=vanilla``.
    """
    return -advantages * log_probs


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


def rollout_is(
    log_probs: PerToken,
    sampler_log_probs: PerToken,
    advantages: PerToken,
    mask: TokenMask,
    log_ratio_bound: PerReplica,
    *,
    low: NonNegative,
    high: NonNegative,
) -> PerToken:
    """ℓ = −sg(ρ) · A · log π with ρ = π / π_sampler, and 0 outside 1 − low < ρ < 1 + high, whatever the sign of A.

    The ratio is to the policy that the token was drawn from, for old data and for another engine alike. Source: GLM-5
    (arXiv 2602.15763), as read in SkyRL a956457 (``rollout_is_policy_loss``), whose ε are ``eps_clip_low`` and
    ``eps_clip_high``. The tokens that are left out stay in the denominator.
    """
    ratio = bounded_exp(log_probs.detach() - sampler_log_probs, log_ratio_bound)
    inside = (ratio > 1 - low) & (ratio < 1 + high)
    return (-ratio * advantages * log_probs).where(inside, 0.0)
