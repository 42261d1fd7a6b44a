"""Per-token penalty for leaving the reference: ``kl(log_probs, ref_log_probs, ...) -> penalties``, ``[*R P G T]``.

d = log π − log π_ref at the sampled token. What the *values* of an estimator k average to over tokens sampled from π,
and what its *gradient* follows when it is a loss, are two different things (arXiv 2510.01555, 2512.21852). Both are
stated for each, at one state with tokens from π, and tested exactly:

    as a loss        E_π[∇k], which is not ∇E_π[k]: the sampling has no gradient
    in the reward    E_π[k ∇log π] = ∇E_π[k] − E_π[∇k]; only k = k1 follows KL(π‖π_ref) there

A loss moves π at the states that were visited; in the reward the penalties of a completion are summed, so that a token
also answers for the states that it leads to. When updates have moved π away from π_old, which sampled, the statements
hold for the ``_corrected`` estimators, weighed by ρ = π / π_old of the token, and for the others no longer. In the
reward π is π_old: there a ``_corrected`` or ``_plus`` estimator is the plain one.

d of k3 and log ρ are bounded (``ratio``); k1, k2 and |d|, which exponentiate nothing, are not.
"""

from __future__ import annotations

from torch import Tensor, zeros_like

from rlexp.axes.offered import BOUND, LOG_PROBS, REFERENCE, TOKENS
from rlexp.axes.ratio import bounded, bounded_exp
from rlexp.core.facts import Facts
from rlexp.core.registry import by_name
from rlexp.core.types import PerReplica, PerToken, Positive

INSIDE = 20.0


@Facts(is_noop=True)
def none(log_probs: PerToken, ref_log_probs: PerToken) -> PerToken:
    """No penalty: zero everywhere."""
    return zeros_like(log_probs)


def k1(log_probs: PerToken, ref_log_probs: PerToken) -> PerToken:
    """k1 = d. Value: KL(π‖π_ref), unbiased. As a loss: exactly zero. In the reward: follows KL(π‖π_ref).

    Source: Schulman, "Approximating KL divergence" (2020). OpenRLHF and slime default; TRL ``RLOOTrainer`` puts it
    in the reward.
    """
    return log_probs - ref_log_probs


def k2(log_probs: PerToken, ref_log_probs: PerToken) -> PerToken:
    """k2 = d² / 2. Value: biased. As a loss: follows KL(π‖π_ref), exactly. In the reward: E[k2] − KL(π‖π_ref).

    Source: Schulman (2020). verl ``mse``/``k2``, OpenRLHF ``k2``; REINFORCE++ (arXiv 2501.03262) uses it in the loss.
    """
    return (log_probs - ref_log_probs).square() / 2


def k3(log_probs: PerToken, ref_log_probs: PerToken, log_ratio_bound: PerReplica) -> PerToken:
    """k3 = exp(−d) − 1 + d ≥ 0. Value: KL(π‖π_ref), unbiased. As a loss: follows KL(π_ref‖π), the other one.

    In the reward it follows KL(π‖π_ref) − KL(π_ref‖π), the second with the wrong sign.
    Source: Schulman (2020); GRPO (arXiv 2402.03300, eq. 4). TRL GRPO, open-instruct's default.
    """
    difference = bounded(log_probs - ref_log_probs, log_ratio_bound)
    return (-difference).exp() - 1 + difference


def low_var_kl(log_probs: PerToken, ref_log_probs: PerToken, *, bound: Positive) -> PerToken:
    """min(k3, ``bound``), of d in [−20, 20]: k3 whose tokens beyond the bound have no gradient.

    As a loss it follows KL(π_ref‖π) without the terms of those tokens: with bound 10, of π_ref / π above 13.4 or below
    1.7e-5. A token that π has all but given up, for which k3 pulls hardest, is then not pulled back at all.
    Source: verl ``low_var_kl`` (its other name, ``k3``, is the same), slime ``low_var_kl``, ROLL ``k3``; bound 10.
    """
    difference = (log_probs - ref_log_probs).clamp(-INSIDE, INSIDE)
    return ((-difference).exp() - 1 + difference).clamp(max=bound)


def abs_(log_probs: PerToken, ref_log_probs: PerToken) -> PerToken:
    """|d|. Value: biased, at least KL(π‖π_ref). As a loss: follows Σ |π − π_ref|, twice the total variation distance.

    Its slope in log π is ±1 however far the token has moved. Source: verl ``abs``, ROLL ``abs``.
    """
    return (log_probs - ref_log_probs).abs()


def k1_plus(log_probs: PerToken, ref_log_probs: PerToken) -> PerToken:
    """Value of k1, gradient of k2: both of KL(π‖π_ref). Source: verl ``kl+``/``k1+``, straight-through."""
    return straight_through(k1(log_probs, ref_log_probs), k2(log_probs, ref_log_probs))


def k3_plus(log_probs: PerToken, ref_log_probs: PerToken, log_ratio_bound: PerReplica) -> PerToken:
    """Value of k3, gradient of k2: both of KL(π‖π_ref). Source: verl ``k3+``, straight-through (its k3 is clamped)."""
    return straight_through(k3(log_probs, ref_log_probs, log_ratio_bound), k2(log_probs, ref_log_probs))


def k1_corrected(
    log_probs: PerToken, ref_log_probs: PerToken, old_log_probs: PerToken, log_ratio_bound: PerReplica
) -> PerToken:
    """ρ · k1 with the gradient through ρ. Value and gradient: those of KL(π‖π_ref), on- and off-policy.

    Source: open-instruct, KL estimator 3; the gradient is that of arXiv 2505.17508 (RPG).
    """
    return bounded_exp(log_probs - old_log_probs, log_ratio_bound) * k1(log_probs, ref_log_probs)


def k2_corrected(
    log_probs: PerToken, ref_log_probs: PerToken, old_log_probs: PerToken, log_ratio_bound: PerReplica
) -> PerToken:
    """ρ · k2 with ρ held fixed. Value: biased, as k2. As a loss: follows KL(π‖π_ref), on- and off-policy.

    With the gradient through ρ it would follow E[k2] instead. Source: arXiv 2510.01555 (k2 as loss, off-policy).
    """
    return bounded_exp(log_probs - old_log_probs, log_ratio_bound).detach() * k2(log_probs, ref_log_probs)


def k3_corrected(
    log_probs: PerToken, ref_log_probs: PerToken, old_log_probs: PerToken, log_ratio_bound: PerReplica
) -> PerToken:
    """ρ · k3 with the gradient through ρ. Value and gradient: those of KL(π‖π_ref), on- and off-policy.

    The gradient through ρ turns k3 round, on-policy too: without it the loss follows KL(π_ref‖π).
    Source: TRL ``use_bias_correction_kl``, after DeepSeek-V3.2; slime ``use_unbiased_kl``.
    """
    return bounded_exp(log_probs - old_log_probs, log_ratio_bound) * k3(log_probs, ref_log_probs, log_ratio_bound)


def k2_sampler(log_probs: PerToken, sampler_log_probs: PerToken) -> PerToken:
    """k2 with the policy that the token was drawn from for the reference: (log π − log π_sampler)² / 2.

    A pull back to where the rollout came from, over its inner steps and what ``sampler`` adds; as a loss it follows
    KL(π‖π_sampler) at tokens of π. In the reward it takes off what policy and sampler disagree about. Source: the
    regularizer of prime-rl's losses, without the ½ and with 1e-3, until #3586 of 2026-09-18.
    """
    return (log_probs - sampler_log_probs).square() / 2


def straight_through(value: Tensor, gradient: Tensor) -> Tensor:
    """Return the numbers of ``value`` with the gradient of ``gradient``."""
    return gradient - gradient.detach() + value.detach()


FUNCTIONS = by_name(
    none, k1, k2, k3, low_var_kl, abs_, k1_plus, k3_plus, k1_corrected, k2_corrected, k3_corrected, k2_sampler
)
# What there is in the loss and in the reward, where log_probs are old_log_probs.
INPUTS = TOKENS | REFERENCE | LOG_PROBS | BOUND
