"""The program rlexp: its commands are the modules that python -m runs, and overrides alone train."""

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from analysis_fixtures import write_sweep

from rlexp.__main__ import COMMANDS, main

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    ("word", "line"),
    [
        ("comapre", "comapre: no such command; did you mean compare?"),
        ("frobnicate", f"frobnicate: no such command; there are {', '.join(COMMANDS)}, and overrides, as norm=local"),
    ],
)
def test_a_word_that_is_no_command_is_refused(monkeypatch, capsys, word, line):
    monkeypatch.setattr(sys, "argv", ["rlexp", word, "runs/x"])
    with pytest.raises(SystemExit) as end:
        main()
    assert (end.value.code, capsys.readouterr().err) == (2, line + "\n")


def test_every_command_is_a_module():
    assert all(find_spec(module) for module in COMMANDS.values())


def test_the_page_names_every_command_with_its_module():
    text = (ROOT / "docs/python.md").read_text(encoding="utf-8")
    rows = {command: re.search(rf"rlexp {command}\b.*\| `python -m ([\w.]+)", text) for command in COMMANDS}
    assert {command: row and row[1] for command, row in rows.items()} == COMMANDS


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "norms"
    return write_sweep(folder, {"norm=local": [0.5, 0.6, 0.7], "norm=global": [0.6, 0.7, 0.8]}, steps=10)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "module", "arguments"),
    [
        (["compare"], "rlexp.analysis.compare", ["norms", "--metric", "reward"]),
        (["train"], "rlexp.train", ["norm=locl"]),
        ([], "rlexp.train", ["--cfg", "job", "--package", "norm"]),
    ],
)
def test_a_command_does_what_its_module_does(sweep, command, module, arguments):
    def run(*program):
        code = f"import sys, runpy; sys.path.insert(0, {str(ROOT)!r}); sys.argv = [sys.argv[1], *sys.argv[2:]]\n"
        code += "runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)"
        done = subprocess.run([sys.executable, "-c", code, *program], cwd=sweep.parent, capture_output=True, text=True)
        return done.returncode, done.stdout, done.stderr

    assert run("rlexp", *command, *arguments) == run(module, *arguments)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "code"),
    [(["rlexp", "explain", "clip"], 141), (["rlexp", "--help"], 0), (["rlexp.train", "--help"], 0)],
)
def test_a_reader_that_leaves_ends_it_without_a_word(arguments, code):
    """But what may train goes on without its reader."""
    command = [sys.executable, "-m", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT) as process:
        process.stdout.close()
        assert process.stderr.read() == b"" and process.wait() == code


@pytest.mark.slow  # processes
def test_a_comparison_that_nobody_reads_ends_as_other_commands_do(sweep):
    command = [sys.executable, "-m", "rlexp", "compare", sweep.name]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, cwd=sweep.parent, env=environment, **pipes) as process:
        process.stdout.close()
        assert process.stderr.read() == b"" and process.wait() == 141
