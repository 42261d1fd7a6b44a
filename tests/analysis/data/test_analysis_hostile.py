"""Folders made by somebody who means harm, or by accident: what is in them is neither waited for nor obeyed."""

import json
import os
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import pandas as pd
import pytest
from analysis_fixtures import write_sweep

from rlexp.analysis import compare, load
from rlexp.analysis.data.errors import AnalysisError, ends_in_a_line
from rlexp.analysis.data.read import read_lines, read_object, read_yaml
from rlexp.analysis.report.__main__ import main as report

SCORES = {"norm=local": [0.5, 0.6, 0.7], "norm=global": [0.6, 0.7, 0.8]}
ESCAPE = "\x1b]0;owned\x07\x1b[2J"


@pytest.fixture
def sweep(tmp_path) -> Path:
    return write_sweep(tmp_path / "sweep", SCORES, steps=10)


@pytest.fixture(autouse=True)
def in_time():
    """End a test that waits for ever."""
    signal.signal(signal.SIGALRM, lambda *_: pytest.fail("it waits"))
    signal.alarm(60)
    yield
    signal.alarm(0)


def change(path: Path, **facts) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | facts))


def rename(sweep: Path, old: str, new: str) -> None:
    """Call a variant otherwise, as its runs' summaries do."""
    for path in sweep.glob(f"{old}*/summary.json"):
        change(path, variant=new)


@pytest.mark.parametrize("name", ["metrics.jsonl", "summary.json", "config.yaml", "samples.jsonl", "../jobs.jsonl"])
@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
@pytest.mark.slow
def test_what_is_no_regular_file_is_not_read(sweep, name, kind):
    path = sweep / "norm=local,seed=0" / name
    path.unlink(missing_ok=True)
    {"pipe": os.mkfifo, "folder": os.mkdir, "device": lambda path: os.symlink("/dev/zero", path)}[kind](path)
    assert report([str(sweep)]) in (0, 1)
    reasons = [problem.reason for problem in load(sweep).problems]
    told = any("is no regular file" in reason or "cannot be read" in reason for reason in reasons)
    assert told or name in ("config.yaml", "samples.jsonl")


def test_a_yaml_of_billions_is_no_config(tmp_path, sweep):
    levels = "".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 12))
    path = tmp_path / "bomb.yaml"
    path.write_text(f"a0: &a0 [1]\n{levels}")
    assert read_yaml(path) is None
    (sweep / "norm=local,seed=0" / "config.yaml").write_text(path.read_text())
    (sweep / "multirun.yaml").write_text(path.read_text())
    assert report([str(sweep)]) in (0, 1)


@pytest.mark.parametrize("text", ["a: &a [*a]", "a: 2001-99-99", "[" * 5000, "a: " + "9" * 5000, "? [1]\n: 2", "\x00"])
def test_a_yaml_that_cannot_be_read_is_none_or_a_value(tmp_path, text):
    (tmp_path / "x.yaml").write_text(text)
    read_yaml(tmp_path / "x.yaml")


def test_texts_are_printable(tmp_path):
    (tmp_path / "x.json").write_text('{"a\\u001b": ["\\ud800", {"b": "\\u202egood"}], "ok": "漢字 –"}')
    assert read_object(tmp_path / "x.json")[0] == {"a\\u001b": ["\\ud800", {"b": "\\u202egood"}], "ok": "漢字 –"}
    (tmp_path / "x.jsonl").write_bytes(b'{"a": "\\u001b\xff"}\n')
    assert read_lines(tmp_path / "x.jsonl")[0][0]["a"] == "\\u001b\ufffd"


@pytest.mark.slow
def test_a_terminal_is_not_told_what_to_do(sweep, capsys):
    rename(sweep, "norm=global", f"norm={ESCAPE}\ud800")
    change(sweep / "norm=local,seed=1" / "summary.json", status="failed", reason=ESCAPE)
    (sweep / "norm=local,seed=2").rename(sweep / f"norm={ESCAPE.replace('/', '')},seed=2")
    assert compare.main([str(sweep)]) == 1
    printed = capsys.readouterr()
    assert "\x1b]" not in printed.out + printed.err and "\x07" not in printed.out and "owned" in printed.out
    assert report([str(sweep)]) == 1
    files = [
        path for path in (sweep / "analysis").iterdir() if path.suffix in (".md", ".csv", ".tex", ".json", ".html")
    ]
    assert files and not any("\x1b" in path.read_text(encoding="utf-8") for path in files)


def test_a_table_holds_no_html_and_no_formula(sweep):
    rename(sweep, "norm=global", "=cmd|' /C calc'!A0<script>alert(1)</script>[x](javascript:1)")
    rename(sweep, "norm=local", "+norm.eps=1")
    compare.main([str(sweep)])
    table = (sweep / "analysis" / "table.md").read_text()
    assert "&lt;script>" in table and "<" not in table and "](" not in table.replace(r"]\(", "")
    for name in ("table.csv", "runs.csv"):
        cells = pd.read_csv(sweep / "analysis" / name)["variant"]
        assert cells.str.startswith(("'=cmd", "'+norm")).all()
    numbers = pd.read_csv(sweep / "analysis" / "table.csv")
    assert numbers["difference"].dtype == float and (sweep / "analysis" / "table.csv").read_text().startswith(
        "variant,"
    )


@pytest.mark.parametrize("scores", [(1e308, 1e308), (1e308, -1e308), (1e200, 0.5)])
@pytest.mark.slow
def test_numbers_that_are_no_measurements(sweep, scores, capsys):
    for path, score in zip(sorted(sweep.glob("*/summary.json")), scores * 3, strict=True):
        change(path, score=score)
    rows = sweep / "norm=local,seed=0" / "metrics.jsonl"
    rows.write_text(rows.read_text().replace('"eval/reward": ', '"eval/reward": 1e307, "eval/other": '))
    assert compare.main([str(sweep)]) in (1, 2) and report([str(sweep)]) in (1, 2)
    assert "too large to be one" in capsys.readouterr().out
    assert load(sweep).metrics["eval/reward"].abs().max() < 1e100


@pytest.mark.slow
def test_a_label_in_another_script_is_no_warning(sweep):
    rename(sweep, "norm=global", "norm=漢字")
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        assert compare.main([str(sweep)]) == 0 and report([str(sweep)]) == 0
    assert "漢字" in (sweep / "analysis" / "effects.svg").read_text(encoding="utf-8")


def test_what_nobody_has_foreseen_is_a_line(capsys, monkeypatch):
    monkeypatch.delenv("HYDRA_FULL_ERROR", raising=False)

    @ends_in_a_line
    def broken(kind: type[Exception]) -> int:
        raise kind("one\ntwo")

    assert [broken(KeyError), broken(AnalysisError)] == [2, 2]
    first, *others = capsys.readouterr().err.splitlines()
    assert first.startswith("error: KeyError: ") and first.endswith("(HYDRA_FULL_ERROR=1 shows where)")
    assert others == ["error: one", "two"]


COMMANDS = ["rlexp.analysis.compare {}", "rlexp.config.explain_choice clip"]
OTHERS = ["rlexp.analysis.report {}", "rlexp.analysis.compare {} --json", "rlexp export to=trl"]


@pytest.mark.slow
@pytest.mark.parametrize("command", [*COMMANDS, *(pytest.param(each, marks=pytest.mark.rare) for each in OTHERS)])
@pytest.mark.parametrize("output", ["closed", "full"])
def test_output_that_goes_nowhere(sweep, command, output):
    """A reader that has left is nothing to talk about; a full device is one line."""
    reader, writer = os.pipe()
    os.close(reader)
    place = writer if output == "closed" else os.open("/dev/full", os.O_WRONLY)
    arguments = [sys.executable, "-m", *command.format(sweep).split()]
    result = subprocess.run(arguments, stdout=place, stderr=subprocess.PIPE, text=True, timeout=120)
    assert result.returncode != 0 and "Traceback" not in result.stderr
    assert result.stderr.count("\n") == (1 if output == "full" else 0)
    assert output == "closed" or "No space left on device" in result.stderr
