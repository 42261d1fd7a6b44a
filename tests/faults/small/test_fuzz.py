"""A few inputs through the fuzzer; what it is to find is found."""

import subprocess
import sys

import pytest

from tests.faults import fuzz, in_process


@pytest.mark.rare
def test_no_input_ends_in_a_traceback(tmp_path):
    command = [sys.executable, "-m", "tests.faults.fuzz", "--number", "80", "--commands", "2", "--seed", "7"]
    done = subprocess.run([*command, "--results", str(tmp_path)], capture_output=True, text=True, cwd=fuzz.ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 findings" in done.stdout and (tmp_path / "fuzz.json").exists()


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (1, "lr=-1: must be above 0"),
        (2, ""),
        (2, "Traceback (most recent call last):"),
        (2, "AssertionError: AssertionError (HYDRA_FULL_ERROR=1 shows where)"),
        (2, "usage: rlexp\n  [overrides]"),
        (0, "something"),
    ],
)
def test_an_end_that_does_not_help_is_a_finding(tmp_path, monkeypatch, code, said):
    monkeypatch.chdir(tmp_path)
    assert in_process.judge(code, said).kind == "finding"


def test_a_line_is_a_refusal_unless_something_was_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert in_process.judge(2, "note: x\nlr=-1: must be above 0\n") == ("refused", "lr=-1: must be above 0")
    (tmp_path / "left").touch()
    assert in_process.judge(2, "lr=-1: must be above 0").kind == "finding"


@pytest.mark.parametrize(
    ("there", "typed", "choices", "equal"),
    [
        (0.001, 1e-3, (), True),
        ({"name": "local"}, "local", ("local",), True),
        ([1, 2], [1, 2], (), True),
        (None, None, (), True),
        (400, 401, (), False),
        ({"every": 1, "ks": [1]}, {"every": 1}, (), True),
        ({"every": 2}, {"every": 1}, (), False),
    ],
)
def test_a_value_that_was_ignored_is_seen(there, typed, choices, equal):
    assert in_process.same(there, typed, choices) is equal
