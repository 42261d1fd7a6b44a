"""A campaign's ledger: what it keeps, what it costs, and what it refuses."""

from __future__ import annotations

import json

import numpy as np
import pytest
from analysis_fixtures import write_sweep
from schemas import SCHEMAS, check_schema

from rlexp.analysis import better, ledger
from rlexp.analysis.stats.ledger import begin, open_ledger

NOISE = np.random.default_rng(0).normal(0, 0.01, 14)


@pytest.fixture
def sweep(tmp_path):
    """Return a sweep in which b is far better than a, and c like a."""
    arms = {"norm=a": 0.5 + NOISE, "norm=b": 0.6 + NOISE[::-1], "norm=c": 0.5 + np.roll(NOISE, 1)}
    return str(write_sweep(tmp_path / "sweep", {name: list(scores) for name, scores in arms.items()}, steps=4))


@pytest.fixture
def book(tmp_path):
    """Return a ledger of 20 questions."""
    begin(tmp_path / "ledger.jsonl", 20, 0.05)
    return tmp_path / "ledger.jsonl"


def rows_of(book):
    return [json.loads(line) for line in book.read_text().splitlines()]


def test_a_question_spends_its_share_and_a_finding_hands_it_on(sweep, book, capsys):
    assert better.main([sweep, "norm=c", "norm=a", "--ledger", str(book), "--json"]) == 11
    assert better.main([sweep, "norm=b", "norm=a", "--ledger", str(book), "--json"]) == 0
    assert better.main([sweep, "norm=b", "norm=c", "--ledger", str(book), "--json"]) == 0
    replies = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each["level"] for each in replies] == pytest.approx([0.0025, 0.0025, 0.005])
    assert [each["question"] for each in replies] == [1, 2, 3]
    assert ledger.main([str(book)]) == 0
    *said, left = capsys.readouterr().out.splitlines()
    assert said[1].startswith("2. yes: norm=b is better than norm=a: +0.1") and said[1].endswith("(level 0.0025)")
    assert (
        left == "3 of 20 questions asked, alpha 0.05 over all of them; the next one has level 0.0075 and needs 9 seeds"
    )


def test_the_same_question_on_the_same_runs_costs_nothing(sweep, book, capsys):
    for _ in range(2):
        assert better.main([sweep, "b", "a", "--ledger", str(book)]) == 0
    assert better.main([sweep, "norm=b", "norm=a", "--by", "0.05", "--ledger", str(book)]) == 0
    one, again, other = capsys.readouterr().out.splitlines()
    assert one.replace(", level 0.0025, question 1 of 20", "") == again.replace(", level 0.0025, question 1 of 20", "")
    assert "question 2 of 20" in other and len(rows_of(book)) == 3


def test_an_answer_is_judged_at_the_level_of_its_question(tmp_path, book, capsys):
    """Of eight seeds all above: p is 2/256, below 0.05 and above 0.05/20."""
    arms = {"norm=a": list(0.5 + NOISE[:8]), "norm=b": list(0.6 + NOISE[:8])}
    sweep = str(write_sweep(tmp_path / "few", arms, steps=4))
    assert better.main([sweep, "b", "a"]) == 0
    capsys.readouterr()
    assert better.main([sweep, "b", "a", "--ledger", str(book)]) == 2
    assert "8 seeds cannot reach the level of question 1, 0.0025: it takes 10" in capsys.readouterr().err
    assert len(rows_of(book)) == 1  # nothing was looked at, so nothing is spent


def test_a_spent_budget_answers_nothing_more(sweep, tmp_path, capsys):
    book = tmp_path / "small.jsonl"
    begin(book, 1, 0.05)
    assert better.main([sweep, "c", "a", "--ledger", str(book)]) == 11
    assert better.main([sweep, "b", "a", "--ledger", str(book)]) == 2
    assert "1 of 1 questions asked, alpha 0.05 over all of them; the budget is spent" in capsys.readouterr().err


def test_what_is_printed_for_programs_is_as_its_schema_says(sweep, book, capsys):
    required = json.loads(SCHEMAS["better"].read_text("utf-8"))["required"]
    for options, more in (([], set()), (["--ledger", str(book)], {"question", "questions"})):
        better.main([sweep, "c", "a", *options, "--json"])
        assert check_schema("better", capsys.readouterr().out).keys() == {*required} | more
    ledger.main([str(book), "--json"])
    assert len(check_schema("ledger", capsys.readouterr().out)["asked"]) == 1


def test_a_line_that_was_half_written_is_left_out(book):
    with open_ledger(book) as opened:
        opened.add({"arm": "b"}, {"answer": "open", "said": "open"})
    book.write_text(book.read_text() + '{"number": 2, "ans')
    with open_ledger(book) as opened:
        assert len(opened.rows) == 1
        opened.add({"arm": "c"}, {"answer": "yes", "said": "yes"})
    assert [row.get("number") for row in rows_of(book)] == [None, 1, 2]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["none.jsonl"], "none.jsonl: no such ledger; begin one with: rlexp ledger none.jsonl --questions 20"),
        (["{book}", "--questions", "5"], "{book}: is there already; its budget stays what it is"),
        (["new.jsonl", "--questions", "0"], "--questions 0: must be at least 1"),
        (["new.jsonl", "--questions", "410"], "--questions 410: too many for any p to reach their level; at most 409"),
        (["new.jsonl", "--questions", "5", "--alpha", "1"], "--alpha 1: must be above 0 and below 1"),
        (["{book}", "--alpha", "0.1"], "--alpha: belongs to a new ledger; give --questions, too"),
        (["other.txt"], "other.txt: is not a ledger"),
    ],
)
def test_what_is_refused(book, tmp_path, monkeypatch, capsys, arguments, line):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other.txt").write_text("[1, 2]\n")
    assert ledger.main([each.format(book=book) for each in arguments]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"error: {line.format(book=book)}") and err.count("\n") == 1
