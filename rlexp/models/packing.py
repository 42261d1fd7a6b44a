"""Completions of different lengths as tiles of tokens: a pass costs what they are long, not what they may be.

Each completion that has tokens to read is laid into a slot whose width is the next of 8, 16, 32, …; slots of one width
and one replica stand side by side in tiles of ``TILE`` tokens, so that a tile is a matrix of one shape whatever it
holds. Which tile a completion is in depends on its own replica alone, and what is empty holds numbers without
gradients: a replica has the same bits alone and in a batch, as ``core/exact.py`` has them for a stack of matrices.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from rlexp.core.types import Completions
from rlexp.models import shapes as s

NARROWEST = 8  # tokens of a slot
TILE = 128  # tokens of a tile, if no slot is wider
FOLD = 4  # how often a stack of tiles is in the next larger one
LARGEST = 16  # tiles in a stack: what a few products need then stays in the cache


class Stack(NamedTuple):
    """Tiles with slots of one ``width`` that are computed as one: which they are, whose, and of which prompts."""

    tiles: slice
    width: int
    owners: s.OfTiles
    prompts: s.OfSlots


class Packing(NamedTuple):
    """Where the tokens of completions are: of ``tokens`` the places among all of a batch, of ``results`` back again.

    ``positions`` count from the end of the prompt, ``prompts`` says which one of all replicas that is. ``results`` are
    one more than the last for tokens that nobody reads.
    """

    owners: s.OfTiles
    tokens: s.OfTileTokens
    prompts: s.OfTileTokens
    positions: s.OfTileTokens
    results: s.ResultPlaces
    stacks: list[Stack]


def widths(longest: int) -> list[int]:
    """Return the widths of slots for up to ``longest`` tokens."""
    found = [NARROWEST]
    while found[-1] < longest:
        found.append(2 * found[-1])
    return found


def completion_lengths(completions: Completions, end: int) -> s.CompletionLengths:
    """Return how many tokens each completion has, up to its first ``end``, which counts: ``[R, P, G, T] -> [R, P, G]``."""
    ends = completions == end
    return torch.where(ends.any(-1), ends.byte().argmax(-1) + 1, completions.shape[-1])


def pack(read: s.CompletionLengths, time: int) -> Packing:
    """Lay completions of ``time`` + 1 tokens into tiles, the first tokens of each that are to be ``read``, 0 to ``time``.

    The last token is never read: no other follows it.
    """
    device, (replicas, prompts, group) = read.device, read.shape
    lengths, steps = read.flatten().cpu(), torch.arange(time)
    size = max(TILE, widths(time)[-1])
    owners, rows_of_slots, kinds = [], [], []
    results, before = torch.full((len(lengths), time), -1), 0
    for narrower, width in zip([0, *widths(time)], widths(time), strict=False):
        rows = ((lengths > narrower) & (lengths <= width)).nonzero().squeeze(-1)
        slots, whose = slots_of(rows // (prompts * group), replicas, size // width)
        rows_here = (whose * prompts * group).repeat_interleave(size // width)  # of an empty slot any of its replica
        rows_here[slots] = rows
        first = before * size + slots.unsqueeze(-1) * width
        here = steps[:width]
        results[rows, : len(here)] = (first + here).where(here < lengths[rows].unsqueeze(-1), -1)
        owners.append(whose)
        rows_of_slots.append(rows_here)
        kinds.append((width, len(whose)))
        before += len(whose)
    results[results < 0] = before * size
    owner, rows = torch.cat(owners), torch.cat(rows_of_slots)
    every = [torch.arange(width).clamp(max=time - 1).expand(number * (size // width), -1) for width, number in kinds]
    positions = torch.cat([each.reshape(-1, size) for each in every])
    wide = [each.unsqueeze(-1).expand(-1, width) for each, (width, _) in zip(rows_of_slots, kinds, strict=True)]
    rows_of_tokens = torch.cat([each.reshape(-1, size) for each in wide])
    whose, of_slots = owner.to(device), (rows // group).to(device)
    return Packing(
        owners=whose,
        tokens=(rows_of_tokens * (time + 1) + positions).to(device),
        prompts=(rows_of_tokens // group).to(device),
        positions=positions.to(device),
        results=results.to(device),
        stacks=[*stacks(kinds, size, whose, of_slots)],
    )


def slots_of(replicas_of_rows: Tensor, replicas: int, each: int) -> tuple[Tensor, Tensor]:
    """Return the slot of every completion, given its replica in ascending order, and the owner of every tile.

    There are ``each`` slots in a tile; the completions of a replica fill its tiles one after another.
    """
    counts = replicas_of_rows.bincount(minlength=replicas)
    tiles = -(-counts // each)
    number = torch.arange(len(replicas_of_rows)) - (counts.cumsum(0) - counts)[replicas_of_rows]
    first = (tiles.cumsum(0) - tiles)[replicas_of_rows]
    return first * each + number, torch.arange(replicas).repeat_interleave(tiles)


def stacks(kinds: list[tuple[int, int]], size: int, owners: Tensor, prompts: Tensor) -> Iterator[Stack]:
    """Yield stacks of few sizes, of tiles of one width each: every size is tried out once (``core/exact.py``)."""
    tile = slot = 0
    for width, number in kinds:
        each = size // width
        for length in stack_sizes(number, LARGEST):
            here = slice(tile, tile + length)
            yield Stack(here, width, owners[here], prompts[slot : slot + length * each])
            tile, slot = tile + length, slot + length * each


def stack_sizes(number: int, largest: int) -> Iterator[int]:
    """Yield sizes that add up to a number: as many of the largest as go into it, then of the next smaller ones."""
    while largest:
        yield from [largest] * (number // largest)
        number, largest = number % largest, largest // FOLD


def unpack(first: Tensor, packed: Tensor, packing: Packing) -> Tensor:
    """Return what is known before each token: ``[R, P, G, ·]`` of the first ones, ``[N, B, ·] -> [R, P, G, T, ·]``.

    It is 0 where nothing was read.
    """
    flat = packed.flatten(0, 1)
    flat = torch.cat([flat, flat.new_zeros(1, *flat.shape[1:])])
    rest = flat.index_select(0, packing.results.flatten())
    return torch.cat([first.unsqueeze(3), rest.view(*first.shape[:3], -1, *first.shape[3:])], 3)
