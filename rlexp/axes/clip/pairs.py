"""Policy losses over the pairs of a group: rewards only rank its completions.

 Δ = Σ_t (log π − log π_ref) is
summed over the tokens of a completion that count: not their mean, which some code takes. A pair is a preferred one w
and another one l of its group with r_w > r_l, both of which count: all such pairs, or the first of the largest reward
with the first of the smallest (``pairs``). Each completion carries the mean over the pairs of its group on all of its
tokens, 0 where the group has none, so that ``agg=sequence`` gives the mean over groups. Advantages and old
log-probabilities are not looked at, so that pairs can be of any age.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

import torch.nn.functional as F
from annotated_types import Ge, Lt
from torch import Tensor, stack, zeros_like

from rlexp.axes.clip.group import OF_A_GROUP
from rlexp.core.masked import ALL, GROUP, TIME, count, masked_extreme, masked_mean, masked_sum
from rlexp.core.types import (
    CompletionMask,
    PerCompletion,
    PerReplica,
    PerToken,
    Positive,
    TokenMask,
)

PAIRS = (-1, -2)
Smoothing = Annotated[float, Ge(0), Lt(0.5)]
Pairs = Literal["all", "best_worst"]


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
