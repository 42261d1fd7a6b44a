"""A stacked causal transformer: pre-norm, learned positions, no biases, no dropout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from rlexp.models.attention import Cache, barrier
from rlexp.models.block import NOTHING, Block, Weights, follow, norm
from rlexp.models.layers import Embedding, Init, Projection
from rlexp.models.tape import Kept, Read, Rows, Tape
from rlexp.types import PositiveInt


class State(NamedTuple):
    """What decoding carries: for each block its weights and a cache; the embedded positions to come, ``[R, P, 1, W]``
    each, how many tokens were read, and of each token the rows of all blocks and the logits, if they are kept."""

    weights: list[Weights]
    caches: list[Cache]
    positions: Sequence[Tensor]
    seen: int
    tokens: list[tuple[list[Rows], Tensor]] | None


class Transformer(nn.Module):
    """Token and position embeddings, ``layers`` blocks, a last norm and a head.

    A prompt is read once for its whole group; left padding is never attended to and does not move positions.
    """

    def __init__(
        self, init: Init, task, *, width: PositiveInt, layers: PositiveInt, heads: PositiveInt, feedforward: PositiveInt
    ):
        super().__init__()
        self.pad, self.cap = task.pad, task.cap
        self.tokens = Embedding(init, task.vocabulary, width, std=0.5)
        self.positions = Embedding(init, task.prompt_length + task.cap, width, std=0.5)
        self.blocks = nn.ModuleList(Block(init, width, heads, feedforward) for _ in range(layers))
        self.head = Projection(init, width, task.vocabulary)

    def read(self, prompts: Tensor) -> Read:
        """Read each prompt ``[R, P, L]`` once, for its whole group."""
        present = prompts != self.pad
        order = present.cumsum(-1)
        x = self.tokens(prompts) + self.positions((order - 1).clamp(min=0))
        barred = barrier((future(prompts) | ~present[..., None, :]).unsqueeze(2))
        keys = []
        for block in self.blocks:  # of the last block only the last place is needed
            x, pair = block.read(x, barred, slice(-1 if block is self.blocks[-1] else 0, None))
            keys.append(pair)
        return Read(x[..., -1, :], keys, barrier(~present[:, :, None, None, None, :]), order[..., -1])

    def head_parameters(self) -> list[nn.Parameter]:
        """Return the parameters in which all logits are linear."""
        return list(self.head.parameters())

    def room(self, prompts: int, group: int) -> list[Kept]:
        """Return room for the queries, keys and values of so many completions of so many prompts."""
        like, width = self.tokens.weight, self.tokens.weight.shape[-1]
        shapes = [(len(like), prompts, block.heads, group, self.cap - 1, width // block.heads) for block in self.blocks]
        return [Kept(*(like.new_empty(shape) for _ in range(3))) for shape in shapes]

    @torch.enable_grad()
    def tape(self, prompts: Tensor, group: int) -> Tape:
        """Read prompts ``[R, P, L]``; return them with room for what is computed while they are completed."""
        rows = (len(prompts), self.cap - 1, prompts.shape[1], group)
        blocks = []
        for block, room in zip(self.blocks, self.room(prompts.shape[1], group), strict=True):
            width, hidden = block.up.weight.shape[1:]
            sizes = dict(attended=width, middle=width, hidden=hidden, output=width)
            kept = {name: room.key.new_empty(*rows, size) for name, size in sizes.items()}
            seen = room.key.new_zeros(*room.key.shape[:-1], prompts.shape[2] + self.cap - 1)
            blocks.append(room._replace(weights=seen, **kept))
        return Tape(self.read(prompts), blocks, self.tokens.weight.new_empty(*rows, self.head.weight.shape[-1]))

    def prefill(self, prompts: Tensor, group: int, tape: Tape | None = None) -> tuple[Tensor, State]:
        """Return the logits of the first completion token ``[R, P, G, V]`` and the state of every completion.

        ``tape`` is that of these prompts, if there is one; decoding from the state writes attention to it.
        """
        read = tape.read if tape else self.read(prompts)
        kept = tape.blocks if tape else self.room(prompts.shape[1], group)
        state = State(
            [block.weights() for block in self.blocks],
            [Cache(*pair, read.absent, each) for pair, each in zip(read.keys, kept, strict=True)],
            self.embedded(read.length, self.cap - 1).unsqueeze(3).unbind(1),
            0,
            [] if tape else None,
        )
        return self.head(norm(read.output)).unsqueeze(2).expand(-1, -1, group, -1), state

    def embedded(self, length: Tensor, count: int) -> Tensor:
        """Return the embedded positions of the first tokens after prompts of a length, ``[R, P] -> [R, T, P, W]``."""
        return self.positions(length.unsqueeze(1) + torch.arange(count, device=length.device).unsqueeze(-1))

    def decode(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """Return the logits after ``tokens`` ``[R, P, G]`` and the new state, which shares its room with the old."""
        t, rows = state.seen, []
        x = (self.tokens(tokens) + state.positions[t]).flatten(1, 2)
        for weights, cache in zip(state.weights, state.caches, strict=True):
            rows.append(follow(x, weights, cache, t))
            x = rows[-1].output
        logits = torch.bmm(norm(x), self.head.weight)
        kept = None if state.tokens is None else [*state.tokens, (rows, logits)]
        return logits.view(*tokens.shape, -1), state._replace(seen=t + 1, tokens=kept)

    def forward(self, prompts: Tensor, completions: Tensor, tape: Tape | None = None) -> Tensor:
        """Return the logits of every completion token: ``[R, P, L], [R, P, G, T] -> [R, P, G, T, V]``.

        ``tape`` is what sampling the completions has left, with the weights as they are now.
        """
        read = tape.read if tape else self.read(prompts)
        first = self.head(norm(read.output))[:, None, :, None].expand(-1, -1, -1, completions.shape[2], -1)
        tokens = completions[..., :-1].movedim(-1, 1)
        if not tokens.shape[1]:
            return first.movedim(1, 3)
        if tape and not torch.is_grad_enabled():
            return torch.cat([first, tape.logits], 1).movedim(1, 3)
        tape = tape.rows() if tape else Tape(read, [NOTHING] * len(self.blocks))
        x = (self.tokens(tokens) + self.embedded(read.length, tokens.shape[1]).unsqueeze(3)).flatten(1, 3)
        later = barrier(future(tokens[0, :, 0, 0]))
        for block, prompt, kept in zip(self.blocks, read.keys, tape.blocks, strict=True):
            x = block.extend(x, prompt, read.absent, later, tokens.shape[1:], kept)
        rest = self.head(norm(x), known=tape.logits).view(*tokens.shape, -1)
        return torch.cat([first, rest], 1).movedim(1, 3)


def future(tokens: Tensor) -> Tensor:
    """Which later tokens a token must not see, ``[T, T]``."""
    length = tokens.shape[-1]
    return torch.ones(length, length, dtype=torch.bool, device=tokens.device).triu(1)
