"""What decoding leaves for training: results of the pass that sampled, which need not be computed again.

The first update after sampling has the weights that sampled, and its forward pass would repeat every product of the
decoding. With this cache it takes them from there: only the backward pass is left, and the ratio to the policy that
sampled is exactly 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor

from rlexp.core.types import ReplicaIndices
from rlexp.models.transformer.shapes import (
    AttentionWeights,
    ByHead,
    HiddenOfTokens,
    LogitsOfTokens,
    OfTokens,
    PaddingBias,
    PromptByHead,
    PromptLengths,
    PromptRow,
)


class KeyValue(NamedTuple):
    """Keys and values of the prompts in one block."""

    key: PromptByHead
    value: PromptByHead

    def slice_prompts(self, prompts: slice) -> KeyValue:
        """Return the part of some prompts, without gaps."""
        return KeyValue(self.key[:, prompts].contiguous(), self.value[:, prompts].contiguous())


class PromptCache(NamedTuple):
    """Prompts as they were read, once for their groups, with gradients.

    ``outputs`` are those at their last tokens, ``padding_bias`` bars their padding from the completions.
    """

    outputs: PromptRow
    blocks: list[KeyValue]
    padding_bias: PaddingBias
    lengths: PromptLengths

    def slice_prompts(self, prompts: slice) -> PromptCache:
        """Return the part of some prompts."""
        blocks = [block.slice_prompts(prompts) for block in self.blocks]
        return PromptCache(self.outputs[:, prompts], blocks, self.padding_bias[:, prompts], self.lengths[:, prompts])


class AttentionCache(NamedTuple):
    """Attention of one block at the completion tokens; ``weights`` are None where nothing is kept for training."""

    query: ByHead
    key: ByHead
    value: ByHead
    weights: AttentionWeights | None = None


class TokenActivations(NamedTuple):
    """What one block computes at completion tokens.

    ``attended`` is what attention returns, ``middle`` and ``output`` are the sums before and after the feed-forward
    part, ``hidden`` is its ReLU.
    """

    attended: OfTokens
    middle: OfTokens
    hidden: HiddenOfTokens
    output: OfTokens


class DecodedToken(NamedTuple):
    """What all blocks and the head compute at one token of every completion."""

    blocks: list[TokenActivations]
    logits: LogitsOfTokens


class BlockCache(NamedTuple):
    """Results in one block for the completion tokens that were read."""

    attention: AttentionCache
    activations: TokenActivations

    def record(self, tokens: Sequence[TokenActivations]) -> None:
        """Take in the first tokens; attention, which decoding has written itself, is zero behind them."""
        for tensor in self.attention:
            tensor[..., len(tokens) :, :].zero_()
        for name in TokenActivations._fields:
            stack(getattr(self.activations, name), [getattr(token, name) for token in tokens])

    def slice_prompts(self, prompts: slice) -> BlockCache:
        """Return the part of some prompts, that of attention without gaps."""
        attention = AttentionCache(*(tensor[:, prompts].contiguous() for tensor in self.attention))
        return BlockCache(attention, TokenActivations(*(tensor[:, :, prompts] for tensor in self.activations)))

    def replace_replicas(self, replicas: ReplicaIndices, other: BlockCache) -> None:
        """Overwrite what is kept of ``replicas`` with all of ``other``."""
        for mine, theirs in zip(self, other, strict=True):
            for tensor, new in zip(mine, theirs, strict=True):
                tensor[replicas] = new

    def flatten_tokens(self) -> BlockCache:
        """Return the cache with activations as rows."""
        return self._replace(activations=TokenActivations(*(tensor.flatten(1, 3) for tensor in self.activations)))


class TransformerCache(NamedTuple):
    """The forward cache of a transformer: the prompts, what every block keeps, the logits after each token read."""

    prompts: PromptCache
    blocks: list[BlockCache]
    logits: LogitsOfTokens

    def record(self, tokens: Sequence[DecodedToken]) -> None:
        """Take in all tokens that were decoded; what was not is zero."""
        for place, block in enumerate(self.blocks):
            block.record([token.blocks[place] for token in tokens])
        stack(self.logits, [token.logits for token in tokens])

    def slice_prompts(self, prompts: slice) -> TransformerCache:
        """Return the part of some prompts."""
        blocks = [block.slice_prompts(prompts) for block in self.blocks]
        return TransformerCache(self.prompts.slice_prompts(prompts), blocks, self.logits[:, :, prompts])

    def replace_replicas(self, replicas: ReplicaIndices, other: TransformerCache) -> None:
        """Overwrite what is kept of ``replicas`` with all of ``other``; prompts stay as they are."""
        for mine, theirs in zip(self.blocks, other.blocks, strict=True):
            mine.replace_replicas(replicas, theirs)
        self.logits[replicas] = other.logits

    def with_prompts(self, prompt_cache: PromptCache) -> TransformerCache:
        """Return the cache with prompts that were read anew."""
        return self._replace(prompts=prompt_cache)

    def flatten_tokens(self) -> TransformerCache:
        """Return the cache with activations and logits as rows."""
        blocks = [block.flatten_tokens() for block in self.blocks]
        return TransformerCache(self.prompts, blocks, self.logits.flatten(1, 3))


def stack(room: Tensor, tokens: Sequence[Tensor]) -> None:
    """Write tokens ``[R, P·G, ·]`` to the first places of ``room`` ``[R, T, P, G, ·]``, zeros to the others."""
    rows = room.flatten(2, 3)
    rows[:, len(tokens) :].zero_()
    for t, token in enumerate(tokens):
        rows[:, t] = token
