"""Questions beyond "every variant against the first": each answer against plain loops over the numbers written."""

import json
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from analysis_fixtures import METRIC, write_lines, write_sweep
from scipy import stats
from statsmodels.stats.multitest import multipletests

from analysis import load
from analysis.answer import Question, answer
from analysis.comparison import compare
from analysis.crossed import crossed, interactions, pivot
from analysis.measure import Budget, Target, full_name, late_means, measure
from analysis.ranking import ranking_flips
from analysis.read import AnalysisError

CLOSE = {"rtol": 1e-10, "atol": 1e-12}
NORMS, CLIPS = ("local", "hybrid", "global"), ("symmetric", "higher")


def random(names, n, seed=0):
    rng = np.random.default_rng(seed)
    return {name: (0.5 + 0.1 * rng.normal(size=n)).tolist() for name in names}


@pytest.fixture
def square():
    return random([f"norm={norm},clip={clip}" for norm in NORMS for clip in CLIPS], 6)


@pytest.fixture
def two_axes(tmp_path, square):
    return load(write_sweep(tmp_path / "square", square, steps=10))


def runs_of(folder, variant, seeds):
    return [folder / f"{variant},seed={seed}" for seed in seeds]


# ---- which runs


def test_where_keeps_what_meets_every_condition(two_axes):
    found = answer(two_axes, Question(where=["norm=local,hybrid", "clip=higher", "seed=0,3,4"]))
    assert found.data.variants == ["norm=local,clip=higher", "norm=hybrid,clip=higher"]
    assert found.comparisons[0].scores.index.tolist() == [0, 3, 4] and found.data.axes == ("norm",)
    assert set(found.data.metrics["name"]) == set(found.data.runs["name"]) and len(found.data.runs) == 6


def test_where_reads_numbers_as_numbers_and_what_is_not_named_as_default(tmp_path):
    data = load(write_sweep(tmp_path, {"lr=1e-3": [0.1], "lr=0.01": [0.2], "norm=a": [0.3]}, 4))
    assert answer(data, Question(where=["lr=0.001"])).data.variants == ["lr=1e-3"]
    assert answer(data, Question(where=["lr=default"])).data.variants == ["norm=a"]


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"where": ["norm=nothing"]}, "no run has norm=nothing; choose from: local  hybrid  global"),
        ({"where": ["agg=token"]}, "'agg=token' is no condition; write axis=value,value with one of: norm  clip"),
        ({"where": ["norm"]}, "'norm' is no condition"),
        ({"where": ["norm=local", "norm=hybrid"]}, "no run meets norm=local and norm=hybrid"),
        ({"by": ["agg"]}, "'agg' does not vary in these runs; what varies: norm  clip"),
        ({"metric": "progress"}, "'progress' fits several metrics; choose one of: progress/completions  progress/tok"),
        ({"at": Budget("tokens", 1e9), "metric": "nothing"}, "no run logged 'nothing'"),
        ({"best_of": ["clip"], "choose_seeds": [7]}, "needs seeds to be chosen on"),
        ({"best_of": ["clip"], "choose_seeds": range(6)}, "needs seeds to be chosen on"),
        ({"matched": Target(METRIC, 0.1), "metric": "eval/reward", "at": Budget("tokens")}, "not for both"),
    ],
)
def test_a_question_without_an_answer_is_one_line(two_axes, choices, message):
    with pytest.raises(AnalysisError) as error:
        answer(two_axes, Question(**choices))
    assert message in str(error.value) and "\n" not in str(error.value)


# ---- arms and cells


def test_arms_are_averaged_over_the_other_axes_per_seed(two_axes, square):
    table = answer(two_axes, Question(by=["norm"])).comparisons[0].table
    mean = {norm: np.mean([square[f"norm={norm},clip={clip}"] for clip in CLIPS], axis=0) for norm in NORMS}
    for norm in NORMS[1:]:
        differences = mean[norm] - mean["local"]
        expected = stats.ttest_1samp(differences, 0).confidence_interval()
        row = table.loc[f"norm={norm}"]
        np.testing.assert_allclose(row["difference"], differences.mean(), **CLOSE)
        np.testing.assert_allclose(row[["difference_low", "difference_high"]].tolist(), expected, **CLOSE)
        assert (row["n"], row["n_pairs"], row["runs"]) == (6, 6, 12)


@pytest.mark.parametrize("status", ["diverged", None])
def test_a_seed_without_all_cells_is_not_averaged(tmp_path, square, status):
    folder = write_sweep(tmp_path, square, 10)
    (path,) = runs_of(folder, "norm=hybrid,clip=higher", [2])
    summary = json.loads((path / "summary.json").read_text())
    (path / "summary.json").write_text(json.dumps(summary | {"status": status}) if status else "{")
    scores = answer(load(folder), Question(by=["norm"])).comparisons[0].scores
    assert scores["norm=hybrid"].isna().tolist() == [False, False, True, False, False, False]
    assert scores["norm=local"].notna().all()


def test_a_cell_in_which_every_run_failed_is_not_left_out_of_the_average(tmp_path, square):
    folder = write_sweep(tmp_path, square, 10)
    for path in runs_of(folder, "norm=hybrid,clip=higher", range(6)):
        (path / "summary.json").unlink()
    assert answer(load(folder), Question(by=["norm"])).comparisons[0].scores["norm=hybrid"].isna().all()


def test_only_cells_that_every_arm_has_are_averaged(tmp_path, square):
    del square["norm=hybrid,clip=higher"]
    found = answer(load(write_sweep(tmp_path / "a", square, 10)), Question(by=["norm"]))
    np.testing.assert_allclose(found.comparisons[0].scores["norm=local"], square["norm=local,clip=symmetric"])
    assert any("not in every arm, left out: clip=higher" in note for note in found.notes)
    apart = {name: square[name] for name in ("norm=local,clip=higher", "norm=hybrid,clip=symmetric")}
    with pytest.raises(AnalysisError, match="no cell has all of local  hybrid"):
        answer(load(write_sweep(tmp_path / "b", apart, 10)), Question(by=["norm"]))


def test_the_baseline_can_be_named_by_its_arm_or_by_a_whole_variant(two_axes):
    for name in ("hybrid", "norm=hybrid", "norm=hybrid,clip=higher"):
        comparison = answer(two_axes, Question(by=["norm"], baseline=name)).comparisons[0]
        assert comparison.baseline == "norm=hybrid" and comparison.table.loc["norm=hybrid", "difference"] == 0.0
    with pytest.raises(AnalysisError, match="'norm=x' is not a variant"):
        answer(two_axes, Question(by=["norm"], baseline="norm=x"))


# ---- two axes


def test_an_interaction_is_the_difference_of_differences_per_seed(two_axes, square):
    (table,) = answer(two_axes, Question(baseline="norm=hybrid,clip=higher")).interactions
    assert table[["norm", "clip"]].to_numpy().tolist() == [["local", "symmetric"], ["global", "symmetric"]]
    y = {name: np.array(scores) for name, scores in square.items()}
    p = []
    for norm in ("local", "global"):
        own = y[f"norm={norm},clip=symmetric"] - y[f"norm={norm},clip=higher"]
        theirs = y["norm=hybrid,clip=symmetric"] - y["norm=hybrid,clip=higher"]
        row = table.loc[f"norm={norm},clip=symmetric"]
        np.testing.assert_allclose(row["difference"], (own - theirs).mean(), **CLOSE)
        expected = stats.ttest_rel(own, theirs).confidence_interval()
        np.testing.assert_allclose(row[["difference_low", "difference_high"]].tolist(), expected, **CLOSE)
        p.append(row["p"])
    np.testing.assert_allclose(table["p_holm"], multipletests(p, method="holm")[1], **CLOSE)


def test_choices_that_add_up_do_not_interact(tmp_path):
    seeds = np.array([0.25, 0.5, 0.375, 0.125])  # dyadic, so that sums are exact
    add = {"norm=a": 0, "norm=b": 0.25}, {"clip=c": 0, "clip=d": 0.125}
    scores = {f"{n},{c}": (seeds + x + z).tolist() for n, x in add[0].items() for c, z in add[1].items()}
    (table,) = answer(load(write_sweep(tmp_path, scores, 4)), Question()).interactions
    row = table.loc["norm=b,clip=d"]
    assert (row["difference"], row["difference_low"], row["difference_high"], row["p"]) == (0, 0, 0, 1)


def test_the_baseline_cell_of_a_wide_table_is_exactly_zero(two_axes, square):
    comparison = compare(two_axes, baseline="norm=hybrid,clip=higher")
    wide, turned = pivot(comparison, "difference"), pivot(comparison, "difference", across="norm")
    assert wide.loc["hybrid", "higher"] == 0.0 and wide.shape == (3, 2)
    assert (turned.T.to_numpy() == wide.to_numpy()).all() and turned.columns.name == "norm"
    expected = np.mean(square["norm=local,clip=higher"]) - np.mean(square["norm=hybrid,clip=higher"])
    assert wide.loc["local", "higher"] == pytest.approx(expected)


def test_one_axis_or_three_have_no_interactions(tmp_path):
    one = compare(load(write_sweep(tmp_path / "a", random(["norm=a", "norm=b"], 3), 4)))
    three = compare(load(write_sweep(tmp_path / "b", random(["norm=a,clip=c,agg=e", "norm=b,clip=d,agg=f"], 3), 4)))
    assert [crossed(each) for each in (one, three)] == [interactions(each) for each in (one, three)] == [None, None]


# ---- tasks


@pytest.fixture
def tasks(tmp_path):
    scores = random([f"norm={norm},task={task}" for task in ("sort", "copy") for norm in NORMS], 5)
    scores |= {name: [100 * score for score in each] for name, each in scores.items() if "copy" in name}
    return scores, answer(load(write_sweep(tmp_path, scores, 4)), Question())


def test_tasks_are_compared_apart_and_holm_counts_all_of_them(tasks):
    scores, found = tasks
    assert [comparison.stratum for comparison in found.comparisons] == ["task=sort", "task=copy"]
    p, corrected = [], []
    for comparison in found.comparisons:
        for norm in NORMS[1:]:
            theirs = scores[f"norm={norm},{comparison.stratum}"], scores[f"norm=local,{comparison.stratum}"]
            row = comparison.table.loc[f"norm={norm}"]
            assert row["difference"] == pytest.approx(np.mean(theirs[0]) - np.mean(theirs[1]))
            p.append(row["p"])
            corrected.append(row["p_holm"])
    np.testing.assert_allclose(corrected, multipletests(p, method="holm")[1], **CLOSE)
    assert {comparison.family for comparison in found.comparisons} == {4}


def test_pooling_scales_each_task_and_pairs_task_and_seed(tasks):
    scores, found = tasks
    expected = {norm: [] for norm in NORMS[1:]}
    for task in ("sort", "copy"):
        sd = np.std([score for name, each in scores.items() if task in name for score in each], ddof=1)
        for norm in expected:
            pairs = zip(scores[f"norm={norm},task={task}"], scores[f"norm=local,task={task}"], strict=True)
            expected[norm] += [(x - y) / sd for x, y in pairs]
    p = []
    for norm, differences in expected.items():
        row = found.pooled.table.loc[f"norm={norm}"]
        assert row["n_pairs"] == 10 and row["runs"] == 10
        np.testing.assert_allclose(row["difference"], np.mean(differences), **CLOSE)
        flips = stats.permutation_test((differences,), np.mean, permutation_type="samples", n_resamples=np.inf)
        np.testing.assert_allclose(row["p"], flips.pvalue, **CLOSE)
        shares = [
            stats.mannwhitneyu(scores[f"norm={norm},task={t}"], scores[f"norm=local,task={t}"]).statistic / 25
            for t in ("sort", "copy")
        ]
        np.testing.assert_allclose(row["superiority"], np.mean(shares), **CLOSE)
        p.append(row["p"])
    np.testing.assert_allclose(found.pooled.table["p_holm"].dropna(), multipletests(p, method="holm")[1], **CLOSE)
    assert found.pooled.table.loc["norm=local", "difference"] == 0.0


def test_pooling_does_not_depend_on_the_units_of_a_task(tmp_path, tasks):
    scores, found = tasks
    scores |= {name: [7 + 0.01 * score for score in each] for name, each in scores.items() if "copy" in name}
    again = answer(load(write_sweep(tmp_path / "again", scores, 4)), Question())
    columns = ["iqm", "iqm_low", "difference", "difference_high", "p", "superiority"]
    np.testing.assert_allclose(again.pooled.table[columns], found.pooled.table[columns], rtol=1e-9, atol=1e-9)


def test_a_sweep_over_tasks_alone_compares_the_tasks(tmp_path):
    found = answer(load(write_sweep(tmp_path, random(["task=sort", "task=copy"], 3), 4)), Question())
    assert found.pooled is None and list(found.comparisons[0].table.index) == ["task=sort", "task=copy"]


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
    folder = write_sweep(tmp_path, random(["norm=local", "norm=hybrid"], 3), 4)
    write_costs(folder, "norm=local", range(3), [10, 20, 30, 40], [0.1, 0.2, 0.6, 0.9])
    write_costs(folder, "norm=hybrid", [0, 1], [50, 100, 150, 200], [0.3, 0.7, 0.8, 0.9])
    write_costs(folder, "norm=hybrid", [2], [50, 100, 150, 200], [0.3, 0.4, 0.5, 0.5])
    (folder / "norm=local,seed=0/config.yaml").write_text("score: {share: 0.5}\n")
    return folder


def values_of(data, **choices):
    measured = measure(data, **choices)
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
    at_end = measure(two_axes, at=Budget("rollouts")).values
    np.testing.assert_allclose(at_end, late_means(two_axes, METRIC).reindex(at_end.index), **CLOSE)


def test_a_matched_target_costs_what_was_spent_when_first_met(costs):
    values, measured = values_of(load(costs), matched=Target("accuracy", 0.6), at=Budget("tokens"))
    assert values["norm=local"] == [30, 30, 30] and values["norm=hybrid"][:2] == [100, 100]
    assert np.isnan(values["norm=hybrid"][2]) and "hybrid 1" in measured.remarks[0]
    assert measured.metric == f"tokens at {METRIC} ≥ 0.6"
    assert values_of(load(costs), matched=Target("accuracy", 0.6))[0]["norm=local"] == [3, 3, 3]
    values, measured = values_of(load(costs), matched=Target(METRIC, 0.7), metric="length")
    assert values["norm=local"] == [40, 40, 40] and values["norm=hybrid"][:2] == [20, 20]
    found = answer(load(costs), Question(matched=Target("accuracy", 0.6), at=Budget("tokens")))
    assert found.comparisons[0].table.loc["norm=hybrid", ["n_pairs", "difference"]].tolist() == [2, 70]


def test_a_short_name_is_the_scores_metric_or_the_only_one(two_axes):
    short = {"accuracy": METRIC, "greedy": METRIC, METRIC: METRIC, "eval/reward": "eval/reward"}
    short |= {"tokens": "progress/tokens", "total": "time/total", "mean": "reward/mean", "reward": "eval/reward"}
    assert {name: full_name(two_axes, name) for name in short} == short


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
    (note,) = [note for note in found.notes if note.startswith("best of lr")]
    assert "a lr=1e-3 (of 3), b lr=1e-2 (of 2, at the edge of its grid)" in note
    other = answer(data, Question(best_of=["lr"], choose_seeds=[2])).comparisons[0]
    assert other.scores["norm=a"].tolist() == [0.1, 0.1, 0.9] and other.scores.index.tolist() == [0, 1, 3]


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
