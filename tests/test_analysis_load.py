"""Reading folders, good and damaged."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from analysis_fixtures import METRIC, write_sweep

from analysis import load
from analysis.read import AnalysisError
from analysis.variants import resolve, short_labels, split

ROOT = Path(__file__).parents[1]


@pytest.fixture
def sweep(tmp_path) -> Path:
    return write_sweep(tmp_path, {"norm=local": [0.5, 0.6, 0.7], "norm=global": [0.6, 0.7, 0.8]}, steps=10)


def break_json(path: Path, keep: float = 0.5) -> None:
    text = path.read_text()
    path.write_text(text[: int(len(text) * keep)])


def test_all_runs_and_steps_are_read(sweep):
    data = load(sweep)
    assert data.variants == ["norm=local", "norm=global"]
    assert (data.axis, list(data.labels.values())) == ("norm", ["local", "global"])
    assert list(data.runs["score"]) == [0.5, 0.6, 0.7, 0.6, 0.7, 0.8]
    assert list(data.runs["norm"]) == ["local"] * 3 + ["global"] * 3
    assert len(data.metrics) == 6 * 11 and data.metrics[METRIC].notna().sum() == 6 * 6
    assert (data.score_metric, data.study, data.share, data.problems) == (METRIC, {}, 0.1, [])


def test_null_is_nan(sweep):
    path = sweep / "norm=local,seed=0" / "metrics.jsonl"
    path.write_text('{"step": 0, "loss/total": null}\n{"step": 1, "loss/total": 2.0}\n')
    rows = load(sweep).metrics.query("name == 'norm=local,seed=0'")
    np.testing.assert_array_equal(rows["loss/total"], [np.nan, 2.0])


def test_a_cut_last_line_is_skipped_and_reported(sweep):
    name = "norm=local,seed=0"
    break_json(sweep / name / "metrics.jsonl", 0.99)
    data = load(sweep)
    assert data.problems == [(name, "metrics.jsonl: 1 damaged line skipped")]
    assert (data.metrics["name"] == name).sum() == 10
    assert data.runs["score"].notna().all()


@pytest.mark.parametrize("line", ["12", "{", '"step"', "[1]", '{"step": 3, "a": '])
@pytest.mark.parametrize("metrics", [None, []])
def test_a_damaged_line_in_the_middle_costs_only_itself(sweep, line, metrics):
    path = sweep / "norm=local,seed=0" / "metrics.jsonl"
    rows = path.read_text().split("\n")
    path.write_text("\n".join([*rows[:4], line, *rows[4:]]))
    data = load(sweep, metrics)
    assert [problem.reason for problem in data.problems] == ["metrics.jsonl: 1 damaged line skipped"]
    assert data.metrics["name"].value_counts().nunique() == 1


@pytest.mark.parametrize("damage", [Path.unlink, break_json])
def test_a_run_without_summary_is_listed_without_a_score(sweep, damage):
    name = "norm=local,seed=1"
    damage(sweep / name / "summary.json")
    data = load(sweep)
    run = data.runs.set_index("name").loc[name]
    assert run["status"] == "interrupted" and np.isnan(run["score"])
    assert [problem.run for problem in data.problems] == [name] and "summary.json" in data.problems[0].reason
    assert data.runs["score"].notna().sum() == 5


def test_a_diverged_run_has_no_score_but_a_reason(sweep):
    path = sweep / "norm=local,seed=1" / "summary.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"status": "diverged", "reason": "loss is NaN"}))
    data = load(sweep)
    assert np.isnan(data.runs["score"][1]) and data.runs["reason"][1] == "loss is NaN"
    assert data.problems == [("norm=local,seed=1", "diverged: loss is NaN")]


def test_the_last_row_of_a_repeated_step_counts(sweep):
    path = sweep / "norm=local,seed=0" / "metrics.jsonl"
    path.write_text('{"step": 0, "a": 1}\n{"step": 1, "a": 2}\n{"step": 1, "a": 3}\n')
    rows = load(sweep).metrics.query("name == 'norm=local,seed=0'")
    assert rows["a"].tolist() == [1, 3]


def test_without_an_index_the_folders_are_scanned(sweep):
    indexed = load(sweep)
    (sweep / "jobs.jsonl").unlink()
    scanned = load(sweep)
    assert sorted(scanned.variants) == sorted(indexed.variants) and scanned.problems == []
    assert scanned.labels == indexed.labels and len(scanned.runs) == 6


def test_hydras_own_folders_are_read_in_job_order(tmp_path):
    for number, norm in enumerate(["local", "global"]):
        hydra = tmp_path / f"job{1 - number}" / ".hydra"
        hydra.mkdir(parents=True)
        (hydra / "overrides.yaml").write_text(f"- norm={norm}\n- seed=4\n")
        (hydra / "hydra.yaml").write_text(f"hydra:\n  job:\n    num: {number}\n")
    data = load(tmp_path)
    assert data.variants == ["norm=local", "norm=global"]
    assert data.runs["seed"].tolist() == [4, 4] and len(data.problems) == 2


def test_a_cut_index_loses_no_run(sweep):
    break_json(sweep / "jobs.jsonl", 0.95)
    data = load(sweep)
    assert len(data.runs) == 6 and data.runs["score"].notna().all()
    assert [problem.run for problem in data.problems] == ["jobs.jsonl"]


def test_a_single_run_is_a_sweep_of_one(sweep):
    data = load(sweep / "norm=local,seed=2")
    assert data.variants == ["norm=local"] and data.runs["score"].tolist() == [0.7]


def test_only_some_metrics_are_read_faster_but_the_same(sweep):
    everything, some = load(sweep), load(sweep, metrics=[])
    assert some.metrics["step"].tolist() == [0, 2, 4, 6, 8, 10] * 6
    rows = everything.metrics.dropna(subset=[METRIC])
    np.testing.assert_array_equal(some.metrics[METRIC], rows[METRIC])


def test_no_folder_and_no_runs_are_one_line(tmp_path):
    for folder in (tmp_path / "nowhere", tmp_path):
        with pytest.raises(AnalysisError) as error:
            load(folder)
        assert "\n" not in str(error.value) and folder.name in str(error.value)


def test_the_study_is_read_from_the_configuration(sweep):
    (sweep / "norm=local,seed=0" / "config.yaml").write_text("seed: 0\nstudy: {name: x, expect: []}\n")
    assert load(sweep).study == {"name": "x", "expect": []}


def test_commas_in_brackets_do_not_split_a_variant():
    assert split("norm=local,task.sizes=[1,2],a={b:1,c:2}") == ["norm=local", "task.sizes=[1,2]", "a={b:1,c:2}"]


def test_labels_name_only_what_varies():
    header, labels = short_labels({name: split(name) for name in ("task=sort,norm=a", "task=sort,norm=b")})
    assert (header, list(labels.values())) == ("norm", ["a", "b"])
    header, labels = short_labels({name: split(name) for name in ("a=1,b=1,c=1", "a=2,b=1,c=1", "a=2,b=2,c=1")})
    assert (header, list(labels.values())) == ("variant", ["a=1,b=1", "a=2,b=1", "a=2,b=2"])
    assert short_labels({"default": [], "a=1": ["a=1"]})[1] == {"default": "default", "a=1": "1"}


def test_a_variant_is_found_by_name_label_or_part():
    labels = {"task=sort,norm=a": "a", "task=sort,norm=b": "b"}
    for name in ("task=sort,norm=b", "b", "norm=b"):
        assert resolve(name, labels) == "task=sort,norm=b"
    for name in ("c", "task=sort"):
        with pytest.raises(AnalysisError, match="task=sort,norm=a  task=sort,norm=b"):
            resolve(name, labels)


def test_importing_is_light_and_independent_of_the_training_code():
    code = """
import sys, analysis
first = [name for name in ("numpy", "pandas", "matplotlib") if name in sys.modules]
import analysis.compare
print(first, [name for name in ("rlexp", "torch", "wandb", "matplotlib") if name in sys.modules])
"""
    assert subprocess.check_output([sys.executable, "-c", code], cwd=ROOT, text=True).strip() == "[] []"


# ---- several sweeps, and damage of every kind


def change(path: Path, **facts) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | facts))


def test_several_sweeps_are_one_table(tmp_path):
    one = write_sweep(tmp_path / "one", {"norm=a": [0.1, 0.2]}, 4)
    two = write_sweep(tmp_path / "two", {"norm=b": [0.3], "norm=a": [0.4]}, 4)
    data = load([one, two, one])
    assert data.variants == ["norm=a", "norm=b"] and data.axes == ("norm",)
    assert data.runs["sweep"].tolist() == ["one", "one", "two", "two"] and data.runs["name"].is_unique
    assert data.runs["score"].tolist() == [0.1, 0.2, 0.3, 0.4] and data.runs["folder"].map(Path).map(Path.is_dir).all()
    assert data.metrics.groupby("name").size().tolist() == [5] * 4
    same = load([one, write_sweep(tmp_path / "other" / "one", {"norm=c": [0.5]}, 4)])
    assert same.runs["name"].is_unique


def test_columns_are_typed(sweep):
    data = load(sweep)
    runs = {"seed": "Int64", "score": "float64", "collapsed": "boolean", "wall_time_s": "float64"}
    assert {column: str(data.runs[column].dtype) for column in runs} == runs
    assert str(data.metrics["seed"].dtype) == "Int64" and str(data.metrics["step"].dtype) == "int64"
    metrics = data.metrics.columns.difference(["name", "variant", "seed", "step"])
    assert len(metrics) and all(str(data.metrics[column].dtype) == "float64" for column in metrics)


def test_scores_by_another_metric_are_left_out_of_a_task_and_listed(tmp_path):
    one = write_sweep(tmp_path / "one", {"norm=a": [0.1, 0.2]}, 4)
    two = write_sweep(tmp_path / "two", {"norm=b": [300.0]}, 4)
    change(two / "norm=b,seed=0/summary.json", score_metric="eval/reward")
    data = load([one, two])
    assert data.runs["score"].isna().tolist() == [False, False, True]
    reason = f"scored by eval/reward, most others by {METRIC}: its score is left out"
    assert data.problems == [("two/norm=b,seed=0", reason)]
    assert data.metrics.loc[data.metrics["name"] == "two/norm=b,seed=0", "eval/reward"].notna().any()


def test_each_task_has_its_own_metric(tmp_path):
    folder = write_sweep(tmp_path, {"task=sort": [0.1], "task=copy": [0.2]}, 4)
    change(folder / "task=copy,seed=0/summary.json", score_metric="eval/reward")
    assert load(folder).problems == [] and load(folder).runs["score"].tolist() == [0.1, 0.2]


def test_runs_of_different_versions_are_used_and_said(sweep):
    for seed in range(3):
        versions = {"rlexp": f"0.{seed // 2}", "torch": "2.6", "python": f"3.{seed}"}
        change(sweep / f"norm=local,seed={seed}" / "summary.json", versions=versions)
    data = load(sweep)
    shown = "runs of different versions: rlexp 0.0 torch 2.6 (2 runs); rlexp 0.1 torch 2.6 (1 run)"
    assert data.problems == [("summary.json", shown)] and data.runs["score"].notna().all()


ODD = [None, True, -1, 1e400, 10**400, float("nan"), "", "0.5", "norm=x", "\0", [], [1, 2], {}, {"a": [None]}]


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: ascii(odd)[:20])
def test_a_value_of_an_odd_type_harms_no_other_run(sweep, odd):
    text = json.dumps(odd) if odd != 1e400 else "1e400"
    run = sweep / "norm=local,seed=0"
    facts = json.loads((run / "summary.json").read_text())
    index = (sweep / "jobs.jsonl").read_text().splitlines()
    for key in facts:
        damaged = ", ".join(f"{json.dumps(k)}: {text if k == key else json.dumps(v)}" for k, v in facts.items())
        (run / "summary.json").write_text("{" + damaged + "}")
        job = json.loads(index[0])
        rows = [json.dumps(job)[:-1] + f', "{key}": {text}}}', *index[1:]]
        (sweep / "jobs.jsonl").write_text("\n".join(rows) + "\n")
        (run / "metrics.jsonl").write_text(f'{{"step": {text}, "a": {text}}}\n{{"step": 3, "a": {text}, "b": 1}}\n')
        data = load(sweep)
        others = data.runs[~data.runs["name"].isin(["norm=local,seed=0"])]
        assert others["score"].notna().sum() == 5 and data.metrics["b"].notna().sum() in (0, 1)


@pytest.mark.parametrize("content", [b"", b"\x00" * 50, b"\xff\xfe{", b"[" * 2_000, b'{"step": 1}, {"step": 2}\n'])
@pytest.mark.parametrize("file", ["summary.json", "metrics.jsonl", "config.yaml", "../jobs.jsonl"])
def test_a_file_of_junk_harms_no_other_run(sweep, file, content):
    (sweep / "norm=local,seed=0" / file).write_bytes(content)
    data = load(sweep)
    assert len(data.runs) == 6 and data.runs["score"].notna().sum() >= 5


def test_two_broken_lines_do_not_make_a_whole_one(sweep):
    path = sweep / "norm=local,seed=0" / "metrics.jsonl"
    path.write_text('{"step": 1, "a": 1}\n{"step": 2, "a": 2\n"b": 3}\n')
    data = load(sweep)
    assert data.problems == [(path.parent.name, "metrics.jsonl: 2 damaged lines skipped")]
    assert data.metrics.loc[data.metrics["name"] == path.parent.name, "a"].tolist() == [1]


def test_values_stay_at_their_step_where_lines_have_different_keys(sweep):
    path = sweep / "norm=local,seed=0" / "metrics.jsonl"
    path.write_text('{"step": 1, "a": 1}\n{"step": 2, "b": 2, "a": 3}\n{"step": 3, "a": 5}\n{"b": 4, "step": 4}\n')
    rows = load(sweep).metrics.query("name == 'norm=local,seed=0'")
    np.testing.assert_array_equal(rows["a"], [1, 3, 5, np.nan])
    np.testing.assert_array_equal(rows["b"], [np.nan, 2, np.nan, 4])
