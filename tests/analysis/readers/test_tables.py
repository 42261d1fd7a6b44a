"""CSV and Parquet of others: what is guessed and said, what is refused, half files, repeated evaluations, a chart."""

import time

import numpy as np
import pandas as pd
import pytest
from compare_command import run
from foreign_logs import curve, scores, scores_csv, write_csv
from scipy import stats

from rlexp.analysis import better, load
from rlexp.analysis.data.errors import AnalysisError
from rlexp.analysis.data.readers.logs import Columns
from rlexp.analysis.stats.answer import Question, answer


def refused(path, **columns):
    with pytest.raises(AnalysisError) as error:
        load(path, columns=Columns(**columns))
    assert "\n" not in str(error.value)
    return str(error.value)


def test_a_row_a_run_is_compared_seed_by_seed(tmp_path):
    table = scores(6)
    data = load(scores_csv(tmp_path / "runs.csv", table))
    comparison = answer(data, Question()).comparisons[0]
    assert comparison.paired and data.labels == {"method=grpo": "grpo", "method=dapo": "dapo"}
    low, high = stats.ttest_rel(table["dapo"], table["grpo"]).confidence_interval()
    assert tuple(comparison.table.loc["method=dapo", ["difference_low", "difference_high"]]) == pytest.approx(
        (low, high)
    )
    for said in ("arm: method (guessed)", "seed: seed (guessed)", "metric: accuracy, the only one", "higher is better"):
        assert said in data.origin.said


def test_other_seeds_are_not_paired_and_all_runs_count(tmp_path):
    table = {"grpo": scores(6)["grpo"], "dapo": scores(4)["dapo"]}
    result = answer(load(scores_csv(tmp_path / "runs.csv", table, {"dapo": 3})), Question())
    row = result.comparisons[0].table.loc["method=dapo"]
    found = stats.ttest_ind(table["dapo"], table["grpo"], equal_var=False)
    assert (row["difference_low"], row["difference_high"]) == pytest.approx(tuple(found.confidence_interval()))
    assert row["p"] == pytest.approx(1 / 210)  # all ten runs in order: one of 10 over 4 ways
    notes = " ".join(result.notes)
    assert "not the same seeds (grpo 0, 1, 2, 3, 4, 5; dapo 3, 4, 5, 6)" in notes and "--where seed=3,4,5" in notes


def test_seeds_that_mean_nothing_are_left_out_of_it(tmp_path):
    path = scores_csv(tmp_path / "runs.csv", scores(5))
    assert answer(load(path), Question()).comparisons[0].paired
    data = load(path, columns=Columns(seed="none"))
    assert (
        not answer(data, Question()).comparisons[0].paired and "seeds: none, so runs are not paired" in data.origin.said
    )


def test_a_row_a_step_with_seeds_in_the_names(tmp_path):
    rows = [
        [f"{arm}_s{seed}", step, value, 0.01]
        for arm, end in (("grpo", 0.5), ("dapo", 0.7))
        for seed in range(3)
        for step, value in enumerate(curve(end, 20, seed))
    ]
    data = load(write_csv(tmp_path / "log.csv", ["run_name", "global_step", "eval/reward", "lr"], rows))
    assert data.variants == ["arm=grpo", "arm=dapo"] and data.score_metric == "eval/reward"
    first = data.runs.set_index("name").loc["grpo_s0"]
    assert first["seed"] == 0 and first["score"] == pytest.approx(curve(0.5, 20, 0)[-2:].mean())
    assert data.metrics["step"].max() == 19


def test_curves_of_different_length_are_compared_where_all_have_come(tmp_path):
    rows = [["a_s0", step, step] for step in range(11)] + [["b_s0", step, 2 * step] for step in range(21)]
    data = load(write_csv(tmp_path / "log.csv", ["run", "step", "reward"], rows))
    scores = data.runs.set_index("name")["score"]
    assert scores["a_s0"] == pytest.approx(9.5) and scores["b_s0"] == pytest.approx(19)
    assert any("at step 10 to 20: they are compared up to step 10" in remark for remark in data.remarks)


def test_items_are_no_seeds(tmp_path):
    rng = np.random.default_rng(0)
    difficulty = rng.normal(size=50)
    rows = [
        [arm, seed, item, 0.5 + level + difficulty[item]]
        for arm in "ab"
        for seed, level in enumerate(rng.normal(0, 0.1, 4))
        for item in range(50)
    ]
    path = write_csv(tmp_path / "evals.csv", ["arm", "seed", "item", "score"], rows)
    data = load(path)
    comparison = answer(data, Question()).comparisons[0]
    assert len(data.runs) == 8 and comparison.table["n"].tolist() == [4, 4]
    remark = next(remark for remark in data.remarks if "evaluations of one checkpoint" in remark)
    assert "50 evaluations of one checkpoint (column item)" in remark and "Evaluations are no seeds" in remark
    assert f"SD within a run is {difficulty.std(ddof=1):.3g}" in remark
    means = pd.read_csv(path).groupby(["arm", "seed"])["score"].mean()
    assert data.runs["score"].to_numpy() == pytest.approx(means.to_numpy())


def test_rows_of_one_run_and_step_are_evaluations_too(tmp_path):
    rows = [[arm, seed, step, value] for arm in "ab" for seed in (0, 1) for step in (1, 2) for value in (0.2, 0.4)]
    data = load(write_csv(tmp_path / "x.csv", ["arm", "seed", "step", "score"], rows))
    assert data.runs["score"].to_numpy() == pytest.approx([0.3] * 4) and "2 evaluations" in " ".join(data.remarks)


def test_two_single_runs_say_nothing_unless_others_do(tmp_path, capsys):
    pair = write_csv(tmp_path / "pair.csv", ["method", "accuracy"], [["grpo", 0.5], ["dapo", 0.6]])
    many = scores_csv(tmp_path / "many.csv", scores(8))
    code, out, _ = run(capsys, pair)
    assert code == 0 and "Nothing can be said of a single run" in out.replace("\n", " ")
    code, out, _ = run(capsys, pair, "--noise", str(many))
    assert "more than luck of the seed there" in " ".join(out.split())


def test_what_is_ambiguous_is_refused_with_what_is_there(tmp_path):
    rows = [["a", "x", 0.1, 0.2], ["b", "y", 0.2, 0.3]]
    path = write_csv(tmp_path / "x.csv", ["method", "data", "accuracy", "f1"], rows)
    assert refused(path).endswith("which metric? choose with --metric, of: accuracy  f1")
    path = write_csv(tmp_path / "y.csv", ["one", "two", "accuracy"], [["a", "x", 0.1], ["b", "y", 0.2]])
    assert refused(path).endswith("which column is the arm? choose with --arm, of: one  two")
    path = write_csv(tmp_path / "z.csv", ["arm", "step", "score"], [["a", 1, 0.1], ["a", 1, 0.2]])
    assert "several rows of one arm at one step, and no column says of which run" in refused(path)
    path = write_csv(tmp_path / "n.csv", ["x", "y"], [[1, 0.1], [2, 0.2]])
    assert refused(path).endswith("choose with --arm, of: x  y")
    rows = [["r1", "a", 0, 0.1], ["r2", "a", 0, 0.2], ["r3", "b", 0, 0.2]]
    path = write_csv(tmp_path / "t.csv", ["run", "arm", "seed", "score"], rows)
    assert "several runs have arm=a, seed=0 (r1  r2)" in refused(path)
    assert len(load(path, columns=Columns(seed="none")).runs) == 3
    assert refused(path, arm=("colour",)) == "--arm colour: no such column; there are: run  arm  seed  score"
    assert refused(path, seed="none", metric="loss") == "--metric loss: no such metric; there are: score"


def test_an_arm_in_two_conditions_is_not_guessed(tmp_path):
    rows = [[arm, data, seed, 0.1 * seed] for arm in "ab" for data in "xy" for seed in (0, 1)]
    path = write_csv(tmp_path / "x.csv", ["method", "data", "seed", "accuracy"], rows)
    assert refused(path).endswith("say what makes an arm, as --arm method,data or --arm method")
    assert load(path, columns=Columns(arm=("method", "data"))).axes == ("method", "data")


def test_names_of_which_some_have_seeds_are_refused(tmp_path):
    rows = [["a_s1", 0.1], ["a_s2", 0.2], ["b", 0.3]]
    assert "1 of 3 runs have no seed in the name (b)" in refused(write_csv(tmp_path / "x.csv", ["run", "score"], rows))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("hello\nworld\n", "has one column"),
        ("a,b\n", "has no rows"),
        ("\x00\x01\x02,\x00", "is no text"),
    ],
)
def test_a_wrong_file_ends_in_a_line(tmp_path, capsys, text, said):
    path = tmp_path / "runs.csv"
    path.write_text(text)
    code, out, err = run(capsys, path)
    assert code == 2 and out == "" and err.count("\n") == 1 and said in err


def test_a_wrong_parquet_file_ends_in_a_line(tmp_path, capsys):
    path = tmp_path / "runs.parquet"
    path.write_bytes(b"PAR1 not really")
    code, _, err = run(capsys, path)
    assert code == 2 and err.count("\n") == 1 and "is no Parquet file" in err


def test_a_last_line_that_was_cut_is_skipped_and_said(tmp_path):
    path = scores_csv(tmp_path / "runs.csv", scores(5))
    path.write_text(path.read_text() + "dapo,5")
    data = load(path)
    assert len(data.runs) == 10
    assert [(problem.run, problem.reason) for problem in data.problems] == [
        ("runs.csv", "its last line is cut, and skipped")
    ]


def test_a_line_with_too_many_cells_is_skipped_and_said(tmp_path):
    path = scores_csv(tmp_path / "runs.csv", scores(5))
    path.write_text(path.read_text().replace("dapo,0,", "dapo,0,1,2,"))
    data = load(path)
    assert len(data.runs) == 9 and data.problems[0].reason == "1 damaged line skipped"


def test_runs_that_crashed_count_nowhere(tmp_path):
    rows = [
        [f"{arm}-seed{seed}", "crashed" if (arm, seed) == ("b", 2) else "finished", 0.1 * seed]
        for arm in "ab"
        for seed in range(3)
    ]
    data = load(write_csv(tmp_path / "wandb.csv", ["Name", "State", "reward"], rows))
    assert data.problems[0] == ("b-seed2", "failed: its State is crashed")
    assert data.runs.set_index("name").loc["b-seed2", "status"] == "failed"


def test_a_chart_of_wandb_is_a_run_a_column(tmp_path):
    header = ["Step"] + [
        f"{arm}-seed{seed} - eval/reward{end}" for arm in "ab" for seed in (0, 1) for end in ("", "__MIN", "__MAX")
    ]
    rows = [[step] + [0.1 * step + place // 6 for place in range(12)] for step in range(5)]
    data = load(write_csv(tmp_path / "wandb_export.csv", header, rows))
    assert data.origin.kind == "W&B chart (CSV)" and data.variants == ["arm=a", "arm=b"]
    assert data.runs["score"].to_numpy() == pytest.approx([0.4, 0.4, 1.4, 1.4])


def test_parquet_and_csv_say_the_same(tmp_path):
    path = scores_csv(tmp_path / "runs.csv", scores(4))
    pd.read_csv(path).to_parquet(tmp_path / "runs.parquet")
    pd.testing.assert_frame_equal(
        load(path).runs.drop(columns=["folder", "sweep"]),
        load(tmp_path / "runs.parquet").runs.drop(columns=["folder", "sweep"]),
    )


def test_a_file_a_run(tmp_path):
    for arm in "ab":
        for seed in (0, 1):
            write_csv(
                tmp_path / f"logs/{arm}/seed_{seed}/progress.csv",
                ["step", "reward"],
                [[1, 0.1], [2, seed + (arm == "b")]],
            )
    data = load(tmp_path / "logs")
    assert data.labels == {"arm=a": "a", "arm=b": "b"} and sorted(data.runs["seed"]) == [0, 0, 1, 1]


def test_two_columns_make_arms_along_two_axes(tmp_path):
    rows = [[norm, lr, seed, 0.1] for norm in "ab" for lr in (0.1, 0.01) for seed in (0, 1)]
    path = write_csv(tmp_path / "x.csv", ["norm", "lr", "seed", "score"], rows)
    data = load(path, columns=Columns(arm=("norm", "lr")))
    assert data.axes == ("norm", "lr") and len(data.variants) == 4
    assert len(answer(data, Question(best_of=("lr",), choose_seeds=(0,))).comparisons[0].table) == 2


@pytest.mark.rare
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_million_rows(tmp_path, ending):
    runs, steps = 20, 50_000
    frame = pd.DataFrame({
        "method": np.repeat(["a", "b"], runs * steps // 2),
        "seed": np.tile(np.repeat(np.arange(runs // 2), steps), 2),
        "step": np.tile(np.arange(steps), runs),
        "reward": np.random.default_rng(0).normal(size=runs * steps),
    })  # fmt: skip
    path = tmp_path / f"runs.{ending}"
    frame.to_csv(path, index=False) if ending == "csv" else frame.to_parquet(path)
    begin = time.process_time()
    data = load(path)
    assert len(data.metrics) == 1_000_000 and len(data.runs) == 20
    assert time.process_time() - begin < 20


def test_a_line_with_fewer_cells_is_skipped_and_a_word_among_numbers_left_out(tmp_path, capsys):
    lines = ["method,seed,step,accuracy,loss"]
    lines += [f"{arm},{seed},{step},{0.5 + seed / 100},0.1" for arm in "ab" for seed in range(6) for step in (1, 2, 3)]
    lines[3 + 2], lines[3 + 5] = "a,1,2", "a,2,2,abc,0.1"
    file = tmp_path / "runs.csv"
    file.write_text("\n".join(lines) + "\n")
    found = load(file, columns=Columns(metric="accuracy"))
    assert [problem.reason for problem in found.problems] == [
        "line 6 has fewer cells than the header: skipped",
        "accuracy: no number in line 9: 'abc'; left out",
    ]
    assert len(found.metrics) == 35
    assert better.main([str(file), "a", "b", "--metric", "accuracy"]) in (10, 11)
    assert "note: runs.csv: line 6 has fewer cells" in capsys.readouterr().err
    words = file.read_text().replace("abc", "None")  # what a missing number is often written as
    file.write_text(words)
    assert len(load(file, columns=Columns(metric="accuracy")).problems) == 1
