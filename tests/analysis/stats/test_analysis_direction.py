"""Which end of a metric is better decides what wins, what is first and what is best, or that nothing does."""

import numpy as np
import pytest
from analysis_fixtures import METRIC, write_lines, write_sweep

from rlexp.analysis.data.errors import AnalysisError
from rlexp.analysis.data.load import load
from rlexp.analysis.data.metric_spec import Budget, Target, better_direction
from rlexp.analysis.figures.gallery import draw_figures
from rlexp.analysis.report.tables import comparison_table
from rlexp.analysis.stats.answer import Question, answer

LOW, HIGH = [0.1, 0.2, 0.3, 0.4, 0.9], [0.5, 0.6, 0.3, 0.8, 0.7]  # lower on three seeds, equal on one


@pytest.fixture
def data(tmp_path):
    """Two arms whose numbers are LOW and HIGH in every metric, on two tasks and with two learning rates."""
    names = {f"norm={norm},task={task},lr={lr}": scores for norm, scores in (("high", HIGH), ("low", LOW))
             for task in ("a", "b") for lr in (1, 2)}  # fmt: skip
    folder = write_sweep(tmp_path, names, 4)
    for variant, scores in names.items():
        for seed, score in enumerate(scores):
            keys = "kl/ref_exact", "length/mean", METRIC, "progress/tokens"
            rows = [{"step": step, **dict.fromkeys(keys, score)} for step in (1, 2)]
            write_lines(folder / f"{variant},seed={seed}" / "metrics.jsonl", rows)
    return load(folder)


def low(data, **question):
    found = answer(data, Question(by=["norm"], within=["task"], **question))
    return found, found.comparisons[0], found.comparisons[0].table.loc["norm=low"]


def test_names_and_the_score_say_which_end_is_better():
    metrics = {METRIC: "higher", "eval/pass@8": "higher", "kl/ref_k3": "lower", "time/total": "lower"}
    metrics |= {f"eval/exact/{name}": "higher" for name in ("accuracy", "pass@8", "reward", "gold")}
    metrics |= dict.fromkeys(["eval/exact/entropy", "eval/exact/length_wrong"])
    metrics |= dict.fromkeys(["length/mean", "eval/length", "groups/zero_variance", "policy/entropy", "kl/old"])
    assert {metric: better_direction(metric) for metric in metrics} == metrics
    assert better_direction("length/mean", "length/mean") == "higher"


@pytest.mark.parametrize(("metric", "wins"), [(None, 1.5), ("eval/greedy_accuracy", 1.5), ("kl/ref_exact", 3.5)])
def test_a_win_is_at_the_good_end(data, metric, wins):
    found, comparison, row = low(data, metric=metric)
    assert (row["wins"], row["win_rate"], row["n_pairs"]) == (wins, wins / 5, 5)
    assert row["difference"] == pytest.approx(np.mean(LOW) - np.mean(HIGH))
    end = "lower" if metric == "kl/ref_exact" else "higher"
    assert comparison.better == end and comparison.heading.endswith(f" ({end} is better)")
    assert any(f"seeds with a {end} score" in note for note in found.notes)
    assert found.pooled.table.loc["norm=low", "wins"] == 2 * wins
    pairs = [(x < y if end == "lower" else x > y) + 0.5 * (x == y) for x in LOW for y in HIGH]
    assert found.pooled.table.loc["norm=low", "superiority"] == pytest.approx(np.mean(pairs))


def test_without_a_good_end_nothing_wins_and_no_point_is_best(data):
    found, comparison, row = low(data, metric="length/mean")
    assert comparison.better is None and comparison.heading == "length/mean"
    assert row[["wins", "win_rate", "win_low", "win_high"]].isna().all() and row["p"] < 1
    assert not [header for header in comparison_table(comparison).headers if "win" in header]
    assert any("no win rate, because whether more of it is better" in note for note in found.notes)
    assert np.isnan(found.pooled.table.loc["norm=low", "superiority"])
    with pytest.raises(AnalysisError, match="no point is best by length/mean"):
        low(data, metric="length/mean", best_of=["lr"])


def test_a_cost_is_better_low(data):
    _, comparison, row = low(data, matched=Target("kl/ref_exact", 0.0), at=Budget("tokens"))
    assert comparison.better == "lower" and row["wins"] == 3.5
    assert low(data, matched=Target("kl/ref_exact", 0.0), metric="length/mean")[1].better is None


@pytest.mark.parametrize(("metric", "order"), [(METRIC, ["b", "c"]), ("kl/ref_exact", ["c", "b"])])
def test_the_best_comes_first(tmp_path, metric, order):
    values = {"norm=a": [0.1, 0.1, 0.3], "norm=b": [0.5, 0.6, 0.7], "norm=c": [0.2, 0.3, 0.2]}
    folder = write_sweep(tmp_path, values, 4)
    for variant, each in values.items():
        for seed, value in enumerate(each):
            path = folder / f"{variant},seed={seed}" / "metrics.jsonl"
            write_lines(path, [{"step": 1, METRIC: value, "kl/ref_exact": value}])
    found = answer(load(folder), Question(metric=metric))
    (drawn,), _ = draw_figures(found, {}, {}, {}, only=["effects"])
    assert [text.get_text() for text in drawn.figure.axes[0].texts[:2]] == order
    others = 0 if metric == METRIC else 1 / 3  # of one seed alone: b is highest on all three, a lowest on two
    assert found.flips[""].loc[1, "other_first"] == pytest.approx(others)


def test_the_best_point_of_a_cost_is_the_lowest(tmp_path):
    folder = write_sweep(tmp_path, {"norm=a,lr=1": [0.1, 0.2], "norm=a,lr=2": [0.3, 0.4]}, 4)
    for path in folder.glob("*/metrics.jsonl"):
        value = 0.1 if "lr=1" in path.parent.name else 0.3
        write_lines(path, [{"step": 1, METRIC: value, "kl/ref_exact": value}])
    for metric, best in ((METRIC, "lr=2"), ("kl/ref_exact", "lr=1")):
        found = answer(load(folder), Question(metric=metric, best_of=["lr"]))
        assert any(f"default {best} " in note for note in found.notes)


def test_a_stratum_is_named_after_its_own_score(tmp_path):
    scores = {f"norm={norm},task={task}": [0.1, 0.2, 0.3] for norm in "ab" for task in "cd"}
    folder = write_sweep(tmp_path, scores, 4)
    for path in folder.glob("*task=d*/summary.json"):
        path.write_text(path.read_text().replace(METRIC, "eval/reward"))
    found = answer(load(folder), Question())
    assert [each.metric for each in found.comparisons] == [METRIC, "eval/reward"]
    assert found.pooled.metric == f"{METRIC} and eval/reward"
