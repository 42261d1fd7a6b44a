"""Statistics against SciPy and statsmodels, and what they must hold."""

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.power import TTestPower
from statsmodels.stats.proportion import proportion_confint

from rlexp.analysis.stats import estimates, significance

SIZES = [2, 3, 4, 5, 8, 10, 17]
CLOSE = {"rtol": 1e-10, "atol": 1e-12}
SEARCH = {"rtol": 2e-3}  # statsmodels' root finder stops early


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


@pytest.mark.parametrize("n", SIZES)
def test_iqm_is_scipys_trimmed_mean(rng, n):
    scores = rng.normal(size=(4, n))
    np.testing.assert_allclose(estimates.iqm(scores), stats.trim_mean(scores, 0.25, axis=-1), **CLOSE)


def test_iqm_leaves_missing_runs_out(rng):
    scores = rng.normal(size=9)
    np.testing.assert_allclose(estimates.iqm(np.append(scores, np.nan)), estimates.iqm(scores), **CLOSE)
    assert np.isnan(estimates.iqm(np.full(3, np.nan)))


def test_iqm_interval_is_scipys_percentile_bootstrap(rng):
    scores = rng.normal(size=10)
    expected = stats.bootstrap((scores,), estimates.iqm, n_resamples=20_000, method="percentile", rng=rng)
    np.testing.assert_allclose(estimates.iqm_interval(scores), expected.confidence_interval, atol=0.03)


def test_iqm_interval_repeats_and_works_row_by_row(rng):
    scores = rng.normal(size=(3, 8))
    together = estimates.iqm_interval(scores, resamples=200)
    alone = [estimates.iqm_interval(row, resamples=200) for row in scores]
    np.testing.assert_allclose(np.transpose(together), alone, **CLOSE)


@pytest.mark.parametrize("n", SIZES)
def test_paired_interval_is_scipys(rng, n):
    treatment, baseline = rng.normal(size=(2, n))
    found = estimates.mean_difference(treatment - baseline)
    expected = stats.ttest_rel(treatment, baseline).confidence_interval()
    np.testing.assert_allclose([found.low, found.high], expected, **CLOSE)
    np.testing.assert_allclose(found.effect_size * np.sqrt(n), stats.ttest_rel(treatment, baseline).statistic, **CLOSE)


def test_paired_interval_covers_its_level():
    samples = np.random.default_rng(0).normal(0.3, 1.0, size=(400, 10))
    found = estimates.mean_difference(samples)
    assert 0.91 <= ((found.low <= 0.3) & (0.3 <= found.high)).mean() <= 0.985


def test_trimmed_interval_covers_its_level():
    samples = np.random.default_rng(0).normal(0.3, 1.0, size=(400, 10))
    found = estimates.trimmed_difference(samples)
    assert 0.90 <= ((found.low <= 0.3) & (0.3 <= found.high)).mean() <= 0.985


@pytest.mark.parametrize("n", [8, 12])  # multiples of 4, where SciPy's nominal 25 % is what is cut
def test_trimmed_interval_is_scipys(rng, n):
    differences = rng.normal(size=n)
    found = estimates.trimmed_difference(differences)
    expected = stats.mstats.trimmed_mean_ci(differences, limits=(0.25, 0.25), inclusive=(True, True))
    np.testing.assert_allclose([found.low, found.high], np.asarray(expected), **CLOSE)


def test_wilson_is_statsmodels():
    for k, n in [(0, 5), (3, 10), (7.5, 10), (10, 10)]:
        np.testing.assert_allclose(estimates.wilson_interval(k, n), proportion_confint(k, n, method="wilson"), **CLOSE)


def test_win_rate_counts_a_tie_as_one_half():
    found = estimates.win_rate(np.array([1.0, 0.0, -2.0, 3.0]))
    assert (found.wins, found.n, found.rate) == (2.5, 4, 0.625)


@pytest.mark.parametrize("n", [2, 5, 9, 12])
@pytest.mark.parametrize("spacing", [1e-9, 0.5, 1.0])  # the coarser, the more ties
def test_sign_flip_p_is_exactly_scipys_permutation_test(rng, n, spacing):
    differences = (rng.normal(0.5, 1.0, size=n) / spacing).round() * spacing * 0.1
    expected = stats.permutation_test(
        (differences,), lambda x, axis: x.mean(axis), permutation_type="samples", vectorized=True, n_resamples=np.inf
    )
    assert significance.sign_flip_p(differences) == min(expected.pvalue, 1.0)


@pytest.mark.parametrize("n", [1, 4, 6, 10, 14, 15, 20])
def test_sign_flip_p_has_a_smallest_value(n):
    smallest = significance.min_p(n)
    assert significance.sign_flip_p(np.linspace(1, 2, n)) == pytest.approx(smallest, rel=0.5 if n > 14 else 0)
    assert smallest >= 2 / 2**n


def test_equal_arms_have_no_difference_and_p_one():
    for n in (3, 20):
        zeros = np.zeros(n)
        found = estimates.mean_difference(zeros)
        assert (found.mean, found.low, found.high, found.effect_size) == (0, 0, 0, 0)
        assert significance.sign_flip_p(zeros) == 1.0


def test_many_seeds_use_random_flips_close_to_the_exact_p(rng):
    differences = rng.normal(0.4, 1.0, size=16)
    exact = stats.permutation_test((differences,), np.mean, permutation_type="samples", n_resamples=np.inf).pvalue
    assert significance.sign_flip_p(differences) == pytest.approx(exact, abs=0.02)


def test_rounding_does_not_break_ties():
    assert significance.sign_flip_p(np.array([0.1, 0.2, 0.3, -0.1, -0.2])) == significance.sign_flip_p(
        np.array([1.0, 2.0, 3.0, -1.0, -2.0])
    )


@pytest.mark.parametrize("m", [1, 3, 10])
def test_holm_is_statsmodels(rng, m):
    p = rng.uniform(0, 0.1, size=m)
    np.testing.assert_allclose(significance.holm(p), multipletests(p, method="holm")[1], **CLOSE)


def test_holm_does_not_count_missing_p():
    np.testing.assert_allclose(significance.holm([0.01, np.nan, 0.04]), [0.02, np.nan, 0.04])


@pytest.mark.parametrize(("n", "alpha"), [(3, 0.05), (5, 0.05), (10, 0.005), (30, 0.01)])
def test_detectable_effect_is_statsmodels(n, alpha):
    found = significance.detectable_effect_size(n, alpha)
    assert TTestPower().power(found, n, alpha) == pytest.approx(0.8, rel=2e-3)
    assert significance.minimum_detectable_effect(0.2, n, 2 * alpha, comparisons=2) == pytest.approx(0.2 * found)


def test_seeds_for_p():
    assert [significance.seeds_for_p(m) for m in (1, 2, 3, 4, 6, 7, 12, 13, 25)] == [6, 7, 7, 8, 8, 9, 9, 10, 10]
    assert significance.min_p(5) == 0.0625


def test_too_few_seeds_give_no_numbers_and_no_warnings():
    assert np.isnan(estimates.mean_difference(np.array([1.0])).low)
    assert np.isnan(estimates.trimmed_difference(np.array([1.0])).low)
    assert np.isnan(estimates.mean_difference(np.array([])).mean)
    assert np.isnan(significance.sign_flip_p(np.array([])))
    assert np.isnan(significance.detectable_effect_size(2))


def test_superiority_is_mann_whitneys_u(rng):
    x, y = rng.integers(0, 5, size=7).astype(float), rng.integers(0, 5, size=4).astype(float)
    assert estimates.superiority(x, y) == pytest.approx(stats.mannwhitneyu(x, y).statistic / 28)


@pytest.mark.parametrize("n", [2, 5, 8])
def test_iqm_interval_is_a_bootstrap_written_as_a_loop(rng, n):
    scores = np.sort(rng.normal(size=n))
    index = np.random.default_rng(0).integers(n, size=(300, n))
    resampled = [stats.trim_mean(scores[row], 0.25) for row in index]
    expected = np.quantile(resampled, [0.025, 0.975])
    np.testing.assert_allclose(estimates.iqm_interval(scores, resamples=300), expected, **CLOSE)
    shuffled = np.append(rng.permutation(scores), np.nan)
    np.testing.assert_allclose(estimates.iqm_interval(shuffled, resamples=300), expected, **CLOSE)


def test_stratified_interval_resamples_within_strata(rng):
    scores = np.array([1.0, 1, 1, 1, 5, 5, 5, 5])  # nothing to resample within a stratum
    strata = np.repeat(["a", "b"], 4)
    assert estimates.stratified_iqm_interval(scores, strata) == (3, 3)
    low, high = estimates.iqm_interval(scores)
    assert low < 3 < high
    scores = rng.normal(size=10)
    alone = estimates.stratified_iqm_interval(scores, np.zeros(10))
    np.testing.assert_allclose(alone, estimates.iqm_interval(scores), atol=0.05)  # two streams of 10,000 resamples
    assert np.isnan(estimates.stratified_iqm_interval(scores[:1], strata[:1]).low)


@pytest.mark.parametrize("m", [1, 2, 5, 20])
def test_q_is_that_of_statsmodels_and_its_level_is_that_of_the_discoveries(rng, m):
    for p in rng.random((50, m)) ** 4:
        q = significance.false_discovery_q(p)
        np.testing.assert_allclose(q, multipletests(p, method="fdr_bh")[1], **CLOSE)
        level = significance.false_discovery_level(p)
        assert ((p <= level) == (q <= 0.05)).all() and level >= 0.05 / m
    np.testing.assert_allclose(significance.false_discovery_q([0.01, np.nan, 0.04]), [0.02, np.nan, 0.04])
    assert (
        significance.false_discovery_level([0.03, np.nan, 0.04]) == 0.05
        and significance.false_discovery_q([]).size == 0
    )


def test_the_sign_test_is_scipys_and_of_collapses_mcnemars(rng):
    for n in range(1, 15):
        differences = rng.choice([-1.0, 0.0, 2.0], size=n)
        above, unequal = (differences > 0).sum(), (differences != 0).sum()
        expected = stats.binomtest(int(above), int(unequal)).pvalue if unequal else 1.0
        assert significance.sign_test_p(differences) == pytest.approx(expected)
    one, other = rng.random((2, 40)) < 0.3
    table = [[(one & other).sum(), (one & ~other).sum()], [(~one & other).sum(), (~one & ~other).sum()]]
    found = significance.sign_test_p(one.astype(float) - other)
    assert found == pytest.approx(mcnemar(table, exact=True).pvalue) and np.isnan(significance.sign_test_p(np.zeros(0)))
