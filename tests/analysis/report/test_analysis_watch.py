"""The live comparison: running runs count as far as all have come, and it ends with the sweep."""

import json

import numpy as np
import pytest
from analysis_fixtures import METRIC, random_scores, write_sweep
from rich.console import Console

from rlexp.analysis.watch import main, partial_data, render, watch


@pytest.fixture
def sweep(tmp_path):
    """Two variants, three seeds; `norm=b` still runs: its third seed has come to step 20 of 40."""
    folder = write_sweep(tmp_path / "sweep", random_scores(["norm=a", "norm=b"], 3))
    (folder / "jobs.jsonl").unlink()
    for seed in range(3):
        (folder / f"norm=b,seed={seed}" / "summary.json").unlink()
    file = folder / "norm=b,seed=2" / "metrics.jsonl"
    file.write_text("\n".join(file.read_text().splitlines()[:21]) + '\n{"step": 21, "eval/gre')
    return folder


def test_all_runs_are_compared_at_the_step_that_each_has_reached(sweep):
    data, metric = partial_data(sweep)
    assert metric == METRIC and data.metrics["step"].max() == 20
    assert data.variants == ["norm=a", "norm=b"]
    assert data.runs["status"].value_counts().to_dict() == {"completed": 3, "running": 3}
    rows = [json.loads(line) for line in (sweep / "norm=a,seed=1" / "metrics.jsonl").read_text().splitlines()]
    late = [row[METRIC] for row in rows if METRIC in row and row["step"] <= 20][-2:]  # a tenth of 11, rounded up
    assert data.runs.set_index("name").loc["norm=a,seed=1", "score"] == pytest.approx(np.mean(late))


@pytest.mark.parametrize("terminal", ["xterm", "dumb"])
def test_the_screen_shows_table_and_progress(sweep, monkeypatch, terminal):
    monkeypatch.setenv("TERM", terminal)
    text, going = render(sweep, 100, baseline="norm=b")
    assert going and "up to step 20" in text.plain and "3 completed, 3 running" in text.plain
    assert "baseline" in next(line for line in text.plain.splitlines() if line.startswith("b "))


def test_the_last_line_says_whether_the_sweep_is_done(sweep, tmp_path):
    assert render(sweep, 100)[0].plain.splitlines()[-1].startswith("a look at a sweep that is not done")
    whole = write_sweep(tmp_path / "whole", random_scores(["norm=a", "norm=b"], 3))
    text, going = render(whole, 200)
    line = f"the sweep is done; verdicts and notes: rlexp compare {whole}"
    assert not going and text.plain.splitlines()[-1] == line and "not done" not in text.plain
    file = whole / "norm=a,seed=1" / "summary.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"status": "interrupted", "score": None}))
    text, going = render(whole, 200)
    assert not going and "nothing runs, but 1 of 6 runs have not ended" in text.plain


def test_it_waits_for_the_first_rows_and_ends_with_the_sweep(tmp_path, monkeypatch, capsys):
    folder = tmp_path / "sweep"
    folder.mkdir()
    naps = []

    def nap(seconds):
        naps.append(seconds)
        write_sweep(folder, random_scores(["norm=a", "norm=b"], 2))

    monkeypatch.setattr("time.sleep", nap)
    watch(folder, 7.0, console=Console(width=100))
    out = capsys.readouterr().out
    assert naps == [7.0] and "waiting" not in out.splitlines()[-1] and "4 completed" in out


def test_no_folder_is_one_line(tmp_path, capsys):
    assert main([str(tmp_path / "nothing")]) == 2
    assert capsys.readouterr().err.count("\n") == 1
