"""Norms of a group as a whole, or of which completions are correct, once more (see ``reference_norm``)."""

from __future__ import annotations

import itertools
import math

from reference_loops import per_completion
from reference_norm import deviation, kept_of_group, mean


def norm_grpo_passk(rewards, keep, *, eps, ddof):
    """verl ``grpo_passk``: best minus second best, for the best alone."""

    def one(p, g):
        group = sorted(kept_of_group(rewards, keep, p))
        if len(group) < 2 or rewards[p][g] != group[-1] or group[-1] == group[-2]:
            return 0.0
        return (group[-1] - group[-2]) / (deviation(group, ddof) + eps)

    return per_completion(rewards.shape, one)


def norm_pass_at_k(correct, keep, *, k):
    """Pass@k training, arXiv 2508.10751, by going through all sets of k."""

    def one(p, g):
        members = [i for i in range(correct.shape[1]) if keep[p][i]]
        sets = [set(chosen) for chosen in itertools.combinations(members, k)]
        passes = [max(correct[p][i] for i in chosen) for chosen in sets]
        if not keep[p][g] or len(set(passes)) < 2:
            return 0.0
        with_this = [value for chosen, value in zip(sets, passes, strict=True) if g in chosen]
        return (mean(with_this) - mean(passes)) / deviation(passes, 0)

    return per_completion(correct.shape, one)


def norm_w_reinforce(correct, *, positive, negative):
    """arXiv 2506.01347: reinforce what is right by one weight, punish what is wrong by another."""
    return per_completion(correct.shape, lambda p, g: positive if correct[p][g] == 1 else -negative)


def norm_rwr(rewards, keep, *, beta, share, eps, ddof):
    """Reward-weighted regression: a softmax of z-scores over beta among the best of the group."""

    def one(p, g):
        group = sorted(kept_of_group(rewards, keep, p), reverse=True)
        if not keep[p][g]:
            return 0.0
        last = group[max(1, int(share * len(group))) - 1]
        unit = beta * ((deviation(group, ddof) if len(group) > ddof else 0.0) + eps)
        others = (math.exp((reward - rewards[p][g]) / unit) for reward in group if reward >= last)
        return 1 / sum(others) if rewards[p][g] >= last else 0.0

    return per_completion(rewards.shape, one)


def norm_best_of_n(rewards, keep):
    """The best of the group, or an equal part of each of those that are."""

    def one(p, g):
        group = kept_of_group(rewards, keep, p)
        best = [reward for reward in group if reward == max(group)]
        return 1 / len(best) if keep[p][g] and rewards[p][g] == best[0] else 0.0

    return per_completion(rewards.shape, one)


FUNCTIONS = {
    "grpo_passk": norm_grpo_passk,
    "pass_at_k": norm_pass_at_k,
    "w_reinforce": norm_w_reinforce,
    "rwr": norm_rwr,
    "best_of_n": norm_best_of_n,
}
