"""What a run remembers from step to step: running statistics, moving averages, coefficients that adapt.

A memory is a tensor a replica, ``[R, ...]``, with a name. An axis function asks for it by that name and gets what it
was before the step; after the step its ``update``, a pure function that asks by name too, says what follows. The
module of an axis lists its memories beside its functions: ``MEMORIES = {choice: Memory}``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from pydantic import BaseModel
from torch import Tensor

from rlexp.choose import ask, bind


class Memory(NamedTuple):
    """A name, the numbers to start from, and what follows them after a step; the last two take knobs by keyword."""

    name: str
    start: Callable[..., float | Sequence[float]]
    update: Callable[..., Tensor]


def chosen(memories: Mapping[str, Memory], settings: BaseModel) -> dict[str, Memory]:
    """Return the memory of a choice by its name, bound to the choice's knobs; nothing if it has none."""
    if settings.name not in memories:
        return {}
    name, start, update = memories[settings.name]
    return {name: Memory(name, bind(start, settings), bind(update, settings))}


def begin(blocks: Sequence[tuple[Any, int]]) -> dict[str, Tensor]:
    """Return all memories of a fleet before its first step, ``[R, ...]``; zeros for runs that have no such memory."""
    starts = [{name: torch.tensor(each.start()) for name, each in variant.memories.items()} for variant, _ in blocks]
    empty = {name: torch.zeros_like(values) for start in starts for name, values in start.items()}
    rows = [empty | start for start, (_, size) in zip(starts, blocks, strict=True) for _ in range(size)]
    return {name: torch.stack([row[name] for row in rows]) for name in empty}


def remember(variant: Any, memory: Mapping[str, Tensor], offered: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the memories after a step; those that the variant does not have stay as they are."""
    updated = {name: ask(each.update, {**offered, **memory}) for name, each in variant.memories.items()}
    return {**memory, **updated}
