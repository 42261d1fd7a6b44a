"""Pooled effects against loops, statsmodels, scipy and printed numbers; intervals against truth."""

import numpy as np
import pandas as pd
import pytest
from scipy.integrate import trapezoid
from scipy.optimize import brentq
from scipy.stats import t as student
from scipy.stats import ttest_1samp, ttest_ind
from statsmodels.regression.linear_model import WLS
from statsmodels.stats.meta_analysis import combine_effects
from statsmodels.stats.oneway import anova_oneway

from rlexp.analysis.data.errors import AnalysisError
from rlexp.analysis.stats.pooling import moderation, paule_mandel, pool, prediction_interval

# Thirteen trials of the BCG vaccine (Colditz et al. 1994): cases and people, vaccinated and not.
CASES = np.array([4, 6, 3, 62, 33, 180, 8, 505, 29, 17, 186, 5, 27])
PEOPLE = np.array([123, 306, 231, 13598, 5069, 1541, 2545, 88391, 7499, 1716, 50634, 2498, 16913])
OTHER_CASES = np.array([11, 29, 11, 248, 47, 372, 10, 499, 45, 65, 141, 3, 29])
OTHERS = np.array([139, 303, 220, 12867, 5808, 1451, 629, 88391, 7277, 1665, 27338, 2341, 17854])
BCG = np.log((CASES / PEOPLE) / (OTHER_CASES / OTHERS))
BCG_VARIANCES = 1 / CASES - 1 / PEOPLE + 1 / OTHER_CASES - 1 / OTHERS
# Ten trials of a drug against high blood pressure (Riley, Higgins & Deeks 2011): `sbp` of the R package pimeta.
SBP = np.array([0.0, 0.1, -0.4, -0.8, -0.63, 0.22, -0.34, -0.51, 0.03, -0.81])
SBP_ERRORS = np.array([0.42347717, 0.21939179, 0.02551067, 0.19898325, 0.30102594])
SBP_ERRORS = np.append(SBP_ERRORS, [0.30102594, 0.07142988, 0.10204269, 0.12245123, 0.30102594])


def some(seed, k, tau=1.0, sets=()):
    rng = np.random.default_rng(seed)
    errors = rng.uniform(0.3, 2.0, (*sets, k))
    return tau * rng.normal(size=(*sets, k)) + errors * rng.normal(size=(*sets, k)), errors


def by_hand(effects, errors):
    """Estimate, error and τ² by a search for the root, number by number."""
    k, middle = len(effects), sorted(errors)[len(errors) // 2]
    if k % 2 == 0:
        middle = (middle + sorted(errors)[k // 2 - 1]) / 2
    variances = [max(error, middle) ** 2 for error in errors]

    def mean(tau2):
        weights = [1 / (variance + tau2) for variance in variances]
        return sum(w * y for w, y in zip(weights, effects, strict=True)) / sum(weights), sum(weights)

    def excess(tau2):
        return sum((y - mean(tau2)[0]) ** 2 / (v + tau2) for y, v in zip(effects, variances, strict=True)) - (k - 1)

    tau2 = brentq(excess, 0, 1e6, xtol=1e-13) if excess(0) > 0 else 0.0
    estimate, total = mean(tau2)
    return estimate, total**-0.5, tau2


@pytest.mark.parametrize("k", [3, 4, 9])
@pytest.mark.parametrize("tau", [0.0, 3.0])
def test_the_mean_of_several_conditions_is_that_of_a_loop(k, tau):
    for seed in range(5):
        effects, errors = some(seed, k, tau)
        found = pool(effects, errors)
        estimate, error, tau2 = by_hand(effects.tolist(), errors.tolist())
        assert (found.estimate, found.error) == pytest.approx((estimate, error), rel=1e-8)
        assert found.tau**2 == pytest.approx(tau2, rel=1e-6, abs=1e-12)
        half = student.ppf(0.975, k - 1) * error
        assert tuple(found.interval()) == pytest.approx((estimate - half, estimate + half), rel=1e-7)
        assert found.p(0.3) == pytest.approx(2 * student.sf(abs(estimate - 0.3) / error, k - 1), rel=1e-6)


def test_heterogeneity_is_that_of_statsmodels_and_the_printed_one():
    reference = combine_effects(BCG, BCG_VARIANCES, method_re="iterated")
    assert paule_mandel(BCG, BCG_VARIANCES) == pytest.approx(reference.tau2, rel=1e-6)
    # metafor, rma(measure="RR", ..., data=dat.bcg, method="PM") prints τ² 0.3181.
    assert paule_mandel(BCG, BCG_VARIANCES) == pytest.approx(0.3181, abs=5e-5)


@pytest.mark.filterwarnings("ignore:.use_t=True. requires")
def test_with_equal_errors_the_interval_is_that_of_hartung_and_knapp_or_wider():
    scattered, alike = np.array([0.1, 0.9, -0.4, 1.4, 0.3]), np.array([0.1, 0.12, 0.09, 0.11, 0.1])
    errors = np.full(5, 0.2)
    frames = [
        combine_effects(each, errors**2, method_re="iterated", use_t=True).summary_frame()
        for each in (scattered, alike)
    ]
    plain = [frame.loc["random effect wls", ["ci_low", "ci_upp"]].to_numpy(dtype=float) for frame in frames]
    assert np.array(pool(scattered, errors).interval()) == pytest.approx(plain[0], rel=1e-5)
    ours = pool(alike, errors).interval()  # τ² is 0 and q below 1: the plain interval is too narrow
    assert ours.high - ours.low > 3 * np.ptp(plain[1])
    assert pool(alike, errors).error == pytest.approx(0.2 / np.sqrt(5))


def test_one_condition_has_the_interval_and_p_of_its_seeds():
    seeds = np.random.default_rng(0).normal(0.3, 1.0, 10)
    reference = ttest_1samp(seeds, 0.0)
    found = pool([seeds.mean()], [seeds.std(ddof=1) / np.sqrt(10)], 9)
    assert tuple(found.interval()) == pytest.approx(tuple(reference.confidence_interval(0.95)))
    assert found.p() == pytest.approx(reference.pvalue)
    assert np.isnan(found.tau) and found.scope == "this condition"


def test_two_conditions_have_the_p_of_welch():
    rng = np.random.default_rng(1)
    first, second = rng.normal(0.5, 1.0, 10), rng.normal(0.8, 3.0, 20)
    errors = [each.std(ddof=1) / np.sqrt(each.size) for each in (first, second)]
    found = pool([first.mean(), second.mean()], errors, [9, 19])
    reference = ttest_ind(first, -second, equal_var=False)  # that the sum of both means is 0
    assert found.p() == pytest.approx(reference.pvalue)
    assert found.estimate == pytest.approx((first.mean() + second.mean()) / 2)
    assert found.scope == "these two conditions"


def test_many_sets_at_once_are_pooled_as_one_by_one():
    effects, errors = some(2, 5, sets=(3, 4))
    together = pool(effects, errors, 9)
    for place in np.ndindex(3, 4):
        alone = pool(effects[place], errors[place], 9)
        for one, all_ in zip(alone[:4], together[:4], strict=True):
            assert one == pytest.approx(all_[place], rel=1e-8)


def test_p_and_interval_agree():
    effects, errors = some(3, 4, sets=(500,))
    found = pool(effects, errors)
    for confidence in (0.9, 0.95, 0.975):
        low, high = found.interval(confidence)
        assert (((low > 0.2) | (high < 0.2)) == (found.p(0.2) < 1 - confidence)).all()
        inside = (low > -2) & (high < 2)
        assert (inside == (found.p_equal(2.0) < (1 - confidence) / 2)).all() and 0 < inside.mean() < 1


def test_a_precise_condition_weighs_no_more_than_the_middle_one():
    errors = np.array([1e-6, 0.2, 0.2, 0.3, 0.4])
    low, high = (pool([effect, 0.0, 0.0, 0.0, 0.0], errors).estimate for effect in (0.0, 0.1))
    assert low == 0 and high == pytest.approx(pool([0.1, 0, 0, 0, 0], [0.2, 0.2, 0.2, 0.3, 0.4]).estimate)


@pytest.mark.parametrize(("k", "seeds", "ratio", "tau"), [(3, 5, 20, 1), (3, 10, 6, 0), (5, 5, 6, 0.5), (9, 5, 20, 1)])
def test_intervals_hold_with_errors_that_are_estimated_and_differ(k, seeds, ratio, tau):
    sets, rng = 4000, np.random.default_rng(4)
    errors = np.geomspace(ratio**-0.5, ratio**0.5, k)
    estimated = errors * np.sqrt(rng.chisquare(seeds - 1, (sets, k)) / (seeds - 1))
    effects = tau * rng.normal(size=(sets, k)) + errors * rng.normal(size=(sets, k))
    low, high = pool(effects, estimated).interval()
    assert ((low < 0) & (high > 0)).mean() > 0.94 - 3 * np.sqrt(0.06 * 0.94 / sets)


def test_the_prediction_interval_is_the_one_that_pimeta_prints():
    """25,000 draws there and 40,000 here: an end scatters by 0.007 and 0.006, three times their root sum is 0.027."""
    found = prediction_interval(SBP, SBP_ERRORS)
    assert tuple(found) == pytest.approx((-0.8807, 0.2240), abs=0.027)


def tail_of_q(q, eigenvalues):
    """P(Σ eigenvalue · χ² > q) by Imhof 1961; what is left out beyond 60 is below 1e-4 for five eigenvalues from 1."""
    u = np.linspace(1e-9, 60, 60_001)[:, None]
    angle = 0.5 * np.arctan(eigenvalues * u).sum(-1) - 0.5 * q * u[:, 0]
    heights = np.sin(angle) / (u[:, 0] * np.prod((1 + (eigenvalues * u) ** 2) ** 0.25, -1))
    return 0.5 + trapezoid(heights, u[:, 0]) / np.pi


@pytest.mark.slow
def test_draws_of_the_heterogeneity_have_its_confidence_distribution():
    """The interval of a literal version, which inverts the distribution of Q on a grid, as Nagashima et al. do."""
    effects, errors = np.array([0.1, 1.4, -0.9, 0.8, 2.0, 0.4]), np.array([0.3, 0.5, 0.4, 0.6, 0.5, 0.8])
    k, precision, draws = 6, errors**-2, 40_000
    q = (precision * (effects - np.average(effects, weights=precision)) ** 2).sum()
    grid = np.concatenate([[0.0], np.geomspace(1e-3, 300, 120)])
    projection = np.diag(precision) - np.outer(precision, precision) / precision.sum()
    tails = []
    for tau2 in grid:
        eigenvalues = np.linalg.eigvals(projection @ np.diag(errors**2 + tau2)).real
        tails.append(tail_of_q(q, np.sort(eigenvalues)[1:]))
    rng = np.random.default_rng(5)
    tau2 = np.interp(rng.uniform(size=draws), tails, grid)
    weights = 1 / (errors**2 + tau2[:, None])
    means = (weights * effects).sum(-1) / weights.sum(-1)
    spread = np.sqrt((weights * (effects - means[:, None]) ** 2).sum(-1) / (k - 1) / weights.sum(-1))
    new = means + np.sqrt(tau2) * rng.normal(size=draws) + spread * rng.standard_t(k - 1, draws)
    expected = np.quantile(new, [0.025, 0.975])
    assert np.array(prediction_interval(effects, errors)) == pytest.approx(expected, abs=0.03 * np.ptp(expected))


def test_prediction_intervals_are_the_same_in_any_order_and_say_nothing_of_two_conditions():
    order = np.random.default_rng(6).permutation(10)
    assert prediction_interval(SBP[order], SBP_ERRORS[order]) == prediction_interval(SBP, SBP_ERRORS)
    assert np.isnan(prediction_interval(SBP[:2], SBP_ERRORS[:2])).all()


LABELS = ["a", "b", "c"] * 3


def test_a_moderator_has_the_f_of_a_weighted_regression():
    effects, errors = some(7, 9, tau=3.0)
    errors = np.full(9, 0.5)
    design = pd.get_dummies(pd.Series(LABELS)).to_numpy(dtype=float)
    tau2 = paule_mandel(effects, errors**2, design)
    assert tau2 > 0
    fitted = WLS(effects, design, weights=1 / (errors**2 + tau2)).fit()
    contrast = np.array([[1.0, -1.0, 0.0], [0.0, 1.0, -1.0]])
    reference, found = fitted.f_test(contrast), moderation(effects, errors, LABELS)
    assert (found.f, found.p) == pytest.approx((float(reference.fvalue), float(reference.pvalue)), rel=1e-6)
    assert found.degrees == (2, 6) and found.levels == ("a", "b", "c")
    assert found.estimates == pytest.approx(fitted.params)
    assert np.stack([found.low, found.high], -1) == pytest.approx(fitted.conf_int(), rel=1e-5)


def test_levels_whose_effects_are_alike_by_luck_are_no_discovery():
    errors = np.full(6, 0.5)
    effects = np.array([0.100, 0.200, 0.101, 0.201, 0.099, 0.199])
    plain = WLS(effects, pd.get_dummies(pd.Series(list("ababab"))).to_numpy(dtype=float)).fit()
    assert plain.f_test([[1.0, -1.0]]).pvalue < 1e-6
    assert moderation(effects, errors, list("ababab")).p > 0.7


def test_levels_with_one_condition_each_are_compared_by_welch():
    rng = np.random.default_rng(8)
    seeds = [rng.normal(mean, sd, n) for mean, sd, n in ((0, 1, 10), (1, 3, 10), (0.5, 0.5, 20))]
    effects, errors = zip(*((each.mean(), each.std(ddof=1) / np.sqrt(each.size)) for each in seeds), strict=True)
    reference = anova_oneway(seeds, use_var="unequal")
    found = moderation(effects, errors, ["0", "0.2", "0.6"], [9, 9, 19])
    assert (found.f, found.p) == pytest.approx((reference.statistic, reference.pvalue))
    assert found.scope == "these 3 conditions" and found.span == pytest.approx(np.ptp(effects))


@pytest.mark.parametrize(
    ("effects", "errors", "said"),
    [
        ([], [], "at least one"),
        ([1.0, 2.0], [1.0], "one of each a condition"),
        ([1.0, np.nan], [1.0, 1.0], "finite"),
        ([1.0, 2.0], [1.0, -1.0], "not below 0"),
        ([1.0], [0.0], "error of 0"),
    ],
)
def test_what_cannot_be_pooled_is_refused(effects, errors, said):
    for function in (pool, prediction_interval):
        with pytest.raises(AnalysisError, match=said):
            function(effects, errors)


@pytest.mark.parametrize("labels", [["a"] * 3, ["a", "b"]])
def test_a_moderator_that_does_not_vary_is_refused(labels):
    with pytest.raises(AnalysisError, match="two at least"):
        moderation([1.0, 2.0, 3.0], [1.0] * 3, labels)
