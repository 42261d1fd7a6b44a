"""Runs whose files are not what they wrote are reported as damaged, by file, and never compared."""

import json
import shutil

import pytest
from analysis_fixtures import write_lines, write_run, write_sweep
from interrupted import jobs

from rlexp.analysis import compare as command
from rlexp.analysis.data import read
from rlexp.analysis.data.load import load
from rlexp.analysis.report.page import run_command
from rlexp.analysis.stats.answer import Question, answer
from rlexp.runfolder.files import json_with_checksum, line_with_checksum, yaml_with_checksum
from rlexp.sweep.engine import train_jobs

CONFIG = "seed: 0\nsteps: 10\nlog_every: 1\neval:\n  every: 2\nstudy: null\n"


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Return the folder of two runs that ended."""
    folder = tmp_path_factory.mktemp("trained")
    train_jobs(jobs(folder, variants=["local"]))
    return folder


@pytest.fixture
def sweep(trained, tmp_path):
    return shutil.copytree(trained, tmp_path / "sweep")


def lines(path):
    return path.read_text().splitlines(keepends=True)


CHANGES = {
    "metrics.jsonl": lambda path: path.write_text("".join(lines(path)[:-1])),
    "samples.jsonl": lambda path: path.unlink(),
    "config.yaml": lambda path: path.write_text(path.read_text().replace("log_every: 2", "log_every: 3")),
    "summary.json": lambda path: path.write_text(path.read_text().replace('"score": 0.0', '"score": 0.1', 1)),
}


@pytest.mark.slow
@pytest.mark.parametrize("file", CHANGES)
def test_a_changed_file_is_named_and_its_run_left_out(sweep, file):
    assert load(sweep).problems == []
    before = (sweep / "local0" / file).read_bytes()
    CHANGES[file](sweep / "local0" / file)
    assert not (sweep / "local0" / file).exists() or (sweep / "local0" / file).read_bytes() != before
    data = load(sweep)
    (problem,) = data.problems
    assert problem.run == "local0" and problem.reason.startswith(f"damaged: {file} is")
    assert data.runs.set_index("name").loc["local0", ["status"]].item() == "damaged"
    assert data.runs["score"].notna().tolist() == [False, True] and set(data.metrics["name"]) == {"local1"}
    assert command.main([str(sweep), "--out", str(sweep / "out")]) == 1


def test_a_run_without_its_overrides_is_repeated_from_its_folder(tmp_path):
    assert run_command(tmp_path) is None
    (tmp_path / "config.yaml").write_text(CONFIG)
    assert run_command(tmp_path) == f"python -m rlexp.train --from {tmp_path}"


@pytest.mark.slow
def test_a_later_format_names_who_reads_it(sweep):
    path = sweep / "local0" / "summary.json"
    facts = json.loads(path.read_text()) | {"format": 3}
    del facts["checksum"]
    path.write_bytes(json_with_checksum(json.dumps(facts, indent=2) + "\n"))
    (problem,) = load(sweep).problems
    assert problem.reason == "damaged: summary.json has format 3: the rlexp that wrote it reads it, or a later one"


def test_a_configuration_is_whole_by_its_checksum_or_of_before_there_were_any(tmp_path):
    text, file = "format: 2\nlr: 0.1\n", tmp_path / "config.yaml"
    whole = yaml_with_checksum(text)
    for raw in (whole, b"lr: 0.1\n"):
        file.write_bytes(raw)
        assert read.read_yaml(file) == {"lr": 0.1}
    later = yaml_with_checksum(text.replace("2", "3"))
    for raw in (whole.replace(b"0.1\n", b"0.2\n"), later, text.encode()):
        file.write_bytes(raw)
        assert read.read_yaml(file) is None


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda rows: rows[:6], "lacks 5 of 11 rows"),
        (lambda rows: rows[1:], "lacks 1 of 11 rows"),
        (lambda rows: [*rows[:3], *rows[4:]], "lacks 1 of 11 rows"),
        (lambda rows: [*rows[:3], rows[2], *rows[3:]], "has rows twice"),
        (lambda rows: [rows[1], rows[0], *rows[2:]], "has rows out of order"),
        (lambda rows: [*rows, rows[-1] | {"step": 11}], "has rows too many"),
        (lambda rows: [], "lacks 11 of 11 rows"),
    ],
)
def test_the_rows_of_an_older_run_are_those_that_its_config_asks_for(tmp_path, change, reason):
    sweep = write_sweep(tmp_path, {"norm=local": [0.5, 0.6]}, steps=10)
    run = sweep / "norm=local,seed=0"
    (run / "config.yaml").write_text(CONFIG)
    assert load(sweep).problems == []
    rows = [json.loads(line) for line in lines(run / "metrics.jsonl")]
    write_lines(run / "metrics.jsonl", change(rows))
    assert load(sweep).problems == [(run.name, f"damaged: metrics.jsonl {reason}")]


def test_an_unfinished_run_may_lack_its_end_but_nothing_else(tmp_path):
    write_run(tmp_path, "norm=local,seed=0", "norm=local", 0, 0.5, steps=10)
    run = tmp_path / "norm=local,seed=0"
    (run / "summary.json").unlink()
    (run / "config.yaml").write_text(CONFIG)
    whole = lines(run / "metrics.jsonl")
    (run / "metrics.jsonl").write_text("".join(whole[:4]))
    assert "summary.json is missing" in load(tmp_path).problems[0].reason
    (run / "metrics.jsonl").write_text("".join(whole[:2] + whole[3:5]))
    assert load(tmp_path).problems == [(run.name, "damaged: metrics.jsonl lacks 1 of 11 rows")]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda text: text.replace("norm=b", "norm=c", 1), "jobs.jsonl: 1 damaged line skipped"),
        (lambda text: text[: text.index("\n") + 1], "jobs.jsonl lacks 1 line"),
        (lambda text: "", "jobs.jsonl is empty or cannot be read: its runs are found by looking"),
    ],
)
def test_what_is_wrong_with_the_index_is_said(tmp_path, change, said):
    sweep = write_sweep(tmp_path, {"norm=b": [0.5], "norm=a": [0.6]}, steps=10)
    path = sweep / "jobs.jsonl"
    rows = [json.loads(line) for line in lines(path)]
    path.write_text("".join(line_with_checksum(row, len(rows)) for row in rows))
    assert load(sweep).problems == [] and load(sweep).variants == ["norm=b", "norm=a"]
    path.write_text(change(path.read_text()))
    data = load(sweep)
    assert data.problems[0] == ("jobs.jsonl", said) and data.runs["score"].notna().all()


def test_a_missing_index_is_said(tmp_path):
    sweep = write_sweep(tmp_path, {"norm=b": [0.5], "norm=a": [0.6]}, steps=10)
    (sweep / "multirun.yaml").write_text("hydra:\n  launcher:\n    _target_: hydra_plugins.x.FusedLauncher\n")
    (sweep / "jobs.jsonl").unlink()
    assert load(sweep).problems == [("jobs.jsonl", "is missing: its runs are found by looking")]


def test_runs_of_two_machines_are_said(tmp_path):
    sweep = write_sweep(tmp_path, {"norm=b": [0.5, 0.6, 0.7], "norm=a": [0.6, 0.7, 0.8]}, steps=10)
    for number, path in enumerate(sorted(sweep.glob("*/summary.json"))):
        entries = [{"files": "a" * 16, "cpu": "One", "vectors": "AVX2", "MKL_CBWR": "AUTO,STRICT"}]
        entries += [entries[0] | {"cpu": "Two", "ATEN_CPU_CAPABILITY": "default"}] * (number == 0)
        path.write_text(json.dumps(json.loads(path.read_text()) | {"code": entries}))
    (note,) = [note for note in answer(load(sweep), Question()).notes if "machines" in note]
    one, two = "One AVX2, MKL_CBWR=AUTO,STRICT", "Two AVX2, MKL_CBWR=AUTO,STRICT, ATEN_CPU_CAPABILITY=default"
    assert f"{one}, then {two}: 1 run" in note and f"{one}: 5 runs" in note and "different code" not in note
