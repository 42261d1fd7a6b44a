"""The scripts that kill, race and fill a disk, each a few times: nothing is lost, doubled or changed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.forked import phase_of
from tests.faults.kills import differences

pytestmark = pytest.mark.rare  # dozens of runs
ROOT = Path(__file__).parents[3]


def found(name, folder, *options):
    """Run a script; return what it wrote down."""
    command = [sys.executable, "-m", f"tests.faults.{name}", "--results", str(folder), *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return json.loads((folder / f"{name}.json").read_text())


def test_kills_change_no_line(tmp_path):
    result = found("kills", tmp_path, "--number", "2", "--seed", "7")
    assert result["findings"] == [] and result["kills"] >= 1


def test_of_two_starts_one_writes(tmp_path):
    result = found("races", tmp_path, "--number", "1", "--seed", "7")
    assert result["findings"] == [] and result["races"] == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a disk")
def test_a_full_disk_loses_nothing(tmp_path):
    kinds = ["metrics", "checkpoint", "jobs", "analysis"]  # what is written before, while, between and after
    result = found("disk_full", tmp_path, "--number", str(len(kinds)), "--seed", "7", "--only", ",".join(kinds))
    assert result["findings"] == [] and {kind.partition(":")[0] for kind in result["by kind"]} == {*kinds}


def test_the_comparison_sees_what_is_lost_doubled_or_changed():
    whole = {"run/metrics.jsonl": ["a", "b", "c"]}
    for lines in (["a", "b"], ["a", "b", "b", "c"], ["a", "x", "c"], []):
        assert differences(whole, {"run/metrics.jsonl": lines})
    assert differences(whole, {}) and differences({}, whole) and not differences(whole, whole)


def test_a_phase_is_that_of_the_innermost_function():
    assert phase_of(None) == "between"
