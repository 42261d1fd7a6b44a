"""The report on the claims is made from what is stored."""

import pytest
from history import needs_history

from benchmarks.cards.asked import asked
from benchmarks.cards.texts import read_cards
from benchmarks.paper import numbers
from benchmarks.paper.figures import budget, figures

pytestmark = needs_history


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
        _, sign, _ = each.sides
        kind, direction = each.found["kind"], each.found["direction"]
        assert sign == {"equivalent": "≈", "not inferior": "≥", "superior": ">" if direction == "higher" else "<"}[kind]


@pytest.mark.rare
def test_it_becomes_a_pdf(tmp_path, monkeypatch):
    pytest.importorskip("typst")
    from benchmarks.paper import __main__ as command

    monkeypatch.setattr("sys.argv", ["paper", "--out", str(tmp_path)])
    command.main()
    assert (tmp_path / "rlexp.pdf").read_bytes().startswith(b"%PDF")


def test_its_figures_are_those_that_its_text_names(rows):
    text = (numbers.ROOT / "benchmarks" / "paper" / "paper.typ").read_text(encoding="utf-8")
    assert all(f'image("{name}.svg"' in text for name in figures(rows))


def test_the_budget_figure_has_the_metric_that_is_judged_and_each_arm_once():
    left, right = budget([asked()["group_size_equal"]]).subfigs[0].axes
    assert left.get_ylabel() == "sampled_accuracy"  # greedy accuracy has curves, too
    assert [line.get_label() for line in left.lines] == [
        f"completions={k}\nprompts={n}" for k, n in ((16, 8), (2, 64), (2, 8))
    ]
    assert right.get_xlim()[1] >= 12_800  # what 100 steps of 8 groups of sixteen take
