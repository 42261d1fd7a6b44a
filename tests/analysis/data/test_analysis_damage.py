"""Several sweeps at once, and files with anything in them: no run harms another."""

import json
from pathlib import Path

import numpy as np
import pytest
from analysis_fixtures import METRIC, write_sweep

from rlexp.analysis import load


@pytest.fixture
def sweep(tmp_path) -> Path:
    return write_sweep(tmp_path, {"norm=local": [0.5, 0.6, 0.7], "norm=global": [0.6, 0.7, 0.8]}, steps=10)


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
