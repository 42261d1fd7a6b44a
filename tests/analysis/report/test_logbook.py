"""`rlexp report … --logbook`: cells of a real Trackio logbook, which Trackio reads."""

import json
import subprocess
import sys

import numpy as np
import pytest
from analysis_fixtures import write_sweep

from rlexp.analysis.report.__main__ import main

NOISE = np.linspace(0, 0.05, 6)


@pytest.fixture
def sweep(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return str(write_sweep(tmp_path / "norms", {"norm=a": list(0.5 + NOISE), "norm=b|c": list(0.6 + NOISE)}, steps=4))


def trackio(*arguments):
    command = [sys.executable, "-m", "trackio.cli", "logbook", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_cells_hold_the_answer_the_command_and_each_score(sweep, capsys):
    pytest.importorskip("trackio")
    trackio("open", "--no-serve", "--title", "Norms")
    assert main([sweep, "--logbook"]) == 0
    assert "logbook: page norms\n" in capsys.readouterr().out
    cells = json.loads(trackio("read", "page", "norms", "--json"))["cells"]
    assert [cell["type"] for cell in cells[:2]] == ["code", "markdown"] and cells[-1]["type"] == "figure"
    code, answer, figure = (trackio("read", "cell", cells[place]["id"], "--full", "--raw") for place in (0, 1, -1))
    assert f"rlexp report {sweep}\n" in code
    assert "**What came out**" in answer and "+0.1" in answer and r"b\|c" in answer
    assert "norm=a,0,completed,0.5" in figure


def test_without_a_logbook_a_line_says_how_to_start_one(sweep, capsys):
    pytest.importorskip("trackio")
    assert main([sweep, "--logbook"]) == 2
    assert "start one: trackio logbook open" in capsys.readouterr().err


def test_without_trackio_a_line_says_what_to_install(sweep, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "trackio", None)
    assert main([sweep, "--logbook"]) == 2
    assert "pip install 'rlexp[trackio]'" in capsys.readouterr().err
