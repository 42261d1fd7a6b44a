"""Tables as text: on the terminal, in Markdown and in LaTeX."""

from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from analysis_fixtures import random_scores, write_sweep
from rich.console import Console

from rlexp.analysis import load
from rlexp.analysis.report.tables import TextTable, fit_to_width, latex, markdown, print_answer, print_table
from rlexp.analysis.stats.answer import Question, answer
from rlexp.analysis.stats.formatting import decimal_places, format_number

NAMES = ["norm=local", "norm=global", "norm=hybrid"]


@pytest.fixture
def sweep(tmp_path) -> Path:
    return write_sweep(tmp_path / "sweep", random_scores(NAMES, 10), steps=10)


def test_latex_is_escaped():
    text = latex(TextTable(["a_b", "50 %"], [["x&y#{z}~^\\$", "−0.1"]]))
    assert r"a\_b & 50 \% \\" in text
    assert r"x\&y\#\{z\}\textasciitilde{}\textasciicircum{}\textbackslash{}\$ & $-$0.1 \\" in text
    assert text.startswith("\\begin{tabular}{lr}\n\\toprule\n")


def test_markdown_is_escaped():
    assert markdown(TextTable(["a", "b"], [["x|y", "1"]])).split("\n")[2] == r"| x\|y | 1 |"


def test_numbers():
    assert [decimal_places([x, 0.0, np.nan]) for x in (0.05, 0.7, 1.0, 5.0, 50.0, 5000.0)] == [4, 3, 3, 2, 1, 0]
    assert [format_number(x, 2, signed=True) for x in (-0.5, 0.5, 0.001, np.nan, -np.inf)] == [
        "−0.50",
        "+0.50",
        "0.00",
        "–",
        "−∞",
    ]


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_the_terminal_table_fits_and_breaks_no_number(sweep, width):
    stream, data = StringIO(), load(sweep)
    found = answer(data, Question())
    comparison = found.comparisons[0]
    print_answer(Console(file=stream, width=width), data, found, [])
    text = stream.getvalue()
    assert max(map(len, text.split("\n"))) <= width
    low, high = comparison.table.loc["norm=hybrid", ["difference_low", "difference_high"]]
    assert f"[+{low:.3f}, +{high:.3f}]" in text and "hybrid" in text


def test_fit_keeps_counts_that_are_not_zero():
    headers = ["variant", "n", "difference [95 %]", "collapsed", "failed"]
    grid = TextTable(headers, [["a", "10", "+0.1", "0/10", "1/10"]])
    assert fit_to_width(grid, 48).headers == ["variant", "difference [95 %]", "collapsed", "failed"]
    idle = grid._replace(rows=[["a", "10", "+0.1", "0/10", "0/10"]])
    assert fit_to_width(idle, 48).headers == ["variant", "n", "difference [95 %]", "collapsed"]


def test_a_name_stays_whole_where_a_word_beside_it_can_be_folded():
    numbers, word = "−0.300 [−0.463, −0.168]", "no material effect"
    table = TextTable(["part", "difference", ""], [["shaping=overlong", numbers, word]])
    console = Console(file=StringIO(), width=60)
    print_table(table, console)
    first, second = console.file.getvalue().splitlines()[-2:]
    assert "shaping=overlong" in first and numbers in first and second.strip() == "effect"
