"""What sampling computes and training reads again: prompts, attention and activations of a stacked transformer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor

from rlexp.core.types import ReplicaIndices
from rlexp.models import shapes as s


class KeyValue(NamedTuple):
    """Keys and values of the prompts in one block."""

    key: s.PromptByHead
    value: s.PromptByHead


class PromptCache(NamedTuple):
    """Prompts as they were read, once for their groups, with gradients.

    ``outputs`` are those at their last tokens, ``padding_bias`` masks their padding from the completions.
    """

    outputs: s.PromptRow
    blocks: list[KeyValue]
    padding_bias: s.PaddingBias
    lengths: s.PromptLengths

    def slice_prompts(self, prompts: slice) -> PromptCache:
        """Return the part of some prompts, keys and values without gaps."""
        blocks = [KeyValue(*(tensor[:, prompts].contiguous() for tensor in block)) for block in self.blocks]
        return PromptCache(self.outputs[:, prompts], blocks, self.padding_bias[:, prompts], self.lengths[:, prompts])


class AttentionCache(NamedTuple):
    """Attention of one block at the completion tokens; ``weights`` are None where nothing is kept for training."""

    query: s.ByHead
    key: s.ByHead
    value: s.ByHead
    weights: s.AttentionWeights | None = None


class TokenActivations(NamedTuple):
    """What one block computes at completion tokens.

    ``attended`` is what attention returns, ``middle`` and ``output`` are the sums before and after the feed-forward
    part, ``hidden`` is its ReLU.
    """

    attended: s.OfTokens
    middle: s.OfTokens
    hidden: s.HiddenOfTokens
    output: s.OfTokens


class DecodedToken(NamedTuple):
    """What all blocks and the head compute at one token of every completion."""

    blocks: list[TokenActivations]
    logits: s.LogitsOfTokens


class BlockCache(NamedTuple):
    """Results in one block for the completion tokens that were read."""

    attention: AttentionCache
    activations: TokenActivations


class TransformerCache(NamedTuple):
    """The forward cache of a transformer: the prompts, what every block keeps, the logits after each token read."""

    prompts: PromptCache
    blocks: list[BlockCache]
    logits: s.LogitsOfTokens

    def record(self, tokens: Sequence[DecodedToken]) -> None:
        """Take in all tokens that were decoded; what was not is zero. Attention was written by decoding itself."""
        for place, block in enumerate(self.blocks):
            for tensor in block.attention:
                tensor[..., len(tokens) :, :].zero_()
            for name, kept in block.activations._asdict().items():
                stack(kept, [getattr(token.blocks[place], name) for token in tokens])
        stack(self.logits, [token.logits for token in tokens])

    def slice_prompts(self, prompts: slice) -> TransformerCache:
        """Return the part of some prompts, that of attention without gaps."""
        blocks = []
        for block in self.blocks:
            attention = AttentionCache(*(tensor[:, prompts].contiguous() for tensor in block.attention))
            activations = TokenActivations(*(tensor[:, :, prompts] for tensor in block.activations))
            blocks.append(BlockCache(attention, activations))
        return TransformerCache(self.prompts.slice_prompts(prompts), blocks, self.logits[:, :, prompts])

    def replace_replicas(self, replicas: ReplicaIndices, other: TransformerCache) -> None:
        """Overwrite what is kept of ``replicas`` with all of ``other``; prompts stay as they are."""
        for mine, theirs in zip(self.blocks, other.blocks, strict=True):
            pairs = zip((*mine.attention, *mine.activations), (*theirs.attention, *theirs.activations), strict=True)
            for tensor, new in pairs:
                tensor[replicas] = new
        self.logits[replicas] = other.logits

    def flatten_tokens(self) -> TransformerCache:
        """Return the cache with activations and logits as rows."""
        flat = [TokenActivations(*(tensor.flatten(1, 3) for tensor in block.activations)) for block in self.blocks]
        blocks = [block._replace(activations=rows) for block, rows in zip(self.blocks, flat, strict=True)]
        return TransformerCache(self.prompts, blocks, self.logits.flatten(1, 3))


def stack(room: Tensor, tokens: Sequence[Tensor]) -> None:
    """Write tokens ``[R, P·G, ·]`` to the first places of ``room`` ``[R, T, P, G, ·]``, zeros to the others."""
    rows = room.flatten(2, 3)
    rows[:, len(tokens) :].zero_()
    for t, token in enumerate(tokens):
        rows[:, t] = token
