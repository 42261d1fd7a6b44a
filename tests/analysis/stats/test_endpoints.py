"""Endpoints: the grammar, the values of a sweep, and the simulation of their errors."""

import json
from pathlib import Path

import numpy as np
import pytest
from analysis_fixtures import METRIC, write_lines, write_sweep
from learning_curves import X, exponential
from scipy.integrate import trapezoid
from study_sweeps import change_summary, write_curve

from benchmarks import endpoints as benchmark
from rlexp.analysis import load
from rlexp.analysis.data.errors import AnalysisError, NothingLeft
from rlexp.analysis.data.run_values import late_means, values_per_run
from rlexp.analysis.stats import endpoints
from rlexp.analysis.stats.comparison import compare
from rlexp.analysis.stats.curve_fits import Forecast, pool_forecasts
from rlexp.analysis.stats.curve_numbers import area_under_curve, final_value
from rlexp.analysis.stats.endpoints import (
    DOUBTED,
    NEVER,
    SHORT,
    Endpoint,
    endpoint_table,
    endpoint_values,
    parse_endpoint,
)
from rlexp.analysis.stats.speed_up import speed_ups


@pytest.mark.parametrize(
    ("text", "endpoint"),
    [
        ("final", Endpoint()),
        ("final:completions", Endpoint("final", "completions")),
        ("final:tokens=5000", Endpoint("final", "tokens", 5000.0)),
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


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("cost:eval/greedy_accuracy>=0.8:completions", "completions to eval/greedy_accuracy ≥ 0.8"),
        ("cost:kl/ref_k3<=0.1", "steps to kl/ref_k3 ≤ 0.1"),
        ("auc:tokens", "eval/reward, auc:tokens"),
    ],
)
def test_a_cost_is_said_in_words(text, label):
    assert parse_endpoint(text).label("eval/reward, auc:tokens") == label


def test_what_is_understood_may_be_said():
    assert parse_endpoint("asymptote:exponential:steps") == Endpoint("asymptote")
    third = Endpoint("matched", metric="kl", value=1 / 3)
    assert parse_endpoint(str(third)) == third


@pytest.mark.parametrize(
    "text",
    [
        *("", "best", "final:rollouts", "auc:rollouts", "auc:tokens=", "auc:tokens=x", "auc:tokens=-1", "auc:tokens=0"),
        *("auc:tokens=inf", "auc:sigmoid", "auc:tokens:tokens", "cost", "cost:0.8", "cost:accuracy", "cost:>=0.8"),
        *("cost:accuracy=0.8", "cost:accuracy>0.8", "cost:accuracy>=high", "cost:accuracy>=nan", "matched"),
        *("matched:kl>=0.5", "matched:kl=0.5:tokens", "asymptote:tokens=5", "asymptote:logistic", "speed:sigmoid:x"),
    ],
)
def test_anything_else_is_refused_in_a_line_that_lists_what_is_allowed(text):
    with pytest.raises(AnalysisError) as error:
        parse_endpoint(text)
    line = str(error.value)
    assert line.startswith(f"'{text}' is no endpoint; allowed: final[:BUDGET]  auc") and "\n" not in line
    assert all(kind in line for kind in (*endpoints.KINDS, *endpoints.FORMS, *endpoints.UNITS))


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


def test_a_final_value_may_be_that_at_an_equal_budget(sweep):
    """The mean height from nine tenths of the budget to all of it, 45 and 50 steps, between evaluations too."""
    data = load(sweep)
    found = endpoint_values(data, parse_endpoint("final:completions=3200"))
    line = np.linspace(45, 50, 5001)
    heights = np.interp(line, X, exponential(X, half=20.0))
    assert found.values["norm=a,seed=0"] == pytest.approx(trapezoid(heights, line) / 5, abs=1e-9)  # corners are on it
    assert found.better == "higher" and found.remarks == ["Up to 3,200 completions, as declared."]
    write_curve(sweep / "norm=a,seed=1", X[:9], exponential(X[:9]), tokens=10, completions=64)
    short = endpoint_values(load(sweep), parse_endpoint("final:completions=3200"))
    assert short.remarks[1] == f"Without a value ({SHORT}): a 1." and short.values.isna().sum() == 1
    common = endpoint_table(load(sweep), parse_endpoint("final:completions"))
    assert common.attrs["budget"] == 64 * X[8] and common["value"].notna().all()


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
