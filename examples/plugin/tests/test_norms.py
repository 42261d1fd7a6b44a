"""What rlexp asks of its own functions, asked of this one, and an independent reference."""

import numpy as np
import rlexp_mad

import rlexp.testing


def reference(rewards: np.ndarray, keep: np.ndarray, eps: float) -> np.ndarray:
    """The same, a group after the other."""
    advantages = np.zeros_like(rewards)
    for group in np.ndindex(rewards.shape[:-1]):
        kept = rewards[group][keep[group]]
        if len(kept):
            center = np.sort(kept)[(len(kept) - 1) // 2]
            deviation = np.sort(np.abs(kept - center))[(len(kept) - 1) // 2]
            advantages[group][keep[group]] = (kept - center) / (deviation + eps)
    return advantages


def test_mad_keeps_the_promises_of_a_norm():
    """Masks, ragged groups, NaN, types, laws, and the reference."""
    rlexp.testing.check("norm", rlexp_mad.mad, reference=reference, eps=1e-3)
