"""What a run remembers from step to step: running statistics, moving averages, coefficients that adapt.

A memory is a tensor a replica, ``[R, ...]``, with a name. An axis function asks for it by that name and gets what it
was before the step; after the step its ``update``, a pure function that asks by name too, says what follows. The
module of any axis may list memories beside its functions: ``MEMORIES = {choice: Memory}``. A memory is offered to the
choice that has it, and to its own update beside the experience of the step (``rlexp.axes.offered.EXPERIENCE``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, get_type_hints

import torch
from pydantic import BaseModel
from torch import Tensor

from rlexp.core.registry import Offer, bind_hyperparameters, call_with, check_requests


class Memory(NamedTuple):
    """A name, the numbers to start from, what follows them after a step, and a line about it.

    ``start`` and ``update`` take those of the choice's hyperparameters that they name by keyword. What ``update``
    returns is annotated: it is the type under which the memory is offered.
    """

    name: str
    start: Callable[..., float | Sequence[float]]
    update: Callable[..., Tensor]
    text: str

    @property
    def offer(self) -> Offer:
        """What a function that asks for it gets."""
        return Offer(get_type_hints(self.update)["return"], self.text)


def offers(axis: str, memories: Mapping[str, Memory], experience: Mapping[str, Offer]) -> dict[str, dict[str, Offer]]:
    """Return what each choice of an axis is offered because it remembers it.

    TypeError if an update asks for what is neither its own memory nor part of the ``experience`` of a step.
    """
    for choice, memory in memories.items():
        check_requests(f"{axis}={choice}", memory.update, {**experience, memory.name: memory.offer})
    return {choice: {memory.name: memory.offer} for choice, memory in memories.items()}


def owners(memories: Mapping[str, Memory]) -> dict[str, list[str]]:
    """Return the memories of an axis by their names, each with the choices that have it."""
    names = dict.fromkeys(memory.name for memory in memories.values())
    return {name: [choice for choice, memory in memories.items() if memory.name == name] for name in names}


def bind_memories(memories: Mapping[str, Memory], settings: BaseModel) -> dict[str, Memory]:
    """Return the memory of a choice by its name, bound to the choice's hyperparameters; nothing if it has none."""
    if settings.name not in memories:
        return {}
    name, start, update, text = memories[settings.name]
    return {name: Memory(name, bind_hyperparameters(start, settings), bind_hyperparameters(update, settings), text)}


def initial_memory(blocks: Sequence[tuple[Any, int]]) -> dict[str, Tensor]:
    """Return all memories of a state before its first step, ``[R, ...]``; zeros for runs that have no such memory."""
    starts = [
        {name: torch.tensor(memory.start()) for name, memory in variant.memories.items()} for variant, _ in blocks
    ]
    empty = {name: torch.zeros_like(values) for start in starts for name, values in start.items()}
    rows = [empty | start for start, (_, size) in zip(starts, blocks, strict=True) for _ in range(size)]
    return {name: torch.stack([row[name] for row in rows]) for name in empty}


def apply_updates(variant: Any, memory: Mapping[str, Tensor], offered: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the memories after a step; those that the variant does not have stay as they are."""
    updated = {name: call_with(each.update, {**offered, **memory}) for name, each in variant.memories.items()}
    return {**memory, **updated}
