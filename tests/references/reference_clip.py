"""Policy losses once more: log-probs, advantages, mask ``[P G T]`` of one replica, one token at a time.

``SLOPES`` has the slope of a token's loss in its own log-probability where the loss stops gradients, so that
differences of its values would be wrong; there no loss depends on the log-probability of another token.
"""

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


def ratios(log_probs, old_log_probs) -> np.ndarray:
    """π / π_old as a quotient of probabilities."""
    return per_token(log_probs, lambda *i: math.exp(log_probs[i]) / math.exp(old_log_probs[i]))


def tokens(mask, p, g) -> list[int]:
    """Places of the tokens of a completion that count."""
    return [t for t in range(mask.shape[-1]) if mask[p][g][t]]


def bounded(number: float, least: float, most: float) -> float:
    return min(max(number, least), most)


def ppo_of(ratio: float, advantage: float, low: float, high: float) -> float:
    """PPO eq. 7 by cases: the objective rises with ρ up to 1 + high if A ≥ 0, and is flat below 1 − low if A < 0."""
    if advantage >= 0:
        return -advantage * (ratio if ratio < 1 + high else 1 + high)
    return -advantage * (ratio if ratio > 1 - low else 1 - low)


# ---- each token its ratio


def clip_naive(log_probs, old_log_probs, advantages, mask):
    """Policy gradient theorem, Williams (1992): −A log π."""
    return per_token(log_probs, lambda *i: -advantages[i] * log_probs[i])


def clip_unclipped(log_probs, old_log_probs, advantages, mask):
    """PPO, arXiv 1707.06347 eq. 6 (conservative policy iteration), negated: −ρA with ρ = π / π_old."""
    ratio = ratios(log_probs, old_log_probs)
    return per_token(log_probs, lambda *i: -ratio[i] * advantages[i])


def clip_ppo(log_probs, old_log_probs, advantages, mask, *, low, high):
    """PPO eq. 7 with DAPO's two bounds (arXiv 2503.14476 eq. 8), negated."""
    ratio = ratios(log_probs, old_log_probs)
    return per_token(log_probs, lambda *i: ppo_of(ratio[i], advantages[i], low, high))


def clip_scheduled(log_probs, old_log_probs, advantages, mask, progress, *, low, high, high_final):
    """PPO whose upper bound is a straight line from high to high_final."""
    upper = high * (1 - progress) + high_final * progress
    return clip_ppo(log_probs, old_log_probs, advantages, mask, low=low, high=upper)


def clip_dual(log_probs, old_log_probs, advantages, mask, *, low, high, c):
    """Dual-clip PPO, arXiv 1912.09729: for A < 0 the objective is max(min(ρA, clip(ρ)A), cA)."""
    ratio = ratios(log_probs, old_log_probs)

    def one(*i):
        loss = ppo_of(ratio[i], advantages[i], low, high)
        return -max(-loss, c * advantages[i]) if advantages[i] < 0 else loss

    return per_token(log_probs, one)


def clip_two_sided(log_probs, old_log_probs, advantages, mask, *, low, high, delta):
    """INTELLECT-2, arXiv 2505.07291: min(min(ρ, δ)A, clip(ρ)A), by its definition."""
    ratio = ratios(log_probs, old_log_probs)

    def one(*i):
        inside = bounded(ratio[i], 1 - low, 1 + high)
        return -min(min(ratio[i], delta) * advantages[i], inside * advantages[i])

    return per_token(log_probs, one)


def clip_sapo(log_probs, old_log_probs, advantages, mask, *, tau_positive, tau_negative):
    """SAPO, arXiv 2511.20347: f(ρ) = σ(τ(ρ − 1)) · 4/τ with the logistic function written out."""
    ratio = ratios(log_probs, old_log_probs)

    def one(*i):
        tau = tau_positive if advantages[i] > 0 else tau_negative
        return -advantages[i] * 4 / (tau * (1 + math.exp(-tau * (ratio[i] - 1))))

    return per_token(log_probs, one)


def clip_dro(log_probs, old_log_probs, advantages, mask, *, beta):
    """Kimi k1.5, arXiv 2501.12599; verl ``dro``: −A log π + β/2 (log π/π_old)²."""
    ratio = ratios(log_probs, old_log_probs)
    return per_token(log_probs, lambda *i: -advantages[i] * log_probs[i] + 0.5 * beta * math.log(ratio[i]) ** 2)


# ---- a weight without a gradient; the loss is −weight · A · log π, its slope −weight · A


def cispo_weight(ratio, old, advantage, *, lower, upper):
    """MiniMax-M1, arXiv 2506.13585, with both bounds as ratios."""
    return bounded(ratio, lower, upper)


def topr_weight(ratio, old, advantage):
    """TOPR, arXiv 2503.14286: weigh only what has A ≤ 0, at most by 1."""
    return 1.0 if advantage > 0 else min(ratio, 1.0)


def dppo_tv_weight(ratio, old, advantage, *, low, high, upper):
    """DPPO-Binary-TV, arXiv 2602.04879; verl ``dppo_tv``: the change of the token's probability decides."""
    change = ratio * math.exp(old) - math.exp(old)
    too_far = change > high if advantage > 0 else change < -low
    return 0.0 if too_far else min(ratio, upper)


def dppo_kl_weight(ratio, old, advantage, *, low, high, upper):
    """DPPO-Binary-KL: KL(Bernoulli(π_old) ‖ Bernoulli(π)); moving back is never too far."""
    before, now = math.exp(old), ratio * math.exp(old)
    divergence = before * math.log(before / now) + (1 - before) * math.log((1 - before + 1e-8) / (1 - now + 1e-8))
    too_far = divergence > high and now > before if advantage > 0 else divergence > low and now < before
    return 0.0 if too_far else min(ratio, upper)


def delightful_weight(ratio, old, advantage, *, eta):
    """Delightful policy gradient, arXiv 2603.14608: a logistic gate of the advantage times the surprisal now."""
    surprisal = -math.log(ratio * math.exp(old))
    return 1 / (1 + math.exp(-advantage * surprisal / eta))


def weighted(weight: Callable) -> tuple[Callable, Callable]:
    """Return the loss that a weight makes, and its slope."""

    def slope(log_probs, old_log_probs, advantages, mask, **knobs):
        ratio = ratios(log_probs, old_log_probs)
        return per_token(
            log_probs, lambda *i: -weight(ratio[i], old_log_probs[i], advantages[i], **knobs) * advantages[i]
        )

    def loss(log_probs, *others, **knobs):
        slopes = slope(log_probs, *others, **knobs)
        return per_token(log_probs, lambda *i: slopes[i] * log_probs[i])

    return loss, slope


WEIGHTED = {
    name: weighted(weight)
    for name, weight in {
        "cispo": cispo_weight,
        "topr": topr_weight,
        "dppo_tv": dppo_tv_weight,
        "dppo_kl": dppo_kl_weight,
        "delightful": delightful_weight,
    }.items()
}


# ---- tokens that have moved too far, and a few tokens apart


def clip_ipo_prime_rl(log_probs, sampler_log_probs, advantages, mask, *, eps):
    """prime-rl ``ipo``: keep a token whose probability is within eps of the sampler's."""
    ratio = ratios(log_probs, sampler_log_probs)

    def one(*i):
        moved = abs(math.exp(log_probs[i]) - math.exp(sampler_log_probs[i]))
        return -ratio[i] * advantages[i] if moved <= eps else 0.0

    return per_token(log_probs, one)


def clip_m2po(log_probs, old_log_probs, advantages, mask, *, budget):
    """M2PO, arXiv 2510.01161 algorithm 1: drop the largest until the mean of the rest is within the budget."""
    ratio = ratios(log_probs, old_log_probs)
    moved = {i: math.log(ratio[i]) for i in np.ndindex(*mask.shape) if mask[i]}
    squares = {i: log_ratio**2 for i, log_ratio in moved.items() if log_ratio * advantages[i] > 0}
    dropped = []
    while squares and sum(squares.values()) / len(squares) > budget:
        dropped.append(max(squares, key=squares.get))
        del squares[dropped[-1]]
    return per_token(log_probs, lambda *i: 0.0 if i in dropped else -ratio[i] * advantages[i])


def covariances(log_probs, advantages, mask) -> dict[tuple[int, ...], float]:
    """Entropy mechanism, arXiv 2505.22617: the centred product at each token that counts."""
    kept = [index for index in np.ndindex(*mask.shape) if mask[index]]
    if not kept:
        return {}
    centre = sum(advantages[i] for i in kept) / len(kept), sum(log_probs[i] for i in kept) / len(kept)
    return {i: (advantages[i] - centre[0]) * (log_probs[i] - centre[1]) for i in kept}


def clip_clip_cov(log_probs, old_log_probs, advantages, mask, uniforms, *, low, high, share, lb, ub):
    """Clip-Cov; verl ``clip_cov``: of the unclipped tokens between the bounds, those that the uniforms draw first."""
    losses = clip_ppo(log_probs, old_log_probs, advantages, mask, low=low, high=high)
    full = clip_unclipped(log_probs, old_log_probs, advantages, mask)
    found = covariances(log_probs, advantages, mask)
    eligible = [i for i, value in found.items() if lb < value < ub and not losses[i] > full[i]]
    dropped = sorted(eligible, key=lambda i: uniforms[i])[: max(1, int(share * len(found)))]
    return per_token(losses, lambda *i: 0.0 if i in dropped else losses[i])


def clip_kl_cov(log_probs, old_log_probs, advantages, mask, *, share, coef):
    """KL-Cov; verl ``kl_cov``: the tokens of largest covariance pay for their distance."""
    losses = clip_unclipped(log_probs, old_log_probs, advantages, mask)
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
    "dro": clip_dro,
    "ipo_prime_rl": clip_ipo_prime_rl,
    "m2po": clip_m2po,
    "clip_cov": clip_clip_cov,
    "kl_cov": clip_kl_cov,
} | {name: loss for name, (loss, _) in WEIGHTED.items()}

SLOPES = {name: slope for name, (_, slope) in WEIGHTED.items()}
