"""A stacked GRU language model: the TinyLM of the four-pillars document."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rlexp.models.layers import Embedding, Init, Linear, sigmoid
from rlexp.models.tape import no_tape
from rlexp.types import PositiveInt


class GRULayer(nn.Module):
    """h' = (1 − z) · n + z · h, gates r, z, n in this order, as ``torch.nn.GRU`` (Cho et al., arXiv 1406.1078)."""

    def __init__(self, init: Init, inputs: int, hidden: int):
        super().__init__()
        bound = hidden**-0.5
        self.hidden = hidden
        self.input_weight = init.uniform(inputs, 3 * hidden, bound=bound)
        self.input_bias = init.uniform(1, 3 * hidden, bound=bound)
        self.state_weight = init.uniform(hidden, 3 * hidden, bound=bound)
        self.state_bias = init.uniform(1, 3 * hidden, bound=bound)

    def gates(self, inputs: Tensor) -> Tensor:
        """Return what the inputs add to the gates, for all steps at once: ``[R, N, T, D] -> [R, N, T, 3H]``."""
        replicas, rows, steps, width = inputs.shape
        flat = inputs.reshape(replicas, rows * steps, width)
        return torch.baddbmm(self.input_bias, flat, self.input_weight).view(replicas, rows, steps, 3 * self.hidden)

    def step(self, gates: Tensor, state: Tensor) -> Tensor:
        """Return the next state: ``[R, N, 3H], [R, N, H] -> [R, N, H]``."""
        recurrent = torch.baddbmm(self.state_bias, state, self.state_weight)
        reset, update = sigmoid(gates[..., : 2 * self.hidden] + recurrent[..., : 2 * self.hidden]).chunk(2, -1)
        new = (gates[..., 2 * self.hidden :] + reset * recurrent[..., 2 * self.hidden :]).tanh()
        return new + update * (state - new)

    def forward(self, inputs: Tensor, state: Tensor, present: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return the state after every step and the last: ``[R, N, T, D], [R, N, H] -> [R, N, T, H], [R, N, H]``.

        Where ``present`` ``[R, N, T]`` is False the state stays as it was. T may be 0.
        """
        states = [state.new_empty(*state.shape[:-1], 0, self.hidden)]
        for t, gates in enumerate(self.gates(inputs).unbind(-2)):
            new = self.step(gates, state)
            state = new if present is None else torch.where(present[..., t, None], new, state)
            states.append(state.unsqueeze(-2))
        return torch.cat(states, -2), state


class GRU(nn.Module):
    """Embedding, ``layers`` GRU layers, linear head; 62,820 parameters at vocabulary 100, hidden 64, two layers."""

    def __init__(self, init: Init, task, *, hidden: PositiveInt, layers: PositiveInt):
        super().__init__()
        self.hidden, self.pad = hidden, task.pad
        self.embedding = Embedding(init, task.vocabulary, hidden)
        self.layers = nn.ModuleList(GRULayer(init, hidden, hidden) for _ in range(layers))
        self.head = Linear(init, hidden, task.vocabulary)

    def run(self, tokens: Tensor, states: list[Tensor], present: Tensor | None = None) -> tuple[Tensor, list[Tensor]]:
        """Read ``tokens`` ``[R, N, T]`` from ``states``, ``[R, N, H]`` a layer; return outputs and last states."""
        outputs, last = self.embedding(tokens), []
        for layer, state in zip(self.layers, states, strict=True):
            outputs, state = layer(outputs, state, present)
            last.append(state)
        return outputs, last

    def read(self, prompts: Tensor, group: int) -> tuple[Tensor, list[Tensor]]:
        """Read each prompt ``[R, P, L]`` once; return its last output and states for its group: ``[R, P·G, H]``."""
        empty = self.embedding.weight.new_zeros(*prompts.shape[:2], self.hidden)
        outputs, states = self.run(prompts, [empty] * len(self.layers), prompts != self.pad)
        return (
            outputs[..., -1, :].repeat_interleave(group, 1),
            [state.repeat_interleave(group, 1) for state in states],
        )

    tape = no_tape

    def head_parameters(self) -> list[nn.Parameter]:
        """Return the parameters in which all logits are linear."""
        return list(self.head.parameters())

    def prefill(self, prompts: Tensor, group: int, tape: None = None) -> tuple[Tensor, list[Tensor]]:
        """Return the logits of the first completion token ``[R, P, G, V]`` and the state of every completion."""
        output, states = self.read(prompts, group)
        return self.head(output).unflatten(1, (-1, group)), states

    def decode(self, tokens: Tensor, states: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
        """Return the logits after ``tokens`` ``[R, P, G]`` and the new state."""
        outputs, states = self.run(tokens.flatten(1).unsqueeze(-1), states)
        return self.head(outputs[..., 0, :]).unflatten(1, tokens.shape[1:]), states

    def forward(self, prompts: Tensor, completions: Tensor, tape: None = None) -> Tensor:
        """Return the logits of every completion token: ``[R, P, L], [R, P, G, T] -> [R, P, G, T, V]``."""
        output, states = self.read(prompts, completions.shape[2])
        outputs, _ = self.run(completions[..., :-1].flatten(1, 2), states)
        return self.head(torch.cat([output.unsqueeze(-2), outputs], -2)).unflatten(1, completions.shape[1:3])
