"""What decoding leaves for training: results of the pass that sampled, which need not be computed again.

The first update after sampling has the weights that sampled, and its forward pass would repeat every product of the
decoding. With a tape it takes them from there: only the backward pass is left, and the ratio to the policy that sampled
is exactly 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from torch import Tensor


class Kept(NamedTuple):
    """Results in one block for the completion tokens that were read; None where nothing is kept.

    ``query``, ``key``, ``value`` ``[R, P, H, G, T, D]`` and the ``weights`` of attention ``[R, P, H, G, T, L + T]``;
    then ``[R, T, P, G, ·]``: what was ``attended`` to by them, ``middle`` and ``output``, the sums before and after the
    feed-forward part, and ``hidden``, its ReLU.
    """

    query: Tensor | None = None
    key: Tensor | None = None
    value: Tensor | None = None
    weights: Tensor | None = None
    attended: Tensor | None = None
    middle: Tensor | None = None
    hidden: Tensor | None = None
    output: Tensor | None = None


class Rows(NamedTuple):
    """What a block computes at one token that is of ``Kept``, ``[R, P·G, ·]`` each."""

    attended: Tensor
    middle: Tensor
    hidden: Tensor
    output: Tensor


class Read(NamedTuple):
    """Prompts as they were read, once for their groups: the outputs at their last tokens ``[R, P, W]``, keys and values
    a block ``[R, P, H, L, D]``, the barrier of their padding ``[R, P, 1, 1, 1, L]`` and their lengths ``[R, P]``."""

    output: Tensor
    keys: list[tuple[Tensor, Tensor]]
    absent: Tensor
    length: Tensor

    def of(self, prompts: slice) -> Read:
        """Return the part of some prompts, in one piece: a product of pieces may round otherwise."""
        keys = [(key[:, prompts].contiguous(), value[:, prompts].contiguous()) for key, value in self.keys]
        return Read(self.output[:, prompts], keys, self.absent[:, prompts], self.length[:, prompts])


class Tape(NamedTuple):
    """The prompts as read, with gradients; what every block keeps, and the logits after each token that was read,
    ``[R, T, P, G, V]``."""

    read: Read
    blocks: list[Kept]
    logits: Tensor | None = None

    def each(self, by_heads: Callable[[Tensor], Tensor], by_rows: Callable[[Tensor], Tensor]) -> Tape:
        """Return the tape with a function applied to what is cut by heads, another to the rest."""
        blocks = [Kept(*map(by_heads, block[:4]), *map(by_rows, block[4:])) for block in self.blocks]
        return Tape(self.read, blocks, by_rows(self.logits))

    def fill(self, tokens: Sequence[tuple[Sequence[Rows], Tensor]]) -> None:
        """Take in the rows of every block and the logits of each token; what was not decoded is zero."""
        t = len(tokens)
        for place, kept in enumerate(self.blocks):
            for tensor in kept[:4]:
                tensor[..., t:, :].zero_()
            for name in Rows._fields:
                stack(getattr(kept, name), [getattr(rows[place], name) for rows, _ in tokens])
        stack(self.logits, [logits for _, logits in tokens])

    def rows(self) -> Tape:
        """Return the tape with the rows of all tokens together, ``[R, T·P·G, ·]``."""
        return self.each(lambda tensor: tensor, lambda tensor: tensor.flatten(1, 3))

    def of(self, prompts: slice) -> Tape:
        """Return the part of some prompts."""
        part = self.each(lambda tensor: tensor[:, prompts].contiguous(), lambda tensor: tensor[:, :, prompts])
        return part._replace(read=self.read.of(prompts))

    def put(self, replicas: Tensor, others: Tape) -> None:
        """Replace what was kept of the replicas with the indices ``replicas``; prompts stay as they are."""
        for mine, theirs in zip([*self.blocks, (self.logits,)], [*others.blocks, (others.logits,)], strict=True):
            for tensor, new in zip(mine, theirs, strict=True):
                tensor[replicas] = new


def stack(tensor: Tensor, pieces: Sequence[Tensor]) -> None:
    """Write pieces ``[R, P·G, ·]`` to the first places of ``tensor`` ``[R, T, P, G, ·]``, zeros to the others."""
    room = tensor.flatten(2, 3)
    room[:, len(pieces) :].zero_()
    for t, piece in enumerate(pieces):
        room[:, t] = piece


def no_tape(policy: object, prompts: Tensor, group: int) -> None:
    """For policies whose decoding keeps nothing: every update computes its own forward pass."""
