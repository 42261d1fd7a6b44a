"""Decoding of completions as rows, of which those that have ended are dropped: a completion costs until it has ended.

Rows of a replica lie in few tiles, whose heights follow from how many it still decodes. When they are laid out anew
depends on nothing but how many tokens there are: a replica has the same bits alone and in a batch. Keys stand in rooms
that grow; what is not yet in them has weight 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import NamedTuple

import torch
from torch import Tensor, nn

from rlexp.core.exact import as_before, baddbmm, bmm, softmax_
from rlexp.models.forward_cache import PromptCache
from rlexp.models.packing import stack_sizes
from rlexp.models.rotation import Rotation
from rlexp.models.transformer_plain import MASKED

LOWEST, HIGHEST = 8, 128  # rows of a tile
FEWER = 4  # times as few rows whose attention is computed at once as those of a product
TILES = 3  # below the highest, for the completions of a replica
GROWTH = ((16, 4), (64, 8))  # up to which token a room grows by how much; later by twice the last


class Rows(NamedTuple):
    """Rows in tiles: from which row each comes, whether it is one of its own or fills a tile, and stacks of tiles.

    A stack is which rows it has, how many in a tile, and the owners of its tiles.
    """

    sources: Tensor
    real: Tensor
    stacks: list[tuple[slice, int, Tensor]]


def heights(number: int) -> Iterator[int]:
    """Yield heights of tiles for so many rows, few tiles of which few rows are empty."""
    yield from [HIGHEST] * (number // HIGHEST)
    number, left = number % HIGHEST, TILES
    while number > 0:
        above = max(1 << (number - 1).bit_length(), LOWEST)
        height = above if left == 1 or 8 * above <= 9 * number else max(1 << (number.bit_length() - 1), LOWEST)
        yield height
        number, left = number - height, left - 1


def lay_out(replicas_of_rows: Tensor, replicas: int) -> Rows:
    """Lay rows, given the replica of each in ascending order, into tiles, the highest first."""
    first, tiles = 0, []
    for replica, count in enumerate(replicas_of_rows.bincount(minlength=replicas).tolist()):
        end = first + count
        for height in heights(count):
            tiles.append((height, replica, first, min(height, end - first)))
            first += tiles[-1][-1]
    tiles.sort(key=lambda tile: -tile[0])
    sources, real, stacks, row = [], [], [], 0
    for height, _, start, filled in tiles:
        sources += [*range(start, start + filled), *[start] * (height - filled)]
        real += [True] * filled + [False] * (height - filled)
    for height, alike in groupby(tiles, key=lambda tile: tile[0]):
        owners = torch.tensor([replica for _, replica, *_ in alike])
        for length in stack_sizes(len(owners), height):
            stacks.append((slice(row, row := row + length * height), height, owners[:length]))
            owners = owners[length:]
    return Rows(torch.tensor(sources), torch.tensor(real), stacks)


def room_for(read: int, most: int) -> int:
    """Return how many tokens a room holds that is laid out when so many have been read."""
    step = next((step for end, step in GROWTH if read < end), 2 * GROWTH[-1][1])
    return min(read + step, most)


class PackedDecoding:
    """Beginnings of completions that are being decoded, as rows in tiles; ``of_prompts`` says of which prompt each is.

    Before the first ``lay`` there is a row for each prompt, ``[R·P]``.
    """

    def __init__(self, network: nn.Module, prompts: PromptCache):
        self.network, self.prompts, self.length = network, prompts, prompts.padding_bias.shape[-1]
        self.weights = [weight for block in network.blocks for weight in block.weights()] + [network.head_weight()]
        self.of_prompts, self.read, self.room = torch.arange(prompts.lengths.numel()).to(prompts.lengths), 0, 0
        places = torch.arange(network.cap - 1).to(prompts.lengths)
        self.rotation = network.rotation(prompts.lengths.unsqueeze(-1) + places)
        self.caches = [[each.flatten(0, 1) for each in block] for block in prompts.blocks]

    @property
    def full(self) -> bool:
        """Whether there is no room for another token, so that rows have to be laid out anew."""
        return self.read == self.room

    def lay(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Go on with other rows, each that of a row there was, in the order of their replicas, ``[n] -> [N], [N]``.

        Return for each row in the tiles which one of ``rows`` it is, and whether it only fills a tile.
        """
        replicas, count = self.prompts.lengths.shape
        laid = lay_out(self.of_prompts.cpu()[rows.cpu()] // count, replicas)
        which, real = laid.sources.to(rows.device), laid.real.to(rows.device)
        sources = rows[which]
        self.of_prompts = self.of_prompts[sources]
        self.owners = self.of_prompts // count
        self.stacks = [(here, height) for here, height, _ in laid.stacks]
        owners = [whose.to(rows.device) for *_, whose in laid.stacks]
        self.of_stacks = [[weight[whose] for whose in owners] for weight in self.weights]
        self.room = self.room if self.read < self.room else room_for(self.read, self.network.cap - 1)
        self.make_room(sources)
        self.positions = self.prompts.lengths.flatten()[self.of_prompts]
        if self.rotation is not None:
            by_row = (angles.flatten(0, 2)[self.of_prompts] for angles in self.rotation)
            self.turning = Rotation(*(angles[:, None, None] for angles in by_row))
        return which, ~real

    def make_room(self, sources: Tensor) -> None:
        """Take keys and values of the rows that they come from, ``[N, H, L + room, D]``, and mask what is not there."""
        have, rows = self.length + self.read, len(sources)
        for pair in self.caches:
            for place, old in enumerate(pair):
                pair[place] = new = old.new_empty(rows, old.shape[1], self.length + self.room, old.shape[-1])
                new[:, :, :have], new[:, :, have:] = old[:, :, :have][sources], 0
        self.bias = new.new_full((rows, 1, self.length + self.room), MASKED)
        self.bias[..., : self.length] = self.prompts.padding_bias.flatten(0, 4)[self.of_prompts].unsqueeze(1)
        self.bias[..., self.length : have] = 0
        self.parts, first = [], 0
        for length in stack_sizes(rows // LOWEST, FEWER * LOWEST):
            here = slice(first, first := first + length * LOWEST)
            keys_and_values = [[each[here].flatten(0, 1) for each in pair] for pair in self.caches]
            self.parts.append((here, self.bias[here], keys_and_values))

    def decode(self, tokens: Tensor) -> Tensor:
        """Return the logits after one more token of each row, ``[N] -> [N, V]``."""
        shapes = self.length, self.room, tuple((here.stop, height) for here, height in self.stacks)
        with as_before(self.network, "decode", packed=shapes):
            return self.decode_rows(tokens)

    def decode_rows(self, tokens: Tensor) -> Tensor:
        network, products = self.network, iter(self.of_stacks)
        x = network.tokens(tokens, self.owners)
        embedded = network.embedded(self.positions + self.read, self.owners)
        x = x if embedded is None else x + embedded
        self.bias[..., self.length + self.read] = 0
        for number, block in enumerate(network.blocks):
            qkv = self.product(block.normed(x), next(products))
            x = self.product(self.attend(qkv, number), next(products), x)
            hidden = self.product(block.normed(x), next(products))
            x = self.product(block.activate(hidden.unsqueeze(0)).squeeze(0), next(products), x)
        self.read += 1
        return self.product(network.block.normed(x), next(products))

    def product(self, x: Tensor, weights: list[Tensor], addend: Tensor | None = None) -> Tensor:
        """x W, plus ``addend`` if there is one, stack by stack."""
        results = []
        for (here, height), weight in zip(self.stacks, weights, strict=True):
            rows = x[here].view(-1, height, x.shape[-1])
            if addend is None:
                results.append(bmm(rows, weight))
            else:
                results.append(baddbmm(addend[here].view(-1, height, addend.shape[-1]), rows, weight))
        results = [each.view(-1, each.shape[-1]) for each in results]
        return results[0] if len(results) == 1 else torch.cat(results)

    def attend(self, qkv: Tensor, block: int) -> Tensor:
        """Take in a token of each row ``[N, 3W]`` in a block; return what it reads, ``[N, W]``."""
        keys, values = self.caches[block]
        qkv, place = qkv.view(len(qkv), 3, keys.shape[1], -1), self.length + self.read
        if self.rotation is not None:
            self.turning.at(self.read).turn_(qkv[:, :2])
        keys[:, :, place], values[:, :, place] = qkv[:, 1], qkv[:, 2]
        read = []
        for here, bias, keys_and_values in self.parts:
            keys, values = keys_and_values[block]
            scores = bmm(qkv[here, 0].reshape(len(keys), 1, -1), keys.mT)
            weights = softmax_(scores.view(len(bias), -1, scores.shape[-1]).add_(bias)).view_as(scores)
            read.append(bmm(weights, values).view(len(bias), -1))
        return read[0] if len(read) == 1 else torch.cat(read)
