"""The policy losses over pairs once more: one replica, one group and one pair at a time (see ``reference_clip``)."""

from __future__ import annotations

import math

import numpy as np
from reference_clip import tokens


def gain(log_probs, ref_log_probs, mask, p, g) -> float:
    """log of π(y) / π_ref(y) of a whole completion."""
    return sum(log_probs[p][g][t] - ref_log_probs[p][g][t] for t in tokens(mask, p, g))


def pairs_of_group(rewards, keep, mask, p, kind) -> list[tuple[int, int]]:
    """All (preferred, other) of a group; or the first best with the first worst."""
    members = [g for g in range(len(rewards[p])) if keep[p][g] and tokens(mask, p, g)]
    if kind == "all":
        return [(i, j) for i in members for j in members if rewards[p][i] > rewards[p][j]]
    if not members:
        return []
    best = max(members, key=lambda g: (rewards[p][g], -g))
    worst = min(members, key=lambda g: (rewards[p][g], g))
    return [(best, worst)] if rewards[p][best] > rewards[p][worst] else []


def over_pairs(loss_of_a_pair):
    """Return the loss of every token: the mean over the pairs of its group, 0 without any."""

    def loss(log_probs, ref_log_probs, rewards, keep, mask, *, pairs, **hyperparameters):
        filled = np.zeros(log_probs.shape)
        for p in range(len(log_probs)):
            found = [
                loss_of_a_pair(*(gain(log_probs, ref_log_probs, mask, p, g) for g in pair), **hyperparameters)
                for pair in pairs_of_group(rewards, keep, mask, p, pairs)
            ]
            filled[p] = sum(found) / max(len(found), 1)
        return filled

    loss.__name__ = loss_of_a_pair.__name__
    return loss


def dpo(better, worse, *, beta, label_smoothing):
    """DPO, arXiv 2305.18290 eq. 7: −log of the Bradley–Terry probability, some labels the wrong way round."""
    h = beta * (better - worse)
    return (1 - label_smoothing) * minus_log_logistic(h) + label_smoothing * minus_log_logistic(-h)


def minus_log_logistic(x: float) -> float:
    """log(1 + e^−x), whose power does not overflow."""
    return math.log1p(math.exp(-x)) if x > 0 else math.log1p(math.exp(x)) - x


def ipo(better, worse, *, tau):
    """IPO, arXiv 2310.12036 eq. 17: the distance of the margin from 1 / (2 tau), squared."""
    return (better - worse - 0.5 / tau) ** 2


CLIP = {"dpo": over_pairs(dpo), "ipo": over_pairs(ipo)}
