"""Endpoints of learning curves: against textbook loops, scipy and scikit-learn's isotonic rule, and by simulation."""

import json
from pathlib import Path

import numpy as np
import pytest
from analysis_fixtures import METRIC, write_lines, write_sweep
from scipy.integrate import trapezoid
from scipy.optimize import curve_fit, isotonic_regression
from study_sweeps import change_summary, write_curve

from benchmarks import endpoints as benchmark
from rlexp.analysis import load
from rlexp.analysis.data.errors import AnalysisError, NothingLeft
from rlexp.analysis.data.run_values import late_means, saturation, values_per_run
from rlexp.analysis.stats import endpoints
from rlexp.analysis.stats.comparison import compare
from rlexp.analysis.stats.curve_fits import Forecast, check_forecast, fit_curve, fit_sigmoid, pool_forecasts
from rlexp.analysis.stats.curve_numbers import area_under_curve, cost_to_target, crossing, final_value, value_at_match
from rlexp.analysis.stats.endpoints import (
    DOUBTED,
    NEVER,
    SHORT,
    Endpoint,
    endpoint_table,
    endpoint_values,
    parse_endpoint,
)
from rlexp.analysis.stats.speed_up import speed_up, speed_ups

X = np.arange(0.0, 101.0, 5.0)


def exponential(x, start=0.1, asymptote=0.9, half=15.0):
    return start + (asymptote - start) * (1 - 2.0 ** (-x / half))


def sigmoid(x, start=0.2, asymptote=0.8, mid=20.0, steepness=1.5):
    with np.errstate(divide="ignore"):
        return start + (asymptote - start) / (1 + (mid / x) ** steepness)


# --- the grammar ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "endpoint"),
    [
        ("final", Endpoint()),
        ("auc", Endpoint("auc")),
        ("auc:completions", Endpoint("auc", "completions")),
        ("auc:tokens=5000", Endpoint("auc", "tokens", 5000.0)),
        (
            "cost:eval/greedy_accuracy>=0.8:completions",
            Endpoint("cost", "completions", metric="eval/greedy_accuracy", value=0.8),
        ),
        ("cost:kl/ref_k3<=0.1", Endpoint("cost", metric="kl/ref_k3", value=0.1, below=True)),
        ("cost:eval/pass@8>=-1.5:seconds=60", Endpoint("cost", "seconds", 60.0, "eval/pass@8", -1.5)),
        ("asymptote", Endpoint("asymptote")),
        ("asymptote:sigmoid", Endpoint("asymptote", form="sigmoid")),
        ("speed:sigmoid:tokens", Endpoint("speed", "tokens", form="sigmoid")),
        ("matched:kl=0.5", Endpoint("matched", metric="kl", value=0.5)),
    ],
)
def test_an_endpoint_is_read_and_written_the_same(text, endpoint):
    assert parse_endpoint(text) == endpoint and str(endpoint) == text
    assert (
        parse_endpoint(str(endpoint._replace(value=0.1 + 0.2) if endpoint.metric else endpoint)).kind == endpoint.kind
    )


def test_what_is_understood_may_be_said():
    assert parse_endpoint("asymptote:exponential:steps") == Endpoint("asymptote")
    third = Endpoint("matched", metric="kl", value=1 / 3)
    assert parse_endpoint(str(third)) == third


@pytest.mark.parametrize(
    "text",
    [
        *("", "best", "final:tokens", "auc:rollouts", "auc:tokens=", "auc:tokens=x", "auc:tokens=-1", "auc:tokens=0"),
        *("auc:tokens=inf", "auc:sigmoid", "auc:tokens:tokens", "cost", "cost:0.8", "cost:accuracy", "cost:>=0.8"),
        *("cost:accuracy=0.8", "cost:accuracy>0.8", "cost:accuracy>=high", "cost:accuracy>=nan", "matched"),
        *("matched:kl>=0.5", "matched:kl=0.5:tokens", "asymptote:tokens=5", "asymptote:logistic", "speed:sigmoid:x"),
    ],
)
def test_anything_else_is_refused_in_a_line_that_lists_what_is_allowed(text):
    with pytest.raises(AnalysisError) as error:
        parse_endpoint(text)
    line = str(error.value)
    assert line.startswith(f"'{text}' is no endpoint; allowed: final  auc") and "\n" not in line
    assert all(kind in line for kind in (*endpoints.KINDS, *endpoints.FORMS, *endpoints.UNITS))


# --- final, area ------------------------------------------------------------------------------------------------------


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


# --- costs ------------------------------------------------------------------------------------------------------------


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


# --- fits -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("mid", "steepness"), [(5.0, 1.0), (15.0, 2.5), (40.0, 3.0), (20.0, 0.9)])
def test_a_sigmoid_without_noise_is_found_again(mid, steepness):
    x = np.linspace(0, 100, 41)
    fit = fit_sigmoid(x, sigmoid(x, mid=mid, steepness=steepness), 1)
    np.testing.assert_allclose(fit[1:5], [0.2, 0.8, mid, steepness], rtol=1e-4)  # least_squares stops at 1e-8
    np.testing.assert_allclose(fit.predict(x), sigmoid(x, mid=mid, steepness=steepness), atol=1e-6)
    falling = fit_sigmoid(x, -sigmoid(x, mid=mid, steepness=steepness), -1)
    assert falling.asymptote == pytest.approx(-0.8, rel=1e-4) and not falling.missing


def test_with_noise_it_is_as_near_as_least_squares_and_one_wild_value_moves_it_less():
    """scipy's plain fit from the truth; a tenth of the SD of an asymptote over seeds (0.02) is as good as the same."""
    x, rng = np.linspace(0, 100, 41), np.random.default_rng(4)
    ours, plain, robust, moved = [], [], [], []
    for _ in range(30):
        values = sigmoid(x) + 0.02 * rng.normal(size=x.size)
        best, _ = curve_fit(sigmoid, x, values, (0.2, 0.8, 20.0, 1.5))
        ours.append(fit_sigmoid(x, values).asymptote)
        plain.append(best[1])
        values[35] = 0.0
        robust.append(fit_sigmoid(x, values).asymptote)
        moved.append(curve_fit(sigmoid, x, values, (0.2, 0.8, 20.0, 1.5), maxfev=20_000)[0][1])
    assert np.mean(ours) == pytest.approx(0.8, abs=0.01) and np.std(ours) < 1.3 * np.std(plain)
    assert np.abs(np.subtract(robust, ours)).mean() < 0.3 * np.abs(np.subtract(moved, plain)).mean()


@pytest.mark.parametrize(
    ("values", "missing"),
    [
        (sigmoid(X)[:7], "too few evaluations"),
        (sigmoid(X, mid=300.0), "too far from its asymptote"),
        (0.5 + 0.05 * np.random.default_rng(5).normal(size=X.size), "no rise"),
        (np.full(X.size, 0.5), "no rise"),
        (-sigmoid(X), "no rise"),
    ],
)
def test_a_sigmoid_that_does_not_tell_says_why(values, missing):
    assert fit_sigmoid(X[: values.size], values, 1).missing == missing


def test_an_exponential_is_that_of_the_curve_metrics():
    values = exponential(X) + 0.02 * np.random.default_rng(6).normal(size=X.size)
    fit, known = fit_curve(X, values, "exponential", 1), saturation(X, values, 1)
    assert (fit.start, fit.asymptote, fit.half, fit.missing) == tuple(known)
    np.testing.assert_allclose(fit.predict(X), exponential(X, known.start, known.asymptote, known.half), rtol=1e-12)


def test_a_fit_is_believed_where_it_foretells_better_than_the_last_value():
    fine = np.linspace(0, 100, 41)
    rising = check_forecast(fine, exponential(fine, half=20.0), "exponential")
    assert rising.believed and rising.error < 0.01 < rising.carried
    for form in endpoints.FORMS:
        broken = np.where(fine <= 50, exponential(fine, half=10.0), 0.75)  # it comes down after what is fitted
        found = check_forecast(fine, broken + 0.2 * (fine <= 50) * (fine > 30) * (fine - 30) / 20, form)
        assert not found.believed, form
    assert not check_forecast(X[:5], exponential(X[:5])).believed
    assert not check_forecast(X, np.full(X.size, np.nan)).believed
    with pytest.raises(AnalysisError, match="above 0 and below 1, and not 1"):
        check_forecast(X, exponential(X), share=1.0)


# --- speed-up ---------------------------------------------------------------------------------------------------------


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


# --- of a sweep -------------------------------------------------------------------------------------------------------


@pytest.fixture
def sweep(tmp_path):
    """Three seeds of two arms, 64 completions and 10 tokens a step; `b` is twice as fast, and its seed 2 stays low."""
    folder = write_sweep(tmp_path / "sweep", {"norm=a": [0.9] * 3, "norm=b": [0.9] * 3}, steps=10)
    for norm, half in (("a", 20.0), ("b", 10.0)):
        for seed in range(3):
            top = 0.4 if (norm, seed) == ("b", 2) else 0.9
            values = exponential(X, asymptote=top, half=half)
            write_curve(folder / f"norm={norm},seed={seed}", X, values, tokens=10, completions=64)
    return folder


def of(table, arm):
    return table.loc[table["variant"] == arm, "value"].to_numpy()


def test_final_is_the_score_or_a_late_mean(sweep):
    data = load(sweep)
    assert endpoint_values(data, Endpoint()).values.equals(values_per_run(data).values)
    table = endpoint_table(data, Endpoint(), METRIC)
    assert table["value"].equals(values_per_run(data, METRIC).values.reindex(table.index).rename("value"))
    for name, group in data.metrics.groupby("name"):
        assert late_means(data, METRIC)[name] == pytest.approx(final_value(group[METRIC], data.score_share), abs=1e-15)


def test_an_area_is_over_the_declared_budget(sweep):
    data = load(sweep)
    found = endpoint_values(data, parse_endpoint("auc:completions=3200"))
    expected = trapezoid(exponential(X[:11], half=20.0), X[:11]) / 50
    assert found.values["norm=a,seed=0"] == pytest.approx(expected) and found.better == "higher"
    assert found.remarks == ["Up to 3,200 completions, as declared."]
    write_curve(sweep / "norm=a,seed=1", X[:9], exponential(X[:9]), tokens=10, completions=64)
    short = endpoint_values(load(sweep), parse_endpoint("auc:completions=3200"))
    assert short.remarks[1] == f"Without a value ({SHORT}): a 1."
    whole = endpoint_values(load(sweep), parse_endpoint("auc:tokens"))
    assert whole.remarks == ["Up to 400 tokens, as far as every completed run has come."] and whole.values.notna().all()


def test_a_cost_has_all_seeds_and_goes_into_a_comparison(sweep):
    data = load(sweep)
    found = endpoint_values(data, parse_endpoint("cost:accuracy>=0.7:tokens"))
    arrived = 1000 * np.log2(4) * 0.2 * np.array([1, 0.5])
    assert found.values["norm=a,seed=0"] == pytest.approx(arrived[0], rel=0.01)
    assert found.values["norm=b,seed=0"] == pytest.approx(arrived[1], rel=0.03)
    assert found.values["norm=b,seed=2"] == 1000 and found.better == "lower" and not found.ranked
    assert found.remarks[1].startswith("Arrived: a 3/3, b 2/3. The others count with the budget")
    table = endpoint_table(data, parse_endpoint("cost:accuracy>=0.7:tokens"))
    assert table.loc["norm=b,seed=2", "note"] == NEVER and (table["note"] == "").sum() == 5
    comparison = compare(data, run_values=found)
    row = comparison.table.loc["norm=b"]
    differences = found.values.to_numpy()[3:] - found.values.to_numpy()[:3]
    assert row["n_pairs"] == 3 and row["difference"] == pytest.approx(differences.mean())


def test_a_run_that_diverged_never_arrives_and_one_that_was_stopped_early_is_not_known(sweep):
    change_summary(sweep / "norm=a,seed=1", status="diverged", score=None)
    change_summary(sweep / "norm=b,seed=1", status="failed", score=None)
    for name in ("norm=a,seed=1", "norm=a,seed=0"):
        write_curve(sweep / name, X[:3], exponential(X[:3], half=20.0), tokens=10)
    jobs = [json.loads(line) for line in (sweep / "jobs.jsonl").read_text().splitlines()]
    jobs[1]["status"], jobs[4]["status"] = "diverged", "failed"
    write_lines(sweep / "jobs.jsonl", jobs)
    table = endpoint_table(load(sweep), parse_endpoint("cost:accuracy>=0.7:tokens=1000"))
    assert table.loc["norm=a,seed=1", ["value", "note"]].tolist() == [1000, NEVER]
    assert np.isnan(table.loc["norm=a,seed=0", "value"]) and table.loc["norm=a,seed=0", "note"] == SHORT
    assert "norm=b,seed=1" not in table.index


def test_a_matched_value_has_its_missing_seeds_named(tmp_path):
    folder = write_sweep(tmp_path / "sweep", {"norm=a": [0.9] * 2, "norm=b": [0.9] * 2}, steps=10)
    for place, path in enumerate(sorted(folder.glob("*/metrics.jsonl"))):
        slope = 0.01 if place < 3 else 0.002
        rows = [{"step": int(x), METRIC: float(x / 100), "kl/ref_k3": slope * float(x)} for x in X]
        write_lines(path, rows)
    found = endpoint_values(load(folder), parse_endpoint("matched:kl=0.52"))
    assert found.values.iloc[:3].to_numpy() == pytest.approx([0.52] * 3) and np.isnan(found.values.iloc[3])
    assert found.remarks == [f"Without a value ({NEVER}): b 1."] and found.better == "higher"
    with pytest.raises(NothingLeft, match="no run has matched:kl=9: 4 never reached"):
        endpoint_values(load(folder), parse_endpoint("matched:kl=9"))


@pytest.mark.parametrize("form", endpoints.FORMS)
def test_fitted_curves_over_any_budget(sweep, form):
    data = load(sweep)
    asymptote = endpoint_values(data, parse_endpoint(f"asymptote:{form}:tokens"))
    speed = endpoint_values(data, parse_endpoint(f"speed:{form}:tokens"))
    tolerance = 1e-3 if form == "exponential" else 0.1  # a sigmoid through an exponential ends higher
    assert asymptote.values["norm=b,seed=0"] == pytest.approx(0.9, abs=tolerance)
    assert asymptote.values["norm=b,seed=2"] == pytest.approx(0.4, abs=tolerance)
    assert speed.values["norm=b,seed=0"] - speed.values["norm=a,seed=0"] == pytest.approx(1, abs=2 * tolerance)
    if form == "exponential":
        steps = endpoint_values(data, parse_endpoint("asymptote"))
        np.testing.assert_allclose(steps.values, values_per_run(data, "curve/asymptote").values[steps.values.index])


def test_fits_that_foretell_worse_are_kept_and_their_arm_is_marked(sweep):
    late = np.where(X <= 50, exponential(X, 0.1, 0.8, 20.0), exponential(X - 40, 0.5, 0.7, 5.0))  # it stops at 0.7
    for seed in range(3):
        write_curve(sweep / f"norm=a,seed={seed}", X, late, tokens=10)
    table, found = (make(load(sweep), parse_endpoint("asymptote")) for make in (endpoint_table, endpoint_values))
    assert table["note"].tolist() == [DOUBTED] * 3 + [""] * 3
    assert table["value"].iloc[:3].between(0.65, 0.75).all() and f"Kept ({DOUBTED}): a 3." in found.remarks


def test_the_check_of_an_arm_pools_its_runs():
    good, bad, none = Forecast(3.0, 4.0, True), Forecast(4.0, 3.0, False), Forecast(np.nan, 1.0, False)
    assert pool_forecasts([good, good, bad]).believed and not pool_forecasts([good, bad, bad]).believed
    assert pool_forecasts([good, bad]) == (pytest.approx(np.sqrt(12.5)),) * 2 + (True,)
    assert pool_forecasts([good, none]).believed and not pool_forecasts([good, none, none]).believed
    assert not pool_forecasts([]).believed


def test_speed_ups_of_a_sweep(sweep):
    change = speed_ups(load(sweep), "norm=a", "tokens")
    assert list(change) == ["norm=b"]
    (sweep / "norm=b,seed=2" / "metrics.jsonl").unlink()
    (found,) = speed_ups(load(sweep), "norm=a", "tokens").values()
    assert found.ratio == pytest.approx(2, rel=0.05) and found.reached == 1
    with pytest.raises(AnalysisError, match="'norm=z' is not a variant; choose one of: norm=a  norm=b"):
        speed_ups(load(sweep), "norm=z")
    with pytest.raises(AnalysisError, match="'rollouts' is no unit"):
        speed_ups(load(sweep), "norm=a", "rollouts")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("auc:completions=1e9", "no completed run has come to 1e\\+09 completions; the most is 6,400"),
        ("auc:seconds", "no run logged 'time/total'"),
        ("cost:reward>=1", "no run logged 'reward'"),
    ],
)
def test_an_endpoint_that_no_run_has_is_refused(sweep, text, line):
    with pytest.raises(AnalysisError, match=line):
        endpoint_values(load(sweep), parse_endpoint(text))


def test_curves_of_two_lengths_are_refused():
    with pytest.raises(AnalysisError, match="not \\[n\\] and \\[n\\]"):
        area_under_curve(X, X[:3], 10.0)


# --- the simulation ---------------------------------------------------------------------------------------------------


def test_what_is_true_of_simulated_curves_is_what_endpoints_say_without_noise():
    """But for lines between 41 evaluations: 0.5 of a cost of 100, 0.01 of the others; a fit of its own form: 1e-3."""
    rng = np.random.default_rng(0)
    runs = benchmark.arm(rng, rng.normal(size=(20, 3)), "exponential", 1.0, 0.0, 0.0)
    tolerances = {"cost": 0.5, "asymptote:exponential": 2e-3, "speed:exponential": 0.02}
    for name in ("final", "auc", "cost", "matched", "asymptote:exponential", "speed:exponential"):
        values = [benchmark.ENDPOINTS[name](benchmark.X, *run) for run in zip(runs.seen, runs.seen_kl, strict=True)]
        np.testing.assert_allclose(values, benchmark.true_values(name, runs), atol=tolerances.get(name, 0.01))


@pytest.mark.slow
def test_the_benchmark_prints_and_writes_its_numbers(tmp_path, capsys):
    assert benchmark.main(["--quick", "--out", str(tmp_path / "found.json")]) == 0
    out, found = capsys.readouterr().out, json.loads((tmp_path / "found.json").read_text())
    assert "speed-up" in out and len(found["rows"]) == 6 * 3 * (len(benchmark.ENDPOINTS) + 1)
    assert benchmark.main(["--runs", "1"]) == 2


def test_the_stored_numbers_hold_what_the_page_says():
    """Scores, areas, matched values and right fits cover .90 to .98; noise shortens no cost but that by first ones.

    The 400 seeds that sweeps are drawn from miss their own truth by a fifth of the standard error of 20 seeds: three
    points of coverage at two standard errors, beside two of the 1,000 sweeps.
    """
    folder = Path(__file__).parents[3] / "docs" / "statistics"
    rows = json.loads((folder / "endpoints.json").read_text(encoding="utf-8"))["rows"]
    for row in rows:
        kind, _, form = row["endpoint"].partition(":")
        if kind in ("final", "auc", "matched") or form == row["truth"]:
            assert 0.9 <= row["coverage"] <= 0.98, row
        if kind.startswith("cost") and row["case"] == "noisier":
            assert row["bias"] < -4 if "first" in kind else 0 <= row["bias"] < 6, row
