"""Forecasts and their scores against loops, laws, and how often prediction intervals hold."""

from itertools import combinations

import numpy as np
import pytest
from ladders import grids_of
from scipy.stats import t

from rlexp.analysis.stats.decision import all_pairs
from rlexp.analysis.stats.forecast import COPY, FORECAST, NOTHING, Prediction, no_effect, predict, score

K = 4


def ladder_of(rng, units=(6, 8), between=0.0, effects=(0, 1, 2, 4)):
    return [grids_of(effects + between * rng.normal(size=K), n, rng) for n in units]


def looped(ladder, units):
    """Differences, spreads and degrees of freedom by loops over arms and sizes."""
    values = np.array([[grid.values.mean() for grid in grids] for grids in ladder])
    sizes = len(ladder)
    mean_arm, mean_size = values.mean(0), values.mean(1)
    square = sum(
        (values[s, a] - mean_arm[a] - mean_size[s] + values.mean()) ** 2 for s in range(sizes) for a in range(K)
    ) / ((sizes - 1) * (K - 1))
    noise = 0.0
    for grids in ladder:
        scores = np.array([grid.values[0] for grid in grids])
        centred = scores - scores.mean(0)
        noise += sum(np.var(row, ddof=1) / row.size for row in centred) / (K - 1) / sizes
    between = np.sqrt(max(square - noise, 0))
    differences, spreads = [], []
    for i, j in combinations(range(K), 2):
        errors = [
            np.var(grids[i].values[0] - grids[j].values[0], ddof=1) / grids[i].values.shape[1] for grids in ladder
        ]
        own = errors[-1] * ladder[-1][0].values.shape[1] / units
        differences.append(np.mean([row[i] - row[j] for row in values]))
        spreads.append(np.sqrt(2 * between**2 * (1 + 1 / sizes) + sum(errors) / sizes**2 + own))
    return np.array(differences), np.array(spreads), (sizes - 1) * (K - 1), between


@pytest.mark.parametrize(("units", "target", "between"), [((6, 8), 8, 0.0), ((5, 7, 9), 20, 2.0)])
def test_a_forecast_is_that_of_loops(units, target, between):
    ladder = ladder_of(np.random.default_rng(1), units, between)
    found = predict([all_pairs([grids]) for grids in ladder], [K], target)
    differences, spreads, degrees, sd = looped(ladder, target)
    np.testing.assert_allclose(found.difference, differences, atol=1e-12)
    np.testing.assert_allclose(found.spread, spreads)
    assert (found.degrees, found.between) == (degrees, pytest.approx(sd)) and (between == 0 or sd > 0)
    low, high = found.interval()
    np.testing.assert_allclose(high - low, 2 * t.ppf(0.975, degrees) * spreads)
    np.testing.assert_allclose(found.probability(), t.cdf(differences / spreads, degrees))


def test_one_sweep_gives_its_own_sampling_error():
    (grids,) = ladder_of(np.random.default_rng(0), (8,))
    pairs = all_pairs([grids])
    found = predict([pairs], [K])
    np.testing.assert_allclose(found.spread, np.sqrt(2) * pairs.error)
    assert found.degrees == 7 and np.isnan(found.between)


def test_strata_share_one_spread_between_sizes():
    rng = np.random.default_rng(2)
    first, second = ([grids_of(2 * rng.normal(size=k), 6, rng) for k in (3, 4)] for _ in range(2))
    found = predict([all_pairs(first), all_pairs(second)], [3, 4])
    squares = noise = 0.0
    for one, other in zip(first, second, strict=True):
        values = np.array([[grid.values.mean() for grid in grids] for grids in (one, other)])
        apart = values - values.mean(0) - values.mean(1, keepdims=True) + values.mean()
        squares += (apart**2).sum()
        for grids in (one, other):
            scores = np.array([grid.values[0] for grid in grids])
            noise += ((scores - scores.mean(0)).var(1, ddof=1) / 6).sum() / 2
    assert found.between == pytest.approx(np.sqrt((squares - noise) / 5)) and found.degrees == 5


@pytest.mark.parametrize(("sizes", "between"), [(1, 0.0), (2, 0.0), (2, 1.0), (3, 0.0), (3, 1.0)])
def test_intervals_hold_what_a_further_size_shows(sizes, between):
    rng, held = np.random.default_rng(0), []
    for _ in range(150):
        *smaller, target = ladder_of(rng, (8,) * (sizes + 1), between)
        low, high = predict([all_pairs([grids]) for grids in smaller], [K]).interval()
        shown = all_pairs([target]).difference
        held.append(((low <= shown) & (shown <= high))[: K - 1].mean())
    assert 0.92 <= np.mean(held)


def test_scores_are_those_of_loops():
    rng = np.random.default_rng(3)
    *smaller, target = (all_pairs([grids]) for grids in ladder_of(rng, (6, 6, 6), 1.5))
    effects = np.array([i == 0 for i, _ in combinations(range(K), 2)])
    found = predict(smaller, [K])
    scored = score(FORECAST, found, target, effects)
    p, (low, high) = found.probability(), found.interval()
    shown = target.difference
    brier = [(p[place] - (1.0 if shown[place] > 0 else 0.0)) ** 2 for place in range(6)]
    assert scored.brier == pytest.approx(np.mean(brier))
    assert scored.accuracy == np.mean([found.difference[place] * shown[place] > 0 for place in range(6)])
    inside = [low[place] <= shown[place] <= high[place] for place in range(6) if effects[place]]
    assert (scored.covered, scored.intervals) == (sum(inside), 3)
    assert scored.error == pytest.approx(np.mean(np.abs(found.difference - shown)[effects]))
    told = [place for place in range(6) if abs(shown[place]) > t.ppf(0.975, 5) * target.error[place]]
    assert scored.decided_accuracy == np.mean([found.difference[place] * shown[place] > 0 for place in told])


def test_a_forecast_that_is_sure_and_right_has_no_error_and_one_of_nothing_a_quarter():
    rng = np.random.default_rng(0)
    target = all_pairs(ladder_of(rng, (6,)))
    right = Prediction(target.difference, np.full(6, 1e-9), 5.0, 0.0)
    effects = np.ones(6, dtype=bool)
    scored, nothing = score(COPY, right, target, effects), score(NOTHING, no_effect(6), target, effects)
    assert (scored.accuracy, scored.covered, scored.error) == (1, 6, 0) and scored.brier < 1e-12
    assert (nothing.accuracy, nothing.brier, nothing.intervals) == (0.5, 0.25, 0)
    assert nothing.error == pytest.approx(np.abs(target.difference).mean())
