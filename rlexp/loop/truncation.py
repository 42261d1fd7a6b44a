"""The policy that is trained where samples are of the most likely tokens alone (``sampler.training=truncated``).

It is the policy of those tokens, at every weight: its log-probabilities, entropies and distributions are wherever the
step has those of the policy. Other networks (the reference, teachers) keep all tokens, and evaluation does.

A token that the policy can draw no longer, as its weights have changed, has a ratio of 0, whose gradient is 0: its
log-probability is that of the policy that sampled, as a constant, and losses of tokens have all other gradients and
their denominators. A loss of whole completions takes its ratio for 1.

Source: NeMo-RL ``TrainingSamplingParams`` (nemo_rl/algorithms/logits_sampling_utils.py, 7ea279a). There the
log-probability of such a token is 0, without a gradient, too (``mask_out_neg_inf_logprobs``); the KL penalty is that
of the whole policy, here that of the truncated one to the whole reference. verl and TRL train the whole policy.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from rlexp.axes.sampler import OUTSIDE, truncated
from rlexp.core.blocks import map_variants
from rlexp.core.types import Distributions, PerPlace
from rlexp.loop.state import Experience
from rlexp.loop.variant import Variant
from rlexp.models.policy import TokenLogProbs, entropy, gather_log_probs

Blocks = Sequence[tuple[Variant, int]]


def trains_any(blocks: Blocks) -> bool:
    """Whether the policy of any variant is truncated in training."""
    return any(variant.trains_truncated for variant, _ in blocks)


def inside(log_probs: Tensor) -> Tensor:
    """Whether these log-probabilities, or differences of them and others, are of tokens that are not left out."""
    return log_probs > OUTSIDE / 2


def distributions(blocks: Blocks, whole: Distributions) -> Distributions:
    """Return what is trained of the whole policies, ``[R ... V]``."""
    if not trains_any(blocks):
        return whole
    return map_variants(of_variant, blocks, whole)


def of_variant(variant: Variant, whole: Distributions) -> Distributions:
    return truncated(whole, variant.top_k, variant.top_p) if variant.trains_truncated else whole


def as_trained(blocks: Blocks, read: TokenLogProbs, part: Experience) -> tuple[TokenLogProbs, dict[str, PerPlace]]:
    """Return what was read of whole policies as it is of those that are trained, and which tokens are ``outside``."""
    if not trains_any(blocks):
        return read, {}

    def trained(variant: Variant, read: TokenLogProbs, part: Experience) -> dict[str, object]:
        if not variant.trains_truncated:
            return {"read": read, "outside": read.log_probs.new_zeros(read.log_probs.shape)}
        every = of_variant(variant, read.distributions)
        log_probs = gather_log_probs(every, part.completions)
        there = inside(log_probs)
        log_probs = log_probs.where(there, part.old_log_probs)
        entropies = None if read.entropies is None else entropy(every)
        return {"read": TokenLogProbs(log_probs, entropies, every), "outside": (~there).to(log_probs)}

    found = map_variants(trained, blocks, read, part)
    return found["read"], {"outside": found["outside"]}
