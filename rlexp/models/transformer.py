"""A stacked causal transformer: pre-norm, learned positions, no biases, no dropout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rlexp.models.attention import Attention, Cache, Softmax, barrier
from rlexp.models.layers import Embedding, FeedForward, Init, Product, Projection
from rlexp.models.tape import Kept, Slot, Tape
from rlexp.types import PositiveInt

NOTHING = Kept()


class State(NamedTuple):
    """What decoding carries: for each block a cache, a weight, and places of the tape, ``slots[block][t]``; places of
    the logits, the next position ``[R, P, 1]``, and how many tokens were read."""

    caches: list[Cache]
    weights: list[Tensor]
    slots: list[list[Slot]]
    logits: Sequence[Tensor | None]
    position: Tensor
    read: int


def norm(x: Tensor) -> Tensor:
    """Layer norm without gain and bias, as in OLMo (arXiv 2402.00838): a product follows that can scale."""
    return F.layer_norm(x, x.shape[-1:])


class Block(nn.Module):
    """x + attention(norm(x)), then x + feed-forward(norm(x)) with a ReLU."""

    def __init__(self, init: Init, width: int, heads: int, feedforward: int):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = Projection(init, width, 3 * width), Projection(init, width, width)
        self.up, self.down = Projection(init, width, feedforward), Projection(init, feedforward, width)

    def weight(self) -> Tensor:
        """Return what makes queries, keys and values ``[R, W, 3W]``, the queries with the scale of their products."""
        query, rest = self.qkv.weight.tensor_split((self.out.weight.shape[1],), -1)
        return torch.cat([query * (query.shape[-1] / self.heads) ** -0.5, rest], -1)

    def read(self, x: Tensor, barred: Tensor, places: slice) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Let prompts ``[R, P, L, W]`` attend to themselves; return the outputs at ``places``, keys and values."""
        qkv = Product.apply(norm(x).flatten(1, 2), self.weight(), None, None)
        split = qkv.view(*x.shape[:-1], 3, self.heads, -1)
        query, key, value = split.movedim((-3, -2), (0, 3)).contiguous().unbind(0)
        weights = Softmax.apply(query[..., places, :] @ key.transpose(-1, -2), barred[..., places, :])
        x = x[..., places, :]
        attended = (weights @ value).movedim(2, -2).flatten(1, 2).flatten(2)
        return self.finish(x.flatten(1, 2), attended, NOTHING).view(x.shape), (key, value)

    def extend(
        self,
        x: Tensor,
        prompt: tuple[Tensor, Tensor],
        absent: Tensor,
        later: Tensor,
        shape: Sequence[int],
        kept: Kept,
    ) -> Tensor:
        """Return the outputs at completion tokens, rows ``[R, T·P·G, W]`` of ``shape`` T, P, G."""
        return self.finish(x, Attention.apply(norm(x), self.weight(), *prompt, absent, later, shape, kept), kept)

    def finish(self, x: Tensor, attended: Tensor, kept: Kept) -> Tensor:
        """Add the attended values and the feed-forward part to ``x``, all rows ``[R, N, W]``."""
        x = self.out(attended, plus=x, known=kept.middle)
        return FeedForward.apply(x, norm(x), self.up.weight, self.down.weight, kept)

    def follow(self, x: Tensor, weight: Tensor, cache: Cache, t: int, slot: Slot) -> Tensor:
        """Return the outputs at the t-th completion token, rows ``[R, P·G, W]``, without gradients.

        ``weight`` is that of queries, keys and values; what is computed on the way goes to ``slot``, if it has places.
        """
        attended = cache.attend(torch.bmm(norm(x), weight), t)
        if slot.attended is None:
            attended = attended.reshape(x.shape)
        else:
            slot.attended.view(attended.shape).copy_(attended)
            attended = slot.attended
        x = torch.baddbmm(x, attended, self.out.weight, out=slot.middle)
        hidden = torch.bmm(norm(x), self.up.weight, out=slot.hidden).relu_()
        return torch.baddbmm(x, hidden, self.down.weight, out=slot.output)


class Transformer(nn.Module):
    """Token and position embeddings, ``layers`` blocks, a last norm and a head.

    A prompt is read once for its whole group; left padding is never attended to and does not move positions.
    """

    def __init__(
        self, init: Init, task, *, width: PositiveInt, layers: PositiveInt, heads: PositiveInt, feedforward: PositiveInt
    ):
        super().__init__()
        self.pad, self.prompt_length, self.cap = task.pad, task.prompt_length, task.cap
        self.tokens = Embedding(init, task.vocabulary, width, std=0.5)
        self.positions = Embedding(init, task.prompt_length + task.cap, width, std=0.5)
        self.blocks = nn.ModuleList(Block(init, width, heads, feedforward) for _ in range(layers))
        self.head = Projection(init, width, task.vocabulary)

    def read(self, prompts: Tensor) -> tuple[Tensor, list[tuple[Tensor, Tensor]], Tensor, Tensor]:
        """Read each prompt ``[R, P, L]`` once, for its whole group.

        Return its last output ``[R, P, W]``, keys and values a block ``[R, P, H, L, D]``, the barrier of its padding
        ``[R, P, 1, 1, 1, L]`` and its length ``[R, P]``.
        """
        present = prompts != self.pad
        order = present.cumsum(-1)
        x = self.tokens(prompts) + self.positions((order - 1).clamp(min=0))
        barred = barrier((future(prompts) | ~present[..., None, :]).unsqueeze(2))
        keys = []
        for block in self.blocks:  # of the last block only the last place is needed
            x, pair = block.read(x, barred, slice(-1 if block is self.blocks[-1] else 0, None))
            keys.append(pair)
        return x[..., -1, :], keys, barrier(~present[:, :, None, None, None, :]), order[..., -1]

    def head_parameters(self) -> list[nn.Parameter]:
        """Return the parameters in which all logits are linear."""
        return list(self.head.parameters())

    def room(self, prompts: int, group: int) -> list[Kept]:
        """Return room for the queries, keys and values of so many completions of so many prompts."""
        like, width = self.tokens.weight, self.tokens.weight.shape[-1]
        shapes = [(len(like), prompts, block.heads, group, self.cap - 1, width // block.heads) for block in self.blocks]
        return [Kept(*(like.new_empty(shape) for _ in range(3))) for shape in shapes]

    def tape(self, prompts: int, group: int) -> Tape:
        """Return an empty tape for so many completions of so many prompts."""
        rows = (len(self.tokens.weight), self.cap - 1, prompts, group)
        blocks = []
        for block, room in zip(self.blocks, self.room(prompts, group), strict=True):
            width, hidden = block.up.weight.shape[1:]
            sizes = dict(attended=width, middle=width, hidden=hidden, output=width)
            kept = {name: room.key.new_empty(*rows, size) for name, size in sizes.items()}
            seen = room.key.new_zeros(*room.key.shape[:-1], self.prompt_length + self.cap - 1)
            blocks.append(room._replace(weights=seen, **kept))
        return Tape(blocks, self.tokens.weight.new_empty(*rows, self.head.weight.shape[-1]))

    def prefill(self, prompts: Tensor, group: int, tape: Tape | None = None) -> tuple[Tensor, State]:
        """Return the logits of the first completion token ``[R, P, G, V]`` and the state of every completion.

        Decoding from it writes to the tape, if there is one.
        """
        x, keys, absent, length = self.read(prompts)
        kept = tape.blocks if tape else self.room(prompts.shape[1], group)
        caches = [Cache(*pair, absent, each) for pair, each in zip(keys, kept, strict=True)]
        weights = [block.weight() for block in self.blocks]
        slots = tape.slots() if tape else [[Slot()] * self.cap] * len(self.blocks)
        logits = tape.logits.flatten(2, 3).unbind(1) if tape else [None] * self.cap
        state = State(caches, weights, slots, logits, length.unsqueeze(-1), 0)
        return self.head(norm(x)).unsqueeze(2).expand(-1, -1, group, -1), state

    def decode(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """Return the logits after ``tokens`` ``[R, P, G]`` and the new state, which shares its room with the old."""
        t = state.read
        x = (self.tokens(tokens) + self.positions(state.position)).flatten(1, 2)
        for block, cache, weight, slots in zip(self.blocks, state.caches, state.weights, state.slots, strict=True):
            x = block.follow(x, weight, cache, t, slots[t])
        logits = torch.bmm(norm(x), self.head.weight, out=state.logits[t])
        return logits.view(*tokens.shape, -1), state._replace(position=state.position + 1, read=t + 1)

    def forward(self, prompts: Tensor, completions: Tensor, tape: Tape | None = None) -> Tensor:
        """Return the logits of every completion token: ``[R, P, L], [R, P, G, T] -> [R, P, G, T, V]``.

        ``tape`` is what sampling the completions has left, with the weights as they are now.
        """
        x, keys, absent, length = self.read(prompts)
        first = self.head(norm(x))[:, None, :, None].expand(-1, -1, -1, completions.shape[2], -1)
        tokens = completions[..., :-1].movedim(-1, 1)
        if not tokens.shape[1]:
            return first.movedim(1, 3)
        tape = tape.rows() if tape else Tape([NOTHING] * len(self.blocks))
        places = torch.arange(tokens.shape[1], device=tokens.device)
        position = length.unsqueeze(1) + places.unsqueeze(-1)
        x = (self.tokens(tokens) + self.positions(position).unsqueeze(3)).flatten(1, 3)
        later = barrier(future(places))
        for block, prompt, kept in zip(self.blocks, keys, tape.blocks, strict=True):
            x = block.extend(x, prompt, absent, later, tokens.shape[1:], kept)
        rest = self.head(norm(x), known=tape.logits).view(*tokens.shape, -1)
        return torch.cat([first, rest], 1).movedim(1, 3)


def future(tokens: Tensor) -> Tensor:
    """Which later tokens a token must not see, ``[T, T]``."""
    length = tokens.shape[-1]
    return torch.ones(length, length, dtype=torch.bool, device=tokens.device).triu(1)
