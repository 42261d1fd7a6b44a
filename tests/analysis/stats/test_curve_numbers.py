"""Numbers of a curve: against textbook loops, scipy and scikit-learn's isotonic rule."""

import numpy as np
import pytest
from learning_curves import X, exponential
from scipy.integrate import trapezoid
from scipy.optimize import isotonic_regression

from rlexp.analysis.stats.curve_numbers import area_under_curve, cost_to_target, crossing, final_value, value_at_match


def test_the_final_value_is_a_late_mean():
    values = np.array([5, 1.0, 2.0, np.nan, 3.0, 7.0])
    assert final_value(values) == 7 and final_value(values, 0.4) == 5 and np.isnan(final_value(np.full(3, np.nan)))


def test_the_area_is_that_of_scipy_where_the_budget_is_an_evaluation():
    """Rounding of a sum: 1e-12."""
    values = np.random.default_rng(0).normal(size=X.size)
    assert area_under_curve(X, values, 100.0) == pytest.approx(trapezoid(values, X) / 100, abs=1e-12)
    assert area_under_curve(X, values, 40.0) == pytest.approx(trapezoid(values[:9], X[:9]) / 40, abs=1e-12)


def test_the_area_is_cut_at_the_budget_and_nothing_is_extrapolated():
    x = np.array([0.0, 10.0, 30.0, 40.0])
    values = np.array([0.0, 1.0, np.nan, 1.0])
    assert area_under_curve(x, values, 5.0) == pytest.approx(0.25)  # of a line from 0 to 1 its first half
    assert area_under_curve(x, values, 20.0) == pytest.approx((5 + 10) / 20)
    assert area_under_curve(x[::-1], values[::-1], 20.0) == pytest.approx(0.75)
    assert area_under_curve(x, values, 20.0, start=10.0) == 1.0
    assert np.isnan(area_under_curve(x, values, 41.0)) and np.isnan(area_under_curve(x + 1, values, 20.0, start=0.0))
    assert np.isnan(area_under_curve(x, np.full(4, np.nan), 20.0)) and np.isnan(area_under_curve(x, values, 0.0))


def by_isotonic_regression(x, values, level):
    """Where the isotonic regression is first above the level, between the evaluations on both sides."""
    above = np.flatnonzero(isotonic_regression(values).x > level)
    if not above.size:
        return np.inf
    k = above[0]
    return -np.inf if k == 0 else np.interp(level, values[k - 1 : k + 1], x[k - 1 : k + 1])


def test_a_crossing_is_that_of_the_isotonic_regression():
    rng = np.random.default_rng(1)
    places = []
    for _ in range(500):
        values = exponential(X) + rng.choice([0.02, 0.2, 1.0]) * rng.normal(size=X.size)
        places.append((crossing(X, values, 0.6), by_isotonic_regression(X, values, 0.6)))
    found, expected = np.array(places).T
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert 0 < np.isinf(found).sum() < 250


def test_of_a_curve_without_noise_it_is_exact_but_for_the_line_between_evaluations():
    assert crossing(X, X / 100, 0.333) == pytest.approx(33.3)
    x = np.linspace(0, 100, 2001)  # a chord of a half-life of 15 over 0.05 is off by less than 1e-4
    assert crossing(x, exponential(x), 0.5) == pytest.approx(15.0, abs=1e-4)


def test_noise_moves_it_as_often_later_as_earlier_and_the_first_evaluation_only_earlier():
    """Mirrored in time and height a curve has the mirrored crossing, so around a line it is right on average."""
    values = X / 100 + 0.2 * np.random.default_rng(2).normal(size=(4000, X.size))
    for row in values[:50]:
        assert crossing(X, row, 0.5) == pytest.approx(100 - crossing(X, 1 - row[::-1], 0.5), abs=1e-9)
    found = np.array([crossing(X, row, 0.5) for row in values])
    assert found.mean() == pytest.approx(50, abs=4 * found.std() / np.sqrt(4000))
    first = np.array([X[row >= 0.5][0] for row in values])
    assert first.mean() < 40


def test_a_run_that_never_arrives_counts_with_the_budget():
    values = exponential(X)
    assert cost_to_target(X, values, 0.5, 100.0).arrived
    assert cost_to_target(X, values, 0.95, 100.0) == (100.0, False)
    assert cost_to_target(X, values, 0.8, 20.0) == (20.0, False)  # what comes later is not looked at
    assert cost_to_target(X, values, 0.05, 100.0) == (0.0, True)  # there from the start
    assert cost_to_target(X, -values, -0.5, 100.0, below=True) == cost_to_target(X, values, 0.5, 100.0)
    assert np.isnan(cost_to_target(X, np.full(X.size, np.nan), 0.5, 100.0).cost)


def test_an_evaluation_that_is_high_by_luck_is_no_arrival_nor_is_one_that_is_lost_again():
    lucky = np.where(X == 50, 0.9, 0.1)
    assert not cost_to_target(X, lucky, 0.5, 100.0).arrived
    at_the_end = np.where(X == 100, 0.9, 0.1)  # 21 evaluations: a score averages three
    assert not cost_to_target(X, at_the_end, 0.5, 100.0).arrived
    assert cost_to_target(X, np.where(X >= 90, 0.9, 0.1), 0.5, 100.0) == (pytest.approx(87.5), True)
    assert not cost_to_target(X, np.where((X > 20) & (X < 40), 0.9, 0.1), 0.5, 100.0).arrived
    assert cost_to_target(X, np.where(X == 50, 0.1, exponential(X)), 0.5, 100.0).cost == pytest.approx(15, abs=0.3)


def test_the_restricted_mean_is_the_area_below_kaplan_and_meier():
    """Textbook product limit of arrivals censored at one budget, integrated up to it; rounding: 1e-12."""
    rng = np.random.default_rng(3)
    curves = [exponential(X, half=half) + 0.05 * rng.normal(size=X.size) for half in rng.uniform(5, 80, 30)]
    costs = [cost_to_target(X, values, 0.7, 100.0) for values in curves]
    assert 0 < sum(not cost.arrived for cost in costs) < 30
    survival, area, before = 1.0, 0.0, 0.0
    for time in sorted({cost.cost for cost in costs if cost.arrived}):
        area += survival * (time - before)
        at_risk = sum(cost.cost >= time for cost in costs)
        survival *= 1 - sum(cost.arrived and cost.cost == time for cost in costs) / at_risk
        before = time
    area += survival * (100.0 - before)
    assert np.mean([cost.cost for cost in costs]) == pytest.approx(area, abs=1e-12)


def test_a_value_is_matched_between_evaluations():
    kl, values = X / 100, exponential(X)
    assert value_at_match(X, kl, values, 0.5) == pytest.approx(exponential(50.0))
    assert value_at_match(X, kl, values, 0.52) == pytest.approx(np.interp(52, X, values))
    assert value_at_match(X, 1 - kl, values, 0.3, falling=True) == pytest.approx(np.interp(70, X, values))
    assert np.isnan(value_at_match(X, kl, values, 1.5)) and np.isnan(value_at_match(X, kl + 1, values, 0.5))
    sparse = np.where(X % 20 == 0, values, np.nan)
    assert value_at_match(X, kl, sparse, 0.5) == pytest.approx((exponential(40.0) + exponential(60.0)) / 2)
