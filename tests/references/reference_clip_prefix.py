"""Policy losses by the prefix of a token, once more, from the authors' code (see ``reference_clip``)."""

from __future__ import annotations

import math

import numpy as np
from reference_clip import bounded, clip_unclipped, per_token, ppo_of, ratio_of, slope_of_kept, tokens


def before(mask, p, g, t) -> list[int]:
    """Places of the tokens that count before t, and t itself if it counts."""
    return [k for k in tokens(mask, p, g) if k <= t]


def ctpo_parts(log_probs, old_log_probs, mask, log_ratio_bound, power, over, p, g, t):
    """log R_t of horizon-llm/CTPO acc4021, and tᵖ."""
    prefix = before(mask, p, g, t)
    total = sum(log_probs[p][g][k] - old_log_probs[p][g][k] for k in prefix)
    total = total / max(len(prefix), 1) if over == "mean" else total
    return total, bounded(total, -log_ratio_bound, log_ratio_bound), max(len(prefix), 1) ** power


def clip_ctpo(log_probs, old_log_probs, advantages, mask, log_ratio_bound, *, low, high, c, power, over):
    """The surrogate of a ratio that may be between e^(−low·tᵖ) and e^(high·tᵖ), dual-clipped at e^(c·tᵖ)."""

    def one(*i):
        _, log_ratio, room = ctpo_parts(log_probs, old_log_probs, mask, log_ratio_bound, power, over, *i)
        least, most, advantage = math.exp(-low * room), math.exp(high * room), advantages[i]
        loss = ppo_of(math.exp(log_ratio), advantage, 1 - least, most - 1)
        return min(loss, -advantage * math.exp(c * room)) if advantage < 0 else loss

    return per_token(log_probs, one)


def slope_ctpo(log_probs, old_log_probs, advantages, mask, log_ratio_bound, *, low, high, c, power, over):
    """−R·A at the token, 0 where one of the bounds holds."""

    def one(*i):
        total, log_ratio, room = ctpo_parts(log_probs, old_log_probs, mask, log_ratio_bound, power, over, *i)
        if advantages[i] >= 0:
            stopped = log_ratio > high * room
        else:
            stopped = log_ratio < -low * room or log_ratio > c * room
        return 0.0 if stopped or total != log_ratio else -math.exp(log_ratio) * advantages[i]

    return per_token(log_probs, one)


def least_before(log_probs, old_log_probs, mask, log_ratio_bound, p, g, t) -> float:
    """The smallest ratio of the tokens before t, 1 if there is none."""
    earlier = [k for k in tokens(mask, p, g) if k < t]
    return min((ratio_of(log_probs[p][g][k] - old_log_probs[p][g][k], log_ratio_bound) for k in earlier), default=1.0)


def clip_minpro(log_probs, old_log_probs, advantages, mask, log_ratio_bound, *, low, high):
    """MinPRO, arXiv 2601.22718: PPO's loss of the token times the smallest ratio before it."""

    def one(*i):
        ratio = ratio_of(log_probs[i] - old_log_probs[i], log_ratio_bound)
        weight = least_before(log_probs, old_log_probs, mask, log_ratio_bound, *i)
        return weight * ppo_of(ratio, advantages[i], low, high)

    return per_token(log_probs, one)


def slope_minpro(log_probs, old_log_probs, advantages, mask, log_ratio_bound, *, low, high):
    """The slope of PPO's loss times that weight, which has none."""

    def one(*i):
        log_ratio, advantage = log_probs[i] - old_log_probs[i], advantages[i]
        ratio = ratio_of(log_ratio, log_ratio_bound)
        stopped = ratio > 1 + high if advantage >= 0 else ratio < 1 - low
        if stopped or abs(log_ratio) > log_ratio_bound:
            return 0.0
        return -least_before(log_probs, old_log_probs, mask, log_ratio_bound, *i) * ratio * advantage

    return per_token(log_probs, one)


def clip_mu_grpo(log_probs, old_log_probs, advantages, mask, log_ratio_bound, *, low, high):
    """μ-GRPO, arXiv 2605.17570: PPO's loss, none for A < 0 once a token before has left the bounds."""

    def ratio(p, g, t):
        return ratio_of(log_probs[p][g][t] - old_log_probs[p][g][t], log_ratio_bound)

    def one(p, g, t):
        earlier = [ratio(p, g, k) for k in tokens(mask, p, g) if k < t]
        vetoed = advantages[p][g][t] < 0 and any(r < 1 - low or r > 1 + high for r in earlier)
        return 0.0 if vetoed else ppo_of(ratio(p, g, t), advantages[p][g][t], low, high)

    return per_token(log_probs, one)


def clip_cppo(log_probs, old_log_probs, advantages, mask, log_ratio_bound, *, delta, last, budget):
    """CPPO, arXiv 2606.10968, UniRL 30899fc: what a prefix has spent is taken off what its next token may move."""
    losses = clip_unclipped(log_probs, old_log_probs, advantages, mask, log_ratio_bound)
    for p, g in np.ndindex(*mask.shape[:2]):
        places = tokens(mask, p, g)
        new, old = (np.exp([values[p][g][t] for t in places]) for values in (log_probs, old_log_probs))
        distances = abs(new - old)
        allowed = bounded(np.quantile(distances, 0.9), budget, 2 * budget) if places else 0.0
        spent = due = 0.0
        for n, t in enumerate(places):
            weight = 1 - (1 - last) * n / max(len(places) - 1, 1)
            onward = advantages[p][g][t] * (new[n] - old[n]) > 0
            if onward and weight * distances[n] > min(delta, delta + allowed * due - spent):
                losses[p][g][t] = 0.0
            spent, due = spent + weight * distances[n], due + weight
    return losses


CLIP = {"ctpo": clip_ctpo, "minpro": clip_minpro, "mu_grpo": clip_mu_grpo, "cppo": clip_cppo}

SLOPES = {"ctpo": slope_ctpo, "minpro": slope_minpro, "cppo": slope_of_kept(clip_cppo)}
