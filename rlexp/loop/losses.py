"""What losses of tokens are offered, and the terms that only some variants add to that of the policy."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from rlexp.core.blocks import map_variants
from rlexp.core.masked import per_token
from rlexp.core.registry import call_with
from rlexp.core.types import PerReplica, PerToken, PerVocabulary
from rlexp.loop.state import Experience, Tensors
from rlexp.loop.variant import Variant


def offered_to_losses(variant: Variant, log_probs: PerToken, part: Experience, tensors: Tensors) -> dict[str, object]:
    """Return what losses of tokens may ask for; where no loss looks, the policy is the one that sampled."""
    offered = {**part._asdict(), **tensors, **variant.bound(tensors["mean_tokens"])}
    return offered | {"log_probs": log_probs.where(part.mask, part.old_log_probs)}


def added_losses(
    blocks: Sequence[tuple[Variant, int]],
    policy: PerReplica,
    log_probs: PerToken,
    distributions: PerVocabulary | None,
    part: Experience,
    tensors: Tensors,
) -> dict[str, PerReplica]:
    """Return the terms that some variant adds, 0 for those that do not, and what they leave of ``policy``."""
    losses = {"loss/policy": policy}
    if any(variant.distillation_weight for variant, _ in blocks):
        losses |= map_variants(distillation_terms, blocks, policy, log_probs, distributions, part, tensors)
    if any(variant.imitates for variant, _ in blocks):
        losses |= map_variants(imitation_terms, blocks, losses, part, tensors)
    if any(variant.positive_nll_coef for variant, _ in blocks):
        losses |= map_variants(positive_nll_terms, blocks, log_probs, part, tensors)
    return losses


def distillation_terms(
    variant: Variant,
    policy: PerReplica,
    log_probs: PerToken,
    distributions: PerVocabulary | None,
    part: Experience,
    tensors: Tensors,
) -> dict[str, PerReplica]:
    """Divide the loss between that of the policy and that against the teacher, of completions that have one."""
    weight = variant.distillation_weight
    if not weight:
        return {"loss/policy": policy, "loss/distillation": torch.zeros_like(policy)}
    offered = offered_to_losses(variant, log_probs, part, tensors) | part.kept | {"distributions": distributions}
    offered["mask"] = part.mask & per_token(part.kept["taught"], part.mask)
    offered["mean_tokens"] = tensors["taught_tokens"]
    distilled = call_with(variant.agg, offered | {"losses": call_with(variant.distillation, offered)})
    return {"loss/policy": (1 - weight) * policy, "loss/distillation": weight * distilled}


def imitation_terms(
    variant: Variant, terms: dict[str, PerReplica], part: Experience, tensors: Tensors
) -> dict[str, PerReplica]:
    """Divide the loss between the terms of the policy's own completions and that of right answers.

    Source: CHORD (arXiv 2508.11408). Penalty and bonus stay whole, as in Trinity-RFT; ms-swift has the penalty in what
    it divides.
    """
    if not variant.imitates:
        return terms | {"loss/imitation": torch.zeros_like(tensors["mean_tokens"])}
    mask, mu = part.kept["answer_mask"], tensors["mu"]
    offered = {**tensors, **variant.bound(mu), "mask": mask, "mean_tokens": tensors["answer_tokens"]}
    offered["log_probs"] = tensors["answer_log_probs"].where(mask, 0.0)
    imitated = call_with(variant.agg, offered | {"losses": call_with(variant.imitation, offered)})
    return {name: (1 - mu) * term for name, term in terms.items()} | {"loss/imitation": mu * imitated}


def positive_nll_terms(
    variant: Variant, log_probs: PerToken, part: Experience, tensors: Tensors
) -> dict[str, PerReplica]:
    """Return the term of −log π of completions that the verifier calls correct, aggregated over these alone.

    Source: the positive-example loss of VAPO (arXiv 2504.05118), with mu 0.1; NeMo-RL ``positive_example_nll_weight``
    (7ea279a, ``loss_functions.py``), where a reward above 0 is correct. Both are means over tokens, of the batch in the
    paper (``agg=token``), of a micro-batch in NeMo-RL.
    """
    if not variant.positive_nll_coef:
        return {"loss/positive_nll": torch.zeros_like(tensors["mean_tokens"])}
    offered = offered_to_losses(variant, log_probs, part, tensors)
    offered["mask"] = part.mask & per_token(part.kept["correct"] > 0, part.mask)
    offered["mean_tokens"] = tensors["correct_tokens"]
    nll = call_with(variant.agg, offered | {"losses": -offered["log_probs"]})
    return {"loss/positive_nll": variant.positive_nll_coef * nll}
