"""A run says which code trained it, in a checkout and installed, and keeps what earlier code wrote."""

import json
import subprocess

import pytest

from rlexp.record import provenance
from rlexp.record.files import Recorder
from rlexp.record.provenance import LONGEST_DIFF, checkout, files_hash, history

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


def run_until(folder, step, after, monkeypatch, files, status=None):
    """Train as code with a hash would: from `after` to `step`, killed there unless it ends with a status."""
    monkeypatch.setattr(provenance, "code", lambda: {"version": "1", "files": files, "commit": None})
    recorder = Recorder(folder, {"seed": 0}, {}, after)
    recorder.write_row(step, {})
    return recorder.finish(status) if status else None


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


@pytest.mark.parametrize("text", ["", "{", "[1]\n", '{"step": 0}\n'])
def test_a_damaged_list_stops_no_run(tmp_path, monkeypatch, text):
    run_until(tmp_path, 10, -1, monkeypatch, "a")
    (tmp_path / "code.jsonl").write_text(text)
    run_until(tmp_path, 20, 10, monkeypatch, "b")
    assert stretches(tmp_path) == [(10, "b")]
