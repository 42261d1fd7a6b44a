"""The policy losses with one ratio or decision a completion, once more (see ``reference_clip``)."""

from __future__ import annotations

import math

from reference_clip import bounded, clip_ppo, per_token, ppo_of, tokens


def sequence_ratio(log_probs, old_log_probs, mask, p, g) -> float:
    """GSPO eq. 7: (π(y) / π_old(y))^(1/|y|) over the tokens that count; 1 for none."""
    kept = tokens(mask, p, g)
    product = math.prod(math.exp(log_probs[p][g][t]) / math.exp(old_log_probs[p][g][t]) for t in kept)
    return product ** (1 / max(len(kept), 1))


def clip_gspo(log_probs, old_log_probs, advantages, mask, *, low, high):
    """GSPO, arXiv 2507.18071 eq. 5: PPO's surrogate of the sequence ratio, for each token of the completion."""

    def one(p, g, t):
        return ppo_of(sequence_ratio(log_probs, old_log_probs, mask, p, g), advantages[p][g][t], low, high)

    return per_token(log_probs, one)


def slope_gspo_token(log_probs, old_log_probs, advantages, mask, *, low, high):
    """GSPO-token, eq. 13-14: −ρ̄A at the token, 0 where PPO's rule stops the completion."""

    def one(p, g, t):
        ratio, advantage = sequence_ratio(log_probs, old_log_probs, mask, p, g), advantages[p][g][t]
        stopped = ratio > 1 + high if advantage >= 0 else ratio < 1 - low
        return 0.0 if stopped else -ratio * advantage

    return per_token(log_probs, one)


def clip_gmpo(log_probs, old_log_probs, advantages, mask, *, low, high):
    """GMPO, arXiv 2507.20673: the geometric mean of the ratios, each bounded on the side of the sign of A."""

    def one(p, g, t):
        kept, advantage = tokens(mask, p, g), advantages[p][g][t]
        product = 1.0
        for k in kept:
            ratio, own = math.exp(log_probs[p][g][k] - old_log_probs[p][g][k]), advantages[p][g][k]
            product *= min(ratio, math.exp(high)) if own > 0 else max(ratio, math.exp(-low))
        return -advantage * product ** (1 / max(len(kept), 1))

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


def clip_vespo(log_probs, old_log_probs, advantages, mask, **knobs):
    slopes = slope_vespo(log_probs, old_log_probs, advantages, mask, **knobs)
    return per_token(log_probs, lambda *i: slopes[i] * log_probs[i])


def clip_opsm(log_probs, old_log_probs, advantages, mask, *, low, high, delta):
    """DeepSeek-V3.2, arXiv 2512.02556 eq. 9: drop what has A < 0 and mean log π_old − log π above the threshold."""
    losses = clip_ppo(log_probs, old_log_probs, advantages, mask, low=low, high=high)

    def one(p, g, t):
        ratio = sequence_ratio(log_probs, old_log_probs, mask, p, g)
        return 0.0 if advantages[p][g][t] < 0 and -math.log(ratio) > delta else losses[p][g][t]

    return per_token(log_probs, one)


# ---- a few tokens apart


CLIP = {
    "gspo": clip_gspo,
    "gspo_token": clip_gspo,
    "gmpo": clip_gmpo,
    "vespo": clip_vespo,
    "opsm": clip_opsm,
}
SLOPES = {"gspo_token": slope_gspo_token, "vespo": slope_vespo}
