"""What the tests of models, rollout and evaluation share: small tasks, small policies, prompts and completions."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from rlexp.core.streams import Purpose, uniforms
from rlexp.models import MODELS
from rlexp.models.layers import Init
from rlexp.models.policy import Policy
from rlexp.tasks import TASKS
from rlexp.tasks.sort import Sort

# Odd numbers, so that no vector register is filled exactly.
SMALL = {
    "gru": dict(hidden=7, layers=2),
    "transformer": dict(width=6, layers=2, heads=3, feedforward=11),
    "transformer_plain": dict(width=6, layers=2, heads=3, feedforward=11),
    "llama": dict(width=18, layers=2, heads=3),
    "positional": dict(width=5),
    "tabular": dict(std=1.0),
}
OF_ANY_TASK = [name for name in MODELS if name != "tabular"]  # a table needs a world: test_tabular


def sort_task(**changes) -> Sort:
    """Return a sorting task of small sizes; every component has a weight of its own."""
    weights = dict(zip(Sort.components, (1.0, 0.5, 0.25, 0.125, 2.0), strict=True))
    settings = dict(
        alphabet=5, shortest=1, longest=4, cap=7, filler=1, prompt_set=None, weights=weights, metric="x", floor=0.0
    )
    return Sort(**(settings | changes))


def preference_task(**changes):
    """Return a task whose tokens are all alike: no pad, no end."""
    settings = dict(
        vocabulary=9, prompt_length=3, cap=6, low=3, good=0.3, bad=0.5, prompt_set=None, metric="x", floor=0.0
    )
    return TASKS["token_preference"](**(settings | {"weights": {"ternary": 1.0, "share": 0.5}} | changes))


def policy_of(name: str, seeds, task, **hyperparameters) -> nn.Module:
    return MODELS[name](Init(seeds), task, **(SMALL[name] | hyperparameters))


def shaken(policy: nn.Module) -> nn.Module:
    """Return the policy in float64 with noise on all parameters: biases and gains that start alike must count."""
    random = torch.Generator().manual_seed(8)
    policy.double()
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter += 0.3 * torch.randn(parameter.shape, generator=random, dtype=torch.float64)
    return policy


def prompts_of(task, seeds, count: int) -> Tensor:
    return task.prompts(uniforms(seeds, Purpose.PROMPTS, 1, (count, task.draws)), held_out=False)


def completions_of(task, seeds, prompts: int, group: int) -> Tensor:
    """Completions of any tokens at all, ``[R, P, G, T]``, each replica's its own."""
    numbers = uniforms(seeds, Purpose.SAMPLING, 1, (prompts, group, task.cap))
    return (numbers * task.vocabulary).long()


def example(name: str, task, seeds=(3, 4), prompts: int = 5, group: int = 3):
    """Return a float64 policy, prompts and completions."""
    policy = shaken(policy_of(name, seeds, task))
    return policy, prompts_of(task, seeds, prompts), completions_of(task, seeds, prompts, group)


class Fixed(Policy):
    """A policy with the same logits ``[R, T, V]`` for every prompt; counts how often it is asked to go on."""

    def __init__(self, logits: Tensor):
        super().__init__()
        self.fixed, self.decoded = logits, 0

    def at(self, t: int, prompts: int, group: int) -> Tensor:
        return self.fixed[:, None, None, t].expand(-1, prompts, group, -1)

    def prefill(self, prompts: Tensor, group: int):
        self.decoded = 0
        return self.at(0, prompts.shape[1], group), 1

    def decode(self, tokens: Tensor, state: int):
        self.decoded += 1
        return self.at(state, *tokens.shape[1:]), state + 1

    def logits(self, prompts: Tensor, completions: Tensor) -> Tensor:
        return self.fixed[:, None, None].expand(-1, *completions.shape[1:3], -1, -1)

    def head_parameters(self) -> list[nn.Parameter]:
        return []


class Sorter(Policy):
    """A policy that wants to sort; ``margins`` ``[R]`` are its logits of the right token, all others are 0."""

    def __init__(self, task: Sort, margins: Tensor):
        super().__init__()
        self.task, self.margins, self.asked = task, margins, []

    def at(self, script: Tensor, t: int) -> Tensor:
        right = nn.functional.one_hot(script[..., t], self.task.vocabulary)
        return right * self.margins.view(-1, 1, 1, 1)

    def prefill(self, prompts: Tensor, group: int):
        self.asked.append(prompts)
        script = torch.full((*prompts.shape[:2], self.task.cap), self.task.end)
        for index in torch.cartesian_prod(*map(torch.arange, prompts.shape[:2])).tolist():
            items = sorted(x for x in prompts[tuple(index)].tolist() if x < self.task.alphabet)
            script[tuple(index)][: len(items)] = torch.tensor(items)
        script = script.unsqueeze(2).expand(-1, -1, group, -1)
        return self.at(script, 0), (script, 1)

    def decode(self, tokens: Tensor, state):
        script, t = state
        return self.at(script, t), (script, t + 1)

    def logits(self, prompts: Tensor, completions: Tensor) -> Tensor:
        raise AssertionError("it only samples")

    def head_parameters(self) -> list[nn.Parameter]:
        return []


@pytest.fixture
def threads():
    """Set the number of threads of torch, and put it back after the test."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)
