"""Policy losses once more: log-probs, advantages, mask ``[P G T]`` of one replica, one token at a time."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np


def per_token(like: np.ndarray, value: Callable) -> np.ndarray:
    """Fill an array by calling ``value`` with each index."""
    filled = np.empty(like.shape)
    for index in np.ndindex(*like.shape):
        filled[index] = value(*index)
    return filled


def ratio_of(log_ratio: float, bound: float) -> float:
    """exp of what is first cut at ±bound; verl."""
    return math.exp(bounded(log_ratio, -bound, bound))


def ratios(log_probs, old_log_probs, bound) -> np.ndarray:
    """π / π_old of each token."""
    return per_token(log_probs, lambda *i: ratio_of(log_probs[i] - old_log_probs[i], bound))


def tokens(mask, p, g) -> list[int]:
    """Places of the tokens of a completion that count."""
    return [t for t in range(mask.shape[-1]) if mask[p][g][t]]


def bounded(number: float, least: float, most: float) -> float:
    return min(max(number, least), most)


def logistic(x: float) -> float:
    """1 / (1 + e^−x), whose power does not overflow."""
    return 1 / (1 + math.exp(-x)) if x > 0 else math.exp(x) / (1 + math.exp(x))


def ppo_of(ratio: float, advantage: float, low: float, high: float) -> float:
    """PPO eq. 7 by cases: the objective rises with ρ up to 1 + high if A ≥ 0, and is flat below 1 − low if A < 0."""
    if advantage >= 0:
        return -advantage * (ratio if ratio < 1 + high else 1 + high)
    return -advantage * (ratio if ratio > 1 - low else 1 - low)


def slope_of_kept(loss: Callable) -> Callable:
    """Return the slope of a loss that is −ρA or 0 with the decisions held: itself, but for ratios at their bound."""

    def slope(log_probs, old_log_probs, advantages, mask, log_ratio_bound, **hyperparameters):
        losses = loss(log_probs, old_log_probs, advantages, mask, log_ratio_bound, **hyperparameters)
        return np.where(abs(log_probs - old_log_probs) <= log_ratio_bound, losses, 0.0)

    return slope


# ---- each token its ratio


def clip_spo(log_probs, old_log_probs, advantages, mask, log_ratio_bound, *, epsilon):
    """Simple Policy Optimization, arXiv 2401.16025: −ρA + |A|(ρ − 1)² / 2ε."""
    ratio = ratios(log_probs, old_log_probs, log_ratio_bound)

    def one(*i):
        return -ratio[i] * advantages[i] + abs(advantages[i]) * (ratio[i] - 1) ** 2 / (2 * epsilon)

    return per_token(log_probs, one)


def clip_drpo(log_probs, old_log_probs, advantages, mask, log_ratio_bound, *, epsilon):
    """DRPO, UniRL 1a7b501: the parabola weighed by the token's probability before."""
    ratio = ratios(log_probs, old_log_probs, log_ratio_bound)

    def one(*i):
        pull = math.exp(old_log_probs[i]) * (ratio[i] - 1) ** 2 / (2 * epsilon)
        return -ratio[i] * advantages[i] + abs(advantages[i]) * pull

    return per_token(log_probs, one)


def clip_wapo(log_probs, old_log_probs, advantages, mask, log_ratio_bound, *, high):
    """WAPO, layer6ai-labs/wapo ca70250: PPO's surrogate with an upper bound alone, of winners alone."""
    ratio = ratios(log_probs, old_log_probs, log_ratio_bound)

    def one(*i):
        return -min(ratio[i], 1 + high) * advantages[i] if advantages[i] > 0 else 0.0

    return per_token(log_probs, one)


def clip_naive(log_probs, old_log_probs, advantages, mask):
    """Policy gradient theorem, Williams (1992): −A log π."""
    return per_token(log_probs, lambda *i: -advantages[i] * log_probs[i])


def clip_unclipped(log_probs, old_log_probs, advantages, mask, log_ratio_bound):
    """PPO, arXiv 1707.06347 eq. 6 (conservative policy iteration), negated: −ρA with ρ = π / π_old."""
    ratio = ratios(log_probs, old_log_probs, log_ratio_bound)
    return per_token(log_probs, lambda *i: -ratio[i] * advantages[i])


def clip_ppo(log_probs, old_log_probs, advantages, mask, log_ratio_bound, *, low, high):
    """PPO eq. 7 with DAPO's two bounds (arXiv 2503.14476 eq. 8), negated."""
    ratio = ratios(log_probs, old_log_probs, log_ratio_bound)
    return per_token(log_probs, lambda *i: ppo_of(ratio[i], advantages[i], low, high))


def clip_scheduled(log_probs, old_log_probs, advantages, mask, log_ratio_bound, progress, *, low, high, high_final):
    """PPO whose upper bound is a straight line from high to high_final."""
    upper = high * (1 - progress) + high_final * progress
    return clip_ppo(log_probs, old_log_probs, advantages, mask, log_ratio_bound, low=low, high=upper)


def clip_dual(log_probs, old_log_probs, advantages, mask, log_ratio_bound, *, low, high, c):
    """Dual-clip PPO, arXiv 1912.09729: for A < 0 the objective is max(min(ρA, clip(ρ)A), cA)."""
    ratio = ratios(log_probs, old_log_probs, log_ratio_bound)

    def one(*i):
        loss = ppo_of(ratio[i], advantages[i], low, high)
        return -max(-loss, c * advantages[i]) if advantages[i] < 0 else loss

    return per_token(log_probs, one)


def clip_two_sided(log_probs, old_log_probs, advantages, mask, log_ratio_bound, *, low, high, delta):
    """INTELLECT-2, arXiv 2505.07291: min(min(ρ, δ)A, clip(ρ)A), by its definition."""
    ratio = ratios(log_probs, old_log_probs, log_ratio_bound)

    def one(*i):
        inside = bounded(ratio[i], 1 - low, 1 + high)
        return -min(min(ratio[i], delta) * advantages[i], inside * advantages[i])

    return per_token(log_probs, one)


def clip_sapo(log_probs, old_log_probs, advantages, mask, log_ratio_bound, *, tau_positive, tau_negative):
    """SAPO, arXiv 2511.20347: f(ρ) = σ(τ(ρ − 1)) · 4/τ with the logistic function written out."""
    ratio = ratios(log_probs, old_log_probs, log_ratio_bound)

    def one(*i):
        tau = tau_positive if advantages[i] > 0 else tau_negative
        return -advantages[i] * 4 / tau * logistic(tau * (ratio[i] - 1))

    return per_token(log_probs, one)


def clip_dro(log_probs, old_log_probs, advantages, mask, *, beta):
    """Kimi k1.5, arXiv 2501.12599; verl ``dro``: −A log π + β/2 (log π/π_old)²."""

    def one(*i):
        return -advantages[i] * log_probs[i] + 0.5 * beta * (log_probs[i] - old_log_probs[i]) ** 2

    return per_token(log_probs, one)


# ---- a few tokens apart


def covariances(log_probs, advantages, mask) -> dict[tuple[int, ...], float]:
    """Entropy mechanism, arXiv 2505.22617: the centered product at each token that counts."""
    kept = [index for index in np.ndindex(*mask.shape) if mask[index]]
    if not kept:
        return {}
    centre = sum(advantages[i] for i in kept) / len(kept), sum(log_probs[i] for i in kept) / len(kept)
    return {i: (advantages[i] - centre[0]) * (log_probs[i] - centre[1]) for i in kept}


def clip_clip_cov(log_probs, old_log_probs, advantages, mask, log_ratio_bound, uniforms, *, low, high, share, lb, ub):
    """Clip-Cov; verl ``clip_cov``: of the unclipped tokens between the bounds, those that the uniforms draw first."""
    losses = clip_ppo(log_probs, old_log_probs, advantages, mask, log_ratio_bound, low=low, high=high)
    full = clip_unclipped(log_probs, old_log_probs, advantages, mask, log_ratio_bound)
    found = covariances(log_probs, advantages, mask)
    eligible = [i for i, value in found.items() if lb < value < ub and not losses[i] > full[i]]
    dropped = sorted(eligible, key=lambda i: uniforms[i])[: max(1, int(share * len(found)))]
    return per_token(losses, lambda *i: 0.0 if i in dropped else losses[i])


def clip_kl_cov(log_probs, old_log_probs, advantages, mask, log_ratio_bound, *, share, coef):
    """KL-Cov; verl ``kl_cov``: the tokens of largest covariance pay for their distance."""
    losses = clip_unclipped(log_probs, old_log_probs, advantages, mask, log_ratio_bound)
    found = covariances(log_probs, advantages, mask)
    largest = sorted(found, key=lambda i: -found[i])[: max(1, int(share * len(found)))]
    distance = np.abs(log_probs - old_log_probs)
    return per_token(losses, lambda *i: losses[i] + (coef * distance[i] if i in largest else 0.0))


CLIP = {
    "naive": clip_naive,
    "unclipped": clip_unclipped,
    "ppo": clip_ppo,
    "scheduled": clip_scheduled,
    "dual": clip_dual,
    "two_sided": clip_two_sided,
    "sapo": clip_sapo,
    "spo": clip_spo,
    "drpo": clip_drpo,
    "wapo": clip_wapo,
    "dro": clip_dro,
    "clip_cov": clip_clip_cov,
    "kl_cov": clip_kl_cov,
}
