"""Samplers and corrections once more: log-probs, losses, mask ``[P G T]`` of one replica, one number at a time.

A sampler's last axis is the vocabulary.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable

import numpy as np
from reference_clip import bounded, ratio_of


def rounded(number: float) -> float:
    """Return the nearest bfloat16, ties to even: the upper half of a float32."""
    bits = struct.unpack("<I", struct.pack("<f", number))[0]
    bits += 0x7FFF + (bits >> 16 & 1)
    return struct.unpack("<f", struct.pack("<I", bits & 0xFFFF0000))[0]


def normalised(weights: np.ndarray) -> np.ndarray:
    """Logarithms of exp(weights) over their sum."""
    filled = np.empty(weights.shape)
    for place in np.ndindex(*weights.shape[:-1]):
        total = math.fsum(math.exp(weight) for weight in weights[place])
        filled[place] = [weight - math.log(total) for weight in weights[place]]
    return filled


def sampler_exact(log_probs):
    """The policy itself."""
    return log_probs


def sampler_noisy(log_probs, errors, *, std):
    """Logits with Gaussian errors of that deviation."""
    noisy = [a + std * b for a, b in zip(log_probs.flat, errors.flat, strict=True)]
    return normalised(np.array(noisy).reshape(log_probs.shape))


def sampler_bf16(log_probs):
    """Log-probabilities with 8 bits of precision."""
    return normalised(np.array([rounded(value) for value in log_probs.flat]).reshape(log_probs.shape))


def most_likely(log_probs: list[float], top_k: int | None, top_p: float | None) -> list[float]:
    """Keep the most likely tokens of one distribution, one after another; -inf for the others.

    Tokens as likely as the last one that is kept are kept. Holtzman et al., arXiv 1904.09751, section 3.1.
    """
    ordered = sorted(range(len(log_probs)), key=lambda token: -log_probs[token])
    if top_k is not None:
        least = log_probs[ordered[min(top_k, len(ordered)) - 1]]
        ordered = [token for token in ordered if log_probs[token] >= least]
    if top_p is not None:
        total = math.fsum(math.exp(log_probs[token]) for token in ordered)
        nucleus = []
        for token in ordered:
            share = math.fsum(math.exp(log_probs[each]) for each in nucleus) / total
            if share < top_p or log_probs[token] == log_probs[nucleus[-1]]:
                nucleus.append(token)
        ordered = nucleus
    total = math.fsum(math.exp(log_probs[token]) for token in ordered)
    return [log_probs[token] - math.log(total) if token in ordered else -math.inf for token in range(len(log_probs))]


def of_tokens(old, sampler, mask, bound) -> np.ndarray:
    """π_old / π_sampler of each token; 1 where nothing counts."""
    ratios = np.ones(mask.shape)
    for place in zip(*mask.nonzero(), strict=True):
        ratios[place] = ratio_of(old[place] - sampler[place], bound)
    return ratios


def of_each(old, sampler, mask, value: Callable[[list[float]], float]) -> np.ndarray:
    """Fill every token of a completion with a function of the log-ratios of those that count."""
    found = np.zeros(mask.shape)
    for place in np.ndindex(*mask.shape[:-1]):
        found[place] = value([old[place][t] - sampler[place][t] for t in mask[place].nonzero()[0]])
    return found


def of_completions(old, sampler, mask, bound) -> np.ndarray:
    """The product of the tokens' ratios, for each token of the completion."""
    return of_each(old, sampler, mask, lambda logs: ratio_of(sum(logs), bound))


def geometric(old, sampler, mask, bound) -> np.ndarray:
    """The n-th root of the product of the n tokens that count, for each token of the completion; 1 for none."""
    return of_each(old, sampler, mask, lambda logs: ratio_of(sum(logs) / max(len(logs), 1), bound))


def divergences(old, sampler, mask, bound) -> np.ndarray:
    """Mean over the tokens that count of κ − 1 − log κ, for each token of the completion; 0 for none."""

    def mean(logs):
        cut = [bounded(each, -bound, bound) for each in logs]
        return sum(math.exp(each) - 1 - each for each in cut) / max(len(logs), 1)

    return of_each(old, sampler, mask, mean)


def inside(values, low, high) -> np.ndarray:
    """1 between the bounds, else 0; verl's ``rollout_rs`` masks."""
    return np.array([1.0 if low <= value <= high else 0.0 for value in values.flat]).reshape(values.shape)


def geometric_mask(losses, old_log_probs, sampler_log_probs, mask, log_ratio_bound, *, low, high):
    """OpenRLHF ``seq-mask-tis``."""
    given = old_log_probs, sampler_log_probs, mask, log_ratio_bound
    return losses * of_tokens(*given) * inside(geometric(*given), low, high)


def geometric_reject(losses, old_log_probs, sampler_log_probs, mask, log_ratio_bound, *, low, high):
    """verl ``seq_mean_k1``, with bounds of the ratio and not of its inverse."""
    return losses * inside(geometric(old_log_probs, sampler_log_probs, mask, log_ratio_bound), low, high)


def divergence_reject(losses, old_log_probs, sampler_log_probs, mask, log_ratio_bound, *, high):
    """verl ``seq_mean_k3``."""
    return losses * inside(divergences(old_log_probs, sampler_log_probs, mask, log_ratio_bound), -math.inf, high)


def truncate_and_reject(losses, old_log_probs, sampler_log_probs, mask, log_ratio_bound, *, most, low, high):
    """verl ``rollout_is=token`` and ``rollout_rs=seq_mean_k1``."""
    given = old_log_probs, sampler_log_probs, mask, log_ratio_bound
    return losses * np.minimum(of_tokens(*given), most) * inside(geometric(*given), low, high)


def token_veto(losses, old_log_probs, sampler_log_probs, mask, log_ratio_bound, *, low, high):
    """SkyRL ``compute_outlier_token_mask``: ``all_tokens_valid`` of each sequence."""
    near = inside(of_tokens(old_log_probs, sampler_log_probs, mask, log_ratio_bound), low, high)
    return losses * near.min(-1, keepdims=True)


def probability_reject(losses, old_log_probs, sampler_log_probs, mask, *, low, high):
    """ROLL ``m_diff`` of ``diff["token"]``; tokens that do not count are not asked."""
    found = losses.copy()
    for place in zip(*mask.nonzero(), strict=True):
        if not low <= math.exp(old_log_probs[place]) - math.exp(sampler_log_probs[place]) <= high:
            found[place] = 0.0
    return found


def of_segments(old, sampler, mask, bound) -> np.ndarray:
    """The geometric mean of the ratios over the run of tokens that count in which a token stands; 1 outside."""
    found = np.ones(mask.shape)
    for place in np.ndindex(*mask.shape[:-1]):
        run = []
        for t in range(mask.shape[-1] + 1):
            if t < mask.shape[-1] and mask[place][t]:
                run.append(t)
            elif run:
                found[place][run] = ratio_of(sum(old[place][k] - sampler[place][k] for k in run) / len(run), bound)
                run = []
    return found


def segment_reject(losses, old_log_probs, sampler_log_probs, mask, log_ratio_bound, *, low, high):
    """ROLL ``m_ratio`` of ``ratio["segment"]``."""
    return losses * inside(of_segments(old_log_probs, sampler_log_probs, mask, log_ratio_bound), low, high)


def truncated(ratio: float, low: float, high: float) -> float:
    return low if ratio < low else high if ratio > high else ratio


def dropped(ratio: float, low: float, high: float) -> float:
    return ratio if low <= ratio <= high else 0.0


def weighted(ratios: Callable, weight: Callable) -> Callable:
    """TRL ``vllm_importance_sampling_mode``: what a ratio, and what of it outside the bounds."""

    def mismatch(losses, old_log_probs, sampler_log_probs, mask, log_ratio_bound, *, low, high):
        found = ratios(old_log_probs, sampler_log_probs, mask, log_ratio_bound)
        weights = [weight(ratio, low, high) for ratio in found.flat]
        return losses * np.array(weights).reshape(losses.shape)

    return mismatch


SAMPLER = {"exact": sampler_exact, "noisy": sampler_noisy, "bf16": sampler_bf16}
MISMATCH = {
    "none": lambda losses: losses,
    "token_truncate": weighted(of_tokens, truncated),
    "token_mask": weighted(of_tokens, dropped),
    "sequence_truncate": weighted(of_completions, truncated),
    "sequence_mask": weighted(of_completions, dropped),
    "geometric_mask": geometric_mask,
    "geometric_reject": geometric_reject,
    "divergence_reject": divergence_reject,
    "truncate_and_reject": truncate_and_reject,
    "token_veto": token_veto,
    "probability_reject": probability_reject,
    "segment_truncate": weighted(of_segments, truncated),
    "segment_reject": segment_reject,
}
