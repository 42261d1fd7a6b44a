"""Policy losses of tokens whose gradient flows through ρ."""

from __future__ import annotations

from torch import full_like, minimum

from rlexp.axes.ratio import bounded_exp
from rlexp.core.exact import sigmoid
from rlexp.core.facts import Curves, LossFacts
from rlexp.core.types import (
    AboveOne,
    FiniteNonNegative,
    NonNegative,
    PerReplica,
    PerToken,
    Positive,
    TokenMask,
)


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


@LossFacts(breaks=("policy gradient",), idle_on_policy=False)
def wapo(
    log_probs: PerToken,
    old_log_probs: PerToken,
    advantages: PerToken,
    mask: TokenMask,
    log_ratio_bound: PerReplica,
    *,
    high: NonNegative,
) -> PerToken:
    """ℓ = −min(ρ, 1 + high) · A where A > 0, else 0: winners alone, by how far they are above their group.

    What is below the mean of its group still takes part in that mean, and only there. Source: Winner Advantage Policy
    Optimization (arXiv 2606.16154) and its code, layer6ai-labs/wapo ca70250 (``loss_type="wapo"``), with 9, A = r −
    mean of the group (``norm=center``) and the sum over G times the longest allowed completion (``agg=dr_grpo``), over
    the groups with a winner instead of all. ``norm=psr`` with a clip has one advantage for all that is correct.
    """
    ratio = bounded_exp(log_probs - old_log_probs, log_ratio_bound)
    return (-ratio.clamp(max=1 + high) * advantages).where(advantages > 0, 0.0)


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


def spo(
    log_probs: PerToken,
    old_log_probs: PerToken,
    advantages: PerToken,
    mask: TokenMask,
    log_ratio_bound: PerReplica,
    *,
    epsilon: Positive,
) -> PerToken:
    """ℓ = −ρ · A + |A| · (ρ − 1)² / (2 · epsilon): a parabola in ρ whose minimum is at ρ = 1 ± epsilon.

    Beyond it the gradient pulls back, where that of a clipped ratio is 0. Source: Simple Policy Optimization
    (arXiv 2401.16025); as a loss of language models the ``spo`` of DRPO's authors, with 12.5 (UniRL 1a7b501,
    ``drpo.py`` with ``penalty_mu_weighted=False``), proposed to TRL (#5027) and verl (#5252). Not ``norm=spo``.
    """
    ratio = bounded_exp(log_probs - old_log_probs, log_ratio_bound)
    return -ratio * advantages + advantages.abs() * (ratio - 1).square() / (2 * epsilon)


@LossFacts(curves=Curves("drpo: of a token whose probability was 0.1."))
def drpo(
    log_probs: PerToken,
    old_log_probs: PerToken,
    advantages: PerToken,
    mask: TokenMask,
    log_ratio_bound: PerReplica,
    *,
    epsilon: Positive,
) -> PerToken:
    """``spo`` with epsilon / π_old for epsilon: ℓ = −ρ · A + |A| · π_old · (ρ − 1)² / (2 · epsilon).

    The weight of a token's gradient is 1 − sign(A(ρ − 1)) · |π − π_old| / epsilon: ``dppo_tv`` without its edge, so
    that rare tokens have room. Source: "Rethinking the Divergence Regularization in LLM RL", the algorithm of UniRL
    1a7b501 (``_drpo_loss``), with 12.5; there π_old is the policy that sampled.
    """
    ratio = bounded_exp(log_probs - old_log_probs, log_ratio_bound)
    return -ratio * advantages + advantages.abs() * old_log_probs.exp() * (ratio - 1).square() / (2 * epsilon)
