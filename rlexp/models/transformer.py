"""A stacked causal transformer: pre-norm, learned positions, no biases, no dropout.

The one of the training runs; ``transformer_plain`` is the same as a textbook has it. A block reads all tokens at once
with gradients, or one after another without. Attention is of completions to their prompt, which is read once a group,
and to themselves. It is written out because a chain of torch's own operations stores and copies several times as much
as the result needs, and because its fused attention wants the prompt repeated for every completion of a group.

The first update after sampling has the weights that sampled, and its forward pass would repeat every product of the
decoding. With the cache it takes them from there: only the backward pass is left, and the ratio to the policy that
sampled is exactly 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from rlexp.core.exact import Product, Softmax, baddbmm, bmm, matmul, products_of, softmax_, softmax_backward_
from rlexp.core.types import Completions, NextToken, NextTokens, PerReplica, PerVocabulary, Prompts, ReplicaIndices
from rlexp.models import shapes as s
from rlexp.models.forward_cache import (
    AttentionCache,
    BlockCache,
    DecodedToken,
    KeyValue,
    PromptCache,
    TokenActivations,
    TransformerCache,
)
from rlexp.models.layers import Projection, layer_norm
from rlexp.models.packed import PackedAttention, PackedProduct
from rlexp.models.packed_decoding import PackedDecoding
from rlexp.models.packing import Packing, completion_lengths, pack, unpack, widths
from rlexp.models.policy import RolloutPolicy, TokenLogProbs, entropy, gather_log_probs
from rlexp.models.rotation import Rotation
from rlexp.models.transformer_plain import PlainBlock, PlainTransformer, attention_bias, later_than
from rlexp.tasks.tabular import TabularTask
from rlexp.tasks.task import Task

SHORT = 16
"""The largest cap of a task whose completions are read and decoded at their full width; padding costs little there.

Those of worlds always are."""


def split_heads(rows: s.Rows, shape: Sequence[int], heads: int) -> Tensor:
    """Queries, keys and values of rows of ``shape`` T, P, G: ``[R, T·P·G, 3·H·D] -> [3, R, P, H, G, T, D]``."""
    return rows.view(len(rows), *shape, 3, heads, -1).permute(4, 0, 2, 5, 3, 1, 6)


def group_product(values: Tensor, shared: Tensor) -> Tensor:
    """Multiply all rows of a group with what it shares: ``[R, P, H, G, T, A] · [R, P, H, A, B]``."""
    return matmul(values.flatten(3, 4), shared).unflatten(3, values.shape[3:5])


def group_outer(left: Tensor, right: Tensor) -> Tensor:
    """Sum of outer products over a group: ``[R, P, H, G, T, A], [R, P, H, G, T, B] -> [R, P, H, A, B]``."""
    return matmul(left.flatten(3, 4).transpose(-1, -2), right.flatten(3, 4))


def attend(
    query: s.ByHead,
    key: s.ByHead,
    value: s.ByHead,
    prompt_key: s.PromptByHead,
    prompt_value: s.PromptByHead,
    padding_bias: s.PaddingBias,
    causal_bias: s.CausalBias,
) -> tuple[s.ByHead, s.AttentionWeights]:
    """softmax(query · keys) · values over the keys of the prompt and a completion's own, and the weights.

    The query is scaled already. Source: Vaswani et al. (arXiv 1706.03762, eq. 1).
    """
    prompt_scores = group_product(query, prompt_key.transpose(-1, -2)).add_(padding_bias)
    weights = softmax_(torch.cat([prompt_scores, matmul(query, key.transpose(-1, -2)).add_(causal_bias)], -1))
    prompt_weights, own_weights = weights.tensor_split((prompt_key.shape[-2],), -1)
    return group_product(prompt_weights, prompt_value).add_(matmul(own_weights, value)), weights


class DecodingAttention:
    """Attention of a block that decodes: keys and values of its prompts, and room for those of its completions."""

    def __init__(
        self,
        prompts: KeyValue,
        padding_bias: s.PaddingBias,
        cache: AttentionCache,
        rotation: Rotation | None,
    ):
        self.cache, self.shape, self.rotation = cache, cache.key.shape[:4], rotation
        self.prompt_key, self.prompt_value = prompts.key.flatten(0, 2).transpose(1, 2), prompts.value.flatten(0, 2)
        bias = padding_bias.to(prompts.key).squeeze(3)
        self.bias = bias.expand(-1, -1, self.shape[2], -1, -1).flatten(0, 2)

    def attend(self, qkv: Tensor, t: int) -> Tensor:
        """Take in the t-th token ``[R, P·G, 3W]``; return what it reads, ``[R, P, G, H, D]``.

        ``attend`` for one query a completion, in fewer operations; the weights are kept if there is room for them.
        """
        cache, (replicas, prompts, heads, group) = self.cache, self.shape
        query, key, value = qkv.view(replicas, prompts, group, 3, heads, -1).permute(3, 0, 1, 4, 2, 5).unbind(0)
        if self.rotation is not None:
            for turned in (query, key):
                self.rotation.at(t).turn_(turned)
        cache.key[..., t, :], cache.value[..., t, :] = key, value
        with products_of("attention"):
            return self.read(query, t)

    def read(self, query: Tensor, t: int) -> Tensor:
        """Return what the t-th queries read of all tokens up to theirs."""
        cache = self.cache
        query = cache.query[..., t, :].copy_(query).flatten(0, 2)
        prompt_scores = baddbmm(self.bias, query, self.prompt_key)
        own_scores = bmm(query.flatten(0, 1).unsqueeze(1), cache.key.flatten(0, 3)[:, : t + 1].transpose(1, 2))
        weights = softmax_(torch.cat([prompt_scores.flatten(0, 1), own_scores.squeeze(1)], 1))
        length = prompt_scores.shape[-1]
        if cache.weights is not None:
            cache.weights[..., t, : length + t + 1] = weights.view(*self.shape, -1)
        own = bmm(weights[:, length:].unsqueeze(1), cache.value.flatten(0, 3)[:, : t + 1])
        prompt_weights = weights.unflatten(0, query.shape[:2])[..., :length]
        return baddbmm(own.view_as(query), prompt_weights, self.prompt_value).view(*self.shape, -1).transpose(2, 3)


class Attention(torch.autograd.Function):
    """``attend`` from rows to rows, with a gradient that keeps no more than its factors; a cache may hold them."""

    @staticmethod
    def forward(
        ctx,
        x: s.Rows,
        weight: s.Weight,
        prompt_key: s.PromptByHead,
        prompt_value: s.PromptByHead,
        padding_bias: s.PaddingBias,
        causal_bias: s.CausalBias,
        shape: Sequence[int],
        rotation: Rotation | None,
        cache: BlockCache | None,
    ) -> s.Rows:
        """Return what completions read.

        ``x`` ``[R, T·P·G, W]`` are rows of ``shape`` T, P, G, and ``weight`` ``[R, W, 3W]`` makes queries, keys and
        values of them; for the others see ``attend``.
        """
        if cache is None:
            qkv = split_heads(bmm(x, weight), shape, prompt_key.shape[2]).contiguous()
            query, key, value = qkv.unbind(0)
            if rotation is not None:
                rotation.turn_(qkv[:2])
            attended, weights = attend(query, key, value, prompt_key, prompt_value, padding_bias, causal_bias)
            attended = attended.permute(0, 4, 1, 3, 2, 5).flatten(4).flatten(1, 3)  # [R, T·P·G, H·D]
        else:
            query, key, value, weights = cache.attention
            attended = cache.activations.attended
        ctx.save_for_backward(x, weight, query, key, value, prompt_key, prompt_value, weights)
        ctx.rotation = rotation
        return attended

    @staticmethod
    def backward(ctx, upstream: s.Rows) -> tuple[Tensor | None, ...]:
        x, weight, query, key, value, prompt_key, prompt_value, weights = ctx.saved_tensors
        replicas, prompts, heads, group, time, size = query.shape
        shape = time, prompts, group
        upstream = upstream.view(replicas, *shape, heads, size).permute(0, 2, 4, 3, 1, 5).contiguous()
        for_weights = group_product(upstream, prompt_value.transpose(-1, -2)), matmul(upstream, value.transpose(-1, -2))
        for_scores = softmax_backward_(torch.cat(for_weights, -1), weights)
        for_prompt_scores, for_own_scores = for_scores.tensor_split((prompt_key.shape[-2],), -1)
        prompt_weights, own_weights = weights.tensor_split((prompt_key.shape[-2],), -1)
        rows = torch.empty(replicas, time * prompts * group, 3 * heads * size, dtype=x.dtype, device=x.device)
        for_query, for_key, for_value = split_heads(rows, shape, heads).unbind(0)
        for_query.copy_(group_product(for_prompt_scores, prompt_key).add_(matmul(for_own_scores, key)))
        for_key.copy_(matmul(for_own_scores.transpose(-1, -2), query))
        for_value.copy_(matmul(own_weights.transpose(-1, -2), upstream))
        if ctx.rotation is not None:
            for turned in (for_query, for_key):
                ctx.rotation.turn_(turned, back=True)
        return (
            bmm(rows, weight.transpose(1, 2)),
            bmm(x.transpose(1, 2), rows),
            group_outer(for_prompt_scores, query),
            group_outer(prompt_weights, upstream),
            *[None] * 5,
        )


class Turn(torch.autograd.Function):
    """Queries or keys of prompts, turned."""

    @staticmethod
    def forward(ctx, halves: s.PromptByHead, rotation: Rotation) -> s.PromptByHead:
        ctx.rotation = rotation
        turned = halves.clone()
        rotation.turn_(turned)
        return turned

    @staticmethod
    def backward(ctx, upstream: s.PromptByHead) -> tuple[Tensor | None, ...]:
        upstream = upstream.clone()
        ctx.rotation.turn_(upstream, back=True)
        return upstream, None


class BlockWeights(NamedTuple):
    """What a block multiplies with while it decodes; ``qkv`` scales the queries."""

    qkv: s.Weight
    out: s.Weight
    up: s.Weight
    down: s.DownWeight


class FeedForward(torch.autograd.Function):
    """x + relu(y U) D for y = norm(x), with a gradient that masks in place; a cache may hold both results."""

    @staticmethod
    def forward(
        ctx, x: s.Rows, y: s.Rows, up: s.UpWeight, down: s.DownWeight, cache: TokenActivations | None
    ) -> s.Rows:
        """``[R, N, W], [R, N, W], [R, W, F], [R, F, W] -> [R, N, W]``."""
        if cache is None:
            hidden = bmm(y, up).relu_()
            output = baddbmm(x, hidden, down)
        else:
            hidden, output = cache.hidden, cache.output
        ctx.save_for_backward(y, up, down, hidden)
        return output

    @staticmethod
    def backward(ctx, upstream: s.Rows) -> tuple[Tensor | None, ...]:
        y, up, down, hidden = ctx.saved_tensors
        for_hidden = bmm(upstream, down.transpose(1, 2))
        torch.ops.aten.threshold_backward.grad_input(for_hidden, hidden, 0, grad_input=for_hidden)
        for_y = bmm(for_hidden, up.transpose(1, 2))
        return upstream, for_y, bmm(y.transpose(1, 2), for_hidden), bmm(hidden.transpose(1, 2), upstream), None


class Block(PlainBlock):
    """A block that reads the prompts once for their groups, and completions after them."""

    layer = Projection
    norm = staticmethod(layer_norm)
    activate = staticmethod(torch.relu_)  # without gradients
    activated = staticmethod(torch.relu)
    feed_forward = FeedForward

    def qkv_weight(self) -> s.Weight:
        """Return what makes queries, keys and values ``[R, W, 3W]``, the queries with the scale of their products."""
        query, rest = self.qkv.weight.tensor_split((self.out.weight.shape[1],), -1)
        return torch.cat([query * (query.shape[-1] / self.heads) ** -0.5, rest], -1)

    def up_weight(self) -> s.UpWeight:
        return self.up.weight

    def read_prompts(
        self, x: s.PromptRows, bias: s.PromptBias, places: slice, rotation: Rotation | None
    ) -> tuple[s.PlaceRows, KeyValue]:
        """Let prompts attend to themselves; return the outputs at ``places``, and all keys and values."""
        qkv = Product.apply(self.norm(x).flatten(1, 2), self.qkv_weight(), None, None)
        by_head = qkv.view(*x.shape[:-1], 3, self.heads, -1).movedim((-3, -2), (0, 3))
        query, key, value = by_head.contiguous().unbind(0)
        if rotation is not None:
            query, key = Turn.apply(query, rotation), Turn.apply(key, rotation)
        weights = Softmax.apply(matmul(query[..., places, :], key.transpose(-1, -2)), bias[..., places, :])
        x = x[..., places, :]
        attended = matmul(weights, value).movedim(2, -2).flatten(1, 2).flatten(2)
        return self.add_parts(x.flatten(1, 2), attended, None).view(x.shape), KeyValue(key, value)

    def read_completions(
        self,
        x: s.Rows,
        prompts: KeyValue,
        padding_bias: s.PaddingBias,
        causal_bias: s.CausalBias,
        shape: Sequence[int],
        rotation: Rotation | None,
        cache: BlockCache | None,
    ) -> s.Rows:
        """Return the outputs at completion tokens, rows of ``shape`` T, P, G; ``cache`` is what decoding has left."""
        others = padding_bias, causal_bias, shape, rotation, cache
        attended = Attention.apply(self.norm(x), self.qkv_weight(), *prompts, *others)
        return self.add_parts(x, attended, cache and cache.activations)

    def add_parts(self, x: s.Rows, attended: s.Rows, cache: TokenActivations | None) -> s.Rows:
        """Add the attended values, then the feed-forward part to ``x``."""
        x = self.out(attended, addend=x, result=cache and cache.middle)
        return self.feed_forward.apply(x, self.norm(x), self.up_weight(), self.down.weight, cache)

    def read_packed(
        self,
        x: s.PackedRows,
        prompts: KeyValue,
        padding_bias: s.FlatPaddingBias,
        causal_bias: s.CausalBias,
        rotation: Rotation | None,
        packing: Packing,
    ) -> s.PackedRows:
        """``read_completions`` of packed ones."""
        others = padding_bias, causal_bias, rotation, packing
        key, value = (each.flatten(0, 1) for each in prompts)
        attended = PackedAttention.apply(self.normed(x), self.qkv_weight(), key, value, *others)
        x = PackedProduct.apply(attended, self.out.weight, x, packing)
        hidden = PackedProduct.apply(self.normed(x), self.up_weight(), None, packing)
        return PackedProduct.apply(self.activated(hidden), self.down.weight, x, packing)

    @classmethod
    def normed(cls, x: s.PackedRows) -> s.PackedRows:
        """``norm`` of rows that are not apart by replica."""
        return cls.norm(x.unsqueeze(0)).squeeze(0)

    def weights(self) -> BlockWeights:
        return BlockWeights(self.qkv_weight(), self.out.weight, self.up_weight(), self.down.weight)

    def decode(self, x: s.Rows, weights: BlockWeights, attention: DecodingAttention, t: int) -> TokenActivations:
        """Return what the block computes at the t-th completion token from rows ``[R, P·G, W]``, without gradients."""
        attended = attention.attend(bmm(self.norm(x), weights.qkv), t).reshape(x.shape)
        middle = baddbmm(x, attended, weights.out)
        hidden = bmm(self.norm(middle), weights.up)
        return TokenActivations(attended, middle, hidden, baddbmm(middle, self.activate(hidden), weights.down))


class DecodingState(NamedTuple):
    """What decoding carries from token to token.

    ``positions`` are the embedded ones of all tokens to come, ``count`` is how many tokens were read, and ``tokens``
    is what was computed at each, None where no forward cache is to record it.
    """

    weights: list[BlockWeights]
    head: s.Weight
    attention: list[DecodingAttention]
    positions: Sequence[s.PositionRows] | None
    count: int
    tokens: list[DecodedToken] | None


class Transformer(PlainTransformer):
    """Token and position embeddings, ``layers`` blocks, a last norm and a head.

    A prompt is read once for its whole group; left padding is never attended to and does not move positions.
    """

    block = Block

    def take_sizes(self, task: Task, outputs: int | None) -> None:
        super().take_sizes(task, outputs)
        long = task.cap > SHORT and not isinstance(task, TabularTask)
        self.end, self.packs, self.reads_end = task.end, long and task.end >= 0, int(outputs is not None)

    def head_weight(self) -> s.Weight:
        return self.head.weight

    def embedded(self, positions: Tensor, owners: Tensor | None = None) -> Tensor | None:
        """Return what is added to tokens at these positions ``[R, ...]``: ``[R, ..., W]``; None for nothing.

        ``owners`` are the replicas of the positions if they are not all in order.
        """
        return self.positions(positions, owners)

    def rotation(self, positions: Tensor) -> Rotation | None:
        """Return the rotations at positions ``[R, P, T]``, to be applied to ``[R, P, ·, T, D]``; None for none."""

    def read_out(self, x: Tensor, result: Tensor | None = None) -> Tensor:
        """Return logits ``[R, ·, V]`` of outputs ``[R, ·, W]``."""
        with products_of("head"):
            return Product.apply(self.block.norm(x), self.head_weight(), None, result)

    def read_prompts(self, prompts: Prompts) -> PromptCache:
        present = prompts != self.pad
        order = present.cumsum(-1)
        places = (order - 1).clamp(min=0)
        x, rotation = add(self.tokens(prompts), self.embedded(places)), self.rotation(places)
        bias = attention_bias((later_than(prompts) | ~present[..., None, :]).unsqueeze(2))
        blocks = []
        for block in self.blocks:  # of the last block only the last place is needed
            x, key_value = block.read_prompts(x, bias, slice(-1 if block is self.blocks[-1] else 0, None), rotation)
            blocks.append(key_value)
        padding_bias = attention_bias(~present[:, :, None, None, None, :])
        return PromptCache(x[..., -1, :], blocks, padding_bias, order[..., -1])

    def allocate_attention(self, prompts: int, group: int) -> list[AttentionCache]:
        """Return empty caches of queries, keys and values, one a block, for so many completions of so many prompts."""
        like, width = self.tokens.weight, self.tokens.weight.shape[-1]
        shapes = [(len(like), prompts, block.heads, group, self.cap - 1, width // block.heads) for block in self.blocks]
        return [AttentionCache(*(like.new_empty(shape) for _ in range(3))) for shape in shapes]

    @torch.enable_grad()
    def recorded(self, prompts: Prompts, group: int) -> RolloutPolicy:
        """Read prompts; return the policy with room for what is computed while they are completed.

        One that packs keeps nothing: what it decodes lies otherwise than what it reads.
        """
        if self.packs:
            return self
        replicas, count, length = prompts.shape
        tokens, empty = (replicas, self.cap - 1, count, group), self.tokens.weight.new_empty
        blocks = []
        for block, attention in zip(self.blocks, self.allocate_attention(count, group), strict=True):
            width, hidden = block.up.weight.shape[1:]
            sizes = dict(attended=width, middle=width, hidden=hidden, output=width)
            activations = TokenActivations(**{name: empty(*tokens, size) for name, size in sizes.items()})
            weights = attention.key.new_zeros(*attention.key.shape[:-1], length + self.cap - 1)
            blocks.append(BlockCache(attention._replace(weights=weights), activations))
        logits = empty(*tokens, self.head_weight().shape[-1])
        return RecordedTransformer(self, TransformerCache(self.read_prompts(prompts), blocks, logits))

    def prefill(self, prompts: Prompts, group: int) -> tuple[NextToken, DecodingState]:
        return self.begin(self.read_prompts(prompts), group, self.allocate_attention(prompts.shape[1], group), None)

    def packed_decoding(self, prompts: Prompts) -> tuple[s.PromptRow, PackedDecoding]:
        """Return the logits of first tokens ``[R, P, V]``, and what decodes only what is still to be decoded."""
        cache = self.read_prompts(prompts)
        return self.read_out(cache.outputs), PackedDecoding(self, cache)

    def begin(
        self, prompts: PromptCache, group: int, caches: Sequence[AttentionCache], tokens: list[DecodedToken] | None
    ) -> tuple[NextToken, DecodingState]:
        """``prefill`` of prompts that were read; decoding from the state writes attention to ``caches``."""
        places, pairs = places_after(prompts.lengths, self.cap - 1), zip(prompts.blocks, caches, strict=True)
        rotation, padding_bias = of_completions(self.rotation(places)), prompts.padding_bias
        embedded = self.embedded(places.transpose(1, 2).unsqueeze(3))
        state = DecodingState(
            weights=[block.weights() for block in self.blocks],
            head=self.head_weight(),
            attention=[DecodingAttention(key_value, padding_bias, cache, rotation) for key_value, cache in pairs],
            positions=None if embedded is None else embedded.unbind(1),
            count=0,
            tokens=tokens,
        )
        return self.read_out(prompts.outputs).unsqueeze(2).expand(-1, -1, group, -1), state

    def decode(self, tokens: NextTokens, state: DecodingState) -> tuple[NextToken, DecodingState]:
        """Return the logits after ``tokens`` and the new state, which shares its caches with the old."""
        blocks = []
        x = add(self.tokens(tokens), None if state.positions is None else state.positions[state.count]).flatten(1, 2)
        for block, weights, attention in zip(self.blocks, state.weights, state.attention, strict=True):
            blocks.append(block.decode(x, weights, attention, state.count))
            x = blocks[-1].output
        with products_of("head"):
            logits = bmm(self.block.norm(x), state.head)
        decoded = None if state.tokens is None else [*state.tokens, DecodedToken(blocks, logits)]
        return logits.view(*tokens.shape, -1), state._replace(count=state.count + 1, tokens=decoded)

    def logits(self, prompts: Prompts, completions: Completions) -> PerVocabulary:
        if not self.packs or torch.compiler.is_compiling():
            return self.logits_after(self.read_prompts(prompts), completions)
        first, rest, packing = self.packed_logits(prompts, completions)
        return unpack(repeated(first, completions), rest, packing)

    def log_probs(
        self,
        prompts: Prompts,
        completions: Completions,
        temperature: PerReplica,
        *,
        entropies: bool = False,
        distributions: bool = False,
    ) -> TokenLogProbs:
        asked = {"entropies": entropies, "distributions": distributions}
        if not self.packs or torch.compiler.is_compiling():
            return super().log_probs(prompts, completions, temperature, **asked)
        first, rest, packing = self.packed_logits(prompts, completions)
        first = F.log_softmax(first / temperature.view(-1, 1, 1), -1)
        rest = F.log_softmax(rest / temperature[packing.owners].unsqueeze(-1), -1)
        of_first = gather_log_probs(repeated(first, completions), completions[..., 0])
        of_rest = gather_log_probs(rest, completions.flatten()[packing.tokens + 1])  # of the token after that read
        log_probs = unpack(of_first, of_rest, packing)
        beside = {"entropies": entropy, "distributions": lambda each: each}
        made = [
            unpack(repeated(function(first), completions), function(rest), packing) if asked[name] else None
            for name, function in beside.items()
        ]
        return TokenLogProbs(log_probs, *made)

    def packed_logits(self, prompts: Prompts, completions: Completions) -> tuple[s.PromptRow, s.PackedRows, Packing]:
        """Return the logits of first tokens ``[R, P, V]``, those after tokens that count, and where these are."""
        cache, time = self.read_prompts(prompts), completions.shape[-1] - 1
        read = completion_lengths(completions, self.end) - 1 + self.reads_end
        packing, places = pack(read.clamp(max=time), time), torch.arange(widths(time)[-1], device=prompts.device)
        positions = cache.lengths.flatten()[packing.prompts] + packing.positions
        x = self.tokens(completions.flatten()[packing.tokens], packing.owners)
        x = add(x, self.embedded(positions, packing.owners))
        rotation = self.rotation(cache.lengths.unsqueeze(-1) + places)
        rotation = rotation and Rotation(*(each.flatten(0, 1) for each in rotation))
        padding_bias, causal_bias = cache.padding_bias.flatten(0, 1).squeeze(1), attention_bias(later_than(places))
        for block, key_value in zip(self.blocks, cache.blocks, strict=True):
            x = block.read_packed(x, key_value, padding_bias, causal_bias, rotation, packing)
        logits = PackedProduct.apply(self.block.normed(x), self.head_weight(), None, packing)
        return self.read_out(cache.outputs), logits, packing

    def logits_after(
        self, prompts: PromptCache, completions: Completions, cache: TransformerCache | None = None
    ) -> PerVocabulary:
        """``logits`` after prompts that were read; ``cache`` is what sampling has left, with these weights."""
        first = self.read_out(prompts.outputs)[:, None, :, None].expand(-1, -1, -1, completions.shape[2], -1)
        tokens = completions[..., :-1].movedim(-1, 1)
        if not tokens.shape[1]:
            return first.movedim(1, 3)
        if cache is not None and not torch.is_grad_enabled():
            return torch.cat([first, cache.logits], 1).movedim(1, 3)
        flat = cache and cache.flatten_tokens()
        shape = tokens.shape[1:]
        places = places_after(prompts.lengths, shape[0])
        rotation = of_completions(self.rotation(places))
        x = add(self.tokens(tokens), self.embedded(places.transpose(1, 2).unsqueeze(3))).flatten(1, 3)
        causal_bias = attention_bias(later_than(tokens[0, :, 0, 0]))
        block_caches = flat.blocks if flat else [None] * len(self.blocks)
        for block, key_value, block_cache in zip(self.blocks, prompts.blocks, block_caches, strict=True):
            x = block.read_completions(x, key_value, prompts.padding_bias, causal_bias, shape, rotation, block_cache)
        rest = self.read_out(x, flat and flat.logits).view(*tokens.shape, -1)
        return torch.cat([first, rest], 1).movedim(1, 3)


def repeated(of_prompts: Tensor, completions: Completions) -> Tensor:
    """Return what a prompt has once for each of its completions, ``[R, P, ·] -> [R, P, G, ·]``."""
    return of_prompts.unsqueeze(2).expand(*completions.shape[:3], *of_prompts.shape[2:])


def add(x: Tensor, addend: Tensor | None) -> Tensor:
    return x if addend is None else x + addend


def places_after(lengths: s.PromptLengths, count: int) -> Tensor:
    """Return the positions of the first ``count`` tokens after prompts: ``[R, P] -> [R, P, T]``."""
    return lengths.unsqueeze(-1) + torch.arange(count, device=lengths.device)


def of_completions(rotation: Rotation | None) -> Rotation | None:
    """Return the rotation of all completions of a prompt, ``[R, P, 1, 1, T, D / 2]``."""
    return rotation and Rotation(*(each.unsqueeze(2) for each in rotation))


class RecordedTransformer(RolloutPolicy):
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
