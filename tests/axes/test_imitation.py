"""Losses on right answers: what their gradients are of, and the share that they have of a loss."""

from __future__ import annotations

import math

import numpy as np
import pytest
import reference_imitation as loops
import torch
from axis_choices import CLOSE, bind
from policies import policy_of
from task_choices import categorical
from torch.testing import assert_close

from rlexp.axes.imitation import mu_schedule

LEVELS = [(0.9, 0.05), (0.1, 0.1), (0.0, 1.0)]
NAMES = ("sft", "sft_phi", "sft_is")


@pytest.mark.parametrize(("peak", "valley"), LEVELS)
@pytest.mark.parametrize(("warmup", "decay"), [(0, 0), (0, 20), (25, 0), (30, 40), (100, 0), (0, 100)])
def test_the_share_is_that_of_trinity_and_swift_at_every_step(peak, valley, warmup, decay):
    """A run of 100 steps; Python's floats, a cosine by its half angle."""
    shares = dict(mu_peak=peak, mu_valley=valley, mu_warmup=warmup / 100, mu_decay=decay / 100)
    found = [mu_schedule(step / 100, **shares) for step in range(101)]
    wanted = [loops.mu_of_step(step, warmup, decay, peak, valley) for step in range(101)]
    ends = {warmup, warmup + decay}  # where rounding of the shares may choose either side
    for step, pair in enumerate(zip(found, wanted, strict=True)):
        if step not in ends:
            assert pair[0] == pytest.approx(pair[1], rel=1e-9, abs=1e-12), step
    assert all(0 <= mu <= 1 for mu in found)


def test_a_share_that_rises_begins_at_nothing_and_one_that_does_not_at_its_peak():
    levels = dict(mu_peak=0.5, mu_valley=0.02)
    assert mu_schedule(0.0, **levels, mu_warmup=0.2, mu_decay=0.4) == 0
    assert mu_schedule(0.0, **levels, mu_warmup=0.0, mu_decay=0.4) == 0.5
    assert mu_schedule(0.2, **levels, mu_warmup=0.2, mu_decay=0.4) == 0.5
    assert mu_schedule(1.0, **levels, mu_warmup=0.2, mu_decay=0.4) == 0.02
    assert mu_schedule(0.0, **levels, mu_warmup=0.0, mu_decay=0.0) == 0.02


def slope(name, log_probs):
    point = torch.as_tensor(log_probs, dtype=torch.float64).view(1, 1, -1).requires_grad_()
    (found,) = torch.autograd.grad(bind("imitation", name)(point).sum(), point)
    return found.flatten()


POTENTIALS = {"sft": np.log, "sft_phi": lambda p: p - p**2 / 2, "sft_is": lambda p: p}


@pytest.mark.parametrize("name", NAMES)
def test_the_gradient_is_that_of_a_function_of_the_probability(name):
    """Which has no weight that is held: log p, p − p² / 2 and p, by central differences in log p."""
    points, step = np.log(np.linspace(0.01, 0.99, 25)), 1e-6
    above, below = (POTENTIALS[name](np.exp(points + sign * step)) for sign in (1, -1))
    np.testing.assert_allclose(slope(name, points).numpy(), -(above - below) / (2 * step), rtol=1e-6, atol=1e-8)


def test_phi_is_largest_where_the_policy_is_unsure_and_vanishes_at_both_ends():
    p = np.array([1e-6, 0.1, 0.4, 0.5, 0.6, 0.9, 1 - 1e-6])
    found = -slope("sft_phi", np.log(p)).numpy()
    assert found.argmax() == 3 and found[3] == pytest.approx(0.25)
    assert (found[[0, -1]] < 2e-6).all()
    np.testing.assert_allclose(found, found[::-1], rtol=1e-4)  # likewise for p and 1 − p, but for rounding


@pytest.mark.parametrize("name", NAMES)
def test_a_token_that_cannot_be_or_must_be_written_makes_no_nan(name):
    found = bind("imitation", name)(torch.tensor([[[-80.0, 0.0]]]))
    assert found.isfinite().all() and found[..., 1] == 0


REWARDS = [0.0, 0.3, 1.0, -0.5]


def test_in_a_world_of_one_token_sft_is_has_the_exact_policy_gradient_of_being_right():
    """∇E[1 for the answer] = p (e − p) of a softmax of four; sft has e − p, sft_phi (1 − p) times the first."""
    world = categorical(rewards=REWARDS)
    policy = policy_of("tabular", [3], world, std=1.0).double()
    prompts = torch.full((1, 1, 1), world.first_question)
    right = world.oracle(prompts)[0].unsqueeze(2)
    every, ones = world.every_completion(torch.device("cpu")).view(1, 1, -1, 1), torch.ones(1, dtype=torch.float64)

    def gradient(value):
        return torch.autograd.grad(value, policy.table.weight)[0].flatten()[: len(REWARDS)]

    p = policy.log_probs(prompts, every, ones).log_probs.flatten().exp()
    best, correct = p[2].item(), torch.tensor([0.0, 0.0, 1.0, 0.0], dtype=torch.float64)
    expected = {"sft": correct - p, "sft_is": best * (correct - p), "sft_phi": best * (1 - best) * (correct - p)}
    assert math.isclose(p.sum().item(), 1.0) and 0.05 < best < 0.95
    for name in NAMES:
        loss = bind("imitation", name)(policy.log_probs(prompts, right, ones).log_probs).sum()
        assert_close(-gradient(loss), expected[name].detach(), **CLOSE)
    by_policy_gradient = gradient((p.detach() * correct * p.log()).sum())
    assert_close(expected["sft_is"].detach(), by_policy_gradient, **CLOSE)
