"""Norms of the reward components instead of their sum, ``[*R P G]``."""

from __future__ import annotations

from rlexp.axes.norm.statistics import global_, local
from rlexp.core.facts import NormFacts
from rlexp.core.types import CompletionMask, Ddof, PerCompletion, PerComponent, Positive, Weights


@NormFacts(compares="group", laws=("zero sum",), breaks=("equal group",))
def gdpo(
    components: PerComponent,
    weights: Weights,
    adjustments: PerCompletion,
    keep: CompletionMask,
    *,
    eps: Positive,
    ddof: Ddof,
) -> PerCompletion:
    """Sum weight · z-score of each reward component in its group, then a z-score of the sum over the batch.

    ``components`` that do not apply are NaN and left out. ``adjustments``, what shaping and KL in the reward have
    changed, is one more component of weight 1. Source: GDPO (arXiv 2601.05242); TRL ``normalize_then_sum``; verl
    ``gdpo`` ends with a whitening over tokens.
    """
    total = local(adjustments, keep, eps=eps, ddof=ddof)
    for values, weight in zip(components.unbind(-1), weights.unbind(-1), strict=True):
        applies = keep & ~values.isnan()
        scores = local(values.where(applies, 0.0), applies, eps=eps, ddof=ddof)
        total = total + weight[..., None, None] * scores.where(applies, 0.0)
    return global_(total, keep, eps=eps, ddof=ddof)


FUNCTIONS = {"gdpo": gdpo}
