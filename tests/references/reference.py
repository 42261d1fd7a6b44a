"""The axis functions once more, from the papers and frameworks, one number at a time in float64.

Plain loops over one replica: rewards, keep, lengths, finished are ``[P G]``; log-probs, losses, mask ``[P G T]``.
Nothing here imports torch or rlexp. The tables at the end are keyed by axis and by the ``name`` in the YAML;
``gradient`` differentiates any of it by central differences; ``GRADIENTS`` has the slopes of functions that stop
gradients, written by hand, each output's in its own first input.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import reference_anchor
import reference_clip
import reference_clip_preference
import reference_clip_prefix
import reference_clip_sequence
import reference_clip_trust
import reference_clip_weighted
import reference_distillation
import reference_filter
import reference_imitation
import reference_kl
import reference_norm
import reference_norm_pass_at_k
import reference_norm_shrinkage
import reference_norm_token
import reference_reward
import reference_shaping
from reference_agg import AGG
from reference_mismatch import MISMATCH, SAMPLER

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


REFERENCES: dict[str, dict[str, Callable]] = {
    "norm": reference_norm.FUNCTIONS
    | reference_norm_pass_at_k.FUNCTIONS
    | reference_norm_token.FUNCTIONS
    | reference_norm_shrinkage.FUNCTIONS,
    "clip": reference_clip.CLIP
    | reference_clip_weighted.CLIP
    | reference_clip_sequence.CLIP
    | reference_clip_preference.CLIP
    | reference_clip_trust.CLIP
    | reference_clip_prefix.CLIP,
    "agg": AGG,
    "anchor": reference_anchor.ANCHOR,
    "sampler": SAMPLER,
    "mismatch": MISMATCH,
    "kl": reference_kl.VALUES,
    "reward": reference_reward.FUNCTIONS,
    "shaping": reference_shaping.FUNCTIONS,
    "filter": reference_filter.FUNCTIONS,
    "teacher": reference_distillation.TEACHER,
    "distillation": reference_distillation.DISTILLATION,
    "imitation": reference_imitation.IMITATION,
}

# Where a function stops gradients: the slope of each output in the same place of the first input.
GRADIENTS: dict[str, dict[str, Callable]] = {
    "clip": reference_clip_weighted.SLOPES
    | reference_clip_sequence.SLOPES
    | reference_clip_trust.SLOPES
    | reference_clip_prefix.SLOPES,
    "kl": reference_kl.SLOPES,
    "imitation": reference_imitation.SLOPES,
}
