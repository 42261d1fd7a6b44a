"""The reference policy: kept, copied or averaged, each variant's its own, and what the penalty measures after it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from axis_choices import CONF
from omegaconf import OmegaConf
from pydantic import TypeAdapter
from small_runs import SHORT, SMALL, compose
from toy_state import Recipe, make_state, variant

from rlexp.axes import reference
from rlexp.core.registry import bind_choice, call_with, schema
from rlexp.loop.state import TrainState
from rlexp.loop.step import train_step
from rlexp.sweep.build import build

CHOICES = {path.stem: OmegaConf.load(path) for path in sorted((CONF / "reference").glob("*.yaml"))}
STEPS = 8
# One product and one sum in float64.
CLOSE = dict(rtol=1e-14, atol=1e-15)


def chosen(name: str, **hyperparameters):
    node = OmegaConf.to_container(OmegaConf.merge(CHOICES[name], hyperparameters))
    node = {hyperparameter: value for hyperparameter, value in node.items() if hyperparameter not in ("begin", "run")}
    return bind_choice(reference.FUNCTIONS, TypeAdapter(schema(reference.FUNCTIONS)).validate_python(node))


def by_hand(node, start: np.ndarray, course: list[np.ndarray]) -> np.ndarray:
    """Weight by weight, step by step."""
    weights = start.copy()
    for step, policy in enumerate(course, 1):
        if node.name == "follow" and step % node.every == 0:
            for i in range(len(weights)):
                weights[i] += node.rate * (policy[i] - weights[i])
    return weights


def test_every_function_is_named_by_a_yaml():
    assert {node.name for node in CHOICES.values()} == set(reference.FUNCTIONS)


@pytest.mark.parametrize("name", CHOICES)
def test_the_reference_moves_as_its_formula_says(name):
    rng = np.random.default_rng(5)
    start, *course = rng.normal(size=(1 + 60, 7))
    weights = torch.from_numpy(start)
    for step, policy in enumerate(course, 1):
        weights = call_with(chosen(name), {"reference": weights, "policy": torch.from_numpy(policy), "step": step})
    np.testing.assert_allclose(weights.numpy(), by_hand(CHOICES[name], start, course), rtol=1e-12)
    assert (weights.numpy() == start).all() == (CHOICES[name].name == "frozen")


def stepwise(state: TrainState):
    """Train; yield each step with its metrics and both policies' weights after it, one vector each."""
    for step in range(1, STEPS + 1):
        row = train_step(state, step, True)
        yield step, row, *(torch.cat([p.detach().flatten(1) for p in net.parameters()], 1) for net in policies(state))


def policies(state: TrainState):
    return state.reference, state.policy


def test_variants_of_one_batch_each_move_their_own_reference():
    follows = [chosen("frozen"), chosen("copy", every=3), chosen("polyak", rate=0.25)]
    blocks = [(replace(variant(Recipe(kl_in_loss=0.3)), reference=follow), 2) for follow in follows]
    both = make_state(blocks, [0, 1] * 3)
    start = expected = torch.cat([p.detach().flatten(1) for p in both.reference.parameters()], 1)
    for step, row, ref, policy in stepwise(both):
        assert torch.equal(ref[:2], start[:2])
        assert torch.equal(ref[2:4], (policy if step % 3 == 0 else expected)[2:4])
        torch.testing.assert_close(ref[4:], expected[4:] + 0.25 * (policy - expected)[4:], **CLOSE)
        if step > 1 and (step - 1) % 3 == 0:
            assert row["kl/ref_exact"][2:4].eq(0).all() and row["kl/ref_exact"][:2].gt(0).all()
        expected = ref


@pytest.mark.holds("S1.19")
def test_the_reference_begins_as_the_policy():
    runs = build([compose(*SHORT, *SMALL, "kl=k3", "reference=copy")])
    assert all(torch.equal(a, b) for a, b in zip(*(net.parameters() for net in policies(runs)), strict=True))
    # the policy was read token by token and the reference at once: rounding of float32
    assert train_step(runs, 1, True)["kl/ref_exact"].abs().max() < 1e-7
