"""The shapings once more, one number at a time: rewards, lengths, finished, drawn, hashed are arrays ``[P G]``."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np


def each(one, *arrays) -> np.ndarray:
    """Call ``one`` with the numbers of each completion."""
    shaped = np.empty(arrays[0].shape)
    for index in np.ndindex(*shaped.shape):
        shaped[index] = one(*(array[index].item() for array in arrays))
    return shaped


def none(rewards):
    """Rewards as they are."""
    return each(lambda r: r, rewards)


def overlong(rewards, lengths, *, cap, cache, factor):
    """DAPO, arXiv 2503.14476 eq. 13, three cases; TRL ``get_soft_overlong_punishment``."""

    def one(r, length):
        if length <= cap - cache:
            return r
        if length <= cap:
            return r + factor * (cap - cache - length) / cache
        return r - factor

    return each(one, rewards, lengths)


def overlong_quadratic(rewards, lengths, *, cap, cache, factor):
    """GRPO-TCR notebook, reflection 2: the middle case squared."""

    def one(r, length):
        if length <= cap - cache:
            return r
        return r - factor * (min(length, cap) - cap + cache) ** 2 / cache**2

    return each(one, rewards, lengths)


def truncated(rewards, finished, *, scale, penalty):
    """understand-r1-zero (reward 0 without end token), OpenRLHF ``stop_properly_penalty_coef``."""
    return each(lambda r, ended: r if ended else scale * r - penalty, rewards, finished)


def length_by_pass_rate(rewards, lengths, *, weight):
    """prime-rl ``num_output_tokens_weight * pass_rate * (output / output.max())`` of each group; NaN is no reward."""
    found = rewards.copy()
    for prompt, group in enumerate(rewards):
        there = [g for g, reward in enumerate(group) if not np.isnan(reward)]
        rate = sum(group[g] for g in there) / max(len(there), 1)
        for g in there:
            found[prompt, g] -= weight * rate * lengths[prompt, g] / max(lengths[prompt, each] for each in there)
    return found


def length_cost(rewards, lengths, *, cost):
    """A constant cost a token."""
    return each(lambda r, length: r - sum(cost for _ in range(int(length))), rewards, lengths)


def affine(rewards, *, a, b):
    """a · r + b."""
    return each(lambda r: a * r + b, rewards)


def clip(rewards, *, low, high):
    """DQN, Mnih et al. (2015)."""
    return each(lambda r: low if r < low else high if r > high else r, rewards)


def noise(rewards, drawn, *, std):
    """Inverse of the distribution function, by Python's algorithm (Wichura, AS241)."""
    return each(lambda r, u: r + std * NormalDist().inv_cdf(max(u, 2**-25)), rewards, drawn)


def flips(rewards, drawn, *, low, high, false_positives, false_negatives):
    """arXiv 2510.00915: a wrong verdict with a probability that depends on what the right one is."""

    def one(r, u):
        if math.isnan(r):
            return r
        if r > (low + high) / 2:
            return low if u < false_negatives else r
        return high if u < false_positives else r

    return each(one, rewards, drawn)


FUNCTIONS = {
    "none": none,
    "overlong": overlong,
    "overlong_quadratic": overlong_quadratic,
    "truncated": truncated,
    "length_by_pass_rate": length_by_pass_rate,
    "length_cost": length_cost,
    "affine": affine,
    "clip": clip,
    "noise": noise,
    "noise_persistent": noise,
    "flips": flips,
    "flips_persistent": flips,
}
