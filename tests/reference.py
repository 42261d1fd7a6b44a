"""The axis functions once more, from the papers and frameworks, one number at a time in float64.

Plain loops over one replica: rewards, keep, lengths, finished are ``[P G]``; log-probs, losses, mask ``[P G T]``.
Nothing here imports torch or rlexp. The tables at the end are keyed by axis and by the ``name`` in the YAML;
``gradient`` differentiates any of it by central differences; ``GRADIENTS`` has the slopes of functions that stop
gradients, written by hand, each output's in its own first input.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import reference_filter
import reference_kl
import reference_norm
import reference_shaping
from reference_loops import per_completion

# Step of the central differences: error of order STEP² from the curve and 1e-16/STEP from rounding, both below 1e-9
# for the numbers of order one that the tests feed in.
STEP = 1e-6


def gradient(function: Callable[[np.ndarray], float], point: np.ndarray) -> np.ndarray:
    """Central differences of a scalar function at ``point``, one coordinate after another."""
    slopes = np.empty(point.shape)
    for index in np.ndindex(*point.shape):
        above, below = point.copy(), point.copy()
        above[index] += STEP
        below[index] -= STEP
        slopes[index] = (function(above) - function(below)) / (2 * STEP)
    return slopes


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


REFERENCES: dict[str, dict[str, Callable]] = {
    "norm": reference_norm.FUNCTIONS,
    "clip": {"naive": clip_naive, "unclipped": clip_unclipped, "ppo": clip_ppo},
    "agg": {"token": agg_token, "sequence": agg_sequence, "dr_grpo": agg_dr_grpo},
    "kl": reference_kl.VALUES,
    "shaping": reference_shaping.FUNCTIONS,
    "filter": reference_filter.FUNCTIONS,
}

GRADIENTS: dict[str, dict[str, Callable]] = {"kl": reference_kl.SLOPES}
