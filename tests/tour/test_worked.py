"""The worked examples give the numbers that the documents print, or the right ones where these are wrong."""

from __future__ import annotations

import io
from pathlib import Path
from runpy import run_path

import four_pillars
import grpo_tcr
import lecture17
import pytest
import rl_chapter
import trl_notes
from rich.console import Console
from table import cell, show

from rlexp.axes import agg, clip, norm
from rlexp.worked import SCRIPTS

ROOT = Path(__file__).parents[2]
COMMAND = run_path(str(SCRIPTS))
DOCUMENTS = COMMAND["DOCUMENTS"]
EXAMPLES = [(name, example) for name, examples in DOCUMENTS.items() for example in examples]


def column(table, place: int) -> list:
    return [row[place] for row in table.rows]


@pytest.mark.parametrize(("document", "example"), EXAMPLES, ids=[f"{n}-{e.__name__}" for n, e in EXAMPLES])
def test_an_example_is_a_whole_table(document, example):
    table = example()
    assert table.rows and {len(row) for row in table.rows} == {len(table.columns)}


@pytest.mark.holds("S0.6")
def test_s0_6_the_table_of_the_four_pillars():
    assert [f"{value:.2f}" for value in column(four_pillars.normalization(), 1)] == ["1.50", "1.10", "1.46"]


def test_s0_9_and_s0_12_ratio_and_weights():
    assert [(f"{row[1]:.2f}", f"{row[2]:.2f}", row[3]) for row in four_pillars.clip_higher().rows] == [
        ("4.95", "1.20", 0.0),
        ("4.95", "1.28", 0.0),
    ]
    assert [f"{value:.1%}" for value in column(four_pillars.aggregation(), 2)] == ["50.0%", "9.1%"]


@pytest.mark.holds("S0.15")
def test_s0_15_overlong_keeps_all_that_ended():
    assert column(four_pillars.overlong(), 2) == [True, True, False, True, True]


@pytest.mark.holds("S1.9")
def test_s1_9_votes():
    rows = {row[0]: [round(x, 4) for x in row[1:]] for row in grpo_tcr.votes().rows}
    assert rows["1"] == [0.7, 0.7, 0.7]
    assert (rows["3"], rows["5"]) == ([0.8155, 0.784, 0.784], [0.8865, 0.8369, 0.8369])
    note = grpo_tcr.votes().note
    assert "says only: significantly more than 70 %. With two answers it is 83.7 %." in note and "prints" not in note
    assert rows["21"][0] == 0.998 and rows["21"][2] == 0.9736


def test_s1_12_s1_14_and_s1_17_of_the_notebook():
    assert [round(x, 2) for x in column(grpo_tcr.group_advantages(), 1)] == [0.78, -1.31, 0.78, -0.26]
    assert column(grpo_tcr.length_penalties(), 1) == pytest.approx([0, 0, 0, -0.25, -0.5, -0.75, -1, -1])
    assert grpo_tcr.objective().rows[0] == ("0.9, -1.5, 0.9, -0.3", "0.020936")
    batch = grpo_tcr.rewards_of_a_batch()
    assert sum(column(batch, 2)) / 8 == pytest.approx(-0.28125) and batch.note == "The mean penalty is -0.28125."


def test_s2_of_the_lecture():
    assert [tuple(row[1:]) for row in lecture17.sorting_rewards().rows] == [(4, 7), (1, 3), (1, 6)]
    assert [round(x, 4) for x in column(lecture17.deltas(), 3)] == [-0.4472, -0.4472, -0.4472, 1.7888, -0.4472]
    assert [round(x, 3) for x in column(lecture17.baseline(), 1)] == [5.323, 1.155]
    assert [round(x, 4) for x in column(lecture17.frozen_policy(), 1)] == [0.1192, 0.0]
    assert [row[2:] for row in lecture17.values().rows] == [(10, 11, 1), (10, 9, -1), (1, 0, -1), (1, 2, 1)]


def test_s3_4_and_s3_14_of_the_notes():
    assert column(trl_notes.rewards_to_losses(), 3) == pytest.approx([0.94, 0.91, -0.06])
    table = trl_notes.losses_to_loss()
    rounding = 5e-5  # of ratios with four decimals: 1e-4 · 1.225 / 3
    assert column(table, 1) == pytest.approx([-0.01031, -0.09259, -0.07716], abs=rounding)
    assert column(table, 2) == pytest.approx([-0.00842, -0.07560, -0.06300], abs=rounding)


@pytest.mark.holds("S3.14")
@pytest.mark.parametrize(("axis", "name"), [(clip, "ppo"), (norm, "local"), (agg, "sequence")])
def test_s3_14_goes_through_the_functions_that_train(monkeypatch, axis, name):
    """Twice the advantages, or the losses, are twice the loss."""
    function, before = axis.FUNCTIONS[name], column(trl_notes.losses_to_loss(), 1)[0]
    monkeypatch.setitem(axis.FUNCTIONS, name, lambda *given, **hyperparameters: 2 * function(*given, **hyperparameters))
    assert column(trl_notes.losses_to_loss(), 1)[0] == pytest.approx(2 * before)


def test_s4_2_s4_9_s4_11_and_s4_15_of_the_chapter():
    assert [round(row[3], 3) for row in rl_chapter.returns().rows] == [-1.158, -1.158, 1.158]
    assert [round(x, 5) for x in column(rl_chapter.generalized_advantages(), 3)] == [0.73227, 0.5702, 0.4]
    weights = [[round(x, 4) for x in row[2:]] for row in rl_chapter.regression_weights().rows]
    assert weights == [[0, 0, 0.3155, 0.6845], [0.25] * 4, [0.7112, 0.0963, 0.0963, 0.0963]]
    preferences = {row[0]: row[1:] for row in rl_chapter.preferences().rows}
    assert round(preferences["0"][0], 6) == 0.693147 and preferences["5"][2:] == (0.0, 0.0)


@pytest.mark.holds("S3.10", "S3.11")
@pytest.mark.parametrize("question", trl_notes.QUESTIONS | trl_notes.FURTHER)
def test_s3_11_an_answer_holds(question):
    answer, holds = (trl_notes.QUESTIONS | trl_notes.FURTHER)[question]()
    assert answer and holds


ASKED = (  # Q1 to Q13 of the notes, by what each is about
    "token or a completion", "log-probability", "MiniLLM", "no reference", "two columns", "accuracy", "length",
    "GRPO paper", "loss of its own", "hidden states", "-0.3, 0.2 and 0", "backward", "1/B",
)  # fmt: skip


@pytest.mark.holds("S3.11")
def test_s3_11_there_are_the_thirteen_of_the_notes():
    table = trl_notes.questions()
    assert column(table, 0) == [f"Q{number}" for number in range(1, 14)]
    assert all(about in question for about, question in zip(ASKED, column(table, 1), strict=True))
    page = (ROOT / "docs/tour/trl_notes.md").read_text(encoding="utf-8")
    assert [line for line in page.splitlines() if line.startswith("| Q")] == [
        f"| {number} | {question} | {answer} |" for number, question, answer, _ in table.rows
    ]


@pytest.mark.holds("S3.14")
def test_s3_14_log_ratios_to_losses():
    table = trl_notes.log_ratios()
    assert column(table, 7)[:2] == pytest.approx([1.0330, 1.0077], abs=5e-5)
    assert column(table, 8) == pytest.approx([-1.2652, 1.2342, 0.0], abs=1e-4)
    assert [row[1:7].count("pad") for row in table.rows] == [1, 2, 0]


@pytest.mark.parametrize(
    ("value", "text"), [(1.0, "1"), (-0.0, "0"), (0.48796, "0.488"), (True, "yes"), (False, "no"), ("[a]", "[a]")]
)
def test_a_cell(value, text):
    assert cell(value) == text


def test_brackets_are_no_markup():
    console = Console(file=io.StringIO(), width=80)
    show([lecture17.sorting_rewards()], console)
    assert "[0, 1, 2, 3]" in console.file.getvalue()


def test_the_command_prints_what_is_named(capsys):
    assert COMMAND["main"](["four_pillars"]) == 0
    assert "1.0979" in capsys.readouterr().out
    assert COMMAND["main"](["five_pillars"]) == 2
    assert capsys.readouterr().err.startswith("five_pillars: no such document; there are four_pillars, ")


def test_the_tour_has_a_page_for_each_document():
    assert {page.stem for page in (ROOT / "docs/tour").glob("*.md")} == {"README", *DOCUMENTS}
