"""Each benchmark prints its table and writes its JSON, with as few repetitions as can be; no time is asserted."""

import importlib
import importlib.util
import json
import os
import sys
import time
from contextlib import redirect_stdout
from io import StringIO

import pytest
import torch

from benchmarks.parts import common
from benchmarks.parts.common import number, shown

pytestmark = pytest.mark.rare  # whole runs

ONCE = {
    "throughput": "--repetitions 1 --steps 1 --most 1",
    "growth": "--repetitions 1 --steps 1 --runs 2 --sizes 2",
    "roofline": "--repetitions 1 --steps 1 --runs 2 --milliseconds 5",
    "lecture": "--repetitions 1 --seeds 2 --alone 1 --steps 2",
    "memory": "--repetitions 1 --steps 1 --sizes 1",
    "sweep": "--repetitions 1 --seeds 1 --steps 2 --basic 0",
    "analysis": "--repetitions 1 --runs 20 --steps 3",
    "factorial": "--repetitions 1 --parts 2 --seeds 2",
    "decided": "--quick",
    "lengths": "--quick",
    "mixed": "--repetitions 1 --steps 1 --runs 1 --axes kl_control",
}
IN_FRESH_PROCESSES = {"sweep", "factorial", "decided"}  # these run the command line; sweep stands for others


def called(module, *arguments, threads=None):
    """Do in this process what a fresh one takes seconds of imports for; return what it would."""
    out, started = StringIO(), time.perf_counter()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out):
        patch.setattr(os, "environ", os.environ.copy())
        patch.setattr(sys, "argv", [module, *map(str, arguments)])
        importlib.import_module(module).main()
    return json.loads(out.getvalue().splitlines()[-1]) | {"seconds": time.perf_counter() - started}


def run(name, arguments, folder, monkeypatch):
    monkeypatch.setattr(sys, "argv", [name, *arguments.split(), "--results", str(folder)])
    benchmark, threads = importlib.import_module(f"benchmarks.{name}"), torch.get_num_threads()
    if name not in IN_FRESH_PROCESSES:
        for module in (common, benchmark):
            monkeypatch.setattr(module, "fresh", called, raising=False)
    try:
        benchmark.main()
    finally:
        torch.set_num_threads(threads)
    return json.loads((folder / f"{name}.json").read_text())


@pytest.mark.parametrize("name", ONCE)
def test_a_benchmark_prints_its_table(name, tmp_path, monkeypatch, capsys):
    document = run(name, ONCE[name], tmp_path, monkeypatch)
    assert document["rows"] and document["data"] and document["machine"]["cores"] >= 1
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    assert len(lines) == len(document["rows"]) + 2
    assert len({len(line) for line in lines}) == 1


@pytest.mark.skipif(not importlib.util.find_spec("trl"), reason="TRL is not installed: pip install '.[bench]'")
def test_the_comparison_with_trl_prints_its_table(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(torch, "compile", lambda function, **_: function)  # needs a compiler, and minutes
    document = run("trl", "--repetitions 1 --steps 4 --pairs 0", tmp_path, monkeypatch)
    parameters = [row["parameters"] for row in document["rows"]]
    assert parameters[0] >= parameters[1] > 130_000


@pytest.mark.skipif(not importlib.util.find_spec("trl"), reason="TRL is not installed: pip install '.[bench]'")
def test_thirty_llamas_beside_one_under_trl_print_their_table(tmp_path, monkeypatch):
    document = run("llama", "--repetitions 1 --steps 6 --runs 2 --sizes 70k", tmp_path, monkeypatch)
    assert [row["parameters"] for row in document["rows"]] == [74_496]


def test_numbers_are_shown_with_their_spread():
    assert [number(value) for value in (0.01234, 1.234, 12.34, 12345.6)] == ["0.012", "1.23", "12.3", "12,346"]
    assert shown([3.0, 1.0, 2.0]) == "2.00 [1.00, 3.00]" and shown([2.0]) == "2.00"
