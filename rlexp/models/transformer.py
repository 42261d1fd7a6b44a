"""A stacked causal transformer: pre-norm, learned positions, no biases, no dropout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rlexp.models.attention import Attention, Softmax, attend, barrier
from rlexp.models.layers import Embedding, Init, Projection
from rlexp.types import PositiveInt


class Room:
    """Keys and values of a layer's completions, ``[R, P, H, G, t, D]``, in room for all that may come."""

    def __init__(self, like: Tensor, group: int, cap: int):
        shape = (*like.shape[:3], group, cap, like.shape[-1])
        self.key, self.value, self.seen = like.new_empty(shape), like.new_empty(shape), 0

    def add(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Take in those of one more token; return all so far."""
        now, self.seen = slice(self.seen, self.seen + 1), self.seen + 1
        self.key[..., now, :], self.value[..., now, :] = key, value
        return self.key[..., : self.seen, :], self.value[..., : self.seen, :]


class State(NamedTuple):
    """What decoding carries: keys and values of the prompts, room for those of the completions, filled in place."""

    prompts: list[tuple[Tensor, Tensor]]
    rooms: list[Room]
    absent: Tensor
    position: Tensor


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

    def project(self, x: Tensor, shape: Sequence[int]) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries (scaled), keys and values of rows of ``shape``: ``[R, P·…·T, W] -> [R, P, H, ..., T, D]``."""
        split = self.qkv(norm(x)).view(*shape, 3, self.heads, -1)
        query, key, value = split.movedim((-3, -2), (0, 3)).contiguous().unbind(0)
        return query * query.shape[-1] ** -0.5, key, value

    def finish(self, x: Tensor, attended: Tensor) -> Tensor:
        """Add the attended values ``[R, P, H, ..., T, D]`` and the feed-forward part to ``x`` ``[R, P·…·T, W]``."""
        x = self.out(attended.movedim(2, -2).reshape(x.shape)).add_(x)
        return self.down(self.up(norm(x)).relu_()).add_(x)

    def read(self, x: Tensor, barred: Tensor, places: slice) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Let prompts ``[R, P, L, W]`` attend to themselves; return the outputs at ``places``, keys and values."""
        query, key, value = self.project(x.flatten(1, 2), x.shape[:-1])
        weights = Softmax.apply(query[..., places, :] @ key.transpose(-1, -2), barred[..., places, :])
        x = x[..., places, :]
        return self.finish(x.flatten(1, 2), weights @ value).view(x.shape), (key, value)


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

    def logits(self, x: Tensor) -> Tensor:
        """``[R, N, W] -> [R, N, V]``."""
        return self.head(norm(x))

    def head_parameters(self) -> list[nn.Parameter]:
        """Return the parameters in which all logits are linear."""
        return list(self.head.parameters())

    def prefill(self, prompts: Tensor, group: int) -> tuple[Tensor, State]:
        """Return the logits of the first completion token ``[R, P, G, V]`` and the state of every completion."""
        x, keys, absent, length = self.read(prompts)
        rooms = [Room(key, group, self.cap) for key, _ in keys]
        state = State(keys, rooms, absent, length.unsqueeze(-1))
        return self.logits(x).unsqueeze(2).expand(-1, -1, group, -1), state

    def decode(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """Return the logits after ``tokens`` ``[R, P, G]`` and the new state, which shares its room with the old."""
        x = (self.tokens(tokens) + self.positions(state.position)).flatten(1, 2)
        for block, pair, room in zip(self.blocks, state.prompts, state.rooms, strict=True):
            query, key, value = block.project(x, (*tokens.shape, 1))
            attended, _ = attend(query, *room.add(key, value), *pair, state.absent)
            x = block.finish(x, attended)
        return self.logits(x).view(*tokens.shape, -1), state._replace(position=state.position + 1)

    def forward(self, prompts: Tensor, completions: Tensor) -> Tensor:
        """Return the logits of every completion token: ``[R, P, L], [R, P, G, T] -> [R, P, G, T, V]``."""
        x, keys, absent, length = self.read(prompts)
        every = [x[:, :, None, None].expand(-1, -1, completions.shape[2], -1, -1)]
        if completions.shape[-1] > 1:
            every.append(self.extend(completions[..., :-1], keys, absent, length))
        every = torch.cat(every, -2)
        return self.logits(every.flatten(1, 3)).view(*completions.shape, -1)

    def extend(self, tokens: Tensor, keys: Sequence[tuple[Tensor, Tensor]], absent: Tensor, length: Tensor) -> Tensor:
        """Return the outputs at completion tokens ``[R, P, G, T, W]``; the rest is what ``read`` returned."""
        places = torch.arange(tokens.shape[-1], device=tokens.device)
        x = self.tokens(tokens) + self.positions(length.unsqueeze(-1) + places).unsqueeze(2)
        shape, x, later = x.shape, x.flatten(1, 3), barrier(future(tokens))
        for block, pair in zip(self.blocks, keys, strict=True):
            query, key, value = block.project(x, tokens.shape)
            x = block.finish(x, Attention.apply(query, key, value, *pair, absent, later))
        return x.view(shape)


def future(tokens: Tensor) -> Tensor:
    """Which later tokens a token must not see, ``[T, T]``."""
    length = tokens.shape[-1]
    return torch.ones(length, length, dtype=torch.bool, device=tokens.device).triu(1)
