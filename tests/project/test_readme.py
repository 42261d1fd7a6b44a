"""What README says of the task, the seeds and the numbers is true.

It is held to docs/readme/results.json, which ``python -m benchmarks.readme`` writes, and that to the present defaults.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path

import pytest
from command import command  # noqa: F401 (a fixture)
from small_runs import compose

from analysis import compare, plan, transfer
from rlexp.__main__ import COMMANDS
from rlexp.export.__main__ import main as export
from rlexp.launch import hooks
from rlexp.sweep.build import build

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
STORED = ROOT / "docs" / "readme"
RESULTS = json.loads((STORED / "results.json").read_text(encoding="utf-8"))
AGAIN = "README's numbers are of another configuration: train them again with python -m benchmarks.readme"
WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
BLOCKS = re.findall(r"```\n(.*?)```", README, re.DOTALL)
LINES = [line for block in BLOCKS for line in block.splitlines()]
TYPED = sorted({" ".join(shlex.split(line, comments=True)[1:]) for line in LINES if line.startswith("rlexp")})
OTHERS = ("compare", "explain", "export", "plan", "report", "transfer", "watch", "worked", "speedrun", "--help")


def test_the_kills_are_those_of_the_test():
    test = (ROOT / "tests/sweep/test_resume.py").read_text(encoding="utf-8")
    kills = WORDS[int(re.search(r"^KILLS = (\d+)", test, re.M)[1])]
    models = WORDS[len(re.search(r'"model", \[(.*)\]\)\ndef test_kills', test)[1].split(","))]
    said = f"{kills} SIGKILLs after random numbers of rows, with each of {models} models"
    assert f"{said} (`tests/sweep/test_resume.py`)" in " ".join(README.split())


def test_its_numbers_are_of_the_present_defaults():
    """What was set still is; a key that came later changes nothing by default, which benchmarks.unchanged checks."""
    assert holds(compose().model_dump(mode="json"), RESULTS["ablation"]["config"]), AGAIN


def holds(now, then) -> bool:
    """Whether every value that was set is still the same, whatever has come beside it."""
    if isinstance(then, dict):
        return all(key in now and holds(now[key], value) for key, value in then.items())
    return now == then


def test_the_task_and_the_loop_are_as_described():
    config, said = compose(), " ".join(README.split())
    task, group, model = config.task, config.group_size, config.model
    weights = sum(parameter[0].numel() for parameter in build([config]).policy.parameters())
    for fact in (
        f"{WORDS[task.shortest]} to {WORDS[task.longest]} of {WORDS[task.alphabet]} symbols",
        f"In each of {config.steps} steps the model answers {group.prompts} prompts, each {group.completions} times",
        f"Every {config.eval.every} steps the model answers {config.eval.prompts} prompts",
        f"at most {WORDS[task.cap]} tokens",
        f"{model.name} of {WORDS[model.layers]} layers and width {model.width} ({weights:,} weights)",
    ):
        assert fact in said
    assert task.weights["exact"] == task.weights["graded"] == 0.5, "half for an exact answer, half for right places"
    assert config.score.share == 0.1, "averaged over the last tenth of the evaluations"


@pytest.mark.parametrize("name", ["ablation", "confirmation"])
def test_tables_and_seconds_are_those_that_were_measured(name):
    printed, _, _ = (STORED / f"{name}.txt").read_text(encoding="utf-8").partition("\n- ")  # the notes come after
    assert printed.rstrip() in README
    minutes, seconds = divmod(RESULTS[name]["seconds"], 60)
    assert f"{minutes} min {seconds} s" in README


@pytest.mark.parametrize("name", ["ablation", "confirmation", "norms"])
def test_its_numbers_are_of_the_commands_that_it_names(name):
    arguments = RESULTS[name]["command"].removeprefix("python -m rlexp.train ")
    assert f"rlexp {arguments}" in README.replace('"', "")


@pytest.mark.parametrize("name", ["confirmation_other_processor", "norms"])
def test_what_it_quotes_of_other_tables_stands_there(name):
    quoted = README.partition(f"([all of it](docs/readme/{name}.txt))")[0].rpartition("\n\n")[2]
    table = (STORED / f"{name}.txt").read_text(encoding="utf-8")
    found = re.findall(r"(global|hybrid) (−0\.\d+ \[−0\.\d+, [−+]0\.\d+\])", " ".join(quoted.split()))
    rows = {line.split()[0]: line for line in table.splitlines() if line.startswith(("global ", "hybrid "))}
    assert len(found) == 2 and all(difference in rows[variant] for variant, difference in found)


@pytest.mark.parametrize("name", ["lecture", "lecture_again"])
def test_the_page_of_the_lecture_shows_what_was_measured(name):
    printed = (STORED / f"{name}.txt").read_text(encoding="utf-8").rstrip()
    assert printed in (ROOT / "docs" / "lecture17.md").read_text(encoding="utf-8")


def test_durations_are_in_their_order():
    (promised,) = re.findall(r"make ablation .*about (\w+) minutes", README)
    assert RESULTS["ablation"]["seconds"] / 60 <= WORDS.index(promised) <= RESULTS["ablation"]["seconds"] / 60 + 2
    assert RESULTS["ablation"]["seconds"] < RESULTS["confirmation"]["seconds"]


def test_the_example_is_a_sample_of_the_default_run():
    samples = {(each["prompt"], each["completion"], each["reward"]) for each in RESULTS["ablation"]["samples"]}
    (example,) = [block for block in BLOCKS if block.startswith("prompt")]
    rows = [re.split(r"\s{2,}", line.strip()) for line in example.splitlines()[1:]]
    assert rows and all((prompt, completion, float(reward)) in samples for prompt, completion, reward in rows)


def test_the_mistake_is_answered_as_printed(command):  # noqa: F811
    shown = re.search(r"\$ rlexp (norm=locl)\n(.*?)```", README, re.DOTALL)
    assert command(shown[1]).err == shown[2]


@pytest.mark.slow  # whole sweeps are composed
@pytest.mark.parametrize("line", [line for line in TYPED if not line.startswith(OTHERS)])
def test_what_it_trains_passes_all_checks(command, monkeypatch, line):  # noqa: F811
    """The command as it stands, as far as the first batch."""
    checked = hooks.check_or_exit

    def check_and_end(check, config):
        checked(check, config)
        sys.exit(0)

    monkeypatch.setattr(hooks, "check_or_exit", check_and_end)
    result = command(*line.split())
    assert result.code == 0, result.err


@pytest.mark.parametrize("line", [line for line in TYPED if line.startswith(OTHERS[:-1])])
def test_the_other_commands_take_what_they_are_given(line, capsys):
    name, *words = line.split()
    assert name in COMMANDS
    if name == "compare":
        assert compare.parse(words)["folders"]
    if name in ("plan", "transfer"):  # all but their folders
        assert {"plan": plan, "transfer": transfer}[name].main(words) == 2
        assert "is not a folder" in capsys.readouterr().err
    if name == "export":
        export(words)
        assert capsys.readouterr().out
