"""The non-autoregressive model of CS336 lecture 17."""

from __future__ import annotations

from torch import Tensor, nn

from rlexp.core.exact import bmm, products_of
from rlexp.core.types import Completions, NextToken, NextTokens, PerVocabulary, Prompts, Size
from rlexp.models.layers import Embedding, Init
from rlexp.models.policy import Policy
from rlexp.models.shapes import AnswerLogits, RemainingLogits
from rlexp.tasks.task import Task


class Positional(Policy):
    """A matrix for each prompt position, summed; a matrix for each answer position; the embedding read backwards.

    Answer tokens are independent of each other given the prompt: it reads no completion, and judges none. Embedding
    from N(0, 1), matrices from N(0, 1/width).
    """

    reads_completions = False

    def __init__(self, init: Init, task: Task, *, width: Size):
        super().__init__()
        self.embedding = Embedding(init, task.vocabulary, width)
        self.encoder = init.normal(task.prompt_length, width, width, std=width**-0.5)
        self.decoder = init.normal(task.cap, width, width, std=width**-0.5)

    def answer_logits(self, prompts: Prompts) -> AnswerLogits:
        """Return the logits of every answer token, which are the same for all completions of a prompt."""
        replicas, count, _ = prompts.shape
        encoded = bmm(self.embedding(prompts).flatten(2), self.encoder.flatten(1, 2))
        decoded = bmm(encoded, self.decoder.transpose(1, 2).flatten(2))
        rows = decoded.view(replicas, -1, encoded.shape[-1])
        with products_of("head"):
            logits = bmm(rows, self.embedding.weight.transpose(1, 2))
        return logits.view(replicas, count, self.decoder.shape[1], -1)

    def head_parameters(self) -> list[nn.Parameter]:
        """Return the parameters in which all logits are linear; the embedding is not: prompts are read with it."""
        return [self.decoder]

    def prefill(self, prompts: Prompts, group: int) -> tuple[NextToken, RemainingLogits]:
        """Return the logits of the first answer token and those of the rest."""
        logits = self.answer_logits(prompts).unsqueeze(2).expand(-1, -1, group, -1, -1)
        return logits[..., 0, :], logits[..., 1:, :]

    def decode(self, tokens: NextTokens, state: RemainingLogits) -> tuple[NextToken, Tensor]:
        """Return the logits of the next answer token, whatever ``tokens`` were, and those of the rest."""
        return state[..., 0, :], state[..., 1:, :]

    def logits(self, prompts: Prompts, completions: Completions) -> PerVocabulary:
        return self.answer_logits(prompts).unsqueeze(2).expand(-1, -1, completions.shape[2], -1, -1)
