"""``python -m benchmarks.gpu`` at toy sizes on the CPU: all parts, one that fails, one that does not end, slices."""

from __future__ import annotations

import json
import subprocess
import sys
from argparse import Namespace
from importlib.util import find_spec

import pytest
import torch

from benchmarks.gpu import __main__ as command
from benchmarks.gpu import study
from benchmarks.parts.common import ROOT

QUESTION = """
question: Do more right answers come of clip higher?
source: none
assertions: [{arm: clip=higher, versus: clip=symmetric, kind: superior}]
conditions: {model.std: [0.5, 1.0, 2.0]}
with: [task=bandit, model=tabular, minibatches=1, steps=200, eval.every=100, logger=none]
seeds: 4
"""


def gpu(*arguments, **options):
    done = [sys.executable, "-m", "benchmarks.gpu", *map(str, arguments)]
    return subprocess.run(done, cwd=ROOT, capture_output=True, text=True, **options)


def chosen(folder, **others):
    settings = {"device": "cpu", "quick": True, "model": None, "minutes": 1.0, "only": None, "results": folder}
    return Namespace(**settings | others)


@pytest.mark.rare  # two minutes
@pytest.mark.skipif(not find_spec("trl"), reason="TRL is not installed: pip install '.[trl]'")
@pytest.mark.skipif(torch.cuda.is_available(), reason="the tests for CUDA would run")
def test_all_parts_at_toy_sizes(tmp_path):
    said = gpu("--device", "cpu", "--quick", "--minutes", "60", "--results", tmp_path)  # a busy machine takes longer
    assert (said.returncode, said.stderr) == (0, ""), said.stdout
    found = json.loads((tmp_path / "gpu.json").read_text())
    assert [*found["parts"]] == [*command.PARTS] and "4 of 4 parts done" in said.stdout
    rows = {name: part["rows"] for name, part in found["parts"].items()}
    assert {row["outcome"] for row in rows["cuda_tests"]} == {"skipped"}
    assert [(row["trained by"], row["runs"]) for row in rows["loop"]] == [("backend=trl", 1), *OURS]
    assert [(row["products"], row["runs at once"]) for row in rows["ladder"]] == LADDER
    assert rows["language"][0]["steps"] == 4
    log = (tmp_path / "gpu.log").read_text()
    assert all(f"== {name}\n" in log for name in command.PARTS)


OURS = [("this loop", 1), ("this loop", 4)]
LADDER = [("highest", 1), ("highest", 4), ("high", 1), ("high", 4)]


def part_of(tmp_path, monkeypatch, text, seconds=20.0):
    """Run a part whose module has this text."""
    (tmp_path / "benchmarks" / "gpu").mkdir(parents=True)
    for folder in ("benchmarks", "benchmarks/gpu"):
        (tmp_path / folder / "__init__.py").touch()
    (tmp_path / "benchmarks" / "gpu" / "loop.py").write_text(text)
    monkeypatch.setattr(command, "ROOT", tmp_path)
    with open(tmp_path / "log", "w") as log:
        return command.run("loop", seconds, chosen(tmp_path), log), (tmp_path / "log").read_text()


SAYS = 'print("""{"row": {"a": 1}}\\n{"note": "b"}\\n{"other": 2}\\n{"row": half""", flush=True)\n'


def test_a_part_that_fails_keeps_its_rows_and_says_why_in_a_line(tmp_path, monkeypatch):
    found, log = part_of(tmp_path, monkeypatch, SAYS + "raise ValueError('no such\\nkernel')")
    assert (found["rows"], found["notes"]) == ([{"a": 1}], ["b"])
    assert found["failed"] == "kernel (exit code 1)" and "ValueError: no such" in log


def test_a_part_that_does_not_end_is_killed_with_what_it_has_started(tmp_path, monkeypatch):
    child = "import subprocess, sys\nchild = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(99)'])\n"
    found, _ = part_of(tmp_path, monkeypatch, SAYS + child + "child.wait()", seconds=3.0)
    assert found["rows"] == [{"a": 1}] and found["seconds"] < 20
    assert found["failed"] == "it was not done after 3 s; what it had found by then is kept"


def test_one_part_that_fails_does_not_stop_the_others(tmp_path, monkeypatch, capsys):
    def run(name, seconds, settings, log):
        asked.append(seconds)
        rows = [] if name == "loop" else [{"a": 1}]
        return {"rows": rows, "notes": [], "seconds": 1.0, "failed": "no memory" if name == "loop" else None}

    asked = []
    monkeypatch.setattr(command, "run", run)
    assert command.measure(chosen(tmp_path)) == 1
    said = capsys.readouterr().out
    assert "3 of 4 parts done" in said and said.endswith("loop failed: no memory\n")
    # of the minute less the reserve, what a part leaves is for those behind it
    shares = [*command.PARTS.values()]
    expected = [50 * share / sum(shares[place:]) for place, share in enumerate(shares)]
    assert asked == pytest.approx(expected, abs=2) and asked[-1] == pytest.approx(50, abs=2)
    assert command.measure(chosen(tmp_path, only="ladder")) == 0
    assert [*json.loads((tmp_path / "gpu.json").read_text())["parts"]] == ["ladder"]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["steps=3"], "steps=3: overrides are of a study; name it with --study"),
        ([], "--device cpu: only with --quick; the other sizes are for a GPU"),
        (["--minutes", "0"], "--minutes 0: must be above 0"),
        (["--study", "nonsense"], "--study nonsense: no such study, question or file; rlexp explain study has the "),
        (["--study", "norms more"], "--study norms more: must be one name, or begin with ablate"),
        (["--study", ""], "--study '': name a study or a question"),
    ],
)
def test_bad_input_ends_in_a_line(arguments, line, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["gpu", "--device", "cpu", *arguments])
    with pytest.raises(SystemExit) as stop:
        command.main()
    assert stop.value.code == 2 and line in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_without_a_gpu_it_says_how_to_try_it_out(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["gpu"])
    with pytest.raises(SystemExit) as stop:
        command.main()
    assert stop.value.code == 2
    assert capsys.readouterr().err.endswith("allowed here: cpu; try it out with --device cpu --quick\n")


def test_what_a_name_stands_for(tmp_path):
    def words(name):
        return study.command_of(name.split(), ["device=cuda", "steps=3"], tmp_path)

    assert words("clip_higher") == ["rlexp", "ask", "clip_higher", "device=cuda", "steps=3", "--folder", str(tmp_path)]
    trains = ["rlexp.train", "study=transfer_norm", "device=cuda", "steps=3", f"hydra.sweep.dir={tmp_path}"]
    assert words("transfer_norm") == trains
    ends = ["--folder", str(tmp_path)]
    assert words("ablate --parts a=b") == [
        "rlexp",
        "ablate",
        "--parts",
        "a=b",
        "--with",
        "device=cuda",
        "steps=3",
        *ends,
    ]
    given = ["rlexp", "ablate", "--with", "device=cuda", "steps=3", "c=d", "--parts", "a=b", *ends]
    assert words("ablate --with c=d --parts a=b") == given


@pytest.mark.rare  # whole runs
def test_slices_of_a_question_go_on_until_it_is_answered(tmp_path):
    """The first is too short for a run to end."""
    file, runs = tmp_path / "question.yaml", tmp_path / "runs"
    file.write_text(QUESTION)
    for minutes, expected in ((0.1, "0 of "), (5, "24 of 24 "), (5, "24 of 24 ")):
        said = gpu("--device", "cpu", "--study", file, "--runs", runs, "--minutes", minutes)
        assert said.returncode == 0, said.stderr
        last = said.stdout.splitlines()[-1]
        assert last.startswith(expected) and f"runs done in {runs}" in last
        assert last.endswith("; run the same command again") == (minutes < 1)
    assert "What came out" in said.stdout or "What was asked" in said.stdout
