"""What counts of a group: its best, its successes, how many of k are right, or weights of what is imitated."""

from __future__ import annotations

from math import inf

from torch import Tensor, full_like, ones_like

from rlexp.axes.norm.group import local
from rlexp.core.facts import NormFacts
from rlexp.core.masked import (
    GROUP,
    count,
    masked_extreme,
    masked_std,
)
from rlexp.core.registry import by_name
from rlexp.core.types import (
    CompletionMask,
    Ddof,
    FiniteNonNegative,
    Level,
    PerCompletion,
    Positive,
    PositiveInt,
)


def max_(rewards: PerCompletion, keep: CompletionMask) -> PerCompletion:
    """A = r where r is the group's largest reward, else 0; not centered.

    Source: CS336 lecture 17, ``compute_deltas(mode="max_rewards")``.
    """
    return rewards.where(rewards == masked_extreme(rewards, keep, GROUP, 1), 0.0)


@NormFacts(compares="group", laws=("scale",))
def grpo_passk(rewards: PerCompletion, keep: CompletionMask, *, eps: Positive, ddof: Ddof) -> PerCompletion:
    """A = (r_best − r_second) / (std_group + eps) for the one best completion, 0 for all others and on a tie.

    It is the leave-one-out advantage of the largest reward of the group. Source: arXiv 2503.19595; verl ``grpo_passk``
    (eps 1e-6, ddof 1), which refuses a group of one; here it has 0.
    """
    top = masked_extreme(rewards, keep, GROUP, 1)
    best = (rewards == top) & keep
    second = masked_extreme(rewards, keep & ~best, GROUP, 1)
    alone = best & (best.sum(-1, keepdim=True) == 1) & second.isfinite()
    return ((top - second) / (masked_std(rewards, keep, GROUP, ddof) + eps)).where(alone, 0.0)


@NormFacts(compares="group")
def pass_at_k(correct: PerCompletion, keep: CompletionMask, *, k: PositiveInt) -> PerCompletion:
    """Mean of (pass − p) / √(p (1 − p)) over all sets of k completions of the group that hold this one.

    pass is 1 if one of the set is correct, p its mean over all sets of k. In closed form p = 1 − C(w, k) / C(n, k) with
    w of n wrong, A = (1 − p) / σ where right and (1 − p − C(w − 1, k − 1) / C(n − 1, k − 1)) / σ where wrong.
    Source: pass@k training with analytical derivation (arXiv 2508.10751). 0 where p is 0 or 1, and in a group of fewer
    than k.
    """
    right = correct > 0
    total = count(keep, GROUP, correct.dtype)
    wrong = count(keep & ~right, GROUP, correct.dtype)
    fail = binomial_ratio(wrong, total, k)
    all_wrong = binomial_ratio(wrong - 1, total - 1, k - 1)
    deviation = (fail * (1 - fail)).sqrt()
    advantages = fail.where(right, fail - all_wrong) / deviation
    return advantages.where((deviation > 0) & (total >= k), 0.0)


def binomial_ratio(part: Tensor, whole: Tensor, k: int) -> Tensor:
    """C(part, k) / C(whole, k), 0 where part < k."""
    ratio = ones_like(whole)
    for i in range(k):
        ratio = ratio * (part - i).clamp(min=0) / (whole - i).clamp(min=1)
    return ratio


def w_reinforce(correct: PerCompletion, *, positive: FiniteNonNegative, negative: FiniteNonNegative) -> PerCompletion:
    """A = positive where the completion is correct, else −negative.

    Source: arXiv 2506.01347: learning from what is right only (PSR: 1, 0), from what is wrong only (NSR: 0, 1), and
    weighted REINFORCE (0.1, 1).
    """
    return full_like(correct, positive).where(correct > 0, -negative)


@NormFacts(laws=("group shift", "scale"))
def rwr(
    rewards: PerCompletion, keep: CompletionMask, *, beta: Positive, share: Level, eps: Positive, ddof: Ddof
) -> PerCompletion:
    """A = exp(z / beta) / Σ exp(z / beta) over the ``share`` of the group with the largest rewards, else 0.

    z is ``local``, so that beta has no unit. The share is max(1, ⌊share · n⌋) of n completions, and whatever has the
    same reward as the last of them. Source: reward-weighted regression (Peters and Schaal, 2007, with raw rewards).
    ``RewardWeightedRegression`` of a textbook chapter (S4 in docs/coverage.md) can take a share of 0 of n, an error.
    """
    scores = local(rewards, keep, eps=eps, ddof=ddof)
    most = (share * count(keep, GROUP, rewards.dtype) + 1e-6).floor().clamp(min=1).long()  # .1 · 30 is below 3
    last = rewards.where(keep, -inf).sort(-1, descending=True).values.gather(-1, most - 1)
    chosen = keep & (rewards >= last)
    powers = ((scores - masked_extreme(scores, keep, GROUP, 1)) / beta).where(chosen, -inf).exp()
    return powers / powers.sum(-1, keepdim=True).clamp(min=1)  # the largest is 1, unless there is none


@NormFacts(laws=("group shift", "scale"))
def best_of_n(rewards: PerCompletion, keep: CompletionMask) -> PerCompletion:
    """A = 1 for the group's largest reward, else 0; n of them that are equal have 1/n each.

    That is what one of them, drawn at random, has on average. Source: fine-tuning on the best of n samples (Stiennon
    et al., arXiv 2009.01325, has best of n; RAFT, arXiv 2304.06767, trains on it).
    """
    best = (keep & (rewards == masked_extreme(rewards, keep, GROUP, 1))).to(rewards.dtype)
    return best / best.sum(-1, keepdim=True).clamp(min=1)


FUNCTIONS = by_name(max_, grpo_passk, pass_at_k, w_reinforce, rwr, best_of_n)
