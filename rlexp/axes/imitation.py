"""Losses on right answers: ``imitation(log_probs) -> losses`` of the tokens of an answer, ``[*R P G T]`` with G = 1.

The task answers every prompt of a step, and the policy reads that answer beside its own completions, which stay as they
are: rewards, statistics and ratios do not see it. Losses are aggregated by ``agg`` as policy losses are, over answers
alone, and the loss of a run is (1 − μ) · policy loss + μ · this, where μ follows ``mu_schedule``; penalty and bonus
stand beside both. p is the policy's probability of a token of the answer.

Source: CHORD (arXiv 2508.11408): its experts have prompts of their own, as in Trinity-RFT and ms-swift.
"""

from __future__ import annotations

import math

from torch import zeros_like

from rlexp.core.facts import Facts
from rlexp.core.registry import Offer, by_name
from rlexp.core.types import PerToken, Probability


@Facts(is_noop=True)
def none(log_probs: PerToken) -> PerToken:
    """No answer is imitated."""
    return zeros_like(log_probs)


def sft(log_probs: PerToken) -> PerToken:
    """−log p: supervised fine-tuning, an unlikely token pulls most.

    Source: CHORD-μ (arXiv 2508.11408); Trinity-RFT ``mix_chord`` with ``enable_phi_function=false`` (b458e2c),
    ms-swift ``compute_chord_loss`` (3602360a).
    """
    return -log_probs


def sft_phi(log_probs: PerToken) -> PerToken:
    """−φ log p, φ = p (1 − p) without a gradient: tokens that are nearly sure, or nearly impossible, pull little.

    The gradient is that of −(p − p² / 2), at most a quarter of that of −log p. Source: CHORD-φ (arXiv 2508.11408);
    Trinity-RFT ``SFTPhiLossFn`` (b458e2c), ms-swift ``chord_enable_phi_function`` (3602360a).
    """
    probabilities = log_probs.detach().exp()
    return -(probabilities * (1 - probabilities)) * log_probs


def sft_is(log_probs: PerToken) -> PerToken:
    """−p log p, the factor p without a gradient: the gradient is that of −p, of the chance to write the token itself.

    For answers of one token it is the exact policy gradient of a reward of 1 for the answer. Source: CHORD's importance
    sampling with an expert of probability 1 (arXiv 2508.11408), Trinity-RFT ``SFTISLossFn`` (b458e2c); dynamic
    fine-tuning (arXiv 2508.05629, not read).
    """
    return -log_probs.detach().exp() * log_probs


def mu_schedule(
    progress: float,
    *,
    mu_peak: Probability,
    mu_valley: Probability,
    mu_warmup: Probability,
    mu_decay: Probability,
) -> float:
    """μ at ``progress``: up to ``mu_peak`` along a line, down to ``mu_valley`` along a cosine, constant from there.

    All but the two levels are shares of the run's updates. Source: Trinity-RFT ``mu_schedule_function`` (b458e2c) and
    ms-swift's (3602360a), with ``mu_warmup_steps`` and ``mu_decay_steps``.
    """
    if progress < mu_warmup:
        return mu_peak * (progress / mu_warmup)
    if progress >= mu_warmup + mu_decay:
        return mu_valley
    fallen = (1 - math.cos(math.pi * (progress - mu_warmup) / mu_decay)) / 2
    return mu_peak + (mu_valley - mu_peak) * fallen


FUNCTIONS = by_name(none, sft, sft_phi, sft_is)
INPUTS = {
    "log_probs": Offer(PerToken, "log π of the tokens of the right answer, by the policy; carries the gradient"),
}
