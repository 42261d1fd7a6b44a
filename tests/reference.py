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


def norm_running(rewards, keep, reward_moments, *, eps, ddof):
    """ROLL ``RunningMoments``: z-score over all rewards so far, from their number, sum and sum of squares."""
    number, centre, squares, smallest, largest = (float(x) for x in reward_moments)
    batch = kept_of_batch(rewards, keep)
    total = number + len(batch)
    centre_now = (number * centre + math.fsum(batch)) / total
    sum_of_squares = squares + number * centre**2 + math.fsum(r**2 for r in batch)
    spread = math.sqrt((sum_of_squares - total * centre_now**2) / (total - ddof))
    constant = max([largest, *batch]) <= min([smallest, *batch])
    return per_completion(
        rewards.shape, lambda p, g: 0.0 if constant else (rewards[p][g] - centre_now) / (spread + eps)
    )


# ---- clip: log_probs, old_log_probs, advantages, mask -> losses


def clip_naive(log_probs, old_log_probs, advantages, mask):
    """Policy gradient theorem, Williams (1992): −A log π."""
    return per_completion(log_probs.shape, lambda *i: -advantages[i] * log_probs[i])


def clip_unclipped(log_probs, old_log_probs, advantages, mask):
    """PPO, arXiv 1707.06347 eq. 6 (conservative policy iteration), negated: −ρA with ρ = π / π_old."""
    return per_completion(
        log_probs.shape, lambda *i: -math.exp(log_probs[i]) / math.exp(old_log_probs[i]) * advantages[i]
    )


def clip_ppo(log_probs, old_log_probs, advantages, mask, *, low, high):
    """PPO eq. 7 with DAPO's two bounds (arXiv 2503.14476 eq. 8), negated, written out by cases.

    A ≥ 0: the objective rises with ρ up to 1 + high and is flat above. A < 0: it is flat below 1 − low.
    """

    def one(*i):
        ratio = math.exp(log_probs[i]) / math.exp(old_log_probs[i])
        if advantages[i] >= 0:
            return -advantages[i] * (ratio if ratio < 1 + high else 1 + high)
        return -advantages[i] * (ratio if ratio > 1 - low else 1 - low)

    return per_completion(log_probs.shape, one)


# ---- agg: losses, mask -> loss


def completions(losses, mask) -> list[list[float]]:
    """Each completion's kept losses; an empty list for one that is masked throughout."""
    prompts, group, time = losses.shape
    return [
        [float(losses[p][g][t]) for t in range(time) if mask[p][g][t]] for p in range(prompts) for g in range(group)
    ]


def agg_token(losses, mask):
    """DAPO, arXiv 2503.14476 eq. 8; verl ``token-mean``: all kept tokens in one mean."""
    kept = [loss for completion in completions(losses, mask) for loss in completion]
    return sum(kept) / len(kept) if kept else 0.0


def agg_sequence(losses, mask):
    """GRPO, arXiv 2402.03300 eq. 3; verl ``seq-mean-token-mean``: a masked completion counts as one of loss 0."""
    means = [sum(kept) / len(kept) if kept else 0.0 for kept in completions(losses, mask)]
    return sum(means) / len(means)


def agg_dr_grpo(losses, mask, *, length):
    """Dr. GRPO, arXiv 2503.20783 §3.2; TRL ``loss_type="dr_grpo"``: every completion over the same constant."""
    sums = [sum(kept) / length for kept in completions(losses, mask)]
    return sum(sums) / len(sums)


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
        "running": norm_running,
    },
    "clip": {"naive": clip_naive, "unclipped": clip_unclipped, "ppo": clip_ppo},
    "agg": {"token": agg_token, "sequence": agg_sequence, "dr_grpo": agg_dr_grpo},
    "kl": {"none": kl_none, "k1": kl_k1, "k2": kl_k2, "k3": kl_k3},
    "shaping": reference_shaping.FUNCTIONS,
    "filter": reference_filter.FUNCTIONS,
}
