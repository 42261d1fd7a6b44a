"""The policy losses −weight · A · log π once more, whose weight has no gradient (see ``reference_clip``).

``SLOPES`` has the slope of a token's loss in its own log-probability, −weight · A: differences of the values would be
wrong.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from reference_clip import bounded, logistic, per_token, ratios


def cispo_weight(ratio, new, old, advantage, *, lower, upper):
    """MiniMax-M1, arXiv 2506.13585, with both bounds as ratios."""
    return bounded(ratio, lower, upper)


def topr_weight(ratio, new, old, advantage):
    """TOPR, arXiv 2503.14286: weigh only what has A ≤ 0, at most by 1."""
    return 1.0 if advantage > 0 else min(ratio, 1.0)


def rollout_is_weight(ratio, new, old, advantage, *, low, high):
    """GLM-5, arXiv 2602.15763; SkyRL: the ratio to the sampler, 0 at and beyond both bounds."""
    return ratio if 1 - low < ratio < 1 + high else 0.0


def dppo_tv_weight(ratio, new, old, advantage, *, low, high, upper):
    """DPPO-Binary-TV, arXiv 2602.04879; verl ``dppo_tv``: the change of the token's probability decides."""
    change = math.exp(new) - math.exp(old)
    too_far = change > high if advantage > 0 else change < -low
    return 0.0 if too_far else min(ratio, upper)


def dppo_kl_weight(ratio, new, old, advantage, *, low, high, upper):
    """DPPO-Binary-KL: KL(Bernoulli(π_old) ‖ Bernoulli(π)); moving back is never too far."""
    before, now = math.exp(old), math.exp(new)
    divergence = before * (old - new) + (1 - before) * math.log((1 - before + 1e-8) / (1 - now + 1e-8))
    too_far = divergence > high and now > before if advantage > 0 else divergence > low and now < before
    return 0.0 if too_far else min(ratio, upper)


def delightful_weight(new, advantage, *, eta):
    """Delightful policy gradient, arXiv 2603.14608: a logistic gate of the advantage times the surprisal now."""
    return logistic(-advantage * new / eta)


def of_ratio(weight: Callable) -> Callable:
    """Return the slope −weight · A of a weight of the ratio."""

    def slope(log_probs, old_log_probs, advantages, mask, log_ratio_bound, **hyperparameters):
        ratio = ratios(log_probs, old_log_probs, log_ratio_bound)

        def one(*i):
            return -weight(ratio[i], log_probs[i], old_log_probs[i], advantages[i], **hyperparameters) * advantages[i]

        return per_token(log_probs, one)

    return slope


def slope_delightful(log_probs, old_log_probs, advantages, mask, **hyperparameters):
    """−weight · A, with no ratio."""
    return per_token(
        log_probs, lambda *i: -delightful_weight(log_probs[i], advantages[i], **hyperparameters) * advantages[i]
    )


def weighted(slope: Callable) -> tuple[Callable, Callable]:
    """Return the loss that has such a slope, and the slope."""

    def loss(log_probs, *others, **hyperparameters):
        slopes = slope(log_probs, *others, **hyperparameters)
        return per_token(log_probs, lambda *i: slopes[i] * log_probs[i])

    return loss, slope


WEIGHTED = {
    name: weighted(slope)
    for name, slope in {
        "cispo": of_ratio(cispo_weight),
        "topr": of_ratio(topr_weight),
        "rollout_is": of_ratio(rollout_is_weight),
        "dppo_tv": of_ratio(dppo_tv_weight),
        "dppo_kl": of_ratio(dppo_kl_weight),
        "delightful": slope_delightful,
    }.items()
}


CLIP = {name: loss for name, (loss, _) in WEIGHTED.items()}
SLOPES = {name: slope for name, (_, slope) in WEIGHTED.items()}
