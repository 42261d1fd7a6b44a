"""Questions beyond "every variant against the first": each answer against plain loops over the numbers written."""

import json

import numpy as np
import pytest
from analysis_fixtures import CLIPS, METRIC, NORMS, normal_scores, runs_of, square, two_axes, write_lines, write_sweep  # noqa: F401 (fixtures)
from scipy import stats
from statsmodels.stats.multitest import multipletests

from rlexp.analysis import load
from rlexp.analysis.data.errors import AnalysisError
from rlexp.analysis.data.run_values import Budget, Target
from rlexp.analysis.stats.answer import Question, answer
from rlexp.analysis.stats.comparison import compare
from rlexp.analysis.stats.endpoints import endpoint_values, parse_endpoint
from rlexp.analysis.stats.secondary import axis_grid, interactions, pivot_axes

CLOSE = {"rtol": 1e-10, "atol": 1e-12}


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
    assert any("Left out, as not every arm has it: clip=higher" in note for note in found.notes)
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
    (table,) = answer(two_axes, Question(baseline="norm=hybrid,clip=higher")).interactions.values()
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
    np.testing.assert_allclose(table["q"], multipletests(p, method="fdr_bh")[1], **CLOSE)


def test_choices_that_add_up_do_not_interact(tmp_path):
    seeds = np.array([0.25, 0.5, 0.375, 0.125])  # dyadic, so that sums are exact
    add = {"norm=a": 0, "norm=b": 0.25}, {"clip=c": 0, "clip=d": 0.125}
    scores = {f"{n},{c}": (seeds + x + z).tolist() for n, x in add[0].items() for c, z in add[1].items()}
    (table,) = answer(load(write_sweep(tmp_path, scores, 4)), Question()).interactions.values()
    row = table.loc["norm=b,clip=d"]
    assert (row["difference"], row["difference_low"], row["difference_high"], row["p"]) == (0, 0, 0, 1)


def test_the_baseline_cell_of_a_wide_table_is_exactly_zero(two_axes, square):
    comparison = compare(two_axes, baseline="norm=hybrid,clip=higher")
    wide, turned = pivot_axes(comparison, "difference"), pivot_axes(comparison, "difference", across="norm")
    assert wide.loc["hybrid", "higher"] == 0.0 and wide.shape == (3, 2)
    assert (turned.T.to_numpy() == wide.to_numpy()).all() and turned.columns.name == "norm"
    expected = np.mean(square["norm=local,clip=higher"]) - np.mean(square["norm=hybrid,clip=higher"])
    assert wide.loc["local", "higher"] == pytest.approx(expected)


def test_one_axis_or_three_have_no_interactions(tmp_path):
    one = compare(load(write_sweep(tmp_path / "a", normal_scores(["norm=a", "norm=b"], 3), 4)))
    three = compare(
        load(write_sweep(tmp_path / "b", normal_scores(["norm=a,clip=c,agg=e", "norm=b,clip=d,agg=f"], 3), 4))
    )
    assert [axis_grid(each) for each in (one, three)] == [interactions(each) for each in (one, three)] == [None, None]


# ---- tasks


@pytest.fixture
def tasks(tmp_path):
    scores = normal_scores([f"norm={norm},task={task}" for task in ("sort", "copy") for norm in NORMS], 5)
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
    np.testing.assert_allclose(found.pooled.table["q"].dropna(), multipletests(p, method="fdr_bh")[1], **CLOSE)
    assert found.pooled.table.loc["norm=local", "difference"] == 0.0


def test_pooling_does_not_depend_on_the_units_of_a_task(tmp_path, tasks):
    scores, found = tasks
    scores |= {name: [7 + 0.01 * score for score in each] for name, each in scores.items() if "copy" in name}
    again = answer(load(write_sweep(tmp_path / "again", scores, 4)), Question())
    columns = ["iqm", "iqm_low", "difference", "difference_high", "p", "superiority"]
    np.testing.assert_allclose(again.pooled.table[columns], found.pooled.table[columns], rtol=1e-9, atol=1e-9)


def test_a_sweep_over_tasks_alone_compares_the_tasks(tmp_path):
    found = answer(load(write_sweep(tmp_path, normal_scores(["task=sort", "task=copy"], 3), 4)), Question())
    assert found.pooled is None and list(found.comparisons[0].table.index) == ["task=sort", "task=copy"]


# ---- what is secondary


def test_collapses_are_counted_and_tested_on_the_seeds_that_differ(tmp_path):
    """Of eight runs of b six collapse where a does not, and one of c; a run has collapsed below 0.2."""
    fine, poor = np.linspace(0.5, 0.6, 8), np.linspace(0.01, 0.02, 8)
    scores = {"norm=a": np.r_[fine[:7], poor[7:]], "norm=b": np.r_[poor[:6], fine[6:]], "norm=c": fine}
    folder = write_sweep(tmp_path, {name: list(each) for name, each in scores.items()}, 4)
    found = answer(load(folder), Question())
    table = found.collapses[""]
    assert table[["collapsed", "of"]].to_numpy().tolist() == [[1, 8], [6, 8], [0, 8]]
    assert table[["only_here", "only_baseline"]].to_numpy().tolist() == [[0, 0], [6, 1], [0, 1]]
    p = [stats.binomtest(6, 7).pvalue, 1.0]
    np.testing.assert_allclose(table["p"].dropna(), p, **CLOSE)
    np.testing.assert_allclose(table["q"].dropna(), multipletests(p, method="fdr_bh")[1], **CLOSE)
    assert found.secondary == 2 and any("secondary here (collapses: 2)" in note for note in found.notes)
    assert not answer(load(folder), Question(metric="collapsed")).collapses  # they are what is compared


def test_where_all_runs_collapsed_or_none_did_there_is_nothing_to_test(tmp_path):
    for level in (0.1, 0.5):
        folder = write_sweep(tmp_path / f"{level}", {f"norm={norm}": [level] * 3 for norm in "ab"}, 4)
        found = answer(load(folder), Question())
        assert (found.collapses, found.secondary) == ({}, 0)


def test_q_is_over_everything_secondary_of_the_page(tmp_path):
    cells = [f"norm={n},clip={c},task={t}" for t in ("sort", "copy") for n in "ab" for c in "cd"]
    scores = {name: [0.4 * score for score in each] for name, each in normal_scores(cells, 6).items()}
    found = answer(load(write_sweep(tmp_path, scores, 4)), Question())
    tables = [*found.interactions.values(), *found.collapses.values(), found.pooled.table]
    p, q = (np.concatenate([table[column].dropna() for table in tables]) for column in ("p", "q"))
    assert len(found.interactions) == 2 and found.collapses and found.secondary == len(p)
    np.testing.assert_allclose(q, multipletests(p, method="fdr_bh")[1], **CLOSE)


def test_an_endpoint_takes_the_place_of_the_studys_budget_and_target(two_axes):
    found = answer(two_axes, Question(endpoint=parse_endpoint("auc:tokens"))).comparisons[0]
    expected = endpoint_values(two_axes, parse_endpoint("auc:tokens")).values
    first = found.table.index[0]
    runs = two_axes.runs[two_axes.runs["variant"] == first].set_index("seed")["name"]
    np.testing.assert_allclose(found.scores[first], runs.map(expected).sort_index(), **CLOSE)
    assert found.metric == f"{METRIC}, auc:tokens" and found.better == "higher"
