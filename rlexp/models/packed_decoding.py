"""Decoding of completions as rows, of which those that have ended are dropped: a completion costs until it has ended.

Rows of a replica lie in tiles of so many rows that at most four of them hold all that it still decodes. What is laid
out anew, and when, depends on the replica's own completions and on how far they are: it has the same bits alone and in
a batch. Keys stand in rooms that grow; what is not yet in them has weight 0.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from rlexp.core.exact import baddbmm, bmm, softmax_
from rlexp.models import shapes as s
from rlexp.models.forward_cache import PromptCache
from rlexp.models.packing import FOLD, NARROWEST, TILE, slots_of, stack_sizes
from rlexp.models.rotation import Rotation
from rlexp.models.transformer_plain import MASKED

TILES = 4  # of a replica, if its rows do not fill more of the largest
ROWS = 2048  # in a stack of tiles
KEPT = 512  # rows whose attention is computed at once
GROWTH = ((16, 4), (64, 8))  # up to which token a room grows by how much; later by twice the last


class Rows(NamedTuple):
    """Rows in tiles: from which row each comes, whether it is one of its own or fills a tile, whose it is, and stacks.

    A stack is which rows it has, how many in a tile, and the owners of its tiles.
    """

    sources: Tensor
    real: Tensor
    stacks: list[tuple[slice, int, Tensor]]


def lay_out(replicas_of_rows: Tensor, replicas: int) -> Rows:
    """Lay rows, given the replica of each in ascending order, into tiles; those of the replicas with most come first."""
    counts = replicas_of_rows.bincount(minlength=replicas)
    heights = torch.full_like(counts, NARROWEST)
    while (larger := (heights * TILES < counts) & (heights < TILE)).any():
        heights = torch.where(larger, 2 * heights, heights)
    sources, real, stacks, before = [], [], [], 0
    for height in heights.unique().flip(0).tolist():
        rows = (heights[replicas_of_rows] == height).nonzero().squeeze(-1)
        slots, owners = slots_of(replicas_of_rows[rows], replicas, height)
        taken = torch.zeros(len(owners) * height, dtype=torch.bool)
        taken[slots] = True
        filled = (counts.cumsum(0) - counts)[owners].repeat_interleave(height)  # the first row of the same replica
        filled[slots] = rows
        sources.append(filled)
        real.append(taken)
        tile = 0
        for length in stack_sizes(len(owners), largest_stack(height)):
            first = before + tile * height
            stacks.append((slice(first, first + length * height), height, owners[tile : tile + length]))
            tile += length
        before += len(filled)
    return Rows(torch.cat(sources), torch.cat(real), stacks)


def largest_stack(height: int) -> int:
    """Return how many tiles of so many rows a stack has at most, a power of ``FOLD``."""
    size = 1
    while size * FOLD * height <= ROWS:
        size *= FOLD
    return size


def room_for(read: int, most: int) -> int:
    """Return how many tokens a room holds that is laid out when so many have been read."""
    step = next((step for end, step in GROWTH if read < end), 2 * GROWTH[-1][1])
    return min(read + step, most)


class PackedDecoding:
    """The completions of all prompts that are still being decoded, as rows.

    ``ids`` are their places among all completions, ``kept`` the same with one more than the last for rows that only
    fill a tile.
    """

    def __init__(self, network: nn.Module, prompts: PromptCache, group: int):
        self.network, self.prompts, self.group = network, prompts, group
        self.weights, self.head = [block.weights() for block in network.blocks], network.head_weight()
        self.replicas, count, self.length = *prompts.lengths.shape, prompts.padding_bias.shape[-1]
        self.total, self.read, self.room = self.replicas * count * group, 0, 0
        self.ids = self.kept = torch.arange(self.total, device=prompts.lengths.device)
        places = prompts.lengths.unsqueeze(-1) + torch.arange(network.cap - 1, device=prompts.lengths.device)
        self.rotation, self.cache = network.rotation(places), None

    @property
    def full(self) -> bool:
        """Whether there is no room for another token, so that ``keep`` has to make some."""
        return self.read == self.room

    def keep(self, going_on: Tensor) -> Tensor | None:
        """Drop the rows that do not go on and make room; return from which row each comes, None if there are none."""
        device = going_on.device
        left = going_on.cpu().nonzero().squeeze(-1)
        if not len(left):
            return None
        order = self.ids.cpu()[left].argsort()
        left = left[order]
        each = self.total // self.replicas
        rows = lay_out(self.ids.cpu()[left] // each, self.replicas)
        sources = left[rows.sources].to(device)
        self.ids = self.ids[sources]
        self.kept = self.ids.where(rows.real.to(device), self.total)
        self.owners, of_prompts = self.ids // each, self.ids // self.group
        self.stacks = [(here, height, owners.to(device)) for here, height, owners in rows.stacks]
        self.of_stacks = [[stacked[owners] for _, _, owners in self.stacks] for stacked in self.every_weight()]
        self.room = room_for(self.read, self.network.cap - 1)
        self.cache = [
            [self.grown(block, of_prompts, sources, old) for block, old in zip(pair, olds, strict=True)]
            for pair, olds in zip(self.prompts.blocks, self.cache or [(None, None)] * len(self.weights), strict=True)
        ]
        self.bias = self.cache[0][0].new_full((len(self.ids), 1, self.length + self.room), MASKED)
        self.bias[..., : self.length] = self.prompts.padding_bias.flatten(0, 4)[of_prompts].unsqueeze(1)
        self.bias[..., self.length : self.length + self.read] = 0
        self.positions = self.prompts.lengths.flatten()[of_prompts]
        if self.rotation is not None:
            self.turning = Rotation(*(each.flatten(0, 2)[of_prompts].unsqueeze(1) for each in self.rotation))
        return sources

    def every_weight(self) -> list[Tensor]:
        """Return the weights of all products, block by block and the head last."""
        return [weight for block in self.weights for weight in block] + [self.head]

    def grown(self, of_prompts: Tensor, rows: Tensor, sources: Tensor, old: Tensor | None) -> Tensor:
        """Return keys or values of the rows that are left ``[N, H, L + room, D]``, zeros where none are yet."""
        have = self.length + self.read
        shape = len(rows), of_prompts.shape[2], self.length + self.room, of_prompts.shape[-1]
        new = of_prompts.new_zeros(shape)
        new[:, :, :have] = of_prompts.flatten(0, 1)[rows] if old is None else old[sources, :, :have]
        return new

    def decode(self, tokens: Tensor) -> Tensor:
        """Return the logits after one more token of each row, ``[N] -> [N, V]``."""
        network, products = self.network, iter(self.of_stacks)
        x = network.tokens(tokens, self.owners)
        embedded = network.embedded(self.positions + self.read, self.owners)
        x = x if embedded is None else x + embedded
        for block, cache in zip(network.blocks, self.cache, strict=True):
            qkv = self.product(normed(block, x), next(products))
            x = self.product(self.attend(qkv, *cache), next(products), x)
            hidden = self.product(normed(block, x), next(products))
            x = self.product(block.activate(hidden.unsqueeze(0)).squeeze(0), next(products), x)
        self.read += 1
        return self.product(normed(network.block, x), next(products))

    def product(self, x: Tensor, weights: list[Tensor], addend: Tensor | None = None) -> Tensor:
        """x W, plus ``addend`` if there is one, stack by stack."""
        results = []
        for (here, height, _), weight in zip(self.stacks, weights, strict=True):
            rows = x[here].unflatten(0, (-1, height))
            more = None if addend is None else addend[here].unflatten(0, (-1, height))
            results.append((bmm(rows, weight) if more is None else baddbmm(more, rows, weight)).flatten(0, 1))
        return results[0] if len(results) == 1 else torch.cat(results)

    def attend(self, qkv: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        """Take in a token of each row ``[N, 3W]``; return what it reads, ``[N, W]``."""
        query, key, value = qkv.view(len(qkv), 3, keys.shape[1], -1).unbind(1)
        place = self.length + self.read
        if self.rotation is not None:
            rotation = self.turning.at(self.read)
            for turned in (query, key):
                rotation.turn_(turned)
        keys[:, :, place], values[:, :, place] = key, value
        self.bias[..., place] = 0
        result, first = torch.empty_like(query), 0
        for length in stack_sizes(len(qkv) // NARROWEST, KEPT // NARROWEST):
            here = slice(first, first := first + length * NARROWEST)
            scores = bmm(query[here].flatten(0, 1).unsqueeze(1), keys[here].flatten(0, 1).mT)
            scores = scores.view(-1, keys.shape[1], scores.shape[-1]).add_(self.bias[here])
            read = bmm(softmax_(scores).flatten(0, 1).unsqueeze(1), values[here].flatten(0, 1))
            result[here] = read.view_as(result[here])
        return result.flatten(1)


def normed(block: nn.Module, x: s.OfRows) -> s.OfRows:
    """``block.norm`` of rows without replicas."""
    return block.norm(x.unsqueeze(0)).squeeze(0)
