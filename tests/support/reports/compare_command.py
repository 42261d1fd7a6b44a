"""The command of rlexp.analysis.compare in the test's own process, without the seconds that its figures take."""

import pytest

from rlexp.analysis.compare import main


@pytest.fixture(autouse=True)
def no_figures(monkeypatch):
    """Let nothing be drawn; lines are long enough for every table."""
    monkeypatch.setattr("rlexp.analysis.figures.gallery.FIGURES", {})
    monkeypatch.setenv("COLUMNS", "200")


def run(capsys, *arguments):
    """Return the exit code and what is printed on stdout and stderr."""
    code = main(list(map(str, arguments)))
    captured = capsys.readouterr()
    return code, captured.out, captured.err
