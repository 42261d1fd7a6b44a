"""Shape aliases and number ranges: what the annotations of the whole package mean.

Axis order is always ``replica prompts group time``, the vocabulary last. ``*replica`` stands for any
number of leading axes, none included: the axis functions never look at them.
"""

from __future__ import annotations

from typing import Annotated

from annotated_types import Ge, Gt, Le, Lt
from jaxtyping import Bool, Float, Int
from pydantic import AllowInfNan
from torch import Tensor

PerToken = Float[Tensor, "*replica prompts group time"]
NextToken = Float[Tensor, "*replica prompts group vocabulary"]
PerCompletion = Float[Tensor, "*replica prompts group"]
PerReplica = Float[Tensor, "*replica"]
PerPrompt = Float[Tensor, "*replica prompts 1"]
PerComponent = Float[Tensor, "*replica prompts group components"]
Weights = Float[Tensor, "*replica components"]
Remembered = Float[Tensor, "*replica numbers"]
PerKnownPrompt = Float[Tensor, "*replica known numbers"]
PromptNumbers = Int[Tensor, "*replica prompts"]
Prompts = Int[Tensor, "*replica prompts length"]
Completions = Int[Tensor, "*replica prompts group time"]
TokenMask = Bool[Tensor, "*replica prompts group time"]
CompletionMask = Bool[Tensor, "*replica prompts group"]

Positive = Annotated[float, Gt(0), AllowInfNan(False)]
AboveOne = Annotated[float, Gt(1), AllowInfNan(False)]
NonNegative = Annotated[float, Ge(0)]  # or infinity: the bound of a clip that stops nothing
FiniteNonNegative = Annotated[float, Ge(0), AllowInfNan(False)]
# Numbers that torch and numpy can count with. A size is of something that is held in memory or made one by one.
LARGEST_SIZE = 2**16
PositiveInt = Annotated[int, Ge(1), Le(2**31 - 1)]
NonNegativeInt = Annotated[int, Ge(0), Le(2**31 - 1)]
Seed = Annotated[int, Ge(0), Le(2**63 - 1)]
Size = Annotated[int, Ge(1), Le(LARGEST_SIZE)]
Depth = Annotated[int, Ge(1), Le(1024)]
Count = Annotated[int, Ge(0), Le(LARGEST_SIZE)]
Ddof = Annotated[int, Ge(0), Le(1)]
Discount = Annotated[float, Ge(0), Le(1)]
Level = Annotated[float, Gt(0), Le(1)]
Decay = Annotated[float, Ge(0), Lt(1)]

# What rollouts carry beside log-probabilities.
Counts = Int[Tensor, "*replica"]
PromptMask = Bool[Tensor, "*replica prompts"]

# Scalar networks: the places of a completion are before each of its T tokens and after the last, T + 1 in all.
PerPlaceOfCompletion = Float[Tensor, "*replica prompts group places"]

# All parameters of a network side by side.
PerParameter = Float[Tensor, "*replica parameters"]

# What policies take and give. A place is a token of a completion, wherever it stands among them.
NextTokens = Int[Tensor, "*replica prompts group"]
PerVocabulary = Float[Tensor, "*replica prompts group time vocabulary"]
Distributions = Float[Tensor, "*places vocabulary"]
PlaceTokens = Int[Tensor, "*places"]
PerPlace = Float[Tensor, "*places"]
ReplicaIndices = Int[Tensor, "chosen"]

# Two completions of a prompt, of which one is better.
PairOfCompletions = Int[Tensor, "*replica pairs two time"]
PairOfMasks = Bool[Tensor, "*replica pairs two time"]
PerPair = Bool[Tensor, "*replica pairs"]

# What tasks take and give: one answer for each prompt.
PromptDraws = Float[Tensor, "*replica prompts draws"]
Answers = Int[Tensor, "*replica prompts time"]
AnswerMask = Bool[Tensor, "*replica prompts time"]

# What worlds take and give (``tasks/world.py``): a table has a row of logits for each question and state.
States = Int[Tensor, "*replica prompts group"]
TableLogits = Float[Tensor, "questions states vocabulary"]
LearnedLogits = Bool[Tensor, "states vocabulary"]
AllCompletions = Int[Tensor, "completions time"]
