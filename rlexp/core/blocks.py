"""Cutting and joining named tuples and dicts of tensors along their replicas (axis 0) or their prompts (axis 1)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeVar

import torch

Tensors = TypeVar("Tensors")


class Masked(NamedTuple):
    """Numbers ``[R]`` that only some runs have, bool ``[R]``; the others have no such number, which is not NaN."""

    values: torch.Tensor
    has: torch.Tensor

    def tolist(self) -> list[float | int | None]:
        """Return each run's number, None for those that have none."""
        return [value if has else None for value, has in zip(self.values.tolist(), self.has.tolist(), strict=True)]


def map_tensors(function: Callable, *trees: Tensors) -> Tensors:
    """Return what ``function`` makes of the tensors in the same place of named tuples and dicts; None stays None."""
    first = trees[0]
    if first is None or isinstance(first, torch.Tensor):
        return first if first is None else function(*trees)
    if isinstance(first, dict):
        return {name: map_tensors(function, *(tree[name] for tree in trees)) for name in first}
    return type(first)(*(map_tensors(function, *column) for column in zip(*trees, strict=True)))


def slice_rows(tensors: Tensors, rows: slice, axis: int = 0) -> Tensors:
    """Return the rows of a tensor, or of every tensor of a named tuple or a dict."""
    return map_tensors(lambda tensor: tensor[(slice(None),) * axis + (rows,)], tensors)


def concat(parts: Sequence[Tensors]) -> Tensors:
    """Concatenate tensors, or named tuples or dicts of them, along their replicas."""
    return map_tensors(lambda *tensors: torch.cat(tensors), *parts)


def map_variants(function: Callable, blocks: Sequence[tuple[object, int]], *tensors: Tensors):
    """Join ``function(variant, *rows)`` over the contiguous block of replicas that each variant owns."""
    if len(blocks) == 1:  # nothing to copy
        return function(blocks[0][0], *tensors)
    results, first = [], 0
    for variant, size in blocks:
        rows = slice(first, first + size)
        results.append(function(variant, *(slice_rows(each, rows) for each in tensors)))
        first += size
    return concat(results)


def gather_rows(tensor: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """Return of a tensor ``[R N ...]`` the rows at places ``[R n]``, which each replica has its own of."""
    return torch.take_along_dim(tensor, places.view(*places.shape, *[1] * (tensor.dim() - 2)), 1)


def minibatches(batch: Tensors, prompts: int, parts: int) -> Iterator[Tensors]:
    """Split ``prompts`` prompts into equal parts, never a group."""
    size = prompts // parts
    for first in range(0, prompts, size):
        yield slice_rows(batch, slice(first, first + size), axis=1)
