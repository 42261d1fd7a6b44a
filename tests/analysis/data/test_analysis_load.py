"""Reading folders, good and damaged."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from analysis_fixtures import METRIC, write_sweep

from rlexp.analysis import load
from rlexp.analysis.data import runs
from rlexp.analysis.data.errors import AnalysisError
from rlexp.analysis.data.variants import resolve_variant
from rlexp.runfolder.variants import short_labels, split_overrides

ROOT = Path(__file__).parents[3]


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
    assert (data.score_metric, data.study, data.score_share, data.problems) == (METRIC, {}, 0.1, [])
    assert repr(data) == f"SweepData('{sweep}': 6 runs of norm local, global; frames: .runs, .metrics)"


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


def test_hydras_files_of_listed_runs_are_not_read(sweep, monkeypatch):
    hydra = sweep / "unlisted" / ".hydra"
    hydra.mkdir(parents=True)
    (hydra / "overrides.yaml").write_text("- norm=max\n- seed=0\n")
    read_yaml, seen = runs.read.read_yaml, []
    monkeypatch.setattr(runs.read, "read_yaml", lambda path: seen.append(path) or read_yaml(path))
    data = load(sweep)
    assert {path for path in seen if path.parent.name == ".hydra"} == {hydra / "overrides.yaml", hydra / "hydra.yaml"}
    assert "norm=max" in data.variants and len(data.runs) == 7


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
    assert split_overrides("norm=local,task.sizes=[1,2],a={b:1,c:2}") == [
        "norm=local",
        "task.sizes=[1,2]",
        "a={b:1,c:2}",
    ]


def test_labels_name_only_what_varies():
    header, labels = short_labels({name: split_overrides(name) for name in ("task=sort,norm=a", "task=sort,norm=b")})
    assert (header, list(labels.values())) == ("norm", ["a", "b"])
    header, labels = short_labels(
        {name: split_overrides(name) for name in ("a=1,b=1,c=1", "a=2,b=1,c=1", "a=2,b=2,c=1")}
    )
    assert (header, list(labels.values())) == ("variant", ["a=1,b=1", "a=2,b=1", "a=2,b=2"])
    assert short_labels({"default": [], "a=1": ["a=1"]})[1] == {"default": "default", "a=1": "a=1"}


def test_a_variant_is_found_by_name_label_or_part():
    labels = {"task=sort,norm=a": "a", "task=sort,norm=b": "b"}
    for name in ("task=sort,norm=b", "b", "norm=b"):
        assert resolve_variant(name, labels) == "task=sort,norm=b"
    for name in ("c", "task=sort"):
        with pytest.raises(AnalysisError, match="task=sort,norm=a  task=sort,norm=b"):
            resolve_variant(name, labels)


@pytest.mark.slow
def test_importing_is_light_and_independent_of_the_training_code():
    code = """
import sys, rlexp.analysis
first = [name for name in ("numpy", "pandas", "matplotlib") if name in sys.modules]
import rlexp.analysis.compare
print(first, [name for name in ("torch", "hydra", "wandb", "matplotlib") if name in sys.modules])
"""
    assert subprocess.check_output([sys.executable, "-c", code], cwd=ROOT, text=True).strip() == "[] []"
