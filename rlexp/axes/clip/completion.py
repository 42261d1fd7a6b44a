"""Policy losses of completions, one ratio or decision each.

ρ̄ = exp(mean_t log ρ) over the tokens that count, the
length-normalized ratio of the completion. A loss that is the same for all tokens of a completion weighs every
completion the same with ``agg=sequence``; with a mean or sum over tokens it weighs long completions more, with
``agg=sequence_sum`` on purpose (LUSPO).
"""

from __future__ import annotations

import math
from typing import Literal

from torch import full_like, minimum

from rlexp.axes.clip.ratio import ppo, unclipped
from rlexp.axes.ratio import bounded, bounded_exp
from rlexp.core.facts import LossFacts
from rlexp.core.masked import TIME, masked_mean, masked_sum
from rlexp.core.types import (
    FiniteNonNegative,
    NonNegative,
    PerReplica,
    PerToken,
    Positive,
    TokenMask,
)


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


@LossFacts(unit="completion", idle_on_policy=False, breaks=("policy gradient", "no advantage"))
def a2po(
    log_probs: PerToken,
    ref_log_probs: PerToken,
    advantages: PerToken,
    mask: TokenMask,
    *,
    beta: Positive,
) -> PerToken:
    """ℓ = (beta · Σ_t (log π − log π_ref) − A)²: the implicit reward is to be the advantage of the best policy.

    With A = r − V* of the same beta (``norm=a2po``) it is 0 for all completions at π ∝ π_ref · exp(r / beta), the best
    policy under KL to the reference, whoever sampled: no ratio, no clip. The gradient is that of REINFORCE with A less
    what the policy has already, times 2 · beta; Adam takes the factor out. Source: A*-PO (arXiv 2505.20686, stage 2)
    with 1e-3, far below the 0.5 of V*; its code, ZhaolinGao/A-PO c8823a3 (``compute_policy_loss``), and TRL's
    ``A2POTrainer``, which takes one completion a prompt. Of advantages that differ from token to token the mean of the
    completion is taken.
    """
    implicit = beta * masked_sum(log_probs - ref_log_probs, mask, TIME)
    return (implicit - masked_mean(advantages, mask, TIME)).square().expand(mask.shape)


@LossFacts(unit="completion")
def trm(
    log_probs: PerToken,
    old_log_probs: PerToken,
    advantages: PerToken,
    mask: TokenMask,
    log_ratio_bound: PerReplica,
    *,
    delta: NonNegative,
    over: Literal["max", "mean"],
) -> PerToken:
    """ℓ = −ρ · A, and 0 for a completion of which the largest, or the mean, D_t is above delta nats.

    D_t = ρ − 1 − log ρ, the estimate k3 of KL(π_old‖π) from the token that was drawn. Source: Trust Region Masking
    (arXiv 2512.23075), of which the summary was read; verl's ``rollout_rs`` has the same decisions, ``seq_max_k3`` and
    ``seq_mean_k3``, for the ratio of trainer to sampler. The tokens that are left out stay in the denominator.
    """
    log_ratio = bounded(log_probs.detach() - old_log_probs, log_ratio_bound)
    distance = (log_ratio.exp() - 1 - log_ratio).where(mask, 0.0)
    moved = distance.amax(-1, keepdim=True) if over == "max" else masked_mean(distance, mask, TIME)
    return unclipped(log_probs, old_log_probs, advantages, mask, log_ratio_bound).where(moved <= delta, 0.0)
