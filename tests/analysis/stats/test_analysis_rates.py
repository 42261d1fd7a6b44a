"""Learning-rate curves against textbook loops, SciPy, and what they must hold."""

import json
from itertools import combinations, product

import numpy as np
import pytest
from scipy import stats

from benchmarks import rates as simulation
from rlexp.analysis.data.errors import AnalysisError
from rlexp.analysis.stats import rates

CLOSE = {"rtol": 1e-10, "atol": 1e-12}
# What as many bootstrap draws leave open of their mean, in standard errors: three times 1/√RESAMPLES, and as much room
# again for the loop's own draws.
DRAWN = 3 * np.sqrt(2 / rates.RESAMPLES)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(11)


def grid_of(values, floor=None):
    values = np.asarray(values, dtype=float)
    return rates.rate_grid(1e-3 * 2.0 ** np.arange(len(values)), values, floor)


def correlated(rng, means, seeds, sd=0.05, correlation=0.5):
    """Scores whose seeds share a part over rates, `[rates, seeds]`."""
    common, own = rng.normal(size=seeds), rng.normal(size=(len(means), seeds))
    return np.asarray(means)[:, None] + sd * (np.sqrt(correlation) * common + np.sqrt(1 - correlation) * own)


def loop(values, draws=20_000):
    """Optimism and error of the best mean, one bootstrap draw after another."""
    generator = np.random.default_rng(99)
    means, n = values.mean(1), values.shape[1]
    luck, best = [], []
    for _ in range(draws):
        drawn = values[:, generator.integers(n, size=n)].mean(1)
        chosen = int(drawn.argmax())
        luck.append(drawn[chosen] - means[chosen])
        best.append(drawn[chosen])
    return np.mean(luck), np.std(best) * np.sqrt(n / (n - 1))


def test_response_curve_is_scipys_t_interval(rng):
    grid = grid_of(rng.normal(size=(4, 7)))
    found = rates.response_curve(grid)
    for place, row in enumerate(grid.values):
        expected = stats.ttest_1samp(row, 0).confidence_interval()
        np.testing.assert_allclose([found.low[place], found.high[place]], expected, **CLOSE)
    np.testing.assert_allclose(found.iqm, stats.trim_mean(grid.values, 0.25, axis=1), **CLOSE)
    assert (found.iqm_low < found.iqm).all() and (found.iqm < found.iqm_high).all() and (found.n == 7).all()


def test_response_curve_of_runs_that_there_are():
    found = rates.response_curve(grid_of([[1.0, 2.0, 3.0], [np.nan, 4.0, 6.0], [np.nan, np.nan, 5.0], [np.nan] * 3]))
    np.testing.assert_allclose(found.mean[:3], [2, 5, 5])
    assert np.isnan(found.mean[3]) and np.isnan(found.low[2]) and found.n.tolist() == [3, 2, 1, 0]


@pytest.mark.parametrize("means", [[0, 0, 0, 0], [0, 0.05, 0.04, 0]])
def test_best_value_is_that_of_a_loop(rng, means):
    values = correlated(rng, means, 8)
    found, (luck, error) = rates.best_value(grid_of(values)), loop(values)
    plain = values[values.mean(1).argmax()].std(ddof=1) / np.sqrt(8)
    assert found.optimism == pytest.approx(luck, abs=DRAWN * plain) and luck > DRAWN * plain
    assert found.value == pytest.approx(values.mean(1).max() - found.optimism)
    half = stats.t.ppf(0.975, 7) * max(plain, error)
    assert found.high - found.value == pytest.approx(half, rel=DRAWN)
    assert found.rate == 1e-3 * 2.0 ** values.mean(1).argmax() and found.chosen.sum() == pytest.approx(1)


def test_the_larger_error_counts():
    """A rate that never scatters is chosen, but the next one, which does, often is in a draw."""
    values = np.array([[0.5] * 6, [0.42, 0.55, 0.39, 0.58, 0.36, 0.6]])
    found, (luck, error) = rates.best_value(grid_of(values)), loop(values)
    assert found.rate == 1e-3 and error > 0
    assert found.high - found.value == pytest.approx(stats.t.ppf(0.975, 5) * error, rel=2 * DRAWN)
    assert found.optimism == pytest.approx(luck, abs=DRAWN * error)


def test_optimism_of_two_seeds_is_that_of_all_four_draws():
    values = np.array([[0.0, 1.0], [0.8, 0.1], [0.2, 0.4]])
    draws = [values[:, list(each)].mean(1) for each in product((0, 1), repeat=2)]
    luck = np.mean([each.max() - values.mean(1)[each.argmax()] for each in draws])
    spread = np.std([each.max() - values.mean(1)[each.argmax()] for each in draws])
    assert rates.best_value(grid_of(values)).optimism == pytest.approx(luck, abs=3 * spread / np.sqrt(rates.RESAMPLES))


def test_with_one_rate_it_is_the_paired_t_test(rng):
    first, second = rng.normal(size=(2, 1, 9))
    found, expected = rates.best_difference(grid_of(first), grid_of(second)), stats.ttest_rel(first[0], second[0])
    assert found.p == pytest.approx(expected.pvalue, rel=1e-9)
    np.testing.assert_allclose([found.low, found.high], expected.confidence_interval(), rtol=1e-9)
    one = rates.best_value(grid_of(first))
    np.testing.assert_allclose([one.low, one.high], stats.ttest_1samp(first[0], 0).confidence_interval(), rtol=1e-9)


def test_p_and_interval_never_contradict_each_other(rng):
    sides = set()
    for _ in range(300):
        both = correlated(rng, rng.normal(0, 0.04, 6), int(rng.integers(2, 12)), correlation=rng.uniform())
        found = rates.best_difference(grid_of(both[:3]), grid_of(both[3:]))
        sides.add(found.p < 0.05)
        assert (found.p < 0.05) == (found.low > 0 or found.high < 0)
    assert sides == {True, False}


def test_order_of_seeds_rates_and_arms_changes_no_bit(rng):
    first, second = correlated(rng, [0, 0.02, 0.01], 7), correlated(rng, [0.01, 0.01, 0], 7)
    steps, turn, places = np.array([1e-3, 2e-3, 4e-3]), rng.permutation(7), [2, 0, 1]
    grids = [rates.rate_grid(steps, each) for each in (first, second)]
    turned = [rates.rate_grid(steps[places], each[places][:, turn]) for each in (first, second)]
    there, back = rates.best_difference(*grids), rates.best_difference(*grids[::-1])
    assert rates.best_difference(*turned) == there
    assert (back.difference, back.low, back.high, back.p) == (-there.difference, -there.high, -there.low, there.p)
    for function in (rates.best_value, rates.tuning_curve, rates.response_curve):
        for one, other in zip(function(grids[0]), function(turned[0]), strict=True):
            np.testing.assert_array_equal(one, other)
    assert rates.plateau(grids[0], 0.02) == rates.plateau(turned[0], 0.02)


def test_an_arm_against_itself_and_against_itself_moved(rng):
    grid = grid_of(correlated(rng, [0, 0.02, 0.01], 6))
    same = rates.best_difference(grid, grid)
    assert (same.difference, same.low, same.high, same.p) == (0, 0, 0, 1)
    moved = rates.best_difference(grid._replace(values=grid.values + 0.5), grid)
    assert moved.difference == pytest.approx(0.5) and moved.p < 1e-6


def test_a_run_without_a_score_rules_its_rate_out_or_counts_as_the_floor(rng):
    values = correlated(rng, [0.3, 0.4, 0.9], 8, sd=0.01)
    values[2, 0] = np.nan
    out, floored = rates.best_value(grid_of(values)), rates.best_value(grid_of(values, floor=0.0))
    assert out.rate == 2e-3 and out.chosen[2] == 0 and out.chosen.sum() == pytest.approx(1)
    assert floored.rate == 4e-3 and floored.value == pytest.approx(np.nan_to_num(values)[2].mean(), abs=0.01)
    assert rates.plateau(grid_of(values), 0.02).high == pytest.approx(2e-3)
    assert rates.edge(grid_of(values), 0.02).side == ""  # the rate beyond diverges: nothing to look for there


@pytest.mark.parametrize(
    ("steps", "values", "said"),
    [
        ([1, 2], [[1.0, 2.0]], "must be \\[rates\\] and"),
        ([1, 1], [[1.0], [2.0]], "each once"),
        ([0, 1], [[1.0], [2.0]], "above 0"),
        ([1, 2], [[1.0], [np.inf]], "infinite"),
        ([1, 2], [[np.nan], [np.nan]], "no rate has a score"),
        ([1], [[]], "must be \\[rates\\] and"),
    ],
)
def test_bad_grids_end_in_a_line(steps, values, said):
    with pytest.raises(AnalysisError, match=said):
        rates.rate_grid(steps, np.array(values))


def test_other_bad_questions_end_in_a_line(rng):
    grid = grid_of(rng.normal(size=(3, 4)))
    for call, said in [
        (lambda: rates.best_difference(grid, grid_of(rng.normal(size=(3, 5)))), "4 and 5 seeds"),
        (lambda: rates.plateau(grid, 0.0), "above 0"),
        (lambda: rates.edge(grid, np.nan), "above 0"),
        (lambda: rates.extend(grid_of([[1.0, 2.0]]), 0.1), "one rate"),
    ]:
        with pytest.raises(AnalysisError, match=said):
            call()


@pytest.mark.filterwarnings("error")
def test_one_seed_has_values_and_no_intervals():
    grid = grid_of([[0.1], [0.4], [0.3]])
    best, found = rates.best_value(grid), rates.best_difference(grid, grid)
    assert best.value == pytest.approx(0.4) and np.isnan([best.low, best.high]).all()
    assert found.difference == 0 and np.isnan([found.low, found.p]).all()
    wide = rates.plateau(grid, 0.2)
    assert wide.octaves > 1 and np.isnan([wide.octaves_low, wide.octaves_high]).all()


def test_plateau_ends_where_straight_lines_cross_the_level():
    """0.10 below 0.5 is met half way from 0.3 to 0.5 and three quarters from 0.5 to 0.1, less a quarter."""
    found = rates.plateau(grid_of(np.repeat([[0.3], [0.5], [0.1], [0.45]], 4, axis=1)), 0.1)
    assert found.low == pytest.approx(1e-3 * 2**0.5) and found.high == pytest.approx(1e-3 * 2**1.25)
    np.testing.assert_allclose([found.octaves, found.octaves_low, found.octaves_high], 0.75)
    assert not found.open_low and not found.open_high
    flat = rates.plateau(grid_of(np.repeat([[0.5], [0.5], [0.49]], 4, axis=1)), 0.1)
    assert (flat.octaves, flat.open_low, flat.open_high) == (pytest.approx(2), True, True)


def test_plateau_goes_to_delta_below_the_best_value(rng):
    grid = grid_of(correlated(rng, [0, 0.2, 0.21, 0], 6))
    found, best = rates.plateau(grid, 0.05), rates.best_value(grid)
    assert best.optimism > 1e-3
    for end in (found.low, found.high):
        level = np.interp(np.log2(end), np.log2(grid.rates), grid.values.mean(1))
        assert level == pytest.approx(grid.values.mean(1).max() - best.optimism - 0.05)
    assert found.octaves_low < found.octaves < found.octaves_high


@pytest.mark.parametrize(
    ("means", "side"),
    [
        ([0, 1, 2], "high"),
        ([2, 1, 0], "low"),
        ([0, 2, 1], ""),
        ([0, 2, 2.049], ""),  # less than half of delta above
        ([0, 2, 2.051], "high"),
        ([2.051, 2, 0], "low"),
        ([1, 1, 1], ""),
        ([0, 0.01, 0.04], "high"),  # ever faster: the arm has hardly begun to learn
        ([0.04, 0.01, 0], "low"),
        ([0, 0.02, 0.05], ""),
        ([0, np.nan, 1], "high"),  # a rate beside the end that diverged does not make it flat
    ],
)
def test_mark_and_extension(means, side):
    grid = grid_of(np.repeat(np.array(means, dtype=float)[:, None], 3, axis=1))
    assert rates.edge(grid, 0.1).side == side
    expected = {"high": (8e-3,), "low": (5e-4,), "": ()}[side]
    assert rates.extend(grid, 0.1) == (expected, side, False)
    limited = rates.extend(grid, 0.1, lowest=1e-3, highest=4e-3)
    assert limited == ((), side, bool(side)) == rates.extend(grid, 0.1, most_rates=3)


def test_an_end_that_rises_by_luck_does_not_rise_ever_faster(rng):
    noise = rng.normal(size=(2000, 3, 8))
    marked = [rates.edge(grid_of(each), 10.0).side for each in noise]  # far below delta, so only the second rule
    expected = [stats.ttest_rel(each[2], each[1]).confidence_interval().low > 0 for each in noise]
    high = [side == "high" for side in marked]
    assert (
        not [1 for each, rises in zip(high, expected, strict=True) if each and not rises] and 0 < np.mean(high) < 0.025
    )


def test_step_at_the_end_is_the_paired_difference(rng):
    grid = grid_of(correlated(rng, [0, 0.1, 0.3], 6))
    found, expected = rates.edge(grid, 0.05), stats.ttest_rel(grid.values[2], grid.values[1]).confidence_interval()
    np.testing.assert_allclose([found.step, found.low, found.high], [np.mean(expected), *expected], **CLOSE)


def test_a_grid_grows_until_its_best_is_inside():
    def score(rate):
        return -((np.log2(rate / 0.1)) ** 2) / 100

    steps, asked = [1e-3, 2e-3, 4e-3], []
    while True:
        found = rates.extend(rates.rate_grid(steps, np.array([[score(rate)] * 2 for rate in steps])), 0.01)
        if not found.rates:
            break
        asked += found.rates
        steps += found.rates
    assert (
        asked == [8e-3, 0.016, 0.032, 0.064, 0.128] and not found.stuck
    )  # 0.064 is flat or past: within 0.005 of 0.128


@pytest.mark.parametrize("count", [1, 2, 5, 8])
def test_best_of_k_is_the_mean_over_all_subsets_and_all_sequences(rng, count):
    values = rng.normal(size=count)
    without = [np.mean([max(each) for each in combinations(values, k)]) for k in range(1, count + 1)]
    np.testing.assert_allclose(rates.expected_maximum(values), without, **CLOSE)
    most = min(count, 4)
    repeated = [np.mean([max(each) for each in product(values, repeat=k)]) for k in range(1, most + 1)]
    np.testing.assert_allclose(rates.expected_maximum_with_replacement(values)[:most], repeated, **CLOSE)


def test_best_of_k_without_replacement_is_unbiased_and_with_it_too_low():
    """The best of 8 uniform numbers is 8/9; means of 4,000 samples of 10, whose error is below .0025."""
    samples = np.random.default_rng(3).uniform(size=(4000, 10))
    without, repeated = (np.mean([function(each)[7] for each in samples])
                         for function in (rates.expected_maximum, rates.expected_maximum_with_replacement))  # fmt: skip
    assert without == pytest.approx(8 / 9, abs=0.0025) and repeated < 8 / 9 - 0.02


def test_tuning_curve_goes_from_the_mean_of_all_rates_to_the_best_value(rng):
    grid = grid_of(correlated(rng, [0, 0.05, 0.04, 0.01], 6))
    found, best = rates.tuning_curve(grid), rates.best_value(grid)
    assert found.trials.tolist() == [1, 2, 3, 4] and (np.diff(found.expected) > 0).all()
    assert found.expected[0] == pytest.approx(grid.values.mean())
    one = stats.ttest_1samp(grid.values.mean(0), 0).confidence_interval()
    np.testing.assert_allclose([found.low[0], found.high[0]], one, rtol=1e-9)
    last = found.expected[-1], found.low[-1], found.high[-1]
    np.testing.assert_allclose(last, [best.value, best.low, best.high], rtol=1e-9)


@pytest.mark.slow
def test_intervals_hold_the_truth():
    """Of 200 sweeps; binomial errors of .95 are .015, so .90 is more than three below."""
    flat = simulation.simulate(simulation.Case("flat", "flat", 5, 8, 0.05, 0.5), 200)
    peaked = simulation.simulate(simulation.Case("peaked", "broad", 5, 8, 0.05, 0.5), 200)
    for each in (flat, peaked):
        assert each.best["used"] >= 0.9 and each.difference["used"] >= 0.9
    assert flat.difference["cross-fitted"] < flat.difference["used"] - 0.03
    assert flat.bias["used"] < 0.6 * flat.bias["ignored"]


def test_simulated_scores_scatter_and_correlate_as_said():
    case = simulation.Case("peaked", "flat", 3, 4, 0.1, 0.85)
    first, second = simulation.draw(case, np.random.default_rng(0), 20_000)
    both = np.stack([first[:, 0, 0], first[:, 2, 0], second[:, 1, 0], first[:, 0, 1]])
    np.testing.assert_allclose(both.std(1), 0.1, rtol=0.03)
    np.testing.assert_allclose(np.corrcoef(both)[0], [1, 0.85, 0.85, 0], atol=0.03)
    np.testing.assert_allclose(first.mean((0, 2)), simulation.true_means("peaked", 3), atol=0.003)
    cliff = simulation.draw(case._replace(curve="cliff"), np.random.default_rng(0), 20_000)[0]
    np.testing.assert_allclose(cliff.mean((0, 2)), simulation.true_means("cliff", 3), atol=0.006)


@pytest.mark.slow
def test_command_prints_its_tables_and_writes_its_numbers(tmp_path, capsys):
    assert simulation.main(["--quick", "--out", str(tmp_path / "found.json")]) == 0
    shown = capsys.readouterr().out
    assert all(way in shown for way in simulation.WAYS) and "cliff/mild" in shown
    found = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))
    assert found["sweeps"] == 40 and {*found["cases"][0]} >= {"curve", "correlation", "best", "difference", "plateau"}
    assert simulation.main(["--sweeps", "0"]) == 2


def test_sums_of_contrasts_are_contrasts_of_sums_and_one_of_two_arms_is_their_difference():
    rng = np.random.default_rng(5)
    grids = [rates.rate_grid([1, 2, 4], rng.normal(size=(3, 8))) for _ in range(3)]
    weights = np.array([[1.0, -1, 0], [0, 1, -1], [1, 0, -1]])
    first, second, both = rates.best_contrasts(grids, weights)
    assert both.value == pytest.approx(first.value + second.value, abs=1e-12)  # rounding of sums near 1
    optimism = [rates.best_value(grid).optimism for grid in grids]
    means = [grid.values.mean(-1).max() for grid in grids]
    assert first.value == pytest.approx(means[0] - means[1] - (optimism[0] - optimism[1]), abs=0.02)  # other draws


def test_contrasts_of_arms_of_one_rate_are_paired_t_tests():
    values = np.random.default_rng(6).normal(size=(3, 10))
    weights = np.array([[2.0, -1, -1]])
    (found,) = rates.best_contrasts([rates.rate_grid([1.0], row[None]) for row in values], weights)
    tested = stats.ttest_1samp(weights[0] @ values, 0.0)
    interval = tested.confidence_interval()
    assert (found.p, *found.interval()) == pytest.approx((tested.pvalue, interval.low, interval.high))


def test_a_contrast_that_is_only_rounding_error_is_none():
    """Effects that add up have no interaction: 0, for sure, and not 1e-16 with a p of chance."""
    none, one, other = np.random.default_rng(7).normal(size=(3, 3, 8))
    arms = [rates.rate_grid([1, 2, 4], values) for values in (none, one, one - none + none, other)]
    flat = [rates.rate_grid([1], row[:1]) for row in (none, none + one, none + other, none + one + other)]
    (same,) = rates.best_contrasts(arms, np.array([[0, 1.0, -1, 0]]))
    (interaction,) = rates.best_contrasts(flat, np.array([[1.0, -1, -1, 1]]))
    assert (same.value, same.error, same.p) == (interaction.value, interaction.error, interaction.p) == (0, 0, 1)
