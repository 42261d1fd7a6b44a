"""Samplers and corrections once more: log-probs, losses, mask ``[P G T]`` of one replica, one number at a time.

A sampler's last axis is the vocabulary.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable

import numpy as np


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


def of_tokens(old, sampler, mask) -> np.ndarray:
    """π_old / π_sampler of each token; 1 where nothing counts."""
    return np.where(mask, np.exp(np.where(mask, old, 0)) / np.exp(np.where(mask, sampler, 0)), 1.0)


def of_completions(old, sampler, mask) -> np.ndarray:
    """The product of the tokens' ratios, for each token of the completion."""
    return np.repeat(np.prod(of_tokens(old, sampler, mask), axis=-1, keepdims=True), mask.shape[-1], axis=-1)


def geometric(old, sampler, mask) -> np.ndarray:
    """The n-th root of the product of the n tokens that count, for each token of the completion; 1 for none."""
    numbers = np.maximum(mask.sum(-1, keepdims=True), 1)
    return of_completions(old, sampler, mask) ** (1 / numbers)


def divergences(old, sampler, mask) -> np.ndarray:
    """Mean over the tokens that count of κ − 1 − log κ, for each token of the completion; 0 for none."""
    found = np.zeros(mask.shape)
    for place in np.ndindex(*mask.shape[:-1]):
        ratios = [
            math.exp(a) / math.exp(b) for a, b, m in zip(old[place], sampler[place], mask[place], strict=True) if m
        ]
        found[place] = sum(ratio - 1 - math.log(ratio) for ratio in ratios) / max(len(ratios), 1)
    return found


def inside(values, low, high) -> np.ndarray:
    """1 between the bounds, else 0; verl's ``rollout_rs`` masks."""
    return np.array([1.0 if low <= value <= high else 0.0 for value in values.flat]).reshape(values.shape)


def geometric_mask(losses, old_log_probs, sampler_log_probs, mask, *, low, high):
    """OpenRLHF ``seq-mask-tis``."""
    given = old_log_probs, sampler_log_probs, mask
    return losses * of_tokens(*given) * inside(geometric(*given), low, high)


def geometric_reject(losses, old_log_probs, sampler_log_probs, mask, *, low, high):
    """verl ``seq_mean_k1``, with bounds of the ratio and not of its inverse."""
    return losses * inside(geometric(old_log_probs, sampler_log_probs, mask), low, high)


def divergence_reject(losses, old_log_probs, sampler_log_probs, mask, *, high):
    """verl ``seq_mean_k3``."""
    return losses * inside(divergences(old_log_probs, sampler_log_probs, mask), -math.inf, high)


def truncate_and_reject(losses, old_log_probs, sampler_log_probs, mask, *, most, low, high):
    """verl ``rollout_is=token`` and ``rollout_rs=seq_mean_k1``."""
    given = old_log_probs, sampler_log_probs, mask
    return losses * np.minimum(of_tokens(*given), most) * inside(geometric(*given), low, high)


def truncated(ratio: float, low: float, high: float) -> float:
    return low if ratio < low else high if ratio > high else ratio


def dropped(ratio: float, low: float, high: float) -> float:
    return ratio if low <= ratio <= high else 0.0


def weighted(ratios: Callable, weight: Callable) -> Callable:
    """TRL ``vllm_importance_sampling_mode``: what a ratio, and what of it outside the bounds."""

    def mismatch(losses, old_log_probs, sampler_log_probs, mask, *, low, high):
        found = ratios(old_log_probs, sampler_log_probs, mask)
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
}
