"""What the sampler makes of the policy: ``sampler(log_probs, *, hyperparameters) -> log_probs``, ``[*R P G V]``.

A simulation of the disagreement between an inference engine and a trainer. Given are log-probabilities of the next
token at the sampling temperature (the scaled logits, up to a constant): the trainer's, or with ``sampler.products``
those of the same weights with products that are rounded (``rlexp.core.rounding``). Tokens are drawn from what comes
back, also log-probabilities, or from the most likely of them (``truncated``). Evaluation samples from the policy.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from rlexp.core.facts import Facts
from rlexp.core.registry import Offer, by_name
from rlexp.core.types import FiniteNonNegative, NextToken


@Facts(is_noop=True)
def exact(log_probs: NextToken) -> NextToken:
    """Nothing else: sampler and trainer agree, as far as they compute alike."""
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


OUTSIDE = -1e9
"""log π of a token that is left out: its probability is 0, and no product or difference of it is NaN."""


def truncated(log_probs: Tensor, top_k: int | None, top_p: float | None) -> Tensor:
    """Return log π of the most likely tokens alone, which have all the probability, ``[..., V] -> [..., V]``.

    First the ``top_k`` most likely ones; then of these, once they have all the probability, the fewest that together
    have at least ``top_p``. Tokens as likely as the last that is kept are kept, too. The others have ``OUTSIDE`` and no
    gradient: which are kept has none. Source: top-k (Fan et al., arXiv 1805.04833), nucleus sampling (Holtzman et al.,
    arXiv 1904.09751); the order of vLLM, Transformers and NeMo-RL (nemo_rl/algorithms/logits_sampling_utils.py,
    7ea279a), where top-k keeps equals, too, and top-p keeps of them what its sort puts last.
    """
    if top_k is None and top_p is None:
        return log_probs
    kept = torch.ones_like(log_probs, dtype=torch.bool)
    seen = log_probs.detach()
    if top_k is not None and top_k < log_probs.shape[-1]:
        kept = seen >= seen.topk(top_k, -1).values[..., -1:]
    if top_p is not None and top_p < 1:
        left = F.log_softmax(seen.masked_fill(~kept, OUTSIDE), -1)
        ordered = left.sort(-1, descending=True).values
        before = F.pad(ordered.exp().cumsum(-1)[..., :-1], (1, 0))
        kept = kept & (left >= ordered.masked_fill(before >= top_p, math.inf).amin(-1, keepdim=True))
    return F.log_softmax(log_probs.masked_fill(~kept, OUTSIDE), -1).masked_fill(~kept, OUTSIDE)


FUNCTIONS = by_name(exact, noisy, bf16)
INPUTS = {
    "log_probs": Offer(NextToken, "log π of the next token over the vocabulary, at the sampling temperature"),
    "errors": Offer(NextToken, "independent standard normal numbers"),
}
