"""The coefficient of the penalty: the controllers against loops, and what a training step makes of them."""

from __future__ import annotations

import math
import statistics
from dataclasses import replace

import numpy as np
import pytest
import torch
from axis_choices import CONF, same_bits
from omegaconf import OmegaConf
from plain_step import Recipe
from pydantic import TypeAdapter
from toy_state import GROUP, PROMPTS, make_state, variant

from rlexp.axes import kl_control
from rlexp.core import memory
from rlexp.core.registry import bind_hyperparameters, call_with, required_inputs, schema
from rlexp.loop.step import train_step

CHOICES = {path.stem: OmegaConf.to_container(OmegaConf.load(path)) for path in (CONF / "kl_control").glob("*.yaml")}
R, P, G, T = 5, 3, 4, 6
# What the divergence of a completion is, of those of its tokens: a controller without an entry has no reference.
OF_TOKENS = {"adaptive": statistics.fmean, "ziegler": math.fsum}
# Both sides are float64 sums of some seventy numbers of order one.
CLOSE = dict(rtol=1e-12)
# The same in float32.
ROUGH = dict(rtol=1e-5, atol=0)


def settings(name, **hyperparameters):
    return TypeAdapter(schema(kl_control.FUNCTIONS)).validate_python(CHOICES[name] | hyperparameters)


def chosen(name, **hyperparameters):
    return bind_hyperparameters(kl_control.FUNCTIONS[CHOICES[name]["name"]], settings(name, **hyperparameters))


def by_hand(name, factor, log_probs, ref_log_probs, mask, target, horizon):
    """One run, completion by completion."""
    divergences = []
    for place in np.ndindex(*mask.shape[:-1]):
        tokens = [log_probs[place][t] - ref_log_probs[place][t] for t in range(mask.shape[-1]) if mask[place][t]]
        if tokens:
            divergences.append(OF_TOKENS[name](tokens))
    if not divergences:
        return factor
    error = max(-0.2, min(0.2, (statistics.fmean(divergences) - target) / target))
    return factor * (1 + error * len(divergences) / horizon)


def batch():
    """Runs far from the reference, at it, at about the target, on the other side, and without a token."""
    rng = np.random.default_rng(2)
    log_probs = -rng.exponential(size=(R, P, G, T))
    shift = np.array([0.9, 0.0, 0.11, -0.5, 0.3]).reshape(R, 1, 1, 1)
    mask = np.arange(T) < rng.integers(0, T + 1, size=(R, P, G, 1))
    mask[4] = False
    ref = log_probs - shift + 0.01 * rng.normal(size=log_probs.shape)
    return {"kl_factor": rng.uniform(0.5, 2, R), "old_log_probs": log_probs, "ref_log_probs": ref, "mask": mask}


def test_every_function_is_named_by_a_yaml_and_has_a_reference():
    assert {node["name"] for node in CHOICES.values()} == set(kl_control.FUNCTIONS) == set(kl_control.MEMORIES)
    assert set(kl_control.FUNCTIONS) == {"fixed", *OF_TOKENS}


@pytest.mark.holds("S4.20")
@pytest.mark.parametrize(("name", "target"), [("adaptive", 0.1), ("ziegler", 0.35)])
@pytest.mark.parametrize("horizon", [10.0, 1000.0])
def test_a_controller_is_that_of_its_source(name, target, horizon):
    arrays = batch()
    offered = {key: torch.from_numpy(array) for key, array in arrays.items()}
    actual = call_with(chosen(name, target=target, horizon=horizon), offered).numpy()
    expected = [by_hand(name, *(array[r] for array in arrays.values()), target, horizon) for r in range(R)]
    np.testing.assert_allclose(actual, expected, **CLOSE)
    slopes = (actual / arrays["kl_factor"] - 1) * horizon / arrays["mask"].any(-1).sum((1, 2)).clip(1)
    np.testing.assert_allclose(slopes[[0, 1, 3, 4]], [0.2, -0.2, -0.2, 0], atol=1e-9)
    assert 0 < abs(slopes[2]) < 0.19, "one run is inside the bounds"


def test_fixed_keeps_the_coefficient():
    factor = torch.tensor([0.7, 1.0])
    assert required_inputs(kl_control.fixed) == ("kl_factor",) and same_bits(kl_control.fixed(factor), factor)


@pytest.mark.parametrize("name", OF_TOKENS)
def test_replicas_do_not_mix(name):
    offered = {key: torch.from_numpy(array) for key, array in batch().items()}
    together = call_with(chosen(name), offered)
    assert all(same_bits(together[r], call_with(chosen(name), {k: v[r] for k, v in offered.items()})) for r in range(R))


PLACES = {"loss": dict(kl_in_loss=0.3), "reward": dict(kl_in_reward=0.3)}


def controlled(place, name, **hyperparameters):
    both = variant(Recipe(inner_steps=2, **PLACES[place]))
    return replace(both, memories=memory.bind_memories(kl_control.MEMORIES, settings(name, **hyperparameters)))


@pytest.mark.parametrize("place", PLACES)
def test_a_coefficient_far_from_its_target_moves_by_a_fifth_of_completions_over_horizon(place):
    """It begins at ``kl.coef``; the completions are those of a step, however many updates they are used for."""
    runs = make_state(
        [(controlled(place, "adaptive", target=1e-6, horizon=100.0), 2)], [0, 1], inner_steps=2, dtype=torch.float32
    )
    course = [train_step(runs, step, True)["kl/coef"] for step in range(1, 5)]
    per_step = 1 + 0.2 * PROMPTS * GROUP / 100
    torch.testing.assert_close(torch.stack(course), 0.3 * per_step ** torch.arange(4.0)[:, None].expand(4, 2), **ROUGH)


def test_the_penalty_is_weighed_with_the_coefficient_of_its_step():
    """Each step's loss is that of a run whose coefficient has always been the same, at the same weights."""
    runs = make_state([(controlled("loss", "adaptive", target=1e-6, horizon=20.0), 1)], [0])
    plain = make_state([(variant(Recipe(kl_in_loss=0.3)), 1)], [0])
    for step in range(1, 4):
        with torch.no_grad():
            for ours, theirs in zip(plain.policy.parameters(), runs.policy.parameters(), strict=True):
                ours.copy_(theirs)
        row, expected = train_step(runs, step, True), train_step(plain, step, True)
        factor = row["kl/coef"] / expected["kl/coef"]
        torch.testing.assert_close(row["loss/kl"], factor * expected["loss/kl"], **ROUGH)
        assert (factor == 1).all() == (step == 1)


def test_the_penalty_in_the_reward_is_weighed_too():
    runs = make_state([(controlled("reward", "adaptive", target=1e-6, horizon=20.0), 1)], [0])
    plain = make_state([(variant(Recipe(kl_in_reward=0.3)), 1)], [0])
    runs.memory["kl_factor"] *= 3
    row, expected = train_step(runs, 1, True), train_step(plain, 1, True)
    penalties = [each["reward/mean"] - each["reward/shaped"] for each in (row, expected)]
    torch.testing.assert_close(penalties[0], 3 * penalties[1], **ROUGH)
    torch.testing.assert_close(row["kl/coef"], 3 * expected["kl/coef"], **ROUGH)


def test_variants_of_one_batch_have_coefficients_of_their_own():
    adaptive = controlled("loss", "adaptive", target=1e-6, horizon=20.0)
    runs = make_state(
        [(variant(Recipe(kl_in_loss=0.1)), 1), (adaptive, 2), (variant(Recipe()), 1)], [0, 0, 1, 2], dtype=torch.float32
    )
    first, last = (train_step(runs, step, True)["kl/coef"] for step in (1, 2))
    torch.testing.assert_close(first, torch.tensor([0.1, 0.3, 0.3, 0.0]))
    assert torch.equal(first == last, torch.tensor([True, False, False, True]))
