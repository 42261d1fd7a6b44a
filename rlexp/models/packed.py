"""A transformer's operations on packed completions (``packing``): products with each tile's own weights, attention.

A tile is to a product what a replica is elsewhere, and a stack of tiles what a stack of replicas is. Gradients of
weights and prompts are added up tile by tile, in the order of the tiles: where a stack begins changes no bit.
"""

from __future__ import annotations

import torch
from torch import Tensor

from rlexp.core.exact import baddbmm, bmm, matmul, softmax_, softmax_backward_
from rlexp.models import shapes as s
from rlexp.models.packing import Packing, Stack
from rlexp.models.rotation import Rotation


class PackedProduct(torch.autograd.Function):
    """x W + ``addend`` of rows in tiles, or x W where that is None; W is that of the replica that owns the tile."""

    @staticmethod
    def forward(ctx, x: Tensor, weight: s.Weight, addend: Tensor | None, packing: Packing) -> Tensor:
        """``[N, in], [R, in, out] -> [N, out]``."""
        ctx.save_for_backward(x, weight)
        ctx.packing = packing
        result = x.new_empty(len(x), weight.shape[-1])
        for stack in packing.stacks:
            here, theirs = tiles(x, stack), weight[stack.owners]
            more = None if addend is None else tiles(addend, stack)
            tiles(result, stack)[:] = bmm(here, theirs) if more is None else baddbmm(more, here, theirs)
        return result

    @staticmethod
    def backward(ctx, upstream: s.PackedRows) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        for_x, for_weight, upstream = torch.empty_like(x), torch.zeros_like(weight), upstream.contiguous()
        for stack in ctx.packing.stacks:
            given = tiles(upstream, stack)
            tiles(for_x, stack)[:] = bmm(given, weight[stack.owners].mT)
            for_weight.index_add_(0, stack.owners, bmm(tiles(x, stack).mT, given))
        return for_x, for_weight, upstream if ctx.needs_input_grad[2] else None, None


class PackedAttention(torch.autograd.Function):
    """``attend`` of the transformer for completions in slots, from rows to rows, with a gradient of its own."""

    @staticmethod
    def forward(
        ctx,
        x: s.PackedRows,
        weight: s.Weight,
        prompt_key: s.FlatPromptByHead,
        prompt_value: s.FlatPromptByHead,
        padding_bias: s.FlatPaddingBias,
        causal_bias: s.CausalBias,
        rotation: Rotation | None,
        packing: Packing,
    ) -> s.PackedRows:
        """Return what completions read, ``[N, W]``; ``weight`` ``[R, W, 3W]`` makes queries, keys and values."""
        heads, saved, attended = prompt_key.shape[1], [], torch.empty_like(x)
        for stack in packing.stacks:
            qkv = split_heads(bmm(tiles(x, stack), weight[stack.owners]), stack.width, heads).contiguous()
            if rotation is not None:
                turned(rotation, stack).turn_(qkv[:2])
            query, key, value = qkv.unbind(0)
            keys, values = (each[stack.prompts] for each in (prompt_key, prompt_value))
            prompt_scores = matmul(query, keys.mT).add_(padding_bias[stack.prompts])
            own_scores = matmul(query, key.mT).add_(causal_bias[: stack.width, : stack.width])
            weights = softmax_(torch.cat([prompt_scores, own_scores], -1))
            prompt_weights, own_weights = parts(weights, keys.shape[-2])
            read = matmul(prompt_weights, values).add_(matmul(own_weights, value))
            attended[stack.rows].view(len(read), stack.width, heads, -1).copy_(read.transpose(1, 2))
            saved += [qkv, weights]
        ctx.save_for_backward(x, weight, prompt_key, prompt_value, *saved)
        ctx.rotation, ctx.packing = rotation, packing
        return attended

    @staticmethod
    def backward(ctx, upstream: s.PackedRows) -> tuple[Tensor | None, ...]:
        x, weight, prompt_key, prompt_value, *saved = ctx.saved_tensors
        heads = prompt_key.shape[1]
        for_x, for_weight = torch.empty_like(x), torch.zeros_like(weight)
        for_prompt_key, for_prompt_value = torch.zeros_like(prompt_key), torch.zeros_like(prompt_value)
        for stack, qkv, weights in zip(ctx.packing.stacks, saved[::2], saved[1::2], strict=True):
            query, key, value = qkv.unbind(0)
            keys, values = (each[stack.prompts] for each in (prompt_key, prompt_value))
            prompt_weights, own_weights = parts(weights, keys.shape[-2])
            given = upstream[stack.rows].reshape(len(query), stack.width, heads, -1).transpose(1, 2).contiguous()
            for_weights = torch.cat([matmul(given, values.mT), matmul(given, value.mT)], -1)
            for_prompt_scores, for_own_scores = parts(softmax_backward_(for_weights, weights), keys.shape[-2])
            for_qkv = torch.empty_like(qkv)
            for_qkv[0] = matmul(for_prompt_scores, keys).add_(matmul(for_own_scores, key))
            for_qkv[1] = matmul(for_own_scores.mT, query)
            for_qkv[2] = matmul(own_weights.mT, given)
            if ctx.rotation is not None:
                turned(ctx.rotation, stack).turn_(for_qkv[:2], back=True)
            rows = for_qkv.permute(1, 3, 0, 2, 4).reshape(len(stack.owners), -1, weight.shape[-1])
            tiles(for_x, stack)[:] = bmm(rows, weight[stack.owners].mT)
            for_weight.index_add_(0, stack.owners, bmm(tiles(x, stack).mT, rows))
            for_prompt_key.index_add_(0, stack.prompts, matmul(for_prompt_scores.mT, query))
            for_prompt_value.index_add_(0, stack.prompts, matmul(prompt_weights.mT, given))
        return for_x, for_weight, for_prompt_key, for_prompt_value, *[None] * 4


def tiles(rows: s.PackedRows, stack: Stack) -> Tensor:
    """Return the rows of a stack as its tiles: ``[N, ·] -> [tiles, size, ·]``."""
    return rows[stack.rows].view(len(stack.owners), -1, rows.shape[-1])


def split_heads(rows: Tensor, width: int, heads: int) -> Tensor:
    """Queries, keys and values of slots of one width: ``[tiles, size, 3·H·D] -> [3, slots, H, T, D]``."""
    return rows.view(-1, width, 3, heads, rows.shape[-1] // (3 * heads)).permute(2, 0, 3, 1, 4)


def parts(scores: Tensor, length: int) -> tuple[Tensor, Tensor]:
    """Part what belongs to the keys of the prompt from what belongs to those of the completion."""
    return scores.tensor_split((length,), -1)


def turned(rotation: Rotation, stack: Stack) -> Rotation:
    """Return the rotation of the slots of a stack, of one of all prompts ``[R·P, 1, T, D / 2]``."""
    return Rotation(*(each[stack.prompts][..., : stack.width, :] for each in rotation))
