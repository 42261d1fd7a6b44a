"""One damaged file is one run's affair: it is named, the run goes back to its last good state, the others train on."""

import json
import shutil

import pytest
from interrupted import jobs, stop_engine
from small_runs import rows

from rlexp.core.exits import RunFailed
from rlexp.record import checkpoint, disk, provenance
from rlexp.record.disk import dump_json, read_state, serialize
from rlexp.record.resume import inspect
from rlexp.runfolder.files import json_with_checksum
from rlexp.sweep.engine import train_jobs

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Return two runs that were never stopped, and their scores."""
    found = jobs(tmp_path_factory.mktemp("whole"), variants=["local"])
    return found, train_jobs(found)


@pytest.fixture(scope="module")
def half(tmp_path_factory):
    """Return the same runs, stopped with checkpoints at steps 3 and 6."""
    found = jobs(tmp_path_factory.mktemp("half"), variants=["local"])
    with pytest.MonkeyPatch.context() as patch:
        stop_engine(patch, 8)
        with pytest.raises(KeyboardInterrupt):
            train_jobs(found)
    return found


@pytest.fixture
def stopped(tmp_path, half):
    """Return them in a folder of a test's own."""
    return copied(half, tmp_path)


def copied(runs, folder):
    found = jobs(folder, variants=["local"])
    for one, other in zip(runs, found, strict=True):
        shutil.copytree(one.folder, other.folder, dirs_exist_ok=True)
    return found


def status(job):
    return inspect(job.folder, job.config.model_dump(mode="json")).kind


def lose_last_row_before(step, path):
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(line for line in lines if json.loads(line)["step"] != step))


def double_last_line(path):
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*lines, lines[-1]]))


DAMAGES = {
    "a row is gone": (lambda folder: lose_last_row_before(2, folder / "metrics.jsonl"), "metrics.jsonl", None),
    "a late row is gone": (lambda folder: lose_last_row_before(6, folder / "metrics.jsonl"), "metrics.jsonl", 3),
    "the last row twice": (lambda folder: double_last_line(folder / "metrics.jsonl"), "", 6),
    "the last sample twice": (lambda folder: double_last_line(folder / "samples.jsonl"), "", 6),
    "no rows": (lambda folder: (folder / "metrics.jsonl").write_text(""), "metrics.jsonl", None),
    "no file of rows": (lambda folder: (folder / "metrics.jsonl").unlink(), "metrics.jsonl", None),
    "a bad line": (lambda folder: (folder / "metrics.jsonl").write_text("{\n"), "metrics.jsonl", None),
    "bad samples": (lambda folder: (folder / "samples.jsonl").write_bytes(b"\xff\n"), "samples.jsonl", None),
    "an empty summary": (lambda folder: (folder / "summary.json").write_text("{}"), "summary.json", 6),
    "half a summary": (lambda folder: (folder / "summary.json").write_text('{"status": "comp'), "summary.json", 6),
    "a config of junk": (lambda folder: (folder / "config.yaml").write_bytes(b"\0{["), "config.yaml", 6),
    "no config": (lambda folder: (folder / "config.yaml").unlink(), "", 6),
    "a bad checkpoint": (lambda folder: (folder / checkpoint.LATEST).write_bytes(b"PK"), "checkpoint.pt", 3),
}


@pytest.mark.parametrize("what", DAMAGES)
def test_the_run_goes_back_to_its_last_good_state(whole, stopped, caplog, what):
    act, named, step = DAMAGES[what]
    act(stopped[0].folder)
    expected, scores = whole
    assert train_jobs(stopped) == scores
    for one, other in zip(expected, stopped, strict=True):
        assert rows(one.folder) == rows(other.folder)
        assert (one.folder / "samples.jsonl").read_text() == (other.folder / "samples.jsonl").read_text()
        assert status(other) == "finished"
    then = f"the run goes on after step {step}" if step else "the run begins again"
    lines = [line for line in caplog.messages if str(stopped[0].folder) in line]
    assert bool(named) == bool(lines) and all(named in line and line.endswith(then) for line in lines)
    assert not [line for line in caplog.messages if str(stopped[1].folder) in line]


@pytest.mark.parametrize("what", [what for what in DAMAGES if what not in ("an empty summary", "half a summary")])
def test_a_finished_run_whose_files_were_changed_is_mended(tmp_path, whole, caplog, what):
    expected, scores = whole
    found = copied(expected, tmp_path)
    act, named, _ = DAMAGES[what]
    act(found[0].folder)
    assert train_jobs(found) == scores
    assert all(rows(one.folder) == rows(other.folder) for one, other in zip(expected, found, strict=True))
    assert status(found[0]) == "finished"
    files = [named] if named else ["config.yaml", "metrics.jsonl", "samples.jsonl"]
    assert what == "a bad checkpoint" or any(file in line for file in files for line in caplog.messages)


def unreadable(monkeypatch, path):
    """Let the system refuse one file, as it does for another user's."""
    real = disk.os.open

    def refused(name, *rest, **options):
        if str(name) == str(path):
            raise PermissionError(13, "Permission denied", str(path))
        return real(name, *rest, **options)

    monkeypatch.setattr(disk.os, "open", refused)


@pytest.mark.parametrize("name", ["checkpoint.pt", "metrics.jsonl", "config.yaml", "summary.json"])
def test_what_cannot_be_read_is_not_taken_for_damaged(whole, stopped, monkeypatch, name):
    _, scores = whole
    path = stopped[0].folder / name
    before = path.read_bytes()
    with monkeypatch.context() as now:
        unreadable(now, path)
        failed, score = train_jobs(stopped)
    assert isinstance(failed, RunFailed) and f"{path} cannot be read: Permission denied" in str(failed)
    assert score == scores[1] and path.read_bytes() == before
    assert train_jobs(stopped) == scores


def test_the_checkpoint_of_another_run_is_refused(whole, stopped):
    for name in (checkpoint.LATEST, checkpoint.PREVIOUS):
        shutil.copy(stopped[1].folder / name, stopped[0].folder / name)
    failed, score = train_jobs(stopped)
    assert str(failed).endswith("checkpoint.pt is of a run with another config (its seed is 1): move it away")
    assert score == whole[1][1]
    (stopped[0].folder / checkpoint.LATEST).unlink(), (stopped[0].folder / checkpoint.PREVIOUS).unlink()
    assert train_jobs(stopped) == whole[1]


def older(folder):
    """Leave a folder as the release before checksums did."""
    for name in (checkpoint.LATEST, checkpoint.PREVIOUS):
        saved = read_state(folder / name)
        raw = serialize({key: value for key, value in saved.items() if key not in ("identity", "files")})
        (folder / name).write_bytes(raw[: -len("rlexp checksum ") - 34] + bytes(2))
    config = (folder / "config.yaml").read_text().splitlines(keepends=True)
    (folder / "config.yaml").write_text("".join(config[1:-1]))
    summary = json.loads((folder / "summary.json").read_text())
    left = {key: value for key, value in summary.items() if key not in ("format", "identity", "files", "checksum")}
    (folder / "summary.json").write_text(json.dumps(left))


@pytest.mark.parametrize(("lost", "step"), [(None, None), (2, "begins again"), (6, "goes on after step 3")])
def test_an_older_run_goes_on_and_its_rows_are_counted(whole, stopped, caplog, lost, step):
    older(stopped[0].folder)
    if lost is not None:
        lose_last_row_before(lost, stopped[0].folder / "metrics.jsonl")
    assert train_jobs(stopped) == whole[1]
    assert rows(stopped[0].folder) == rows(whole[0][0].folder)
    said = [line for line in caplog.messages if "lacks rows" in line]
    assert bool(said) == (lost is not None) and (not said or step in said[0])


def test_a_folder_of_which_nothing_says_whose_it_is_is_left_alone(stopped):
    older(stopped[0].folder)
    (stopped[0].folder / "config.yaml").write_bytes(b"\0")
    before = {file: file.read_bytes() for file in stopped[0].folder.iterdir()}
    failed, score = train_jobs(stopped)
    assert "config.yaml is gone or damaged, and nothing else says" in str(failed) and isinstance(score, float)
    assert {file: file.read_bytes() for file in stopped[0].folder.iterdir()} == before


def test_a_later_format_is_refused_and_left_alone(stopped):
    path = stopped[0].folder / "summary.json"
    text = dump_json({"status": "completed", "score": 1.0, "format": 3, "versions": {"rlexp": "0.9"}}, indent=2)
    path.write_bytes(json_with_checksum(text + "\n"))
    before = {file: file.read_bytes() for file in stopped[0].folder.iterdir()}
    failed, score = train_jobs(stopped)
    assert "has format 3" in str(failed) and "rlexp 0.9 reads it" in str(failed) and isinstance(score, float)
    assert {file: file.read_bytes() for file in stopped[0].folder.iterdir()} == before


def test_a_failed_run_goes_on_from_its_checkpoint_on_request(whole, stopped, tmp_path):
    path = stopped[0].folder / "summary.json"
    facts = {"status": "failed", "reason": "no space left", "format": 2}
    path.write_bytes(json_with_checksum(dump_json(facts, indent=2) + "\n"))
    assert "resume=failed" in str(train_jobs(stopped)[0])
    asked = jobs(tmp_path, "resume=failed", variants=["local"])
    (asked[0].folder / "log").touch()
    assert train_jobs(asked) == whole[1]
    entries = json.loads(path.read_text())["code"]
    assert [entry["step"] for entry in entries] == [0]


def test_other_code_or_another_machine_is_said(stopped, caplog, monkeypatch):
    other = provenance.code() | {"files": "0" * 16, "cpu": "another"}
    monkeypatch.setattr(provenance, "code", lambda: other)
    train_jobs(stopped)
    (line, _) = [line for line in caplog.messages if "other code or another machine" in line]
    assert "goes on after step 6" in line and "cpu " in line and "another now" in line and "files " in line
    summary = json.loads((stopped[0].folder / "summary.json").read_text())
    assert [(entry["step"], entry["cpu"]) for entry in summary["code"]][1] == (6, "another")
