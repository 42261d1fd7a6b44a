"""Shapes inside the models: R replicas, N sequences (prompts, or completions of all prompts), T tokens."""

from __future__ import annotations

from jaxtyping import Bool, Float, Int
from torch import Tensor

Rows = Float[Tensor, "replica rows width"]
Sequences = Float[Tensor, "replica sequences time width"]
SequenceTokens = Int[Tensor, "replica sequences time"]
SequenceMask = Bool[Tensor, "replica sequences time"]
HiddenState = Float[Tensor, "replica sequences hidden"]
HiddenStates = Float[Tensor, "replica sequences time hidden"]
Gates = Float[Tensor, "replica sequences gates"]
GatesOverTime = Float[Tensor, "replica sequences time gates"]
AttentionBias = Float[Tensor, "replica sequences 1 time time"]
AnswerLogits = Float[Tensor, "replica prompts time vocabulary"]
RemainingLogits = Float[Tensor, "replica prompts group remaining vocabulary"]
