"""Penalties for leaving the reference, one token at a time (Schulman 2020, with r = π_ref / π).

p, ref and q are log-probabilities under the policy, its reference and the policy that sampled. ``SLOPES`` are
derivatives in log π by hand, for those that stop a gradient, of which central differences know nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from reference_clip import bounded, ratio_of


def per_token(one: Callable[..., float]) -> Callable[..., np.ndarray]:
    """Let a function of log-probabilities, and of the bound if there is one, work on arrays, entry by entry."""

    def every(*given, **hyperparameters):
        log_probs, bound = [each for each in given if np.ndim(each)], [each for each in given if not np.ndim(each)]
        rows = zip(*(np.ravel(each) for each in log_probs), strict=True)
        return np.reshape([one(*row, *bound, **hyperparameters) for row in rows], np.shape(log_probs[0]))

    return every


def none(p, ref):
    """No penalty."""
    return 0.0


def k1(p, ref):
    """−log r."""
    return p - ref


def k2(p, ref):
    """(log r)² / 2."""
    return (ref - p) ** 2 / 2


def k3(p, ref, bound):
    """(r − 1) − log r; GRPO eq. 4, of a log-ratio within ±bound as in verl."""
    log_r = bounded(ref - p, -bound, bound)
    return (math.exp(log_r) - 1) - log_r


def low_var_kl(p, ref, *, bound):
    """k3 of a log-ratio of at most 20, itself at most ``bound``; verl."""
    return min(k3(p, ref, 20.0), bound)


def absolute(p, ref):
    """|log r|."""
    return abs(ref - p)


def k1_corrected(p, ref, q, bound):
    """p/q · k1; open-instruct."""
    return ratio_of(p - q, bound) * k1(p, ref)


def k2_corrected(p, ref, q, bound):
    """p/q · k2."""
    return ratio_of(p - q, bound) * k2(p, ref)


def k3_corrected(p, ref, q, bound):
    """p/q · k3; TRL."""
    return ratio_of(p - q, bound) * k3(p, ref, bound)


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


def slope_of_k2(p, ref, *bound):
    """d k2 / d log p = log p − log ref; verl's straight-through estimators have it whatever their value is."""
    return p - ref


def slope_of_k2_corrected(p, ref, q, bound):
    """The weight p/q is held fixed."""
    return ratio_of(p - q, bound) * (p - ref)


SLOPES = {
    "k1_plus": per_token(slope_of_k2),
    "k3_plus": per_token(slope_of_k2),
    "k2_corrected": per_token(slope_of_k2_corrected),
}
