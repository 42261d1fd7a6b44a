"""CHORD, one token at a time: weights of the tokens of a right answer, the share of its loss, and the whole loss."""

from __future__ import annotations

import math

import numpy as np

# The weight of each token's −log p, a constant; p is its probability.
WEIGHTS = {
    "none": lambda p: 0.0,
    "sft": lambda p: 1.0,
    "sft_phi": lambda p: p * (1 - p),  # arXiv 2508.11408; Trinity-RFT ``phi_function``
    "sft_is": lambda p: p,  # Trinity-RFT ``SFTISLossFn``
}


def losses(name, log_probs):
    found = np.zeros(log_probs.shape)
    for at in np.ndindex(*found.shape):
        found[at] = -WEIGHTS[name](math.exp(log_probs[at])) * log_probs[at]
    return found


def slopes(name, log_probs):
    found = np.zeros(log_probs.shape)
    for at in np.ndindex(*found.shape):
        found[at] = -WEIGHTS[name](math.exp(log_probs[at]))
    return found


def mu_of_step(step, mu_warmup_steps, mu_decay_steps, mu_peak, mu_valley):
    """ms-swift and Trinity-RFT ``mu_schedule_function``, in steps."""
    if step < mu_warmup_steps:
        return step * mu_peak / mu_warmup_steps
    if step - mu_warmup_steps < mu_decay_steps:
        angle = math.pi * (step - mu_warmup_steps) / mu_decay_steps
        return mu_valley + (mu_peak - mu_valley) * math.cos(angle / 2) ** 2
    return mu_valley


def chord(grpo, name, log_probs, mask, mu):
    """ms-swift ``compute_chord_loss``: the supervised loss is a mean over the tokens of the answers."""
    of_tokens = losses(name, log_probs)
    counted = [of_tokens[at] for at in np.ndindex(*mask.shape) if mask[at]]
    return (1 - mu) * grpo + mu * (sum(counted) / len(counted) if counted else 0.0)


IMITATION = {name: (lambda log_probs, name=name: losses(name, log_probs)) for name in WEIGHTS}
SLOPES = {name: (lambda log_probs, name=name: slopes(name, log_probs)) for name in ("sft_phi", "sft_is")}
