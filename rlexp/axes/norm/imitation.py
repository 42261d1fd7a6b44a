"""Norms that say how much of each completion is imitated: weights from 0 up, ``[*R P G]``; not centered.

They are meant for ``clip=naive``, whose loss is then a weighted cross-entropy on completions of the policy's own, or of
whoever wrote them (``data``). To imitate all that is correct is ``norm=psr``.
"""

from __future__ import annotations

from torch import inf

from rlexp.axes.norm.statistics import local
from rlexp.core.facts import NormFacts
from rlexp.core.masked import GROUP, count, masked_extreme
from rlexp.core.types import CompletionMask, Ddof, Level, PerCompletion, Positive


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


FUNCTIONS = {"rwr": rwr, "best_of_n": best_of_n}
