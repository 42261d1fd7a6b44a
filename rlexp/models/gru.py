"""A stacked GRU language model: the TinyLM of the four-pillars document."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rlexp.core.exact import baddbmm, products_of, sigmoid
from rlexp.core.types import Completions, Depth, NextToken, NextTokens, PerVocabulary, Prompts, Size
from rlexp.models import shapes as s
from rlexp.models.layers import Embedding, Init, Linear
from rlexp.models.policy import Policy
from rlexp.tasks.task import Task


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

    def gates(self, inputs: s.Sequences) -> s.GatesOverTime:
        """Return what the inputs add to the gates, for all steps at once."""
        replicas, sequences, steps, width = inputs.shape
        flat = inputs.reshape(replicas, sequences * steps, width)
        gates = baddbmm(self.input_bias, flat, self.input_weight)
        return gates.view(replicas, sequences, steps, 3 * self.hidden)

    def step(self, gates: s.Gates, state: s.HiddenState) -> s.HiddenState:
        recurrent = baddbmm(self.state_bias, state, self.state_weight)
        reset, update = sigmoid(gates[..., : 2 * self.hidden] + recurrent[..., : 2 * self.hidden]).chunk(2, -1)
        new = (gates[..., 2 * self.hidden :] + reset * recurrent[..., 2 * self.hidden :]).tanh()
        return new + update * (state - new)

    def forward(
        self, inputs: s.Sequences, state: s.HiddenState, present: s.SequenceMask | None = None
    ) -> tuple[s.HiddenStates, s.HiddenState]:
        """Return the state after every step and the last; where not ``present`` it stays as it was. T may be 0."""
        states = [state.new_empty(*state.shape[:-1], 0, self.hidden)]
        for t, gates in enumerate(self.gates(inputs).unbind(-2)):
            new = self.step(gates, state)
            state = new if present is None else torch.where(present[..., t, None], new, state)
            states.append(state.unsqueeze(-2))
        return torch.cat(states, -2), state


class GRU(Policy):
    """Embedding, ``layers`` GRU layers, linear head; 62,820 parameters at vocabulary 100, hidden 64, two layers."""

    def __init__(self, init: Init, task: Task, outputs: int | None = None, *, hidden: Size, layers: Depth):
        super().__init__()
        self.hidden, self.pad = hidden, task.pad
        self.embedding = Embedding(init, task.vocabulary, hidden)
        self.layers = nn.ModuleList(GRULayer(init, hidden, hidden) for _ in range(layers))
        self.head = Linear(init, hidden, outputs or task.vocabulary)

    def run_layers(
        self, tokens: s.SequenceTokens, states: list[s.HiddenState], present: s.SequenceMask | None = None
    ) -> tuple[s.HiddenStates, list[s.HiddenState]]:
        """Read tokens from one state a layer; return the outputs of the last layer and the last states of all."""
        outputs, last_states = self.embedding(tokens), []
        for layer, state in zip(self.layers, states, strict=True):
            outputs, state = layer(outputs, state, present)
            last_states.append(state)
        return outputs, last_states

    def read_out(self, outputs: Tensor) -> Tensor:
        """Return the logits of outputs of the last layer, ``[R, ..., W] -> [R, ..., V]``."""
        with products_of("head"):
            return self.head(outputs)

    def prompt_states(self, prompts: Prompts, group: int) -> tuple[s.HiddenState, list[s.HiddenState]]:
        """Read each prompt once; return its last output and its states for every completion of its group."""
        zeros = self.embedding.weight.new_zeros(*prompts.shape[:2], self.hidden)
        outputs, states = self.run_layers(prompts, [zeros] * len(self.layers), prompts != self.pad)
        last = outputs[..., -1, :].repeat_interleave(group, 1)
        return last, [state.repeat_interleave(group, 1) for state in states]

    def prefill(self, prompts: Prompts, group: int) -> tuple[NextToken, list[s.HiddenState]]:
        output, states = self.prompt_states(prompts, group)
        return self.read_out(output).unflatten(1, (-1, group)), states

    def decode(self, tokens: NextTokens, state: list[s.HiddenState]) -> tuple[NextToken, list[s.HiddenState]]:
        outputs, states = self.run_layers(tokens.flatten(1).unsqueeze(-1), state)
        return self.read_out(outputs[..., 0, :]).unflatten(1, tokens.shape[1:]), states

    def logits(self, prompts: Prompts, completions: Completions) -> PerVocabulary:
        output, states = self.prompt_states(prompts, completions.shape[2])
        outputs, _ = self.run_layers(completions[..., :-1].flatten(1, 2), states)
        return self.read_out(torch.cat([output.unsqueeze(-2), outputs], -2)).unflatten(1, completions.shape[1:3])
