"""Unpaired runs: Welch's interval and the permutations are SciPy's; their level and power are simulated."""

from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from rlexp.analysis.stats.noise import Noise
from rlexp.analysis.stats.unpaired import (
    detectable_difference,
    min_unpaired_p,
    permutation_p,
    runs_for_effect,
    runs_for_p,
    welch_difference,
)


def two_arms(n, m, seed=0, effect=0.0, scale=1.0):
    rng = np.random.default_rng(seed)
    return rng.normal(effect, 1, n), rng.normal(0, scale, m)


@pytest.mark.parametrize(("n", "m"), [(2, 2), (5, 3), (10, 20)])
def test_the_interval_is_that_of_scipy(n, m):
    first, second = two_arms(n, m, effect=1, scale=3)
    found, known = welch_difference(first, second), stats.ttest_ind(first, second, equal_var=False)
    assert (found.low, found.high) == pytest.approx(tuple(known.confidence_interval()))
    assert found.df == pytest.approx(known.df) and found.mean / found.error == pytest.approx(known.statistic)


def test_p_counts_all_ways_to_shuffle_the_runs():
    first, second = two_arms(4, 3, effect=1.5)
    runs = np.concatenate([first, second])

    def t(chosen):
        a, b = runs[list(chosen)], np.delete(runs, list(chosen))
        return abs(stats.ttest_ind(a, b, equal_var=False).statistic)

    ways = [t(chosen) for chosen in combinations(range(7), 4)]
    assert permutation_p(first, second) == pytest.approx(np.mean(np.array(ways) >= t(range(4)) - 1e-12))


@pytest.mark.parametrize(("n", "m"), [(2, 2), (3, 4), (5, 5), (1, 3)])
def test_the_smallest_p_is_that_of_separate_arms(n, m):
    assert permutation_p(10 + np.arange(n), np.arange(m) / 10) == pytest.approx(min_unpaired_p(n, m))


def test_arms_that_do_not_scatter():
    assert permutation_p([1, 1, 1, 1], [0, 0, 0, 0]) == pytest.approx(2 / 70)
    assert permutation_p([1, 1], [1, 1]) == 1 and permutation_p([1.0], [2.0]) == 1
    assert np.isnan(permutation_p([], [1.0])) and np.isnan(welch_difference([], [1.0]).mean)
    assert welch_difference([0.3] * 3, [0.1] * 3)[1:3] == (pytest.approx(0.2), pytest.approx(0.2))


def test_its_level():
    """Exact where arms scatter alike; where the smaller one scatters more nearer to it than a bare difference."""
    assert np.mean([permutation_p(*two_arms(5, 5, seed)) < 0.05 for seed in range(1000)]) < 0.06
    rejected = [permutation_p(*two_arms(12, 4, seed, scale=3)) < 0.05 for seed in range(100)]
    assert np.mean(rejected) < 0.15
    bare = [
        stats.permutation_test(
            two_arms(12, 4, seed, scale=3),
            lambda a, b, axis: a.mean(axis) - b.mean(axis),
            vectorized=True,
            n_resamples=2000,
            random_state=0,
        ).pvalue
        < 0.05
        for seed in range(100)
    ]
    assert np.mean(bare) > np.mean(rejected) + 0.05


def test_as_many_runs_as_an_effect_takes_find_it():
    n = runs_for_effect(1.0, np.sqrt(2))
    found = [stats.ttest_ind(*two_arms(n, n, seed, effect=1)).pvalue < 0.05 for seed in range(2000)]
    assert n == 17 and np.mean(found) == pytest.approx(0.8, abs=0.04)  # Cohen's table: 17 an arm
    assert runs_for_p() == 4 and runs_for_p(3) == 5
    assert detectable_difference(np.sqrt(2 / n), 2 * n - 2) <= 1 < detectable_difference(np.sqrt(2 / 16), 30)


def test_the_noise_of_others_is_a_t_interval():
    from rlexp.analysis.stats.borrowed_noise import borrowed_difference

    rng = np.random.default_rng(0)
    rejected = 0
    for _ in range(2000):
        pilot, first, second = rng.normal(size=6), rng.normal(size=1), rng.normal(size=2)
        sd = float(pilot.std(ddof=1))
        rejected += borrowed_difference(first, second, Noise(1, 6, sd, (sd, sd), 5.0)).p < 0.05
    assert rejected / 2000 == pytest.approx(0.05, abs=0.015)
