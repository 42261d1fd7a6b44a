"""Completions of different lengths as tiles of tokens: a pass costs what they are long, not what they may be.

Each completion that has tokens to read is laid into a slot whose width is the next of 8, 12, 16, 24, 32, …; slots of
one width and one replica stand side by side in tiles, so that a tile is a matrix of one shape whatever it holds. Which
tile a completion is in depends on its own replica alone, and what is empty holds numbers without gradients: a replica
has the same bits alone and in a batch, as ``core/exact.py`` has them for a stack of matrices.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from rlexp.core.types import Completions
from rlexp.models import shapes as s

NARROWEST = 8  # tokens of a slot
TILE = 64  # tokens of a tile at most, if no slot is wider
FOLD = 2  # how often a stack of tiles is in the next larger one
LARGEST = 2048  # tokens of a stack at most: what a few products need then stays in the cache


class Stack(NamedTuple):
    """Tiles with slots of one ``width`` that are computed as one: their rows, whose they are, and which prompts'."""

    rows: slice
    width: int
    owners: s.OfTiles
    prompts: s.OfSlots


class Packing(NamedTuple):
    """Tokens of completions as rows: of ``tokens`` the places among all of a batch, of ``results`` back again.

    ``positions`` count from the end of the prompt, ``prompts`` says which one of all replicas that is, ``owners`` which
    replica. ``results`` are one more than the last for tokens that nobody reads.
    """

    owners: s.OfRows
    tokens: s.OfRows
    prompts: s.OfRows
    positions: s.OfRows
    results: s.ResultPlaces
    stacks: list[Stack]


def widths(longest: int) -> list[int]:
    """Return the widths of slots for up to ``longest`` tokens."""
    found = [NARROWEST]
    while found[-1] < longest:
        found.append(2 * found[-2] if len(found) % 2 == 0 else 3 * found[-1] // 2)
    return found


def completion_lengths(completions: Completions, end: int) -> s.CompletionLengths:
    """Count the tokens of each completion up to its first ``end``, which counts: ``[R, P, G, T] -> [R, P, G]``."""
    ends = completions == end
    return torch.where(ends.any(-1), ends.byte().argmax(-1) + 1, completions.shape[-1])


def pack(read: s.CompletionLengths, time: int) -> Packing:
    """Lay the first tokens of completions into tiles, of each as many as are to be ``read``, 0 to ``time``.

    Completions have ``time`` + 1 tokens, of which the last is never read: no other follows it.
    """
    (replicas, prompts, group), device, lengths = read.shape, read.device, read.flatten().cpu()
    steps, results = torch.arange(time), torch.full((read.numel(), time), -1)
    every, stacks, first = [], [], 0
    for narrower, width in pairwise([0, *widths(time)]):
        rows, each = ((lengths > narrower) & (lengths <= width)).nonzero().squeeze(-1), max(TILE // width, 1)
        slots, owners = slots_of(rows // (prompts * group), replicas, each)
        completions = (owners * prompts * group).repeat_interleave(each)  # an empty slot has any of its replica
        completions[slots] = rows
        places = first + slots.unsqueeze(-1) * width + steps[:width]
        results[rows, : places.shape[1]] = places.where(steps[:width] < lengths[rows].unsqueeze(-1), -1)
        of_slots, positions = completions.unsqueeze(-1), torch.arange(width).clamp(max=time - 1)
        every.append(torch.stack(torch.broadcast_tensors(of_slots, positions)).flatten(1))
        stacks += stacks_of(width, each, first, owners.to(device), (completions // group).to(device))
        first += len(completions) * width
    completions, positions = torch.cat(every, 1).to(device)
    return Packing(
        owners=completions // (prompts * group),
        tokens=completions * (time + 1) + positions,
        prompts=completions // group,
        positions=positions,
        results=results.masked_fill(results < 0, first).to(device),
        stacks=stacks,
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


def stacks_of(width: int, each: int, first: int, owners: Tensor, prompts: Tensor) -> Iterator[Stack]:
    """Yield stacks of tiles of ``each`` slots, of which ``first`` is the first row.

    They are of few sizes: every size is tried out once (``core/exact.py``).
    """
    tile = 0
    for length in stack_sizes(len(owners), each * width):
        here = slice(first + tile * each * width, first + (tile + length) * each * width)
        yield Stack(here, width, owners[tile : tile + length], prompts[tile * each : (tile + length) * each])
        tile += length


def stack_sizes(number: int, rows: int) -> Iterator[int]:
    """Yield sizes of stacks that add up to a number of tiles of so many rows, the largest first: powers of ``FOLD``."""
    size = 1
    while size * FOLD * rows <= LARGEST:
        size *= FOLD
    while number:
        yield from [size] * (number // size)
        number, size = number % size, size // FOLD


def unpack(first: Tensor, rows: Tensor, packing: Packing) -> Tensor:
    """Return what is known before each token: ``[R, P, G, ·]`` of the first ones, ``[N, ·] -> [R, P, G, T, ·]``.

    It is 0 where nothing was read.
    """
    rest = torch.cat([rows, rows.new_zeros(1, *rows.shape[1:])])
    rest = rest.index_select(0, packing.results.flatten())
    return torch.cat([first.unsqueeze(3), rest.view(*first.shape[:3], -1, *first.shape[3:])], 3)
