"""The policies once more: one replica, one completion at a time, prompt and completion as one unpadded sequence.

Layers are torch's own, or the formula of the lecture; nothing here imports rlexp. All functions return the logits of
the completion tokens, ``[T, V]``; ``logits`` stacks them to ``[R, P, G, T, V]``.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def logits(of_one: Callable[[int, Tensor, Tensor], Tensor], prompts: Tensor, completions: Tensor) -> Tensor:
    """Call ``of_one(replica, prompt, completion)`` for every completion."""
    rows = [of_one(r, prompts[r, p], completions[r, p, g]) for r, p, g in torch.ones(completions.shape[:3]).nonzero()]
    return torch.stack(rows).view(*completions.shape, -1)


class TorchGRU(nn.Module):
    """``torch.nn`` layers with the weights of one replica of a stacked GRU."""

    def __init__(self, stacked: nn.Module, replica: int, pad: int):
        super().__init__()
        self.pad, self.weights = pad, {name: p[replica] for name, p in stacked.named_parameters()}
        tokens, hidden = self.weights["embedding.weight"].shape
        self.embedding = nn.Embedding(tokens, hidden)
        self.gru = nn.GRU(hidden, hidden, len(stacked.layers), batch_first=True)
        self.head = nn.Linear(hidden, self.weights["head.bias"].shape[-1])
        self.double()
        for parameter, name in self.names():
            parameter.data.copy_(self.weights[name].t() if name.endswith("_weight") else self.weights[name].squeeze(0))
        self.head.weight.data.copy_(self.weights["head.weight"].t())

    def names(self):
        """Pairs of a parameter here and the name that it has in the stack."""
        yield from [(self.embedding.weight, "embedding.weight"), (self.head.bias, "head.bias")]
        for layer in range(self.gru.num_layers):
            for here, there in [("ih", "input"), ("hh", "state")]:
                yield getattr(self.gru, f"weight_{here}_l{layer}"), f"layers.{layer}.{there}_weight"
                yield getattr(self.gru, f"bias_{here}_l{layer}"), f"layers.{layer}.{there}_bias"

    def gradients(self) -> dict[str, Tensor]:
        """Gradients by the names and in the shapes of the stack."""
        found = {"head.weight": self.head.weight.grad.t()}
        for parameter, name in self.names():
            slope = parameter.grad
            found[name] = slope.t() if name.endswith("_weight") else slope.view(self.weights[name].shape)
        return found

    def forward(self, prompt: Tensor, completion: Tensor) -> Tensor:
        sequence = torch.cat([prompt[prompt != self.pad], completion])[:-1]
        outputs, _ = self.gru(self.embedding(sequence.unsqueeze(0)))
        return self.head(outputs[0, -len(completion) :])


def transformer(stacked: nn.Module, replica: int, pad: int, prompt: Tensor, completion: Tensor) -> Tensor:
    """Pre-norm blocks without biases over the whole sequence with ``scaled_dot_product_attention``."""
    weights = {name: p[replica] for name, p in stacked.named_parameters()}

    def linear(x: Tensor, name: str) -> Tensor:
        return F.linear(x, weights[f"{name}.weight"].t())

    def norm(x: Tensor) -> Tensor:
        return F.layer_norm(x, x.shape[-1:])

    sequence = torch.cat([prompt[prompt != pad], completion])[:-1]
    x = weights["tokens.weight"][sequence] + weights["positions.weight"][: len(sequence)]
    for layer, block in enumerate(stacked.blocks):
        name = f"blocks.{layer}"
        heads = linear(norm(x), f"{name}.qkv").view(len(sequence), 3, block.heads, -1)
        query, key, value = heads.permute(1, 2, 0, 3)
        attended = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + linear(attended.transpose(0, 1).flatten(1), f"{name}.out")
        x = x + linear(F.relu(linear(norm(x), f"{name}.up")), f"{name}.down")
    return linear(norm(x), "head")[-len(completion) :]


def positional(embedding: Tensor, encode: Tensor, decode: Tensor, prompt: Tensor) -> Tensor:
    """Σ over prompt positions of embedding · encode; one decode a answer position; embedding read backwards (S2.8)."""
    encoded = torch.einsum("ld,lde->e", embedding[prompt], encode)
    return torch.einsum("e,tef,vf->tv", encoded, decode, embedding)


def llama(stacked: nn.Module, replica: int, pad: int, prompt: Tensor, completion: Tensor) -> Tensor:
    """Blocks of Llama over the whole sequence, pairs of numbers turned as complex numbers."""
    weights = {name: p[replica] for name, p in stacked.named_parameters()}

    def linear(x: Tensor, name: str) -> Tensor:
        return F.linear(x, weights[f"{name}.weight"].t())

    def norm(x: Tensor, gain: str) -> Tensor:
        return F.rms_norm(x, x.shape[-1:], weights[gain].squeeze(0), 1e-6)

    def turned(x: Tensor) -> Tensor:
        """``[H, T, D]``: number i and number i + D / 2 by T · 10,000^(−2 i / D)."""
        half = x.shape[-1] // 2
        angles = torch.arange(x.shape[1]).unsqueeze(-1) * 10_000.0 ** (-torch.arange(half, dtype=torch.float64) / half)
        pairs = torch.complex(x[..., :half], x[..., half:]) * torch.polar(torch.ones_like(angles), angles)
        return torch.cat([pairs.real, pairs.imag], -1).to(x.dtype)

    sequence = torch.cat([prompt[prompt != pad], completion])[:-1]
    x = weights["tokens.weight"][sequence]
    for layer, block in enumerate(stacked.blocks):
        name = f"blocks.{layer}"
        heads = linear(norm(x, f"{name}.attention_gain"), f"{name}.qkv").view(len(sequence), 3, block.heads, -1)
        query, key, value = heads.permute(1, 2, 0, 3)
        attended = F.scaled_dot_product_attention(turned(query), turned(key), value, is_causal=True)
        x = x + linear(attended.transpose(0, 1).flatten(1), f"{name}.out")
        gate, up = linear(norm(x, f"{name}.feedforward_gain"), f"{name}.up").chunk(2, -1)
        x = x + linear(F.silu(gate) * up, f"{name}.down")
    head = weights["head.weight"].t() if "head.weight" in weights else weights["tokens.weight"]
    return F.linear(norm(x, "gain"), head)[-len(completion) :]
