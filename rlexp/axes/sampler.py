"""What the sampler makes of the policy: ``sampler(log_probs, *, hyperparameters) -> log_probs``, ``[*R P G V]``.

A simulation of the disagreement between an inference engine and a trainer. Given are the trainer's log-probabilities of
the next token at the sampling temperature (the scaled logits, up to a constant); tokens are drawn from what comes back,
also log-probabilities. Evaluation samples from the policy itself.
"""

from __future__ import annotations

import torch.nn.functional as F

from rlexp.core.facts import Facts
from rlexp.core.registry import Offer, by_name
from rlexp.core.types import FiniteNonNegative, NextToken


@Facts(is_noop=True)
def exact(log_probs: NextToken) -> NextToken:
    """The policy itself: sampler and trainer agree."""
    return log_probs


def noisy(log_probs: NextToken, errors: NextToken, *, std: FiniteNonNegative) -> NextToken:
    """log softmax(log π + std · errors): Gaussian noise on the logits, in units of the logits after the temperature.

    ``errors`` are independent standard normal numbers for every token of the vocabulary at every place. To first order
    KL(π_sampler‖π) at a place is std²/2 · (1 − Σ_v π_v²) nats. Source: a model of this project, no framework has it.
    """
    return F.log_softmax(log_probs + std * errors, -1)


def bf16(log_probs: NextToken) -> NextToken:
    """log softmax of log π rounded to bfloat16 (8 bits of precision): a sampler whose logits are of that type.

    Source: bfloat16 as the cause of the disagreement (arXiv 2510.26788). Only the last rounding is simulated.
    """
    return F.log_softmax(log_probs.bfloat16().to(log_probs.dtype), -1)


FUNCTIONS = by_name(exact, noisy, bf16)
INPUTS = {
    "log_probs": Offer(NextToken, "log π of the next token over the vocabulary, at the sampling temperature"),
    "errors": Offer(NextToken, "independent standard normal numbers"),
}
