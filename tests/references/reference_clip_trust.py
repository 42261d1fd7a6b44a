"""Policy losses that leave out tokens which have moved too far, once more; ``reference_clip`` says how."""

from __future__ import annotations

import math

import numpy as np
from reference_clip import clip_ppo, clip_unclipped, per_token, ratios, slope_of_kept, tokens


def clip_ipo_prime_rl(log_probs, sampler_log_probs, advantages, mask, log_ratio_bound, *, eps):
    """prime-rl ``ipo``: keep a token whose probability is within eps of the sampler's."""
    ratio = ratios(log_probs, sampler_log_probs, log_ratio_bound)

    def one(*i):
        moved = abs(math.exp(log_probs[i]) - math.exp(sampler_log_probs[i]))
        return -ratio[i] * advantages[i] if moved <= eps else 0.0

    return per_token(log_probs, one)


def clip_m2po(log_probs, old_log_probs, advantages, mask, log_ratio_bound, *, budget):
    """M2PO, arXiv 2510.01161 algorithm 1: drop the largest until the mean of the rest is within the budget."""
    ratio = ratios(log_probs, old_log_probs, log_ratio_bound)
    moved = {i: log_probs[i] - old_log_probs[i] for i in np.ndindex(*mask.shape) if mask[i]}
    squares = {i: log_ratio**2 for i, log_ratio in moved.items() if log_ratio * advantages[i] > 0}
    dropped = []
    while squares and sum(squares.values()) / len(squares) > budget:
        dropped.append(max(squares, key=squares.get))
        del squares[dropped[-1]]
    return per_token(log_probs, lambda *i: 0.0 if i in dropped else -ratio[i] * advantages[i])


def m2po_bounds(log_probs, old_log_probs, advantages, mask, log_ratio_bound, *, budget, low, high):
    """The authors' code of M2PO (af54a3e): the widest bound with a mean capped square within the budget."""
    ratio = ratios(log_probs, old_log_probs, log_ratio_bound)
    moved = {i: math.log(ratio[i]) for i in np.ndindex(*mask.shape) if mask[i]}
    found = [abs(log_ratio) for i, log_ratio in moved.items() if log_ratio * advantages[i] > 0]
    wide = [bound for bound in found if sum(min(d, bound) ** 2 for d in found) / len(found) <= budget]
    tau = max(wide, default=0.0) * (1 + 1e-12)  # the token that the bound is of is inside, whatever exp rounds to
    return {"low": max(low, 1 - math.exp(-tau)), "high": max(high, math.exp(tau) - 1)}


def clip_m2po_clipped(*tensors, **hyperparameters):
    """PPO with these bounds."""
    return clip_ppo(*tensors, **m2po_bounds(*tensors, **hyperparameters))


def slope_m2po_clipped(log_probs, old_log_probs, advantages, mask, log_ratio_bound, **hyperparameters):
    """The slope with the bounds held: that of −ρ · A, and 0 where PPO's loss is another or ρ is at its bound."""
    tensors = log_probs, old_log_probs, advantages, mask, log_ratio_bound
    losses, full = clip_m2po_clipped(*tensors, **hyperparameters), clip_unclipped(*tensors)

    def one(*i):
        inside = abs(log_probs[i] - old_log_probs[i]) <= log_ratio_bound
        return full[i] if inside and losses[i] == full[i] else 0.0

    return per_token(full, one)


def clip_vaco(log_probs, old_log_probs, advantages, mask, log_ratio_bound, *, delta):
    """VACO, arXiv 2603.01365: in completions that have moved too far, tokens that would move on are dropped."""
    ratio = ratios(log_probs, old_log_probs, log_ratio_bound)

    def one(p, g, t):
        kept = tokens(mask, p, g)
        far = sum(abs(ratio[p][g][k] - 1) for k in kept) / max(len(kept), 1) > delta
        onward = (log_probs[p][g][t] - old_log_probs[p][g][t]) * advantages[p][g][t] > 0
        return 0.0 if far and onward else -ratio[p][g][t] * advantages[p][g][t]

    return per_token(log_probs, one)


def clip_trm(log_probs, old_log_probs, advantages, mask, log_ratio_bound, *, delta, over):
    """Trust Region Masking, arXiv 2512.23075: a completion with too large a KL, at worst or on average, is dropped."""
    ratio = ratios(log_probs, old_log_probs, log_ratio_bound)

    def one(p, g, t):
        distances = [ratio[p][g][k] - 1 - math.log(ratio[p][g][k]) for k in tokens(mask, p, g)] or [0.0]
        moved = max(distances) if over == "max" else sum(distances) / len(distances)
        return -ratio[p][g][t] * advantages[p][g][t] if moved <= delta else 0.0

    return per_token(log_probs, one)


CLIP = {"ipo_prime_rl": clip_ipo_prime_rl, "m2po": clip_m2po, "m2po_clipped": clip_m2po_clipped}
CLIP |= {"vaco": clip_vaco, "trm": clip_trm}

SLOPES = {"m2po_clipped": slope_m2po_clipped, "vaco": slope_of_kept(clip_vaco)}
