"""The policy losses with one ratio or decision a completion, or a group, once more (see ``reference_clip``)."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from reference_clip import bounded, clip_ppo, per_token, ppo_of, ratio_of, tokens


def drift(log_probs, old_log_probs, mask, p, g) -> float:
    """log of GSPO eq. 7, (π(y) / π_old(y))^(1/|y|) over the tokens that count; 0 for none."""
    kept = tokens(mask, p, g)
    return sum(log_probs[p][g][t] - old_log_probs[p][g][t] for t in kept) / max(len(kept), 1)


def clip_gspo(log_probs, old_log_probs, advantages, mask, log_ratio_bound, *, low, high):
    """GSPO, arXiv 2507.18071 eq. 5: PPO's surrogate of the sequence ratio, for each token of the completion."""

    def one(p, g, t):
        ratio = ratio_of(drift(log_probs, old_log_probs, mask, p, g), log_ratio_bound)
        return ppo_of(ratio, advantages[p][g][t], low, high)

    return per_token(log_probs, one)


def slope_gspo_token(log_probs, old_log_probs, advantages, mask, log_ratio_bound, *, low, high):
    """GSPO-token, eq. 13-14: −ρ̄A at the token, 0 where PPO's rule stops the completion."""

    def one(p, g, t):
        log_ratio, advantage = drift(log_probs, old_log_probs, mask, p, g), advantages[p][g][t]
        ratio = ratio_of(log_ratio, log_ratio_bound)
        stopped = ratio > 1 + high if advantage >= 0 else ratio < 1 - low
        return 0.0 if stopped or abs(log_ratio) > log_ratio_bound else -ratio * advantage

    return per_token(log_probs, one)


def clip_gmpo(log_probs, old_log_probs, advantages, mask, log_ratio_bound, *, low, high):
    """GMPO, arXiv 2507.20673: the geometric mean of the ratios, each bounded on the side of the sign of A."""

    def one(p, g, t):
        kept, total = tokens(mask, p, g), 0.0
        for k in kept:
            log_ratio = log_probs[p][g][k] - old_log_probs[p][g][k]
            total += min(log_ratio, high) if advantages[p][g][k] > 0 else max(log_ratio, -low)
        return -advantages[p][g][t] * ratio_of(total / max(len(kept), 1), log_ratio_bound)

    return per_token(log_probs, one)


def slope_vespo(
    log_probs, old_log_probs, advantages, mask, *, k_positive, lambda_positive, k_negative, lambda_negative
):
    """VESPO: the gamma weight W^k e^(λ(1 − W)) of the ratio of the whole completion."""

    def one(p, g, t):
        log_ratios = [log_probs[p][g][k] - old_log_probs[p][g][k] for k in tokens(mask, p, g)]
        ratio = bounded(math.exp(sum(bounded(each, -20, 20) for each in log_ratios)), 1e-8, math.exp(20))
        positive = advantages[p][g][t] >= 0
        k, rate = (k_positive, lambda_positive) if positive else (k_negative, lambda_negative)
        return -(ratio**k) * math.exp(rate * (1 - ratio)) * advantages[p][g][t]

    return per_token(log_probs, one)


def clip_vespo(log_probs, old_log_probs, advantages, mask, **hyperparameters):
    slopes = slope_vespo(log_probs, old_log_probs, advantages, mask, **hyperparameters)
    return per_token(log_probs, lambda *i: slopes[i] * log_probs[i])


def clip_opsm(log_probs, old_log_probs, advantages, mask, log_ratio_bound, *, low, high, delta):
    """DeepSeek-V3.2, arXiv 2512.02556 eq. 9: drop what has A < 0 and mean log π_old − log π above the threshold."""
    losses = clip_ppo(log_probs, old_log_probs, advantages, mask, log_ratio_bound, low=low, high=high)

    def one(p, g, t):
        fall = -drift(log_probs, old_log_probs, mask, p, g)
        return 0.0 if advantages[p][g][t] < 0 and fall > delta else losses[p][g][t]

    return per_token(log_probs, one)


def clip_a2po(log_probs, ref_log_probs, advantages, mask, *, beta):
    """A*-PO, arXiv 2505.20686: squared distance of the implicit reward of a completion from its advantage."""

    def one(p, g, t):
        kept = tokens(mask, p, g)
        implicit = beta * sum(log_probs[p][g][k] - ref_log_probs[p][g][k] for k in kept)
        return (implicit - sum(advantages[p][g][k] for k in kept) / max(len(kept), 1)) ** 2

    return per_token(log_probs, one)


# ---- one loss a group


def of_groups(loss: Callable) -> Callable:
    """Let a loss of a group be what each of its completions that count carries: the mean over all G is the loss.

    ``loss`` gets a list for the log-ratio of each completion that counts, and one for each other quantity.
    """

    def clip(log_probs, old_log_probs, advantages, mask, keep, **hyperparameters):
        losses = np.zeros(log_probs.shape)
        for p in range(len(mask)):
            counted = [g for g in range(len(mask[p])) if keep[p][g] and tokens(mask, p, g)]
            new, old, means = [], [], []
            for g in counted:
                kept = tokens(mask, p, g)
                new.append([log_probs[p][g][t] for t in kept])
                old.append([old_log_probs[p][g][t] for t in kept])
                means.append(sum(advantages[p][g][t] for t in kept) / len(kept))
            for g in counted:
                losses[p][g] = loss(new, old, means, **hyperparameters) * len(mask[p]) / len(counted)
        return losses

    return clip


def gvpo_of(new, old, advantages, *, beta):
    """GVPO, arXiv 2504.19599; the code divides by 2(n − 1)."""
    n = len(new)
    if n == 1:
        return 0.0
    implicit = [beta * (sum(a) - sum(b)) for a, b in zip(new, old, strict=True)]
    return sum(
        ((r - sum(implicit) / n) - (a - sum(advantages) / n)) ** 2 for r, a in zip(implicit, advantages, strict=True)
    ) / (2 * (n - 1))


def tpo_of(new, old, advantages, *, eta):
    """TPO, arXiv 2604.06159 eq. 1-3, with logarithms: the probabilities of completions may be no floats."""
    now = [sum(each) for each in new]
    tilted = [sum(each) + a / eta for each, a in zip(old, advantages, strict=True)]
    shares = [math.exp(each - log_of_sum(tilted)) for each in tilted]
    return -sum(q * (p - log_of_sum(now)) for q, p in zip(shares, now, strict=True))


def log_of_sum(powers) -> float:
    """log Σ eˣ."""
    return max(powers) + math.log(sum(math.exp(power - max(powers)) for power in powers))


def real_of(new, old, advantages, *, tau):
    """REAL, arXiv 2602.05630: two classes, each with an anchor of 1 beside it."""
    scores = [(sum(a) - sum(b)) / len(a) for a, b in zip(new, old, strict=True)]
    right = [s for s, a in zip(scores, advantages, strict=True) if a > 0]
    wrong = [s for s, a in zip(scores, advantages, strict=True) if a <= 0]
    if not right or not wrong:
        return 0.0
    return log_of_sum([0.0, *(-s / tau for s in right)]) + log_of_sum([0.0, *(s / tau for s in wrong)])


def flowrl_parts(log_probs, ref_log_probs, old_log_probs, advantages, mask, keep, log_ratio_bound, *, beta, most):
    """Weight and residual of each completion that counts, by place; the others have none."""
    found = {}
    for p in range(len(mask)):
        group = {}
        for g in (g for g in range(len(mask[p])) if keep[p][g] and tokens(mask, p, g)):
            kept = tokens(mask, p, g)
            log_weight = sum(log_probs[p][g][t] - old_log_probs[p][g][t] for t in kept)
            gain = sum(log_probs[p][g][t] - ref_log_probs[p][g][t] for t in kept) / len(kept)
            reward = sum(advantages[p][g][t] for t in kept) / len(kept)
            group[p, g] = min(ratio_of(log_weight, log_ratio_bound), most), gain - beta * reward
        log_z = -sum(w * rest for w, rest in group.values()) / max(sum(w for w, _ in group.values()), 1e-300)
        found |= {place: (w, log_z + rest) for place, (w, rest) in group.items()}
    return found


def clip_flowrl(log_probs, *others, **hyperparameters):
    """FlowRL, verl-recipe 48ea0a7 (``compute_flowrl``), with the log Z that fits a group best."""
    parts = flowrl_parts(log_probs, *others, **hyperparameters)
    squares = {place: weight * residual**2 for place, (weight, residual) in parts.items()}
    return per_token(log_probs, lambda p, g, t: squares.get((p, g), 0.0))


def slope_flowrl(log_probs, *others, **hyperparameters):
    """That of the mean over tokens, times their number; the weight and log Z are held."""
    parts = flowrl_parts(log_probs, *others, **hyperparameters)
    slopes = {place: 2 * weight * residual for place, (weight, residual) in parts.items()}
    return per_token(log_probs, lambda p, g, t: slopes.get((p, g), 0.0))


CLIP = {
    "gspo": clip_gspo,
    "gspo_token": clip_gspo,
    "gmpo": clip_gmpo,
    "vespo": clip_vespo,
    "opsm": clip_opsm,
    "a2po": clip_a2po,
    "gvpo": of_groups(gvpo_of),
    "tpo": of_groups(tpo_of),
    "real": of_groups(real_of),
    "flowrl": clip_flowrl,
}
SLOPES = {"gspo_token": slope_gspo_token, "vespo": slope_vespo, "flowrl": slope_flowrl}
