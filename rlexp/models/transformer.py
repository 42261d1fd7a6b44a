"""A stacked causal transformer: pre-norm, learned positions, no biases, no dropout.

The one of the training runs: attention of its own, a cache for decoding and for the first update. What is computed at a
block stands in ``transformer_block``; ``transformer_plain`` is the same as a textbook has it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from rlexp.core.exact import bmm
from rlexp.core.types import Completions, Depth, NextToken, NextTokens, PerVocabulary, Prompts, ReplicaIndices, Size
from rlexp.models import shapes as s
from rlexp.models import transformer_block as b
from rlexp.models.layers import Embedding, Init, Projection, layer_norm
from rlexp.models.policy import FromLogits, StackedPolicy
from rlexp.models.transformer_block import AttentionCache, PromptCache, TransformerCache, attention_bias
from rlexp.tasks.task import Task


class DecodingState(NamedTuple):
    """What decoding carries from token to token.

    ``positions`` are the embedded ones of all tokens to come, ``count`` is how many tokens were read, and ``tokens``
    is what was computed at each, None where no forward cache is to record it.
    """

    weights: list[b.BlockWeights]
    attention: list[b.DecodingAttention]
    positions: Sequence[s.PositionRows]
    count: int
    tokens: list[b.DecodedToken] | None


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
        self.blocks = nn.ModuleList(b.Block(init, width, heads, feedforward) for _ in range(layers))
        self.head = Projection(init, width, outputs or task.vocabulary)

    def read_prompts(self, prompts: Prompts) -> PromptCache:
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

    def allocate_attention(self, prompts: int, group: int) -> list[AttentionCache]:
        """Return empty caches of queries, keys and values, one a block, for so many completions of so many prompts."""
        like, width = self.tokens.weight, self.tokens.weight.shape[-1]
        shapes = [(len(like), prompts, block.heads, group, self.cap - 1, width // block.heads) for block in self.blocks]
        return [AttentionCache(*(like.new_empty(shape) for _ in range(3))) for shape in shapes]

    @torch.enable_grad()
    def recorded(self, prompts: Prompts, group: int) -> RecordedTransformer:
        """Read prompts; return the policy with room for what is computed while they are completed."""
        replicas, count, length = prompts.shape
        tokens, empty = (replicas, self.cap - 1, count, group), self.tokens.weight.new_empty
        blocks = []
        for block, attention in zip(self.blocks, self.allocate_attention(count, group), strict=True):
            width, hidden = block.up.weight.shape[1:]
            sizes = dict(attended=width, middle=width, hidden=hidden, output=width)
            activations = b.TokenActivations(**{name: empty(*tokens, size) for name, size in sizes.items()})
            weights = attention.key.new_zeros(*attention.key.shape[:-1], length + self.cap - 1)
            blocks.append(b.BlockCache(attention._replace(weights=weights), activations))
        logits = empty(*tokens, self.head.weight.shape[-1])
        return RecordedTransformer(self, TransformerCache(self.read_prompts(prompts), blocks, logits))

    def prefill(self, prompts: Prompts, group: int) -> tuple[NextToken, DecodingState]:
        return self.begin(self.read_prompts(prompts), group, self.allocate_attention(prompts.shape[1], group), None)

    def begin(
        self, prompts: PromptCache, group: int, caches: Sequence[AttentionCache], tokens: list[b.DecodedToken] | None
    ) -> tuple[NextToken, DecodingState]:
        """``prefill`` of prompts that were read; decoding from the state writes attention to ``caches``."""
        pairs = zip(prompts.blocks, caches, strict=True)
        state = DecodingState(
            weights=[block.weights() for block in self.blocks],
            attention=[b.DecodingAttention(key_value, prompts.padding_bias, cache) for key_value, cache in pairs],
            positions=self.positions_after(prompts.lengths, self.cap - 1).unsqueeze(3).unbind(1),
            count=0,
            tokens=tokens,
        )
        return self.head(layer_norm(prompts.outputs)).unsqueeze(2).expand(-1, -1, group, -1), state

    def positions_after(self, lengths: s.PromptLengths, count: int) -> Tensor:
        """Return the embedded positions of the first tokens after prompts, ``[R, P] -> [R, T, P, W]``."""
        return self.positions(lengths.unsqueeze(1) + torch.arange(count, device=lengths.device).unsqueeze(-1))

    def decode(self, tokens: NextTokens, state: DecodingState) -> tuple[NextToken, DecodingState]:
        """Return the logits after ``tokens`` and the new state, which shares its caches with the old."""
        blocks = []
        x = (self.tokens(tokens) + state.positions[state.count]).flatten(1, 2)
        for weights, attention in zip(state.weights, state.attention, strict=True):
            blocks.append(b.decode_block(x, weights, attention, state.count))
            x = blocks[-1].output
        logits = bmm(layer_norm(x), self.head.weight)
        decoded = None if state.tokens is None else [*state.tokens, b.DecodedToken(blocks, logits)]
        return logits.view(*tokens.shape, -1), state._replace(count=state.count + 1, tokens=decoded)

    def logits(self, prompts: Prompts, completions: Completions) -> PerVocabulary:
        return self.logits_after(self.read_prompts(prompts), completions)

    def logits_after(
        self, prompts: PromptCache, completions: Completions, cache: TransformerCache | None = None
    ) -> PerVocabulary:
        """``logits`` after prompts that were read; ``cache`` is what sampling has left, with these weights."""
        first = self.head(layer_norm(prompts.outputs))[:, None, :, None].expand(-1, -1, -1, completions.shape[2], -1)
        tokens = completions[..., :-1].movedim(-1, 1)
        if not tokens.shape[1]:
            return first.movedim(1, 3)
        if cache is not None and not torch.is_grad_enabled():
            return torch.cat([first, cache.logits], 1).movedim(1, 3)
        flat = cache and cache.flatten_tokens()
        shape = tokens.shape[1:]
        x = (self.tokens(tokens) + self.positions_after(prompts.lengths, shape[0]).unsqueeze(3)).flatten(1, 3)
        causal_bias = attention_bias(later_than(tokens[0, :, 0, 0]))
        block_caches = flat.blocks if flat else [None] * len(self.blocks)
        for block, key_value, block_cache in zip(self.blocks, prompts.blocks, block_caches, strict=True):
            x = block.read_completions(x, key_value, prompts.padding_bias, causal_bias, shape, block_cache)
        rest = self.head(layer_norm(x), result=flat and flat.logits).view(*tokens.shape, -1)
        return torch.cat([first, rest], 1).movedim(1, 3)


class RecordedTransformer(FromLogits):
    """A transformer for one rollout: what sampling it computes is in ``cache``, and is not computed again."""

    def __init__(self, network: Transformer, cache: TransformerCache):
        self.network, self.cache = network, cache

    def prefill(self, prompts: Prompts, group: int) -> tuple[NextToken, DecodingState]:
        return self.network.begin(self.cache.prompts, group, [block.attention for block in self.cache.blocks], [])

    def decode(self, tokens: NextTokens, state: DecodingState) -> tuple[NextToken, DecodingState]:
        return self.network.decode(tokens, state)

    def record(self, state: DecodingState) -> None:
        self.cache.record(state.tokens)

    def logits(self, prompts: Prompts, completions: Completions) -> PerVocabulary:
        return self.network.logits_after(self.cache.prompts, completions, self.cache)

    def slice_prompts(self, prompts: slice) -> RecordedTransformer:
        return RecordedTransformer(self.network, self.cache.slice_prompts(prompts))

    def replace_replicas(
        self, replicas: ReplicaIndices, other: RecordedTransformer, prompts: Prompts
    ) -> RecordedTransformer:
        """Overwrite what ``replicas`` have left with all of ``other``; read all ``prompts`` anew."""
        self.cache.replace_replicas(replicas, other.cache)
        return RecordedTransformer(self.network, self.cache._replace(prompts=self.network.read_prompts(prompts)))


def later_than(tokens: Tensor) -> Tensor:
    """Which tokens come later than each, and must not be seen by it, ``[..., T] -> [T, T]``."""
    return torch.ones(tokens.shape[-1], tokens.shape[-1], dtype=torch.bool, device=tokens.device).triu(1)
