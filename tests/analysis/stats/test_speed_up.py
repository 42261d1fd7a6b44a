"""Effective speed-ups of curves whose truth is known, and of a sweep."""

import numpy as np
import pytest
from learning_curves import exponential

from rlexp.analysis.data.errors import AnalysisError
from rlexp.analysis.stats.speed_up import speed_up


def seeds_of(half, n=8, noise=0.01, seed=0, asymptote=0.9):
    rng = np.random.default_rng(seed)
    fine = np.linspace(0, 100, 101)
    return np.array(
        [exponential(fine, asymptote=asymptote, half=half) + noise * rng.normal(size=101) for _ in range(n)]
    )


def test_an_arm_that_learns_twice_as_fast_has_a_speed_up_of_two():
    fine = np.linspace(0, 100, 101)
    found = speed_up(fine, seeds_of(20.0, noise=0), seeds_of(40.0, noise=0))
    assert found.ratio == pytest.approx(2.0, rel=0.01) and found.low == pytest.approx(found.high)
    assert found.reached == 1 and not found.bound and found.cost < found.baseline_cost <= 100
    noisy = speed_up(fine, seeds_of(20.0), seeds_of(40.0, seed=1))
    assert noisy.low < 2 < noisy.high and noisy.high - noisy.low < 0.5


def test_a_speed_up_does_not_depend_on_the_order_of_seeds_nor_on_the_direction():
    fine, arm, base = np.linspace(0, 100, 101), seeds_of(20.0), seeds_of(40.0, seed=1)
    order = np.random.default_rng(0).permutation(8)
    assert speed_up(fine, arm, base) == speed_up(fine, arm[order], base[order])
    lower = speed_up(fine, -arm, -base, sign=-1)
    assert lower._replace(target=-lower.target) == speed_up(fine, arm, base)
    assert speed_up(fine, base, base).ratio == 1.0


def test_an_arm_that_never_gets_there_has_a_bound():
    fine = np.linspace(0, 100, 101)
    found = speed_up(fine, seeds_of(20.0, asymptote=0.6), seeds_of(20.0, seed=1))
    assert found.bound and found.reached == 0 and found.low == 0 and found.ratio <= 1 and found.cost == np.inf
    assert found.ratio == found.baseline_cost / 100
    assert np.isnan(speed_up(fine, seeds_of(20.0, 1), seeds_of(40.0, 1)).low)
    flat = np.full((3, 101), 0.5)
    assert np.isnan(speed_up(fine, flat, flat - np.linspace(0, 0.1, 101)).ratio)
    with pytest.raises(AnalysisError, match="not \\[seeds, 101\\]"):
        speed_up(fine, flat, flat[:2])
