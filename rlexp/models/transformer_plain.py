"""The transformer as a textbook has it: the whole sequence once more for every token, gradients by autograd.

The readable twin of ``transformer`` and the oracle of its tests: the same parameters by name, the same initial draws,
the same numbers up to rounding, several times slower.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from rlexp.core.exact import Softmax, bmm, matmul, products_of
from rlexp.core.types import Completions, Depth, NextToken, NextTokens, PerVocabulary, Prompts, Size, TokenMask
from rlexp.models.layers import Embedding, Init, Projection, layer_norm
from rlexp.models.policy import Policy
from rlexp.models.shapes import AttentionBias, Sequences
from rlexp.tasks.task import Task

MASKED = -1e9


class Prefix(NamedTuple):
    """Every completion so far behind its prompt, and which of these tokens are no padding."""

    tokens: Completions
    present: TokenMask

    def extended(self, tokens: Completions) -> Prefix:
        """Return the prefix with ``tokens`` behind it; these all count."""
        present = torch.ones_like(tokens, dtype=torch.bool)
        return Prefix(torch.cat([self.tokens, tokens], -1), torch.cat([self.present, present], -1))


class Dense(Projection):
    """x W without bias."""

    def forward(self, x: Tensor) -> Tensor:
        """``[R, ..., in] -> [R, ..., out]``."""
        return bmm(x.flatten(1, -2), self.weight).view(*x.shape[:-1], self.weight.shape[-1])


class PlainBlock(nn.Module):
    """x + attention(norm(x)), then x + feed-forward(norm(x)) with a ReLU."""

    layer = Dense

    def __init__(self, init: Init, width: int, heads: int, feedforward: int):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = self.layer(init, width, 3 * width), self.layer(init, width, width)
        self.up, self.down = self.layer(init, width, feedforward), self.layer(init, feedforward, width)

    def attention(self, x: Sequences, bias: AttentionBias) -> Sequences:
        """softmax(Q Kᵀ / √D + bias) V for each head (Vaswani et al., arXiv 1706.03762, eq. 1)."""
        by_head = self.qkv(x).unflatten(-1, (3, self.heads, -1)).movedim((-3, -2), (0, 3))
        query, key, value = by_head.contiguous().unbind(0)  # [R, N, H, T, D] each
        scores = matmul(query, key.transpose(-1, -2)) * query.shape[-1] ** -0.5
        return self.out(matmul(Softmax.apply(scores, bias), value).transpose(2, 3).flatten(3))

    def forward(self, x: Sequences, bias: AttentionBias) -> Sequences:
        """Return the outputs at all tokens; ``bias`` masks keys from queries."""
        x = x + self.attention(layer_norm(x), bias)
        return x + self.down(self.up(layer_norm(x)).relu())


class PlainTransformer(Policy):
    """Token and position embeddings, ``layers`` blocks, a last norm and a head; left padding is never attended to."""

    block = PlainBlock

    def __init__(
        self,
        init: Init,
        task: Task,
        outputs: int | None = None,
        *,
        width: Size,
        layers: Depth,
        heads: Size,
        feedforward: Size,
    ):
        super().__init__()
        self.take_sizes(task, outputs)
        self.tokens = Embedding(init, task.vocabulary, width, std=0.5)
        self.positions = Embedding(init, task.prompt_length + task.cap, width, std=0.5)
        self.blocks = nn.ModuleList(self.block(init, width, heads, feedforward) for _ in range(layers))
        self.head = self.block.layer(init, width, outputs or task.vocabulary)

    def take_sizes(self, task: Task, outputs: int | None) -> None:
        """Note what of the task it works with."""
        self.pad, self.cap = task.pad, task.cap

    def next_token_logits(self, prefix: Prefix) -> PerVocabulary:
        tokens, present = prefix.tokens.flatten(1, 2), prefix.present.flatten(1, 2)  # [R, N, T]
        x = self.tokens(tokens) + self.positions((present.cumsum(-1) - 1).clamp(min=0))
        bias = attention_bias((later_than(tokens) | ~present[..., None, :]).unsqueeze(2))
        for block in self.blocks:
            x = block(x, bias)
        with products_of("head"):
            return self.head(layer_norm(x)).unflatten(1, prefix.tokens.shape[1:3])

    def repeat_prompts(self, prompts: Prompts, group: int) -> Prefix:
        tokens = prompts.unsqueeze(2).expand(-1, -1, group, -1)
        return Prefix(tokens, tokens != self.pad)

    def prefill(self, prompts: Prompts, group: int) -> tuple[NextToken, Prefix]:
        prefix = self.repeat_prompts(prompts, group)
        return self.next_token_logits(prefix)[..., -1, :], prefix

    def decode(self, tokens: NextTokens, state: Prefix) -> tuple[NextToken, Prefix]:
        prefix = state.extended(tokens.unsqueeze(-1))
        return self.next_token_logits(prefix)[..., -1, :], prefix

    def logits(self, prompts: Prompts, completions: Completions) -> PerVocabulary:
        prefix = self.repeat_prompts(prompts, completions.shape[2]).extended(completions[..., :-1])
        return self.next_token_logits(prefix)[..., prompts.shape[-1] - 1 :, :]


def later_than(tokens: Tensor) -> Tensor:
    """Which tokens come later than each, and must not be seen by it, ``[..., T] -> [T, T]``."""
    return torch.ones(tokens.shape[-1], tokens.shape[-1], dtype=torch.bool, device=tokens.device).triu(1)


def attention_bias(masked: Tensor) -> Tensor:
    """Return what is added to scores so that keys are not attended to where ``masked``.

    Finite, so that a padding position, from which everything is masked, holds no NaN.
    """
    return torch.zeros(masked.shape, device=masked.device).masked_fill_(masked, MASKED)
