"""Equal budgets, matched targets, best points of grids and rankings, against the numbers written."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from analysis_fixtures import CLIPS, METRIC, NORMS, normal_scores, runs_of, square, two_axes, write_lines, write_sweep  # noqa: F401 (fixtures)

from rlexp.analysis import load
from rlexp.analysis.data.run_values import Budget, Target, late_means, resolve_metric, values_per_run
from rlexp.analysis.stats.answer import Question, answer
from rlexp.analysis.stats.secondary import ranking_flips

CLOSE = {"rtol": 1e-10, "atol": 1e-12}


# ---- equal budgets and matched accuracy


def write_costs(folder, variant, seeds, tokens, values):
    """Evaluations at steps 1, 2, … with these tokens spent and these accuracies."""
    for path in runs_of(folder, variant, seeds):
        rows = zip(tokens, values, strict=True)
        lines = [
            {"step": step, "progress/tokens": spent, METRIC: value, "eval/length": 10.0 * step}
            for step, (spent, value) in enumerate(rows, 1)
        ]
        write_lines(path / "metrics.jsonl", lines)


@pytest.fixture
def costs(tmp_path):
    folder = write_sweep(tmp_path, normal_scores(["norm=local", "norm=hybrid"], 3), 4)
    write_costs(folder, "norm=local", range(3), [10, 20, 30, 40], [0.1, 0.2, 0.6, 0.9])
    write_costs(folder, "norm=hybrid", [0, 1], [50, 100, 150, 200], [0.3, 0.7, 0.8, 0.9])
    write_costs(folder, "norm=hybrid", [2], [50, 100, 150, 200], [0.3, 0.4, 0.5, 0.5])
    (folder / "norm=local,seed=0/config.yaml").write_text("score: {share: 0.5}\n")
    return folder


def values_of(data, **choices):
    measured = values_per_run(data, **choices)
    names = data.runs.set_index("name")["variant"]
    return {v: measured.values.reindex(names.index[names == v]).tolist() for v in data.variants}, measured


def test_an_equal_budget_cuts_every_run_where_the_cheapest_ended(costs):
    values, measured = values_of(load(costs), at=Budget("tokens"))
    assert values["norm=local"] == [0.75, 0.75, 0.75]  # the last half of four rows
    assert np.isnan(values["norm=hybrid"]).all() and "up to 40 tokens" in measured.remarks[0]
    values, _ = values_of(load(costs), at=Budget("steps", 3))
    np.testing.assert_allclose(values["norm=local"], 0.4)  # the last two of three rows
    np.testing.assert_allclose(values["norm=hybrid"], [0.75, 0.75, 0.45])


def test_a_run_that_spent_less_than_asked_is_left_out_and_named(costs):
    values, measured = values_of(load(costs), at=Budget("tokens", 100))
    assert np.isnan(values["norm=local"]).all()
    np.testing.assert_allclose(values["norm=hybrid"], [0.7, 0.7, 0.4])  # the last half of two rows is one
    assert "norm=local,seed=0, norm=local,seed=1, norm=local,seed=2" in measured.remarks[1]


def test_equal_updates_are_counted_from_each_configuration(costs):
    for path in costs.glob("norm=*"):
        passes = 2 if "hybrid" in path.name else 1
        (path / "config.yaml").write_text(f"score: {{share: 0.1}}\ninner_steps: {passes}\nminibatches: 1\n")
    values, measured = values_of(load(costs), at=Budget("updates"))
    assert values == {"norm=local": [0.9] * 3, "norm=hybrid": [0.7, 0.7, 0.4]} and "4 updates" in measured.remarks[0]


def test_at_the_same_end_an_equal_budget_is_the_score(two_axes):
    at_end = values_per_run(two_axes, at=Budget("rollouts")).values
    np.testing.assert_allclose(at_end, late_means(two_axes, METRIC).reindex(at_end.index), **CLOSE)


def test_a_matched_target_costs_what_was_spent_when_first_met(costs):
    values, measured = values_of(load(costs), matched=Target("accuracy", 0.6), at=Budget("tokens"))
    assert values["norm=local"] == [30, 30, 30] and values["norm=hybrid"] == [100, 100, np.inf]
    assert measured.remarks == ["Never reached it, and count as worse than any that did: hybrid 1."]
    assert measured.metric == f"tokens at {METRIC} ≥ 0.6"
    assert values_of(load(costs), matched=Target("accuracy", 0.6))[0]["norm=local"] == [3, 3, 3]
    values, measured = values_of(load(costs), matched=Target(METRIC, 0.7), metric="length")
    assert values["norm=local"] == [40, 40, 40] and values["norm=hybrid"][:2] == [20, 20]
    assert np.isnan(values["norm=hybrid"][2]) and "Left out, as they never reached it" in measured.remarks[0]
    found = answer(load(costs), Question(matched=Target("accuracy", 0.6), at=Budget("tokens")))
    assert found.comparisons[0].table.loc["norm=hybrid", ["n_pairs", "difference"]].tolist() == [3, 70]


def test_a_short_name_is_the_scores_metric_or_the_only_one(two_axes):
    short = {"accuracy": METRIC, "greedy": METRIC, METRIC: METRIC, "eval/reward": "eval/reward"}
    short |= {"tokens": "progress/tokens", "total": "time/total", "mean": "reward/mean", "reward": "eval/reward"}
    assert {name: resolve_metric(two_axes, name) for name in short} == short


# ---- grids


def test_the_best_point_is_chosen_on_other_seeds_than_those_reported(tmp_path):
    scores = {
        "norm=a,lr=1e-4": [0.1, 0.1, 0.9, 0.9],
        "norm=a,lr=1e-3": [0.5, 0.5, 0.2, 0.3],  # best on the first two seeds, worst on the others
        "norm=a,lr=1e-2": [0.2, 0.2, 0.9, 0.9],
        "norm=b,lr=1e-3": [0.3, 0.3, 0.3, 0.4],
        "norm=b,lr=1e-2": [0.6, 0.6, 0.5, 0.6],
    }
    data = load(write_sweep(tmp_path, scores, 4))
    found = answer(data, Question(best_of=["lr"]))
    assert found.comparisons[0].scores.to_dict("list") == {"norm=a": [0.2, 0.3], "norm=b": [0.5, 0.6]}
    (note,) = [note for note in found.notes if note.startswith("Each arm has the best point of lr")]
    assert "a lr=1e-3 (of 3), b lr=1e-2 (of 2, at the edge of its grid)" in note
    assert found.notes[0].endswith("It takes 6 seeds, or 11 with those that choose the best points.")
    other = answer(data, Question(best_of=["lr"], choose_seeds=[2])).comparisons[0]
    assert other.scores["norm=a"].tolist() == [0.1, 0.1, 0.9] and other.scores.index.tolist() == [0, 1, 3]


def test_the_point_is_chosen_by_the_seeds_that_choose_and_no_others(tmp_path):
    """What the reported runs spent has no say in where equal budgets end for those that choose."""
    folder = write_sweep(tmp_path, normal_scores(["norm=a,lr=1", "norm=a,lr=2"], 4), 4)
    for lr, values in (("1", [0.5, 0.5, 0.5, 0.5]), ("2", [0.1, 0.1, 0.1, 0.9])):
        write_costs(folder, f"norm=a,lr={lr}", [0, 1], [10, 20, 30, 40], values)
        write_costs(folder, f"norm=a,lr={lr}", [2, 3], [5, 10, 15, 20], values)
    found = answer(load(folder), Question(best_of=["lr"], at=Budget("tokens")))
    assert found.comparisons[0].scores["default"].tolist() == [0.9, 0.9]
    assert any("up to 20 tokens" in note for note in found.notes)


def test_an_arm_that_never_reaches_its_target_has_its_best_point_by_the_score(tmp_path):
    scores = {f"norm={norm},lr={lr}": [0.1 * lr] * 4 for norm in "ab" for lr in (1, 2)}
    folder = write_sweep(tmp_path, scores, 4)
    for path in folder.glob("norm=a,lr=1,*"):
        write_lines(path / "metrics.jsonl", [{"step": 3, METRIC: 0.9}])
    found = answer(load(folder), Question(best_of=["lr"], matched=Target(METRIC, 0.8)))
    assert found.comparisons[0].scores.to_dict("list") == {"norm=a": [3, 3], "norm=b": [np.inf] * 2}
    assert any("a lr=1 (of 2, at the edge of its grid), b lr=2 (of 2" in note for note in found.notes)


def test_a_point_at_which_runs_failed_is_not_the_best(tmp_path):
    scores = {"norm=a,lr=1": [0.9, 0.9, 0.9, 0.9], "norm=a,lr=2": [0.5, 0.5, 0.5, 0.5]}
    folder = write_sweep(tmp_path, scores, 4)
    (folder / "norm=a,lr=1,seed=0/summary.json").unlink()
    assert answer(load(folder), Question(best_of=["lr"])).comparisons[0].scores["default"].tolist() == [0.5, 0.5]


# ---- rankings


def test_rankings_with_fewer_seeds_are_those_of_all_subsets():
    scores = np.random.default_rng(4).normal(size=(6, 3)) + [0, 0.3, 0.4]
    flips = ranking_flips(pd.DataFrame(scores, columns=list("abc")))
    whole = scores.mean(0)
    for k in range(1, 6):
        other, swapped = [], []
        for subset in combinations(range(6), k):
            means = scores[list(subset)].mean(0)
            other.append(means.argmax() != whole.argmax())
            swapped += [(means[i] < means[j]) != (whole[i] < whole[j]) for i, j in combinations(range(3), 2)]
        np.testing.assert_allclose(flips.loc[k], [np.mean(other), np.mean(swapped)], **CLOSE)
    assert flips.loc[1, "other_first"] > 0


def test_rankings_use_only_seeds_that_all_variants_have_and_are_empty_for_one():
    scores = pd.DataFrame({"a": [1.0, 2, 3, np.nan], "b": [2.0, 3, 4, 0], "c": [np.nan] * 4})
    assert ranking_flips(scores).to_numpy().tolist() == [[0, 0], [0, 0]]
    assert ranking_flips(scores[["a"]]).empty and ranking_flips(scores[["c"]]).empty
    many = pd.DataFrame(np.random.default_rng(0).normal(size=(20, 2)))
    pd.testing.assert_frame_equal(ranking_flips(many), ranking_flips(many))
