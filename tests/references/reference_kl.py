"""Penalties for leaving the reference, one token at a time (Schulman 2020, with r = π_ref / π).

p, ref and q are the probabilities under the policy, its reference and the policy that sampled. ``SLOPES`` are
derivatives in log π by hand, for those that stop a gradient, of which central differences know nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np


def per_token(one: Callable[..., float]) -> Callable[..., np.ndarray]:
    """Let a function of probabilities work on arrays of log-probabilities, entry by entry."""

    def every(*log_probs, **knobs):
        rows = zip(*(np.ravel(each) for each in log_probs), strict=True)
        return np.reshape([one(*map(math.exp, row), **knobs) for row in rows], np.shape(log_probs[0]))

    return every


def none(p, ref):
    """No penalty."""
    return 0.0


def k1(p, ref):
    """−log r."""
    return -math.log(ref / p)


def k2(p, ref):
    """(log r)² / 2."""
    return math.log(ref / p) ** 2 / 2


def k3(p, ref):
    """(r − 1) − log r; GRPO eq. 4."""
    return (ref / p - 1) - math.log(ref / p)


def low_var_kl(p, ref, *, bound):
    """k3 of a log-ratio of at most 20, itself at most ``bound``; verl."""
    log_r = max(-20.0, min(20.0, math.log(ref / p)))
    return min(math.exp(log_r) - 1 - log_r, bound)


def absolute(p, ref):
    """|log r|."""
    return abs(math.log(ref / p))


def k1_corrected(p, ref, q):
    """p/q · k1; open-instruct."""
    return p / q * math.log(p / ref)


def k2_corrected(p, ref, q):
    """p/q · k2."""
    return p / q * k2(p, ref)


def k3_corrected(p, ref, q):
    """p/q · k3 = (ref − p + p log(p / ref)) / q; TRL."""
    return (ref - p + p * math.log(p / ref)) / q


VALUES = {
    "none": per_token(none),
    "k1": per_token(k1),
    "k2": per_token(k2),
    "k3": per_token(k3),
    "low_var_kl": per_token(low_var_kl),
    "abs": per_token(absolute),
    "k1_plus": per_token(k1),
    "k3_plus": per_token(k3),
    "k1_corrected": per_token(k1_corrected),
    "k2_corrected": per_token(k2_corrected),
    "k3_corrected": per_token(k3_corrected),
    "k2_sampler": per_token(k2),
}


def slope_of_k2(p, ref):
    """d k2 / d log p = log p − log ref; verl's straight-through estimators have it whatever their value is."""
    return math.log(p / ref)


def slope_of_k2_corrected(p, ref, q):
    """The weight p/q is held fixed."""
    return p / q * math.log(p / ref)


SLOPES = {
    "k1_plus": per_token(slope_of_k2),
    "k3_plus": per_token(slope_of_k2),
    "k2_corrected": per_token(slope_of_k2_corrected),
}
