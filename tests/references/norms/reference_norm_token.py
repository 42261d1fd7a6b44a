"""The norms that give every token an advantage of its own, once more (see ``reference_norm``)."""

from __future__ import annotations

import math

import numpy as np
from reference_loops import per_completion
from reference_norm import deviation, energy, mean, norm_center, varies


def returns(outcomes, token_penalties, mask, gamma):
    """Discounted sum of what is still to come: penalties of this and later tokens, the outcome at the last token."""

    def one(p, g, t):
        steps = [k for k in range(mask.shape[2]) if mask[p][g][k]]
        total = 0.0
        for k in range(t, mask.shape[2]):
            reward = -token_penalties[p][g][k] + (outcomes[p][g] if steps and k == steps[-1] else 0.0)
            total += gamma ** (k - t) * reward
        return total

    return per_completion(mask.shape, one)


def norm_reinforce(outcomes, token_penalties, mask, *, gamma):
    """Williams (1992) with reward to go."""
    return returns(outcomes, token_penalties, mask, gamma)


def norm_reinforce_pp(outcomes, token_penalties, mask, keep, *, gamma, eps, ddof):
    """REINFORCE++, arXiv 2501.03262; verl ``reinforce_plus_plus``: returns, whitened over the tokens that count."""
    values = returns(outcomes, token_penalties, mask, gamma)
    counted = [float(values[i]) for i in np.ndindex(*mask.shape) if mask[i] and keep[i[:2]]]
    if not varies(counted):
        return np.zeros(mask.shape)
    return (values - mean(counted)) / (deviation(counted, ddof) + eps)


def norm_reinforce_pp_baseline(outcomes, token_penalties, mask, keep, *, gamma, eps, ddof):
    """OpenRLHF ``reinforce_baseline``: group mean first, then penalties, returns and whitening."""
    centred = norm_center(outcomes, keep)
    return norm_reinforce_pp(centred, token_penalties, mask, keep, gamma=gamma, eps=eps, ddof=ddof)


def norm_optimal_token(outcomes, token_penalties, mask, keep, old_log_probs, sum_pi_squared):
    """verl ``optimal_token_baseline``: at each step the mean return of the group, weighted by the energy so far."""
    values = returns(outcomes, token_penalties, mask, 1.0)
    path = np.cumsum(energy(mask, old_log_probs, sum_pi_squared), axis=-1)

    def one(p, g, t):
        alive = [i for i in range(mask.shape[1]) if mask[p][i][t] and keep[p][i]]
        if not varies([float(values[p][i][t]) for i in alive]):
            return 0.0
        weights = [float(path[p][i][t]) for i in alive]
        weighted = math.fsum(w * values[p][i][t] for w, i in zip(weights, alive, strict=True))
        return values[p][g][t] - weighted / math.fsum(weights)

    return per_completion(mask.shape, one)


FUNCTIONS = {
    "reinforce": norm_reinforce,
    "reinforce_pp": norm_reinforce_pp,
    "reinforce_pp_baseline": norm_reinforce_pp_baseline,
    "optimal_token": norm_optimal_token,
}
