"""The examples of docs/analysis.md run as they stand there, on a small sweep."""

import re
import shlex
from pathlib import Path

import pytest
from analysis_fixtures import random_scores, write_sweep

from rlexp.analysis.compare import parse
from rlexp.analysis.report.tables import comparison_table
from rlexp.analysis.stats.significance import seeds_for_p, seeds_with_choice

DOC = (Path(__file__).parents[2] / "docs/analysis.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", DOC, flags=re.S)
COMMANDS = re.findall(r"^rlexp compare ([^#\n]*)", DOC, flags=re.M)


@pytest.mark.parametrize("number", range(3))
def test_an_example_in_python_prints_its_numbers(tmp_path, capsys, number):
    assert len(EXAMPLES) == 3
    folder = write_sweep(tmp_path, random_scores(["norm=local", "norm=hybrid"], 5), 20)
    exec(EXAMPLES[number].replace("runs/<sweep>", str(folder)), {})
    shown = capsys.readouterr().out
    assert "hybrid" in shown and re.search(r"\d\.\d{3}", shown)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_is_read(command):
    assert parse(shlex.split(re.sub(r"<(\w+)>", r"\1", command)))["folders"][0].startswith("runs/")


def test_every_column_is_explained(tmp_path):
    from rlexp.analysis import load
    from rlexp.analysis.stats.comparison import compare

    data = load(write_sweep(tmp_path, random_scores(["norm=local", "norm=hybrid"], 3), 4))
    headers = [header.removesuffix(" [95 %]") for header in comparison_table(compare(data)).headers[1:]]
    section = DOC.split("## What the columns are")[1].split("| file")[0]
    assert re.findall(r"^\| ([\w ()]+) \| ", section, flags=re.M) == ["column", *headers]


def test_the_seeds_that_it_takes_are_those_of_the_tests():
    rows = [re.findall(r"\d+", line) for line in re.findall(r"^\| (?:differences|seeds)[^|]*\|(.*)$", DOC, flags=re.M)]
    differences, seeds, with_choice = (list(map(int, row)) for row in rows)
    ends = [[1, 1], *zip(differences[1::2], differences[2::2], strict=True)]
    assert [[seeds_for_p(m) for m in pair] for pair in ends] == [[n, n] for n in seeds]
    assert [[seeds_with_choice(m) for m in pair] for pair in ends] == [[n, n] for n in with_choice]
