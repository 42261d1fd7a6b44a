"""A stacked causal transformer: pre-norm, learned positions, no dropout."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from rlexp.models.layers import Embedding, Init, LayerNorm, Linear, softmax
from rlexp.types import PositiveInt

MASKED = -1e9


class Cache(NamedTuple):
    """Keys and values of a layer: ``[R, P, heads, L, D]`` of prompts, ``[R, P, G, heads, t, D]`` of completions."""

    prompt_keys: Tensor
    prompt_values: Tensor
    keys: Tensor
    values: Tensor


class State(NamedTuple):
    """What decoding carries: a cache a layer, which prompt keys exist, the next position of each prompt."""

    caches: list[Cache]
    absent: Tensor
    position: Tensor


class Block(nn.Module):
    """x + attention(norm(x)), then x + feed-forward(norm(x)) with a ReLU."""

    def __init__(self, init: Init, width: int, heads: int, feedforward: int):
        super().__init__()
        self.heads = heads
        self.attention_norm, self.feedforward_norm = LayerNorm(init, width), LayerNorm(init, width)
        self.qkv, self.out = Linear(init, width, 3 * width), Linear(init, width, width)
        self.up, self.down = Linear(init, width, feedforward), Linear(init, feedforward, width)

    def project(self, x: Tensor) -> list[Tensor]:
        """Return queries (scaled), keys and values, ``[R, ..., T, W] -> [R, ..., heads, T, D]``."""
        split = self.qkv(self.attention_norm(x)).unflatten(-1, (3, self.heads, -1)).transpose(-2, -4).unbind(-3)
        query, key, value = (part.contiguous() for part in split)
        return [query * query.shape[-1] ** -0.5, key, value]

    def finish(self, x: Tensor, attended: Tensor) -> Tensor:
        """Add the attended values ``[R, ..., heads, T, D]`` and the feed-forward part to ``x`` ``[R, ..., T, W]``."""
        x = x + self.out(attended.transpose(-2, -3).flatten(-2))
        return x + self.down(self.up(self.feedforward_norm(x)).relu())

    def read(self, x: Tensor, absent: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Let prompts ``[R, P, L, W]`` attend to themselves; ``absent`` ``[R, P, 1, L, L]`` bars pads and future."""
        query, key, value = self.project(x)
        weights = softmax((query @ key.transpose(-1, -2)).masked_fill(absent, MASKED))
        return self.finish(x, weights @ value), key, value

    def attend(self, x: Tensor, cache: Cache, absent: Tensor, future: Tensor) -> tuple[Tensor, Cache]:
        """Let completions attend to their prompt and to themselves: ``[R, P, G, T, W]``, with a prompt read once."""
        query, key, value = self.project(x)
        cache = cache._replace(keys=torch.cat([cache.keys, key], -2), values=torch.cat([cache.values, value], -2))
        shared = query.transpose(2, 3).flatten(3, 4)
        scores = (shared @ cache.prompt_keys.transpose(-1, -2)).masked_fill(absent, MASKED)
        scores = scores.unflatten(3, (x.shape[2], -1)).transpose(2, 3)
        own = (query @ cache.keys.transpose(-1, -2)).masked_fill(future, MASKED)
        on_prompt, on_own = softmax(torch.cat([scores, own], -1)).split([scores.shape[-1], own.shape[-1]], -1)
        read = on_prompt.transpose(2, 3).flatten(3, 4) @ cache.prompt_values
        attended = read.unflatten(3, (x.shape[2], -1)).transpose(2, 3) + on_own @ cache.values
        return self.finish(x, attended), cache


class Transformer(nn.Module):
    """Token and position embeddings, ``layers`` blocks, a last norm and a linear head.

    A prompt is read once for its whole group; left padding is never attended to and does not move positions.
    """

    def __init__(
        self, init: Init, task, *, width: PositiveInt, layers: PositiveInt, heads: PositiveInt, feedforward: PositiveInt
    ):
        super().__init__()
        self.pad = task.pad
        self.tokens = Embedding(init, task.vocabulary, width, std=0.5)
        self.positions = Embedding(init, task.prompt_length + task.cap, width, std=0.5)
        self.blocks = nn.ModuleList(Block(init, width, heads, feedforward) for _ in range(layers))
        self.norm, self.head = LayerNorm(init, width), Linear(init, width, task.vocabulary)

    def read(self, prompts: Tensor, group: int) -> tuple[Tensor, State]:
        """Read each prompt once, ``[R, P, L]``; return its last output ``[R, P, W]`` and the state for its group."""
        present = prompts != self.pad
        order = present.cumsum(-1)
        x = self.tokens(prompts) + self.positions((order - 1).clamp(min=0))
        length = prompts.shape[-1]
        future = torch.ones(length, length, dtype=torch.bool, device=prompts.device).triu(1)
        barred = (future | ~present[..., None, :]).unsqueeze(2)
        caches = []
        for block in self.blocks:
            x, key, value = block.read(x, barred)
            empty = key.new_zeros(*key.shape[:2], group, key.shape[2], 0, key.shape[-1])
            caches.append(Cache(key, value, empty, empty))
        return x[..., -1, :], State(caches, ~present[:, :, None, None, :], order[..., -1, None, None])

    def extend(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """Read more completion tokens ``[R, P, G, T]``; return their outputs ``[R, P, G, T, W]`` and the new state."""
        steps = tokens.shape[-1]
        places = torch.arange(steps, device=tokens.device)
        x = self.tokens(tokens) + self.positions(state.position + places)
        seen = state.caches[0].keys.shape[-2]
        future = torch.arange(seen + steps, device=tokens.device) > (seen + places).unsqueeze(-1)
        caches = []
        for block, cache in zip(self.blocks, state.caches, strict=True):
            x, cache = block.attend(x, cache, state.absent, future)
            caches.append(cache)
        return x, State(caches, state.absent, state.position + steps)

    def logits(self, x: Tensor) -> Tensor:
        """``[R, ..., W] -> [R, ..., V]``."""
        return self.head(self.norm(x))

    def prefill(self, prompts: Tensor, group: int) -> tuple[Tensor, State]:
        """Return the logits of the first completion token ``[R, P, G, V]`` and the state of every completion."""
        x, state = self.read(prompts, group)
        return self.logits(x).unsqueeze(2).expand(-1, -1, group, -1), state

    def decode(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """Return the logits after ``tokens`` ``[R, P, G]`` and the new state."""
        x, state = self.extend(tokens.unsqueeze(-1), state)
        return self.logits(x.squeeze(-2)), state

    def forward(self, prompts: Tensor, completions: Tensor) -> Tensor:
        """Return the logits of every completion token: ``[R, P, L], [R, P, G, T] -> [R, P, G, T, V]``."""
        group = completions.shape[2]
        first, state = self.read(prompts, group)
        rest, _ = self.extend(completions[..., :-1], state)
        first = first[:, :, None, None].expand(-1, -1, group, -1, -1)
        return self.logits(torch.cat([first, rest], -2))
