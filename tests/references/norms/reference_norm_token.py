"""The norms that give every token an advantage of its own, once more (see ``reference_norm``)."""

from __future__ import annotations

import math

import numpy as np
from reference_loops import per_completion
from reference_norm import deviation, energy, mean, norm_center, varies


def returns(outcomes, token_penalties, mask, gamma):
    """Discounted sum of what is still to come: penalties of this and later tokens, the outcome at the last token.

    Time is the number of tokens that count.
    """

    def one(p, g, t):
        steps = [k for k in range(mask.shape[2]) if mask[p][g][k]]
        total = 0.0
        for k in range(t, mask.shape[2]):
            reward = -token_penalties[p][g][k] + (outcomes[p][g] if steps and k == steps[-1] else 0.0)
            total += gamma ** sum(t <= step < k for step in steps) * reward
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
    centered = norm_center(outcomes, keep)
    return norm_reinforce_pp(centered, token_penalties, mask, keep, gamma=gamma, eps=eps, ddof=ddof)


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


# ---- with a learned baseline: sums over the tokens to come, no recursion


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
        later = [k for k in tokens_of(mask, p, g) if k > t]
        if later:
            after = values[p][g][later[0]]
        else:
            after = 0.0 if finished[p][g] else bootstrap * values[p][g][t + 1]
        return token_rewards[p][g][t] + gamma * after - values[p][g][t]

    def one(p, g, t):
        later = [k for k in tokens_of(mask, p, g) if k >= t]
        return sum((gamma * lam) ** n * error(p, g, k) for n, k in enumerate(later))

    return per_completion(mask.shape, one)


def norm_gae_whitened(token_rewards, values, mask, finished, keep, *, gamma, lam, bootstrap, eps, ddof):
    """verl ``compute_gae_advantage_return``, whitening over the tokens that count."""
    raw = norm_gae(token_rewards, values, mask, finished, gamma=gamma, lam=lam, bootstrap=bootstrap)
    counted = [float(raw[i]) for i in np.ndindex(*mask.shape) if mask[i] and keep[i[:2]]]
    if not varies(counted):
        return np.zeros(mask.shape)
    return (raw - mean(counted)) / (deviation(counted, ddof) + eps)


def norm_gae_decoupled(token_rewards, values, mask, finished, *, gamma, lam, lam_value, bootstrap):
    """VC-PPO, arXiv 2503.01491: the λ of the values does not show in the advantages."""
    return norm_gae(token_rewards, values, mask, finished, gamma=gamma, lam=lam, bootstrap=bootstrap)


def norm_gae_length_adaptive(token_rewards, values, mask, finished, *, gamma, alpha, lam_value, bootstrap):
    """VAPO, arXiv 2504.05118: Σ_k λ^k = 1 / (1 − λ) = α · l for each completion by itself, and no λ below 0."""
    found = np.zeros(mask.shape)
    for p, g in np.ndindex(*mask.shape[:2]):
        reach = alpha * len(tokens_of(mask, p, g))
        lam = 1 - 1 / reach if reach > 1 else 0.0
        one = (each[p : p + 1, g : g + 1] for each in (token_rewards, values, mask, finished))
        found[p, g] = norm_gae(*one, gamma=gamma, lam=lam, bootstrap=bootstrap)[0, 0]
    return found


def norm_value_baseline(token_rewards, values, mask, *, gamma):
    """Sutton and Barto (2018), §13.4: return minus value."""

    def one(p, g, t):
        later = [k for k in tokens_of(mask, p, g) if k >= t]
        return sum(gamma**n * token_rewards[p][g][k] for n, k in enumerate(later)) - values[p][g][t]

    return per_completion(mask.shape, one)


FUNCTIONS = {
    "reinforce": norm_reinforce,
    "reinforce_pp": norm_reinforce_pp,
    "reinforce_pp_baseline": norm_reinforce_pp_baseline,
    "optimal_token": norm_optimal_token,
    "gae": norm_gae,
    "gae_whitened": norm_gae_whitened,
    "gae_decoupled": norm_gae_decoupled,
    "gae_length_adaptive": norm_gae_length_adaptive,
    "value_baseline": norm_value_baseline,
}
