"""The norms with a learned baseline, once more (see ``reference_norm``): sums over the tokens to come, no recursion."""

from __future__ import annotations

import numpy as np
from reference_loops import per_completion
from reference_norm import deviation, mean, varies


def due(one) -> np.ndarray:
    """Rewards where a task has paid them; what is left of the reward at the last token that counts, ``[P G T]``."""
    paid = np.where(one["mask"], one["token_rewards"], 0.0)
    for p, g in np.ndindex(*one["rewards"].shape):
        if one["mask"][p, g].any():
            paid[p, g, np.flatnonzero(one["mask"][p, g])[-1]] += one["rewards"][p, g] - paid[p, g].sum()
    return paid


def tokens_of(mask, p, g):
    return [t for t in range(mask.shape[2]) if mask[p][g][t]]


def norm_gae(token_rewards, values, mask, finished, *, gamma, lam, bootstrap):
    """arXiv 1506.02438, eq. 11 to 16: each error of one step, then their sum with weights (γλ)^l."""

    def error(p, g, t):
        if t + 1 in tokens_of(mask, p, g):
            after = values[p][g][t + 1]
        else:
            after = 0.0 if finished[p][g] else bootstrap * values[p][g][t + 1]
        return token_rewards[p][g][t] + gamma * after - values[p][g][t]

    def one(p, g, t):
        return sum((gamma * lam) ** (k - t) * error(p, g, k) for k in tokens_of(mask, p, g) if k >= t)

    return per_completion(mask.shape, one)


def norm_gae_whitened(token_rewards, values, mask, finished, keep, *, gamma, lam, bootstrap, eps, ddof):
    """verl ``compute_gae_advantage_return``, whitening over the tokens that count."""
    raw = norm_gae(token_rewards, values, mask, finished, gamma=gamma, lam=lam, bootstrap=bootstrap)
    counted = [float(raw[i]) for i in np.ndindex(*mask.shape) if mask[i] and keep[i[:2]]]
    if not varies(counted):
        return np.zeros(mask.shape)
    return (raw - mean(counted)) / (deviation(counted, ddof) + eps)


def norm_value_baseline(token_rewards, values, *, gamma):
    """Sutton and Barto (2018), §13.4: return minus value."""
    length = token_rewards.shape[2]

    def one(p, g, t):
        total = sum(gamma ** (k - t) * token_rewards[p][g][k] for k in range(t, length))
        return total - values[p][g][t]

    return per_completion(token_rewards.shape, one)


FUNCTIONS = {"gae": norm_gae, "gae_whitened": norm_gae_whitened, "value_baseline": norm_value_baseline}
