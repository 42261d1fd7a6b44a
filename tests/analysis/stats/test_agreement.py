"""Slope and correlations of effects against other implementations, their laws, and how often intervals hold."""

import warnings

import numpy as np
import pytest
from ladders import grids_of
from scipy.stats import pearsonr, spearmanr

from rlexp.analysis.stats.agreement import effect_agreement
from rlexp.analysis.stats.decision import all_pairs

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from scipy import odr


def sweep(effects, n, rng, noise=1.0, stream=0):
    grids = grids_of(effects, n, rng, noise)
    return all_pairs([grids], stream), np.array([grid.values.mean() for grid in grids]), grids


def squared_error(grids):
    """The sum of squared standard errors of arms' effects to their mean, over the k − 1 that are free."""
    scores = np.array([grid.values[0] for grid in grids])
    centred = scores - scores.mean(0)
    return (centred.var(1, ddof=1) / scores.shape[1]).sum() / (len(grids) - 1)


@pytest.mark.parametrize("seed", range(5))
def test_slope_and_correlations_are_those_of_scipy(seed):
    rng = np.random.default_rng(seed)
    effects = 2 * rng.normal(size=6)
    (small, x, first), (large, y, second) = sweep(effects, 7, rng, 1.0), sweep(1.5 * effects, 9, rng, 2.0, 1)
    found = effect_agreement(small, large, [6])
    assert found.pearson.value == pytest.approx(pearsonr(x, y).statistic)
    assert found.spearman.value == pytest.approx(spearmanr(x, y).statistic)
    errors = [np.sqrt(squared_error(grids)) for grids in (first, second)]
    data = odr.RealData(x - x.mean(), y - y.mean(), sx=errors[0], sy=errors[1])
    line = odr.ODR(data, odr.unilinear, beta0=[1.0, 0.0]).run()
    assert found.slope.value == pytest.approx(line.beta[0], rel=1e-4)
    reliability = [1 - error**2 / values.var(ddof=1) for error, values in zip(errors, (x, y), strict=True)]
    assert found.reliability == pytest.approx(tuple(reliability))
    wanted = min(1.0, pearsonr(x, y).statistic / np.sqrt(np.prod(reliability)))
    assert found.disattenuated.value == pytest.approx(wanted)


def test_draws_are_computed_as_the_numbers_are():
    rng = np.random.default_rng(0)
    effects = rng.normal(size=4)
    (small, *_), (large, *_) = sweep(effects, 6, rng), sweep(effects, 6, rng, stream=1)
    found = effect_agreement(small, large, [4])
    # values of the arms in a draw, up to a constant: those of the first three pairs, of the first arm and the others
    arms = [np.column_stack([np.zeros(len(each.draws)), -each.draws[:, :3]]) for each in (small, large)]
    for name, function in {"pearson": pearsonr, "spearman": spearmanr}.items():
        numbers = [function(*rows).statistic for rows in zip(*arms, strict=True)]
        measured = getattr(found, name)
        assert (measured.low, measured.high) == pytest.approx(tuple(np.quantile(numbers, [0.025, 0.975])))


def test_draws_without_noise_have_it_twice():
    """Once as the effects have it, and once more as they are drawn."""
    rng = np.random.default_rng(3)
    effects = 2 * rng.normal(size=5)
    (small, _, first), (large, _, second) = sweep(effects, 6, rng), sweep(effects[::-1] + effects, 6, rng, stream=1)
    found = effect_agreement(small, large, [5]).disattenuated
    noise, numbers = [squared_error(grids) for grids in (first, second)], []
    for one, other in zip(small.draws, large.draws, strict=True):
        x, y = (np.array([0, *-each[:4]]) for each in (one, other))  # values of the arms, up to a constant
        left = (x.var(ddof=1) - 2 * noise[0]) * (y.var(ddof=1) - 2 * noise[1])
        numbers.append(np.clip(np.cov(x, y)[0, 1] / np.sqrt(left), -1, 1))
    assert (found.low, found.high) == pytest.approx(tuple(np.quantile(numbers, [0.025, 0.975])))
    assert -1 < found.low < found.high


def test_nothing_hangs_on_the_order_of_the_arms():
    rng = np.random.default_rng(1)
    grids = [grids_of(rng.normal(size=5), 8, rng) for _ in range(2)]
    found = [
        effect_agreement(all_pairs([first], 1), all_pairs([second], 2), [5])
        for first, second in (grids, [each[::-1] for each in grids])
    ]
    for name in ("slope", "pearson", "spearman"):
        assert getattr(found[0], name).value == pytest.approx(getattr(found[1], name).value)
        assert getattr(found[0], name)[1:] == pytest.approx(getattr(found[1], name)[1:], abs=1e-9)


def test_a_sweep_agrees_with_itself_and_with_its_double():
    grids = grids_of([0, 1, 2, 4], 10, np.random.default_rng(0), 0.5)
    double = [grid._replace(values=2 * grid.values) for grid in grids]
    for other, slope in ((grids, 1), (double, 2)):
        found = effect_agreement(all_pairs([grids], 0), all_pairs([other], 1), [4])
        assert (found.slope.value, found.pearson.value, found.spearman.value) == pytest.approx((slope, 1, 1))
        assert found.disattenuated.value == 1


def test_strata_are_centred_each_on_its_own():
    rng = np.random.default_rng(3)
    first, second = ([grids_of(rng.normal(size=k), 6, rng) for k in (3, 4)] for _ in range(2))
    found = effect_agreement(all_pairs(first, 0), all_pairs(second, 1), [3, 4])
    centred = []
    for strata in (first, second):
        means = [np.array([grid.values.mean() for grid in grids]) for grids in strata]
        centred.append(np.concatenate([each - each.mean() for each in means]))
    wanted = (centred[0] @ centred[1]) / np.sqrt((centred[0] @ centred[0]) * (centred[1] @ centred[1]))
    assert found.pearson.value == pytest.approx(wanted) and found.arms == 7


def test_noise_has_no_slope_and_no_correlation_without_noise():
    rng = np.random.default_rng(0)
    (small, *_), (large, *_) = sweep(np.zeros(5), 6, rng), sweep(np.zeros(5), 6, rng, stream=1)
    found = effect_agreement(small, large, [5])
    assert (found.slope.low, found.slope.high) == (-np.inf, np.inf)
    assert np.isnan(found.disattenuated.value) and min(found.reliability) < 0.5


def test_two_arms_have_no_correlation():
    rng = np.random.default_rng(0)
    (small, *_), (large, *_) = sweep([0, 1], 6, rng), sweep([0, 1], 6, rng, stream=1)
    assert np.isnan(effect_agreement(small, large, [2]).pearson.value)


def test_intervals_hold_the_true_slope_and_correlation():
    """Of 6 arms, 10 units, true effects of three standard errors: slope 2; a true correlation between -1 and 1."""
    rng, held = np.random.default_rng(0), {"slope": [], "disattenuated": []}
    for _ in range(150):
        effects = rng.normal(size=6)
        alike = effect_agreement(sweep(effects, 10, rng)[0], sweep(2 * effects, 10, rng, stream=1)[0], [6])
        held["slope"].append(alike.slope.low <= 2 <= alike.slope.high)
        other = 0.7 * effects + 0.7 * rng.normal(size=6)
        found = effect_agreement(sweep(effects, 10, rng)[0], sweep(other, 10, rng, stream=1)[0], [6]).disattenuated
        if not np.isnan(found.low):
            held["disattenuated"].append(found.low <= np.corrcoef(effects, other)[0, 1] <= found.high)
    assert len(held["disattenuated"]) > 100
    assert {name: np.mean(each) >= 0.89 for name, each in held.items()} == dict.fromkeys(held, True), held
