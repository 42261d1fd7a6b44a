"""What README and the first pages quote is so: commands are taken, links lead somewhere, numbers were measured.

They are held to docs/readme, which ``python -m benchmarks.readme`` writes, and that to the present defaults. Nothing
here asks README to say anything.
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

from rlexp.__main__ import COMMANDS
from rlexp.analysis import compare, plan, transfer
from rlexp.export.__main__ import main as export
from rlexp.launch import hooks
from rlexp.sweep.build import build

ROOT = Path(__file__).resolve().parents[2]
FIRST_NAMES = ("get_started", "command_line", "tune", "resume")
FIRST = [ROOT / "README.md", *(ROOT / "docs" / f"{name}.md" for name in FIRST_NAMES)]
README = "\n\n".join(page.read_text(encoding="utf-8") for page in FIRST)
STORED = ROOT / "docs" / "readme"
RESULTS = json.loads((STORED / "results.json").read_text(encoding="utf-8"))
AGAIN = "README's numbers are of another configuration: train them again with python -m benchmarks.readme"
MEASURED = {name: found for name, found in RESULTS.items() if (STORED / f"{name}.txt").is_file()}
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCKS = [
    block for language, block in re.findall(r"^```(\w*)\n(.*?)^```", README, re.DOTALL | re.MULTILINE) if not language
]
LINES = [line for block in BLOCKS for line in block.splitlines()]
TYPED = sorted({" ".join(shlex.split(line, comments=True)[1:]) for line in LINES if line.startswith("rlexp")})
OTHERS = (
    "ablate",
    "ask",
    "better",
    "compare",
    "explain",
    "export",
    "ledger",
    "noise",
    "plan",
    "publish",
    "report",
    "sensitivity",
    "speedrun",
    "transfer",
    "watch",
)
OTHERS += ("worked", "--help")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_and_files_that_a_page_names_are_there(page):
    text = page.read_text(encoding="utf-8")
    links = [link for link in re.findall(r"\]\(([^)#\s]+)(?:#[^)\s]*)?\)", text) if "://" not in link]
    tests = re.findall(r"`(tests/[\w/]+\.py)(?:::\w+)?`", text)
    assert not [link for link in links if not (page.parent / link).exists()]
    assert not [file for file in tests if not (ROOT / file).is_file()]


def test_it_is_a_screen_and_a_half():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 120


def test_each_finding_has_its_numbers_on_the_page_that_it_names():
    findings = README.partition("## What came out so far")[2].partition("\n\n[docs/claims.md]")[0]
    found = re.split(r"\n- ", findings)[1:]
    assert len(found) >= 5
    for finding in found:
        page = (ROOT / re.search(r"\]\((docs/\w+\.md)", finding)[1]).read_text(encoding="utf-8")
        numbers = re.findall(r"\d[\d.,]*\d|\d+", re.sub(r"\]\(.*?\)", "", finding))
        assert not [each for each in numbers if each not in page], finding


def test_its_numbers_are_of_the_present_defaults():
    """What was set still is; a key that came later changes nothing by default, which benchmarks.unchanged checks."""
    assert holds(compose().model_dump(mode="json"), RESULTS["ablation"]["config"]), AGAIN


def holds(now, then) -> bool:
    """Whether every value that was set is still the same, whatever has come beside it."""
    if isinstance(then, dict):
        return all(key in now and holds(now[key], value) for key, value in then.items())
    return now == then


def test_numbers_of_the_default_run_are_those_of_the_config():
    config, said = compose(), " ".join(FIRST[1].read_text(encoding="utf-8").split())
    weights = sum(parameter[0].numel() for parameter in build([config]).policy.parameters())
    true = {
        r"([\d,]+) weights": weights,
        r"\b(\d+) steps the model answers": {config.steps, config.eval.every},
        r"answers (\d+) prompts, each": config.group_size.prompts,
        r"prompts, each (\d+) times": config.group_size.completions,
        r"answers (\d+) prompts that": config.eval.prompts,
        r"width (\d+)": config.model.width,
    }
    for pattern, value in true.items():
        found = {int(number.replace(",", "")) for number in re.findall(pattern, said)}
        assert found <= (value if isinstance(value, set) else {value}), pattern


@pytest.mark.holds("E27")
def test_tables_that_it_shows_are_those_that_were_printed_by_commands_that_it_names():
    stored = {(STORED / f"{name}.txt").read_text("utf-8").partition("\n- ")[0].rstrip(): name for name in MEASURED}
    for shown in [block.rstrip() for block in BLOCKS if block.startswith("What was asked")]:
        assert shown in stored, shown.partition("\n\n")[0]
        arguments = MEASURED[stored[shown]]["command"].removeprefix("python -m rlexp.train ")
        assert f"rlexp {arguments}" in README.replace('"', ""), "the command of a table"


def test_durations_are_those_that_were_measured():
    measured = {divmod(found["seconds"], 60) for found in MEASURED.values()}
    said = {tuple(map(int, pair)) for pair in re.findall(r"(\d+) min\s(\d+) s\b", README)}
    assert said <= measured


def test_differences_that_a_paragraph_quotes_of_a_table_stand_there():
    for paragraph in README.split("\n\n"):
        tables = re.findall(r"\]\((?:docs/)?readme/(\w+)\.txt\)", paragraph)
        text = "\n".join((STORED / f"{name}.txt").read_text(encoding="utf-8") for name in tables)
        quoted = re.findall(r"[−+]0\.\d+ \[[−+]0\.\d+, [−+]0\.\d+\]", " ".join(paragraph.split()) if tables else "")
        assert not [difference for difference in quoted if difference not in text], tables


@pytest.mark.holds("E45")
@pytest.mark.parametrize("name", ["lecture", "lecture_again"])
def test_the_page_of_the_lecture_shows_what_was_measured(name):
    printed = (STORED / f"{name}.txt").read_text(encoding="utf-8").rstrip()
    assert printed in (ROOT / "docs" / "lecture17.md").read_text(encoding="utf-8")


def test_an_example_is_a_sample_of_the_default_run():
    samples = {(each["prompt"], each["completion"], each["reward"]) for each in RESULTS["ablation"]["samples"]}
    for example in [block for block in BLOCKS if block.startswith("prompt ")]:
        rows = [re.split(r"\s{2,}", line.strip()) for line in example.splitlines()[1:]]
        assert rows and all((prompt, completion, float(reward)) in samples for prompt, completion, reward in rows)


def test_what_is_answered_is_as_printed(command):  # noqa: F811
    for typed, answer in re.findall(r"^\$ rlexp (.*)\n((?:(?![$`]).*\n)+)", README, re.MULTILINE):
        result = command(*typed.split())
        assert result.out + result.err == answer


@pytest.mark.rare  # whole sweeps are composed
@pytest.mark.parametrize("line", [line for line in TYPED if not line.startswith(OTHERS)])
def test_what_it_trains_passes_all_checks(command, monkeypatch, line):  # noqa: F811
    """The command as it stands, as far as the first batch."""
    if "launcher=ray" in line:
        pytest.importorskip("ray", reason="ray is not installed: pip install '.[ray]'")
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
