"""Policy losses of a whole group.

L of a group is a function of the log-probabilities of its n completions that count: those in the
statistics of ``norm`` that have tokens in the loss. Each of them carries L · G / n on all of its tokens, so that
``agg=sequence`` gives the mean of L over groups. Sums over tokens, Σ_t log ρ, are logarithms of the ratio of a
completion. Of advantages that differ from token to token the mean of the completion is taken.
"""

from __future__ import annotations

from torch import Tensor

from rlexp.axes.ratio import bounded_exp
from rlexp.core.facts import LossFacts
from rlexp.core.masked import GROUP, TIME, count, masked_extreme, masked_mean, masked_sum
from rlexp.core.types import (
    CompletionMask,
    PerReplica,
    PerToken,
    Positive,
    TokenMask,
)

OF_A_GROUP = LossFacts(unit="completion", idle_on_policy=False, breaks=("policy gradient", "no advantage", "alone"))


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


@OF_A_GROUP
def flowrl(
    log_probs: PerToken,
    ref_log_probs: PerToken,
    old_log_probs: PerToken,
    advantages: PerToken,
    mask: TokenMask,
    keep: CompletionMask,
    log_ratio_bound: PerReplica,
    *,
    beta: Positive,
    most: Positive,
) -> PerToken:
    """ℓ = sg(w) · (log Z + mean_t(log π − log π_ref) − beta · A)², w = min(Π_t ρ, most): rewards matched, not raised.

    At rest the mean log-ratio of a completion is beta · A − log Z, so that what is nearly as good stays nearly as
    likely. log Z is the number at which Σ w · (…)² of the group is smallest, without a gradient: what the network of
    the source, a function of the prompt that this very loss trains, is fitted to where each prompt has its own. It
    makes the loss a weighted variance over the group, and a baseline of the group changes nothing. Each token has its
    own gradient, 2w(…), which with ``agg=sequence`` is that of the mean over tokens. Source: FlowRL (arXiv
    2509.15207), as read in verl-recipe 48ea0a7 (``compute_flowrl`` in ``flowrl_actor.py``), with 15 and 10 and a mean
    over completions; there the reward is the advantage, too.
    """
    counted = completions_that_count(mask, keep)
    gains = masked_mean(log_probs.detach() - ref_log_probs, mask, TIME)
    implicit = (gains - beta * masked_mean(advantages, mask, TIME)).squeeze(-1)
    log_weights = masked_sum(log_probs.detach() - old_log_probs, mask, TIME)
    weights = bounded_exp(log_weights, log_ratio_bound).clamp(max=most).squeeze(-1)
    total = masked_sum(weights, counted, GROUP)
    log_z = -masked_sum(weights * implicit, counted, GROUP) / total.where(total > 0, 1.0)
    residuals = (log_z + implicit).unsqueeze(-1) + log_probs - log_probs.detach()
    return (weights.unsqueeze(-1) * residuals.square()).where(counted.unsqueeze(-1), 0.0)


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
