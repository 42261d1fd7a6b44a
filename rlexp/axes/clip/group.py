"""Losses of a whole group of completions, and over its pairs; the interface is in ``clip``.

L of a group is a function of the log-probabilities of its n completions that count: those in the statistics of ``norm``
that have tokens in the loss. Each of them carries L · G / n on all of its tokens, so that ``agg=sequence`` gives the
mean of L over groups. Sums over tokens, Σ_t log ρ, are logarithms of the ratio of a completion. Of advantages that
differ from token to token the mean of the completion is taken.

**Over the pairs of a group** (``dpo``, ``ipo``) rewards only rank its completions. Δ = Σ_t (log π − log π_ref) is
summed over the tokens of a completion that count: not their mean, which some code takes. A pair is a preferred one w
and another one l of its group with r_w > r_l, both of which count: all such pairs, or the first of the largest reward
with the first of the smallest (``pairs``). Each completion carries the mean over the pairs of its group on all of its
tokens, 0 where the group has none, so that ``agg=sequence`` gives the mean over groups. Advantages and old
log-probabilities are not looked at, so that pairs can be of any age.
"""

from __future__ import annotations

from typing import Annotated, Literal

import torch
import torch.nn.functional as F
from annotated_types import Ge, Lt
from torch import Tensor

from rlexp.core.facts import LossFacts
from rlexp.core.masked import ALL, GROUP, TIME, count, masked_extreme, masked_mean, masked_sum
from rlexp.core.registry import by_name
from rlexp.core.types import CompletionMask, PerCompletion, PerReplica, PerToken, Positive, TokenMask

PAIRS = (-1, -2)
Smoothing = Annotated[float, Ge(0), Lt(0.5)]
Pairs = Literal["all", "best_worst"]
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
    return F.log_softmax(torch.stack([x, torch.zeros_like(x)], -1), -1)[..., 0]


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


OF_PAIRS = LossFacts(
    unit="completion",
    idle_on_policy=False,
    breaks=("policy gradient", "no advantage", "alone"),
    metrics={"pairs/margin": margin, "pairs/accuracy": accuracy, "pairs/groups": groups_with_pairs},
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


FUNCTIONS = by_name(gvpo, tpo, real, dpo, ipo)
