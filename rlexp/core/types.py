"""Shape aliases, and the number ranges of ``numbers``: what the annotations of the whole package mean.

Axis order is always ``replica prompts group time``, the vocabulary last. ``*replica`` stands for any
number of leading axes, none included: the axis functions never look at them.
"""

from __future__ import annotations

from jaxtyping import Bool, Float, Int
from torch import Tensor

from rlexp.core.numbers import *  # noqa: F403 (offered here, too)

PerToken = Float[Tensor, "*replica prompts group time"]
NextToken = Float[Tensor, "*replica prompts group vocabulary"]
PerCompletion = Float[Tensor, "*replica prompts group"]
PerReplica = Float[Tensor, "*replica"]
PerPrompt = Float[Tensor, "*replica prompts 1"]
PerComponent = Float[Tensor, "*replica prompts group components"]
Weights = Float[Tensor, "*replica components"]
Remembered = Float[Tensor, "*replica numbers"]
PerKnownPrompt = Float[Tensor, "*replica known numbers"]
PerPromptOfSet = Float[Tensor, "*replica known"]
PromptNumbers = Int[Tensor, "*replica prompts"]
CompletionCounts = Int[Tensor, "*replica prompts"]
Prompts = Int[Tensor, "*replica prompts length"]
Completions = Int[Tensor, "*replica prompts group time"]
TokenMask = Bool[Tensor, "*replica prompts group time"]
CompletionMask = Bool[Tensor, "*replica prompts group"]

# What rollouts carry beside log-probabilities.
Counts = Int[Tensor, "*replica"]
PromptMask = Bool[Tensor, "*replica prompts"]

# Scalar networks: the places of a completion are before each of its T tokens and after the last, T + 1 in all.
PerPlaceOfCompletion = Float[Tensor, "*replica prompts group places"]

# All parameters of a network side by side.
PerParameter = Float[Tensor, "*replica parameters"]

# A population: copies of a network, each with noise of its own on all parameters.
PerMember = Float[Tensor, "*replica members"]
PerMemberAndParameter = Float[Tensor, "*replica members parameters"]

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
CorpusDraws = Float[Tensor, "*replica prompts"]

# What worlds take and give (``tasks/tabular.py``): a table has a row of logits for each question and state.
States = Int[Tensor, "*replica prompts group"]
TableLogits = Float[Tensor, "questions states vocabulary"]
LearnedLogits = Bool[Tensor, "states vocabulary"]
AllCompletions = Int[Tensor, "completions time"]
