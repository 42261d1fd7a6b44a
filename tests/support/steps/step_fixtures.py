"""What the tests of the training step share: recipes, models, states of two runs, and what every update is given."""

from __future__ import annotations

import pytest
import torch
from plain_step import Recipe
from toy_state import make_state, variant

from rlexp.core.streams import uniforms
from rlexp.loop import state as state_module
from rlexp.loop import step
from rlexp.loop.optimizer import Adam, flat
from rlexp.loop.step import train_step
from rlexp.models import GRU, Positional, Transformer

# Both sides are float64; two steps of a few hundred operations and Adam's division by √v make the last digits differ.
CLOSE = dict(rtol=1e-8, atol=1e-10)
# Rounding of one forward pass in float64.
ROUNDING = 1e-12
MIXED = Recipe(kl_in_loss=0.3, entropy_bonus=0.2, drop_from_loss=True, inner_steps=2, minibatches=2)
RECIPES = {
    "default": Recipe(),
    "kl_in_loss": Recipe(kl_in_loss=0.3),
    "kl_in_reward": Recipe(kl_in_reward=0.3),
    "entropy": Recipe(entropy_bonus=0.2),
    "filter": Recipe(drop_from_loss=True, drop_from_statistics=True),
    "filter_loss": Recipe(drop_from_loss=True, agg="sequence"),
    "filter_statistics": Recipe(drop_from_statistics=True),
    "minibatches": Recipe(minibatches=2),
    "inner_steps": Recipe(inner_steps=3),
    "sequence": Recipe(agg="sequence", minibatches=4),
    "to_go": Recipe(gamma=0.9),
    "to_go_penalised": Recipe(gamma=0.9, kl_in_reward=0.3, drop_from_statistics=True, inner_steps=2),
    "mixed": MIXED,
}
MODELS = {
    "gru": dict(model=GRU),
    "transformer": dict(model=Transformer, hyperparameters=dict(width=8, layers=1, heads=2, feedforward=8)),
    "positional": dict(model=Positional, hyperparameters=dict(width=6)),
}


@pytest.fixture
def float64(monkeypatch):
    """Let the whole step be computed in float64, its random numbers the same."""
    monkeypatch.setattr(state_module, "uniforms", lambda *address: uniforms(*address).double())
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture
def seen(monkeypatch):
    """Return what every update is given, and the log-probabilities of the policy at that time."""
    parts, real = [], step.update

    def spy(runs, policy, part, *rest):
        with torch.no_grad():
            parts.append((part, runs.policy.log_probs(part.prompts, part.completions, runs.temperature).log_probs))
        return real(runs, policy, part, *rest)

    monkeypatch.setattr(step, "update", spy)
    return parts


class Still(Adam):
    """Keeps the gradients of the last update and applies none."""

    def step(self, tensors=None):
        self.seen = [parameter.grad for parameter in self.parameters]
        for parameter in self.parameters:
            parameter.grad = None
        return flat(self.seen).square().sum(-1).sqrt()


def runs(recipe, seeds=(0, 1), **options):
    sizes = dict(inner_steps=recipe.inner_steps, minibatches=recipe.minibatches)
    return make_state([(variant(recipe), len(seeds))], list(seeds), **sizes, **options)


def trained(runs, steps=3):
    """Train and return the metrics of all steps, ``[steps, R]`` each."""
    rows = [train_step(runs, at, True) for at in range(1, steps + 1)]
    return {name: torch.stack([row[name] for row in rows]) for name in rows[0]}
