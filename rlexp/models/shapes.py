"""Shapes inside the models: R replicas, N sequences (prompts, or completions of all prompts), T tokens.

In the transformer also P prompts, H heads, G completions a prompt and L tokens of a prompt. There a query meets L + T
keys: those of its prompt, read once for the whole group, and those of its own completion. Outside attention tokens are
rows in the order T, P, G.
"""

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

ByHead = Float[Tensor, "replica prompts heads group time head_size"]
PromptByHead = Float[Tensor, "replica prompts heads length head_size"]
AttentionWeights = Float[Tensor, "replica prompts heads group time keys"]

Weight = Float[Tensor, "replica inputs outputs"]
UpWeight = Float[Tensor, "replica width hidden"]
GateAndUpWeight = Float[Tensor, "replica width gate_and_up"]  # side by side
DownWeight = Float[Tensor, "replica hidden width"]
PromptRows = Float[Tensor, "replica prompts length width"]
PlaceRows = Float[Tensor, "replica prompts places width"]
PromptRow = Float[Tensor, "replica prompts width"]
PositionRows = Float[Tensor, "replica prompts 1 width"]

Angles = Float[Tensor, "replica prompts *places half_size"]  # of rotary positions: their cosine or sine

# Added to scores: 0, or a number that no score outweighs where a key is masked.
PromptBias = Float[Tensor, "replica prompts 1 length length"]
PaddingBias = Float[Tensor, "replica prompts 1 1 1 length"]
CausalBias = Float[Tensor, "time time"]

PromptLengths = Int[Tensor, "replica prompts"]
# Of completion tokens: [R, P·G, ·] of one, [R, T, P, G, ·] of all, [R, T·P·G, ·] as rows.
OfTokens = Float[Tensor, "replica *tokens width"]
HiddenOfTokens = Float[Tensor, "replica *tokens hidden"]
LogitsOfTokens = Float[Tensor, "replica *tokens vocabulary"]

# Of completions that were packed (``packing``): rows are their tokens, tiles are of rows.
CompletionLengths = Int[Tensor, "replica prompts group"]
OfTiles = Int[Tensor, "tiles"]
OfSlots = Int[Tensor, "slots"]
OfRows = Int[Tensor, "rows"]
ResultPlaces = Int[Tensor, "completions time"]
PackedRows = Float[Tensor, "rows width"]
FlatPromptByHead = Float[Tensor, "all_prompts heads length head_size"]
FlatPaddingBias = Float[Tensor, "all_prompts 1 1 length"]
