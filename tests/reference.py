"""The axis functions once more, from the papers and frameworks, one number at a time in float64.

Plain loops over one replica: rewards, keep, lengths, finished are ``[P G]``; log-probs, losses, mask ``[P G T]``.
Nothing here imports torch or rlexp. The tables at the end are keyed by axis and by the ``name`` in the YAML;
``gradient`` differentiates any of it by central differences.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import reference_filter
import reference_shaping
from reference_agg import AGG
from reference_clip import CLIP, SLOPES
from reference_mismatch import MISMATCH, SAMPLER

# Step of the central differences: error of order STEP² from the curve and 1e-16/STEP from rounding, both below 1e-9
# for the numbers of order one that the tests feed in.
STEP = 1e-6


def per_completion(shape: tuple[int, ...], value: Callable) -> np.ndarray:
    """Fill an array by calling ``value`` with each index."""
    filled = np.empty(shape)
    for index in np.ndindex(*shape):
        filled[index] = value(*index)
    return filled


def gradient(function: Callable[[np.ndarray], float], point: np.ndarray) -> np.ndarray:
    """Central differences of a scalar function at ``point``, one coordinate after another."""
    slopes = np.empty(point.shape)
    for index in np.ndindex(*point.shape):
        above, below = point.copy(), point.copy()
        above[index] += STEP
        below[index] -= STEP
        slopes[index] = (function(above) - function(below)) / (2 * STEP)
    return slopes


# ---- norm: rewards, keep -> advantages


def kept_of_group(rewards, keep, prompt) -> list[float]:
    return [float(r) for r, k in zip(rewards[prompt], keep[prompt], strict=True) if k]


def kept_of_batch(rewards, keep) -> list[float]:
    return [r for prompt in range(len(rewards)) for r in kept_of_group(rewards, keep, prompt)]


def mean(numbers: list[float]) -> float:
    return math.fsum(numbers) / len(numbers)


def deviation(numbers: list[float], ddof: int) -> float:
    centre = mean(numbers)
    return math.sqrt(math.fsum((x - centre) ** 2 for x in numbers) / (len(numbers) - ddof))


def varies(numbers: list[float]) -> bool:
    return len(numbers) > 0 and max(numbers) > min(numbers)


def norm_none(rewards, keep):
    """REINFORCE without baseline, Williams (1992): the return itself."""
    return per_completion(rewards.shape, lambda p, g: rewards[p][g])


def norm_center(rewards, keep):
    """Dr. GRPO, arXiv 2503.20783: r minus the group mean; TRL ``scale_rewards="none"``."""

    def one(p, g):
        group = kept_of_group(rewards, keep, p)
        return rewards[p][g] - mean(group) if varies(group) else 0.0

    return per_completion(rewards.shape, one)


def norm_local(rewards, keep, *, eps, ddof):
    """GRPO, arXiv 2402.03300 §4.1.2: z-score in the group; TRL ``scale_rewards="group"``."""

    def one(p, g):
        group = kept_of_group(rewards, keep, p)
        return (rewards[p][g] - mean(group)) / (deviation(group, ddof) + eps) if varies(group) else 0.0

    return per_completion(rewards.shape, one)


def norm_global(rewards, keep, *, eps, ddof):
    """Z-score over the batch; ROLL ``norm_mean_type=batch, norm_std_type=batch``."""
    batch = kept_of_batch(rewards, keep)

    def one(p, g):
        return (rewards[p][g] - mean(batch)) / (deviation(batch, ddof) + eps) if varies(batch) else 0.0

    return per_completion(rewards.shape, one)


def norm_hybrid(rewards, keep, *, eps, ddof):
    """Lite PPO, arXiv 2508.08221: group mean, deviation of the batch's raw rewards; TRL ``scale_rewards="batch"``."""
    batch = kept_of_batch(rewards, keep)

    def one(p, g):
        group = kept_of_group(rewards, keep, p)
        return (rewards[p][g] - mean(group)) / (deviation(batch, ddof) + eps) if varies(group) else 0.0

    return per_completion(rewards.shape, one)


def norm_rloo(rewards, keep):
    """RLOO, arXiv 2402.14740: r minus the mean of the others; one outside the statistics gets the same n/(n − 1)."""

    def one(p, g):
        group = kept_of_group(rewards, keep, p)
        if not varies(group):
            return 0.0
        if not keep[p][g]:
            return (rewards[p][g] - mean(group)) * len(group) / (len(group) - 1)
        others = [rewards[p][i] for i in range(len(rewards[p])) if keep[p][i] and i != g]
        return rewards[p][g] - mean(others)

    return per_completion(rewards.shape, one)


def norm_max(rewards, keep):
    """CS336 lecture 17, ``compute_deltas(mode="max_rewards")``: r where r is the prompt's maximum, else 0."""

    def one(p, g):
        group = kept_of_group(rewards, keep, p)
        return rewards[p][g] if group and rewards[p][g] == max(group) else 0.0

    return per_completion(rewards.shape, one)


# ---- kl: log_probs, ref_log_probs -> penalties (Schulman 2020, with r = π_ref / π)


def kl_none(log_probs, ref_log_probs):
    """No penalty."""
    return per_completion(log_probs.shape, lambda *i: 0.0)


def kl_k1(log_probs, ref_log_probs):
    """−log r."""
    return per_completion(log_probs.shape, lambda *i: -math.log(math.exp(ref_log_probs[i]) / math.exp(log_probs[i])))


def kl_k2(log_probs, ref_log_probs):
    """(log r)² / 2."""
    return per_completion(
        log_probs.shape, lambda *i: 0.5 * math.log(math.exp(ref_log_probs[i]) / math.exp(log_probs[i])) ** 2
    )


def kl_k3(log_probs, ref_log_probs):
    """(r − 1) − log r; GRPO eq. 4."""

    def one(*i):
        r = math.exp(ref_log_probs[i]) / math.exp(log_probs[i])
        return (r - 1) - math.log(r)

    return per_completion(log_probs.shape, one)


REFERENCES: dict[str, dict[str, Callable]] = {
    "norm": {
        "none": norm_none,
        "center": norm_center,
        "local": norm_local,
        "global": norm_global,
        "hybrid": norm_hybrid,
        "rloo": norm_rloo,
        "max": norm_max,
    },
    "clip": CLIP,
    "agg": AGG,
    "sampler": SAMPLER,
    "mismatch": MISMATCH,
    "kl": {"none": kl_none, "k1": kl_k1, "k2": kl_k2, "k3": kl_k3},
    "shaping": reference_shaping.FUNCTIONS,
    "filter": reference_filter.FUNCTIONS,
}

# Where a loss stops gradients: the slope of each output in the same place of the first input.
DIAGONALS: dict[str, dict[str, Callable]] = {"clip": SLOPES}
