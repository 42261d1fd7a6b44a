"""The policies that ratios are taken against, one token at a time."""

from __future__ import annotations

import numpy as np


def loglinear(log_probs, old_log_probs, ages):
    """AReaL ``compute_prox_logp_approximations``, method loglinear.

    There α = (v_prox − v_behave) / (v_theta − v_behave) with v_prox = v_theta − 1 and v_behave = v_theta − age, clamped
    to [0, 1]; 0 where the versions are equal or the token has none.
    """
    found = np.empty(log_probs.shape)
    for index in np.ndindex(*log_probs.shape):
        theta, behave = 10.0, 10.0 - ages[index]
        alpha = (theta - 1 - behave) / (theta - behave) if theta > behave else 0.0
        alpha = min(max(alpha, 0.0), 1.0)
        found[index] = (1 - alpha) * old_log_probs[index] + alpha * log_probs[index]
    return found


ANCHOR = {
    "old": lambda old_log_probs: old_log_probs,
    "rollout": lambda sampler_log_probs: sampler_log_probs,
    "proximal": lambda proximal_log_probs: proximal_log_probs,
    "loglinear": loglinear,
}
