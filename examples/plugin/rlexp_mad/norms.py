"""Advantages that a single outlier of a group does not scale."""

import torch

from rlexp.core.facts import NormFacts
from rlexp.core.types import CompletionMask, PerCompletion, Positive


@NormFacts(compares="group", laws=("scale",))
def mad(rewards: PerCompletion, keep: CompletionMask, *, eps: Positive = 1e-6) -> PerCompletion:
    """A = (r − median) / (MAD + eps), MAD = median |r − median|, over the completions of the group that are kept.

    Of an even number the median is the lower one of the two in the middle, as ``torch.median``. Source: the median
    absolute deviation (Hampel, 1974) in the place of GRPO's standard deviation.
    """
    kept = rewards.where(keep, torch.nan)
    distances = kept - kept.nanmedian(-1, keepdim=True).values
    deviation = distances.abs().nanmedian(-1, keepdim=True).values
    return (distances / (deviation + eps)).where(keep, 0.0)
