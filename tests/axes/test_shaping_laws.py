"""Laws of shaping: length, no reward, noise and wrong verdicts at their rates, what norms make of a scale."""

from __future__ import annotations

import math
from itertools import product

import pytest
import torch
from axis_choices import CLOSE, bind, numbers
from hypothesis import given
from hypothesis import strategies as st

REPLICAS, P, G, T = 6, 3, 4, 5


def shaped(choice, rewards, *, lengths=3.0, finished=True, drawn=0.5, hashed=0.5):
    """Shape rewards ``[N]``; numbers stand for all completions. Luck of 0.5 is no noise and no wrong verdict."""
    given_ = {"lengths": lengths, "finished": finished, "drawn": drawn, "hashed": hashed}
    offered = {name: torch.as_tensor(value, dtype=None if name == "finished" else torch.float64).expand(1, len(rewards))
               for name, value in given_.items()}  # fmt: skip
    offered["rewards"] = torch.tensor([rewards], dtype=torch.float64)
    return choice(*(offered[name] for name in choice.needs)).view(-1)


@given(lengths=st.tuples(st.integers(1, 40), st.integers(1, 40)))
def test_a_longer_completion_is_never_rewarded_for_its_length(shaping_choice, lengths):
    shorter, longer = shaped(shaping_choice, [1.0, 1.0], lengths=sorted(lengths))
    assert longer <= shorter <= 1


def test_a_completion_without_a_reward_gets_none(shaping_choice):
    for luck, finished in product([0.0, 0.001, 0.999], [True, False]):
        output = shaped(shaping_choice, [math.nan], lengths=40.0, finished=finished, drawn=luck, hashed=luck)
        assert output.isnan().all(), (luck, finished)


@pytest.mark.parametrize("name", ["noise", "noise_persistent"])
def test_noise_is_normal(name):
    """Over a fine grid of uniform numbers: mean 0, deviation std, and 0.135 % beyond three deviations."""
    evenly = ((torch.arange(100_000) + 0.5) / 100_000).double()
    output = shaped(bind("shaping", name, std=0.5), [2.0] * 100_000, drawn=evenly, hashed=evenly)
    assert output.mean().item() == pytest.approx(2, abs=1e-6)
    assert output.std().item() == pytest.approx(0.5, rel=1e-4)  # the grid leaves the outermost tails out
    assert (output > 3.5).double().mean().item() == pytest.approx(0.00135, abs=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_smallest_and_the_largest_number_of_a_stream_give_finite_noise(dtype):
    ends = torch.tensor([[0.0, 1 - 2.0**-24]], dtype=torch.float32)
    assert bind("shaping", "noise", std=1.0)(torch.zeros(1, 2, dtype=dtype), ends).isfinite().all()


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-1.0, 1.0)])
@pytest.mark.parametrize("name", ["flips", "flips_persistent"])
def test_flips_have_their_rates_and_shrink_the_expected_reward(name, low, high):
    """arXiv 2510.00915: E[r'] of right and wrong differ by (1 − ρ0 − ρ1) times what their rewards differ by."""
    evenly = ((torch.arange(1000) + 0.5) / 1000).double()
    flips = bind("shaping", name, low=low, high=high, false_positives=0.1, false_negatives=0.3)
    wrong, right = (shaped(flips, [reward] * 1000, drawn=evenly, hashed=evenly) for reward in (low, high))
    assert (wrong == high).double().mean().item() == pytest.approx(0.1, abs=1e-9)
    assert (right == low).double().mean().item() == pytest.approx(0.3, abs=1e-9)
    assert (right.mean() - wrong.mean()).item() == pytest.approx(0.6 * (high - low), abs=1e-9)


@pytest.mark.parametrize(("a", "b"), [(2.0, -1.0), (-0.5, 3.0)])
def test_affine_rewards_and_the_norms_that_ignore_them(a, b):
    rewards, keep = (numbers(REPLICAS, P, G, T)[name] for name in ("rewards", "keep"))
    other = bind("shaping", "affine", a=a, b=b)(rewards)
    center, local = bind("norm", "center"), bind("norm", "local", eps=1e-12, ddof=1)
    torch.testing.assert_close(center(other, keep), a * center(rewards, keep), **CLOSE)
    torch.testing.assert_close(local(other, keep), math.copysign(1, a) * local(rewards, keep), **CLOSE)
