"""A run says which code trained it, in a checkout and installed, and keeps what earlier code wrote."""

import json
import subprocess

import pytest

from rlexp.record import provenance
from rlexp.record.disk import Recorder
from rlexp.record.provenance import LONGEST_DIFF, checkout, files_hash, history
from rlexp.runfolder.files import Damaged, Unreadable

NOT_TRACKED = {"commit": None, "dirty": None, "diff": None}
NAMES = ("user.name", "user.email")


def git(folder, *arguments):
    named = [part for name in NAMES for part in ("-c", f"{name}=a@b.c")]
    done = subprocess.run(["git", *named, *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def package(tmp_path):
    """A folder with a package in it that looks like ours."""
    for name in ("rlexp/__init__.py", "rlexp/core/exact.py", "conf/config.yaml", "README.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(f"of {name}\n")
    return tmp_path


@pytest.fixture
def repository(package):
    git(package, "init", "--quiet")
    git(package, "add", ".")
    git(package, "commit", "--quiet", "-m", "first")
    return package


def test_a_checkout_as_committed_is_its_commit(repository, monkeypatch):
    clean = {"commit": git(repository, "rev-parse", "HEAD"), "dirty": False, "diff": ""}
    (repository / "README.md").write_text("not of the package")
    assert checkout(repository) == clean
    monkeypatch.setenv("GIT_DIR", "/nowhere")  # as in a hook of another repository
    assert checkout(repository) == clean


def test_changed_and_new_files_of_the_package_are_the_difference(repository):
    (repository / "rlexp/core/exact.py").write_text("changed\n")
    (repository / "conf/mine.yaml").write_text("name: mine\n")
    (repository / "notes.txt").write_text("not of the package")
    found = checkout(repository)
    assert found["dirty"] and all(f"\n{line}\n" in found["diff"] for line in ("+changed", "+name: mine"))
    assert "+++ b/conf/mine.yaml" in found["diff"] and "notes" not in found["diff"]
    assert git(repository, "status", "--porcelain").count("\n") == 2  # the index is as it was


def test_a_long_difference_is_cut(repository):
    (repository / "rlexp/core/exact.py").write_text("x" * 2 * LONGEST_DIFF)
    diff = checkout(repository)["diff"]
    assert len(diff) < LONGEST_DIFF + 100 and diff.endswith("more characters left out]\n")


def test_without_git_or_in_a_repository_of_others_there_is_no_commit(package, monkeypatch):
    assert checkout(package) == NOT_TRACKED
    git(package, "init", "--quiet")
    git(package, "add", "README.md")
    git(package, "commit", "--quiet", "-m", "a project whose .venv has the package")
    assert checkout(package) == NOT_TRACKED
    monkeypatch.setenv("PATH", "/nowhere")
    assert checkout(package) == NOT_TRACKED


def test_the_hash_is_of_names_and_contents_of_code(package):
    before = files_hash(package)
    (package / "conf/config.yaml").write_text("not code")
    assert files_hash(package) == before
    (package / "rlexp/core/exact.py").rename(package / "rlexp/core/other.py")
    renamed = files_hash(package)
    (package / "rlexp/core/other.py").write_text("other")
    assert len({before, renamed, files_hash(package)}) == 3


def damage(recorder):
    return next((note for note in recorder.notes if note.startswith("code.jsonl")), "")


def run_until(folder, step, after, monkeypatch, files, status=None):
    """Train as code with a hash would: from `after` to `step`, killed there unless it ends with a status."""
    monkeypatch.setattr(provenance, "code", lambda: {"version": "1", "files": files, "commit": None})
    recorder = Recorder(folder, {"seed": 0}, {}, after)
    recorder.write_row(step, {})
    if status:
        recorder.finish(status)
    return recorder


def stretches(folder):
    return [(entry["step"], entry["files"]) for entry in history(folder)]


def test_a_run_keeps_what_earlier_code_wrote(tmp_path, monkeypatch):
    run_until(tmp_path, 10, -1, monkeypatch, "a")
    run_until(tmp_path, 20, 10, monkeypatch, "a")
    assert stretches(tmp_path) == [(0, "a")]
    run_until(tmp_path, 30, 20, monkeypatch, "b")
    assert stretches(tmp_path) == [(0, "a"), (20, "b")]
    run_until(tmp_path, 40, 20, monkeypatch, "c", "completed")  # from the same checkpoint: nothing of b is left
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert [(entry["step"], entry["files"]) for entry in summary["code"]] == [(0, "a"), (20, "c")]


def test_a_run_that_begins_again_is_of_the_code_of_now(tmp_path, monkeypatch):
    run_until(tmp_path, 10, -1, monkeypatch, "a")
    run_until(tmp_path, 10, -1, monkeypatch, "b")
    assert stretches(tmp_path) == [(0, "b")]


def interrupted(folder, monkeypatch):
    """Leave a run that code `a` trained up to step 10 and `b` up to step 20, where it was killed."""
    run_until(folder, 10, -1, monkeypatch, "a")
    run_until(folder, 20, 10, monkeypatch, "b")
    return folder / "code.jsonl"


def flipped(raw, place):
    return raw[: place // 8] + bytes([raw[place // 8] ^ 1 << place % 8]) + raw[place // 8 + 1 :]


def lines_of(raw):
    return raw.splitlines(keepends=True)


DAMAGES = {
    "emptied": lambda raw: b"",
    "cut": lambda raw: raw[:-40],
    "a tail of zeros": lambda raw: raw[:-40] + bytes(40),
    "only zeros": lambda raw: bytes(len(raw)),
    "a flipped bit in the hash of the files": lambda raw: flipped(raw, 8 * raw.index(b'"files": "') + 83),
    "a flipped bit in the key of the seal": lambda raw: flipped(raw, 8 * raw.index(b'"check"') + 9),
    "a doubled line": lambda raw: b"".join([*lines_of(raw), lines_of(raw)[-1]]),
    "a lost line": lambda raw: lines_of(raw)[0],
    "other values": lambda raw: b"[1]\n",
    "a doubled line of an older release": lambda raw: b'{"step": 0, "files": "a"}\n' * 2,
}


@pytest.mark.parametrize("how", DAMAGES)
def test_a_damaged_list_is_named_and_begins_anew(tmp_path, monkeypatch, how):
    path = interrupted(tmp_path, monkeypatch)
    path.write_bytes(DAMAGES[how](path.read_bytes()))
    with pytest.raises(Damaged, match="code.jsonl is damaged"):
        history(tmp_path)
    recorder = run_until(tmp_path, 30, 20, monkeypatch, "b")
    assert damage(recorder) == "code.jsonl is damaged: what trained the run up to step 20 is not known any more"
    assert stretches(tmp_path) == [(20, "b")] and damage(run_until(tmp_path, 40, 30, monkeypatch, "b")) == ""


def test_every_flipped_bit_and_every_cut_shows(tmp_path, monkeypatch):
    path = interrupted(tmp_path, monkeypatch)
    whole = path.read_bytes()
    for changed in [flipped(whole, place) for place in range(8 * len(whole))] + [whole[:n] for n in range(len(whole))]:
        path.write_bytes(changed)
        if changed != whole.rstrip():
            with pytest.raises(Damaged):
                history(tmp_path)


def test_a_list_that_is_gone_is_named_once_something_was_trained(tmp_path, monkeypatch):
    assert damage(run_until(tmp_path, 10, -1, monkeypatch, "a")) == ""
    (tmp_path / "code.jsonl").unlink()
    assert damage(run_until(tmp_path, 10, -1, monkeypatch, "a")) == ""
    (tmp_path / "code.jsonl").unlink()
    gone = "code.jsonl is gone: what trained the run up to step 10 is not known any more"
    assert damage(run_until(tmp_path, 20, 10, monkeypatch, "b")) == gone and stretches(tmp_path) == [(10, "b")]


def test_a_damaged_list_is_made_again_of_the_summary(tmp_path, monkeypatch):
    run_until(tmp_path, 10, -1, monkeypatch, "a")
    run_until(tmp_path, 20, 10, monkeypatch, "b", "interrupted")
    (tmp_path / "code.jsonl").write_bytes(b"\0")
    recorder = run_until(tmp_path, 30, 20, monkeypatch, "c")
    assert damage(recorder) == "code.jsonl is damaged: summary.json has it too"
    assert stretches(tmp_path) == [(0, "a"), (10, "b"), (20, "c")]


def test_what_cannot_be_read_ends_the_run_before_anything_is_touched(tmp_path, monkeypatch):
    run_until(tmp_path, 10, -1, monkeypatch, "a", "interrupted")
    (tmp_path / "code.jsonl").unlink()
    (tmp_path / "code.jsonl").mkdir()
    with pytest.raises(Unreadable, match="code.jsonl cannot be read: Is a directory"):
        run_until(tmp_path, 20, 10, monkeypatch, "a")
    assert (tmp_path / "summary.json").exists()


def test_a_list_of_an_older_release_is_read(tmp_path, monkeypatch):
    (tmp_path / "code.jsonl").write_text('{"step": 0, "version": "1", "files": "a", "commit": null}\n')
    assert damage(run_until(tmp_path, 20, 10, monkeypatch, "b")) == ""
    assert stretches(tmp_path) == [(0, "a"), (10, "b")]
