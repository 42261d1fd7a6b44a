"""The non-autoregressive model of CS336 lecture 17."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rlexp.models.layers import Embedding, Init
from rlexp.models.tape import no_tape
from rlexp.types import PositiveInt


class Positional(nn.Module):
    """A matrix for each prompt position, summed; a matrix for each answer position; the embedding read backwards.

    Answer tokens are independent of each other given the prompt. Embedding from N(0, 1), matrices from N(0, 1/width).
    """

    def __init__(self, init: Init, task, *, width: PositiveInt):
        super().__init__()
        self.embedding = Embedding(init, task.vocabulary, width)
        self.encode = init.normal(task.prompt_length, width, width, std=width**-0.5)
        self.decode_ = init.normal(task.cap, width, width, std=width**-0.5)

    def logits(self, prompts: Tensor) -> Tensor:
        """``[R, P, L] -> [R, P, T, V]``."""
        replicas, count, _ = prompts.shape
        encoded = torch.bmm(self.embedding(prompts).flatten(2), self.encode.flatten(1, 2))
        decoded = torch.bmm(encoded, self.decode_.transpose(1, 2).flatten(2))
        rows = decoded.view(replicas, -1, encoded.shape[-1])
        return torch.bmm(rows, self.embedding.weight.transpose(1, 2)).view(replicas, count, self.decode_.shape[1], -1)

    tape = no_tape

    def head_parameters(self) -> list[nn.Parameter]:
        """Return the parameters in which all logits are linear; the embedding is not: prompts are read with it."""
        return [self.decode_]

    def prefill(self, prompts: Tensor, group: int, tape: None = None) -> tuple[Tensor, Tensor]:
        """Return the logits of the first answer token ``[R, P, G, V]`` and those of the rest."""
        logits = self.logits(prompts).unsqueeze(2).expand(-1, -1, group, -1, -1)
        return logits[..., 0, :], logits[..., 1:, :]

    def decode(self, tokens: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Return the logits of the next answer token, whatever ``tokens`` were, and those of the rest."""
        return state[..., 0, :], state[..., 1:, :]

    def forward(self, prompts: Tensor, completions: Tensor, tape: None = None) -> Tensor:
        """Return the logits of every answer token: ``[R, P, L], [R, P, G, T] -> [R, P, G, T, V]``."""
        return self.logits(prompts).unsqueeze(2).expand(-1, -1, completions.shape[2], -1, -1)
