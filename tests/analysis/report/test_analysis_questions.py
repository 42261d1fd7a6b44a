"""Each question has an answer of its own: its folder, its JSON, its exit code where nothing is left to compare."""

import json
import os
import time

import pandas as pd
import pytest
import yaml
from analysis_fixtures import METRIC, random_scores, write_lines, write_sweep
from compare_command import no_figures, run  # noqa: F401 (a fixture that applies itself)

NORMS = ["norm=local", "norm=hybrid", "norm=global"]


@pytest.fixture
def sweep(tmp_path):
    return write_sweep(tmp_path / "sweep", random_scores(NORMS, 6), 10)


def folders(sweep):
    """The folders below the sweep's analysis that hold a table."""
    return sorted(str(path.parent.relative_to(sweep / "analysis")) for path in sweep.glob("analysis/**/table.csv"))


@pytest.mark.parametrize(
    ("options", "folder"),
    [
        ([], "."),
        (["--metric", METRIC], "."),  # asks nothing else
        (["--metric", "eval/reward"], "metric=eval_reward"),
        (["--baseline", "norm=hybrid", "--at", "tokens=2000"], "baseline=norm=hybrid,at=tokens=2000"),
        (["--where", "seed=0,1,2,3", "--where", "norm=local,hybrid"], "where=seed=0,1,2,3+norm=local,hybrid"),
        (["--within", "none"], "within=none"),
        (["--endpoint", "cost:accuracy>=0.2:tokens"], "endpoint=cost_accuracy_=0.2_tokens"),
        (["--endpoint", "auc"], "endpoint=auc"),
    ],
)
def test_each_question_has_its_own_folder(sweep, capsys, options, folder):
    assert run(capsys, sweep, *options)[0] == 0 and folders(sweep) == [folder]


def test_long_questions_have_folders_of_their_own(sweep, capsys):
    for last in ("0,1,2,3,4,5", "0,1,2,3,4"):
        run(capsys, sweep, *["--where", "norm=local,hybrid,global"] * 6, "--where", f"seed={last}")
    assert len(folders(sweep)) == 2 and all(len(folder) < 120 for folder in folders(sweep))


def test_nothing_stale_stays_beside_a_new_table(tmp_path, capsys):
    square = [f"norm={norm},clip={clip}" for norm in "ab" for clip in "cd"]
    folder = write_sweep(tmp_path / "x", random_scores(square, 4), 4)
    run(capsys, folder, "--out", tmp_path / "out")
    (tmp_path / "out/mine.txt").write_text("kept")
    assert {"interactions.csv", "wide.md"} <= {path.name for path in (tmp_path / "out").iterdir()}
    run(capsys, folder, "--where", "clip=c", "--out", tmp_path / "out")
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert (
        not [name for name in names if name.startswith(("interactions", "wide"))] and {"mine.txt", "table.md"} <= names
    )


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["--endpoint", "cost:accuracy>=2"], "no run arrives at cost:accuracy>=2 within "),
        (["--endpoint", "auc", "--at", "tokens"], "an endpoint (auc) has its own budget and target; leave out at and"),
        (["--endpoint", "cost:accuracy>=0.1", "--metric", "x"], "cost:accuracy>=0.1 names its own metric; leave out x"),
        (["--at", "tokens=1e9"], "no completed run spent 1e+09 tokens; the most is 5,120 tokens"),
        (["--at", "steps=-1"], f"no run had logged {METRIC} by the time it had spent -1 steps"),
        (["--where", "norm=lokal"], "no run has norm=lokal; choose from: local  hybrid  global"),
    ],
)
def test_what_leaves_nothing_is_one_line_and_exit_2(sweep, capsys, options, line):
    code, out, error = run(capsys, sweep, *options)
    assert (code, out) == (2, "") and error.startswith(f"error: {line}") and error.count("\n") == 1
    assert folders(sweep) == []


def test_a_stratum_that_leaves_nothing_is_named_and_the_others_are_compared(tmp_path, capsys):
    scores = {
        f"norm={norm},task={task}": [level] * 4 for norm in "ab" for task, level in (("sort", 0.9), ("copy", 0.2))
    }
    code, out, _ = run(capsys, write_sweep(tmp_path / "x", scores, 10), "--endpoint", "cost:accuracy>=0.6")
    assert code == 0 and "task=copy is left out: no run arrives at" in out and "task=sort" in out


def test_json_is_the_whole_comparison_and_nothing_else_is_printed(sweep, capsys):
    code, out, error = run(capsys, sweep, "--json", "--baseline", "norm=hybrid")
    found = json.loads(out)
    assert (code, error) == (0, "") and found["baseline"] == "norm=hybrid" and found["metric"] == METRIC
    table = pd.read_csv(sweep / "analysis/baseline=norm=hybrid/table.csv", index_col="variant")
    arms = {arm["variant"]: arm for arm in found["comparisons"][0]["arms"]}
    assert list(arms) == NORMS and arms["norm=hybrid"]["p"] is None and arms["norm=local"]["label"] == "local"
    for variant in ("norm=local", "norm=global"):
        assert arms[variant]["p_holm"] == pytest.approx(table.loc[variant, "p_holm"])
    assert found["notes"] and len(found["runs"]) == 18 and "table.csv" in found["files"] and found["problems"] == []
    assert found["comparisons"][0]["scores"]["norm=local"]["0"] == pytest.approx(found["runs"][0]["score"])


# ---- which runs


def configure(folder, **settings):
    for path in folder.glob("*/config.yaml"):
        norm = path.parent.name.partition("norm=")[2].partition(",")[0] or "local"
        path.write_text(yaml.safe_dump({"seed": 0, "norm": {"name": norm}} | settings))


def test_where_takes_what_no_run_was_swept_over(tmp_path, capsys):
    """Two sweeps of other lengths, and one in which the norm is not on the command line."""
    for name, norms, steps in (("one", NORMS, 400), ("two", ["default"], 200)):
        write_sweep(tmp_path / name, random_scores(norms, 4), 4)
        configure(tmp_path / name, steps=steps, clip={"name": "ppo", "high": 0.28})

    def names(*where):
        options = [part for condition in where for part in ("--where", condition)]
        code, out, error = run(capsys, tmp_path / "one", tmp_path / "two", "--json", *options)
        return error or sorted({run["name"].split(",")[0] for run in json.loads(out)["runs"]})

    assert names("steps=400", "norm=local,hybrid") == ["one/norm=hybrid", "one/norm=local"]
    assert names("norm=local") == ["one/norm=local", "two/seed=0", "two/seed=1", "two/seed=2", "two/seed=3"]
    assert names("clip.high=0.280", "clip=ppo", "steps=2e2") == ["two/seed=0", "two/seed=1", "two/seed=2", "two/seed=3"]
    assert "no run has steps=300; choose from: 400  200" in names("steps=300")
    assert "'stepps=400' is no condition; did you mean steps?" in names("stepps=400")


def test_running_and_interrupted_runs_are_called_so(sweep, capsys):
    rows = [json.loads(line) for line in (sweep / "jobs.jsonl").read_text().splitlines()]
    for row in rows[:2]:
        (sweep / row["name"] / "summary.json").unlink()
        row["status"] = "running"
    write_lines(sweep / "jobs.jsonl", rows)
    stopped = sweep / rows[2]["name"] / "summary.json"
    stopped.write_text(json.dumps(json.loads(stopped.read_text()) | {"status": "interrupted", "reason": "Ctrl-C"}))
    code, out, _ = run(capsys, sweep)
    assert code == 1 and "norm=local,seed=0: running: at step 10" in out and "seed=2: interrupted: Ctrl-C" in out
    assert "Runs that have not ended have no score, and are drawn as far as they got: 2 running, 1 interrupted." in out
    table = pd.read_csv(sweep / "analysis/table.csv", index_col="variant")
    assert table.loc["norm=local", ["runs", "failed", "unfinished", "n"]].tolist() == [6, 0, 3, 3]
    assert "3/6" in out and "unfinished" in out
    old = time.time() - 3600
    for path in [sweep / "jobs.jsonl", *sweep.glob("*/metrics.jsonl")]:
        os.utime(path, (old, old))
    assert "norm=local,seed=0: interrupted: it wrote nothing for a while" in run(capsys, sweep)[1]
