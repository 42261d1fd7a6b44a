"""The report on the claims is made from what is stored."""

import json

import pytest
from history import needs_history

from benchmarks.cards.asked import asked
from benchmarks.cards.texts import read_cards
from benchmarks.paper import numbers
from benchmarks.paper.figures import budget, figures

pytestmark = [needs_history, pytest.mark.slow]


@pytest.fixture(scope="module")
def rows():
    return [*numbers.answers()]


def test_every_assertion_of_a_claim_has_a_row_and_a_word_that_is_counted(rows):
    found = numbers.numbers(rows)
    cards = [card for card in read_cards() if {*card.questions} & {*asked()}]
    assert found["claims"] == len(cards) > 0 and len(found["rows"]) == found["assertions"] == len(rows)
    assert sum(found["words"].values()) == found["assertions"]
    assert all(row["arm"] and row["versus"] and row["number"] and row["effect"] for row in found["rows"])


def test_the_sign_between_arms_says_what_is_claimed(rows):
    for each in rows:
        sign = each.sides["sign"]
        kind, direction = each.found["kind"], each.found["direction"]
        assert sign == {"equivalent": "≈", "not inferior": "≥", "superior": ">" if direction == "higher" else "<"}[kind]


@pytest.mark.rare
def test_it_becomes_a_pdf_of_eight_pages(tmp_path, monkeypatch):
    typst = pytest.importorskip("typst")
    from benchmarks.paper import __main__ as command

    monkeypatch.setattr("sys.argv", ["paper", "--out", str(tmp_path)])
    command.main()
    assert (tmp_path / "rlexp.pdf").read_bytes().startswith(b"%PDF")
    assert json.loads(typst.query(str(tmp_path / "paper.typ"), "<pages>", field="value", one=True)) <= 8


def test_a_row_has_what_each_arm_has_alone_and_what_both_share(rows):
    found = {(row["arm"], row["versus"], row["both"]) for row in map(numbers.row, rows)}
    assert ("clip=higher", "clip=symmetric", "") in found  # C3
    assert ("kl.coef=0.3", "kl.coef=0.002", "kl=k2") in found  # D9
    assert ("norm=pass_at_k", "default", "task.weights.easy=0+task.weights.medium=0") in found  # D10


def test_its_figures_are_those_that_its_text_names(rows):
    text = (numbers.ROOT / "benchmarks" / "paper" / "paper.typ").read_text(encoding="utf-8")
    assert all(f'image("{name}.svg"' in text for name in figures(rows))


def test_the_budget_figure_has_where_each_arm_ends_at_the_completions_of_the_baseline():
    """A line is the mean of its arm's runs at the best rate, in the numbers of the first or of the second assertion."""
    question = asked()["dynamic_budgets"]
    (axes,) = budget([question]).axes
    runs = question.runs[question.runs["best"]]
    for line, (arm, number) in zip(axes.lines, (("none", 1), ("dynamic", 1), ("dynamic", 2)), strict=True):
        assert [*line.get_xdata()] == [128 * steps for steps in (8, 32, 128, 512)]
        of = runs[runs["arm"].eq(f"filter={arm}") & runs["condition"].str.startswith("steps=32,")]
        assert line.get_ydata()[1] == pytest.approx(of[f"assertion_{number}"].mean())
