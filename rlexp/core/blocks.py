"""Cutting and joining named tuples and dicts of tensors along their replicas (axis 0) or their prompts (axis 1)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import torch

Tensors = TypeVar("Tensors")


def cut(tensors: Tensors, rows: slice, axis: int = 0) -> Tensors:
    """Return the rows of a tensor, or of every tensor of a named tuple or a dict."""
    if isinstance(tensors, torch.Tensor):
        return tensors[(slice(None),) * axis + (rows,)]
    if isinstance(tensors, dict):
        return {name: cut(tensor, rows, axis) for name, tensor in tensors.items()}
    return type(tensors)(*(cut(tensor, rows, axis) for tensor in tensors))


def join(parts: Sequence[Tensors]) -> Tensors:
    """Concatenate tensors, or named tuples or dicts of them, along their replicas."""
    if isinstance(parts[0], torch.Tensor):
        return torch.cat(parts)
    if isinstance(parts[0], dict):
        return {name: join([part[name] for part in parts]) for name in parts[0]}
    return type(parts[0])(*(join(column) for column in zip(*parts, strict=True)))


def by_block(function: Callable, blocks: Sequence[tuple[object, int]], *tensors: Tensors):
    """Join ``function(variant, *rows)`` over the contiguous block of replicas that each variant owns."""
    if len(blocks) == 1:  # nothing to copy
        return function(blocks[0][0], *tensors)
    results, first = [], 0
    for variant, size in blocks:
        rows = slice(first, first + size)
        results.append(function(variant, *(cut(each, rows) for each in tensors)))
        first += size
    return join(results)


def minibatches(batch: Tensors, prompts: int, parts: int) -> Iterator[Tensors]:
    """Split ``prompts`` prompts into equal parts, never a group."""
    size = prompts // parts
    for first in range(0, prompts, size):
        yield cut(batch, slice(first, first + size), axis=1)
