"""A stacked causal transformer: pre-norm, learned positions, no biases, no dropout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from rlexp.core.exact import bmm
from rlexp.core.types import Completions, Depth, NextToken, NextTokens, PerVocabulary, Prompts, Size
from rlexp.models.layers import Embedding, Init, Projection, layer_norm
from rlexp.models.policy import StackedPolicy
from rlexp.models.transformer.attention import DecodingAttention, attention_bias
from rlexp.models.transformer.block import Block, BlockWeights, decode_block
from rlexp.models.transformer.cache import (
    AttentionCache,
    BlockCache,
    DecodedToken,
    PromptCache,
    TokenActivations,
    TransformerCache,
)
from rlexp.models.transformer.shapes import PositionRows, PromptLengths
from rlexp.tasks.task import Task


class DecodingState(NamedTuple):
    """What decoding carries from token to token.

    ``positions`` are the embedded ones of all tokens to come, ``count`` is how many tokens were read, and ``tokens``
    is what was computed at each, None where no forward cache is to record it.
    """

    weights: list[BlockWeights]
    attention: list[DecodingAttention]
    positions: Sequence[PositionRows]
    count: int
    tokens: list[DecodedToken] | None


class Transformer(StackedPolicy):
    """Token and position embeddings, ``layers`` blocks, a last norm and a head.

    A prompt is read once for its whole group; left padding is never attended to and does not move positions.
    """

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
        self.pad, self.cap = task.pad, task.cap
        self.tokens = Embedding(init, task.vocabulary, width, std=0.5)
        self.positions = Embedding(init, task.prompt_length + task.cap, width, std=0.5)
        self.blocks = nn.ModuleList(Block(init, width, heads, feedforward) for _ in range(layers))
        self.head = Projection(init, width, outputs or task.vocabulary)

    def read_prompts(self, prompts: Prompts) -> PromptCache:
        """Read each prompt once, for its whole group."""
        present = prompts != self.pad
        order = present.cumsum(-1)
        x = self.tokens(prompts) + self.positions((order - 1).clamp(min=0))
        bias = attention_bias((later_than(prompts) | ~present[..., None, :]).unsqueeze(2))
        blocks = []
        for block in self.blocks:  # of the last block only the last place is needed
            x, key_value = block.read_prompts(x, bias, slice(-1 if block is self.blocks[-1] else 0, None))
            blocks.append(key_value)
        padding_bias = attention_bias(~present[:, :, None, None, None, :])
        return PromptCache(x[..., -1, :], blocks, padding_bias, order[..., -1])

    def empty_attention(self, prompts: int, group: int) -> list[AttentionCache]:
        """Return room for queries, keys and values of every block, for so many completions of so many prompts."""
        like, width = self.tokens.weight, self.tokens.weight.shape[-1]
        shapes = [(len(like), prompts, block.heads, group, self.cap - 1, width // block.heads) for block in self.blocks]
        return [AttentionCache(*(like.new_empty(shape) for _ in range(3))) for shape in shapes]

    @torch.enable_grad()
    def forward_cache(self, prompts: Prompts, group: int) -> TransformerCache:
        """Read prompts; return them with room for what is computed while they are completed."""
        replicas, count, length = prompts.shape
        tokens, empty = (replicas, self.cap - 1, count, group), self.tokens.weight.new_empty
        blocks = []
        for block, attention in zip(self.blocks, self.empty_attention(count, group), strict=True):
            width, hidden = block.up.weight.shape[1:]
            sizes = dict(attended=width, middle=width, hidden=hidden, output=width)
            activations = TokenActivations(**{name: empty(*tokens, size) for name, size in sizes.items()})
            weights = attention.key.new_zeros(*attention.key.shape[:-1], length + self.cap - 1)
            blocks.append(BlockCache(attention._replace(weights=weights), activations))
        return TransformerCache(self.read_prompts(prompts), blocks, empty(*tokens, self.head.weight.shape[-1]))

    def prefill(
        self, prompts: Prompts, group: int, forward_cache: TransformerCache | None = None
    ) -> tuple[NextToken, DecodingState]:
        """Return the logits of the first completion token and the state of every completion.

        ``forward_cache`` is that of these prompts, if there is one; decoding from the state writes attention to it.
        """
        if forward_cache is None:
            cache, caches = self.read_prompts(prompts), self.empty_attention(prompts.shape[1], group)
        else:
            cache, caches = forward_cache.prompts, [block.attention for block in forward_cache.blocks]
        pairs = zip(cache.blocks, caches, strict=True)
        state = DecodingState(
            weights=[block.weights() for block in self.blocks],
            attention=[DecodingAttention(key_value, cache.padding_bias, room) for key_value, room in pairs],
            positions=self.positions_after(cache.lengths, self.cap - 1).unsqueeze(3).unbind(1),
            count=0,
            tokens=None if forward_cache is None else [],
        )
        return self.head(layer_norm(cache.outputs)).unsqueeze(2).expand(-1, -1, group, -1), state

    def positions_after(self, lengths: PromptLengths, count: int) -> Tensor:
        """Return the embedded positions of the first tokens after prompts, ``[R, P] -> [R, T, P, W]``."""
        return self.positions(lengths.unsqueeze(1) + torch.arange(count, device=lengths.device).unsqueeze(-1))

    def decode(self, tokens: NextTokens, state: DecodingState) -> tuple[NextToken, DecodingState]:
        """Return the logits after ``tokens`` and the new state, which shares its room with the old."""
        blocks = []
        x = (self.tokens(tokens) + state.positions[state.count]).flatten(1, 2)
        for weights, attention in zip(state.weights, state.attention, strict=True):
            blocks.append(decode_block(x, weights, attention, state.count))
            x = blocks[-1].output
        logits = bmm(layer_norm(x), self.head.weight)
        decoded = None if state.tokens is None else [*state.tokens, DecodedToken(blocks, logits)]
        return logits.view(*tokens.shape, -1), state._replace(count=state.count + 1, tokens=decoded)

    def logits(
        self, prompts: Prompts, completions: Completions, forward_cache: TransformerCache | None = None
    ) -> PerVocabulary:
        """Return the logits of every completion token.

        ``forward_cache`` is what sampling the completions has left, with the weights as they are now.
        """
        cache = self.read_prompts(prompts) if forward_cache is None else forward_cache.prompts
        first = self.head(layer_norm(cache.outputs))[:, None, :, None].expand(-1, -1, -1, completions.shape[2], -1)
        tokens = completions[..., :-1].movedim(-1, 1)
        if not tokens.shape[1]:
            return first.movedim(1, 3)
        if forward_cache is not None and not torch.is_grad_enabled():
            return torch.cat([first, forward_cache.logits], 1).movedim(1, 3)
        rest = self.later_logits(tokens, cache, forward_cache and forward_cache.flatten_tokens())
        return torch.cat([first, rest], 1).movedim(1, 3)

    def later_logits(self, tokens: Tensor, prompts: PromptCache, cache: TransformerCache | None) -> Tensor:
        """Return the logits after tokens of completions, ``[R, T, P, G] -> [R, T, P, G, V]``."""
        shape = tokens.shape[1:]
        x = (self.tokens(tokens) + self.positions_after(prompts.lengths, shape[0]).unsqueeze(3)).flatten(1, 3)
        causal_bias = attention_bias(later_than(tokens[0, :, 0, 0]))
        caches = [None] * len(self.blocks) if cache is None else cache.blocks
        for block, key_value, block_cache in zip(self.blocks, prompts.blocks, caches, strict=True):
            x = block.read_completions(x, key_value, prompts.padding_bias, causal_bias, shape, block_cache)
        return self.head(layer_norm(x), result=cache and cache.logits).view(*tokens.shape, -1)


def later_than(tokens: Tensor) -> Tensor:
    """Which tokens come later than each, and must not be seen by it, ``[..., T] -> [T, T]``."""
    length = tokens.shape[-1]
    return torch.ones(length, length, dtype=torch.bool, device=tokens.device).triu(1)
