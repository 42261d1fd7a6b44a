"""The command line in the test's own process: a tenth of the time of a new one."""

import logging
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

import rlexp.analysis.compare
from rlexp import train

CONF = Path(__file__).parents[1] / "conf"


class Result(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def command(tmp_path, monkeypatch, capsys):
    """Return a function that runs `rlexp <arguments>` with ``tmp_path`` as the current folder."""
    monkeypatch.chdir(tmp_path)
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level

    def run(*arguments: str) -> Result:
        choices = [] if any(each.startswith("--from") for each in arguments) else ["--config-dir", str(CONF)]
        monkeypatch.setattr(sys, "argv", ["rlexp", *choices, *arguments])
        try:
            train.main()
            code = 0
        except SystemExit as end:
            code = end.code
        return Result(code, *capsys.readouterr())

    yield run
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture
def no_comparison(monkeypatch):
    """Let sweeps end without the seconds of a table and a page."""
    monkeypatch.setattr(rlexp.analysis.compare, "report", lambda folder, **_: None)


def only_sweep(folder: Path) -> Path:
    """Return the one sweep below runs/."""
    (sweep,) = (folder / "runs").iterdir()
    return sweep
