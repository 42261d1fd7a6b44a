"""The report on the claims is made from what is stored."""

import json

import pytest

from benchmarks.paper import numbers
from benchmarks.paper.figures import figures


@pytest.fixture(scope="module")
def found():
    return numbers.numbers()


def test_every_assertion_that_is_stored_has_a_row_and_a_word_that_is_counted(found):
    stored = [json.loads(file.read_text(encoding="utf-8")) for file in numbers.DOCS.glob("**/answer.json")]
    assert len(found["rows"]) == found["assertions"] == sum(len(each["assertions"]) for each in stored)
    assert sum(found["words"].values()) == found["assertions"]
    assert all(row["arm"] and row["versus"] and row["number"] and row["effect"] for row in found["rows"])


@pytest.mark.parametrize(
    ("kind", "direction", "claim", "sign", "number"),
    [
        ("superior", "higher", "a=1+b=2 has a higher eval/x than default", ">", "eval/x"),
        ("superior", "lower", "a=1+b=2 needs fewer steps to x ≥ 0.5 than default", "<", "steps to x ≥ 0.5"),
        ("equivalent", "higher", "a=1+b=2 and default have the same eval/x, within 3 points", "≈", "eval/x"),
        ("not inferior", "higher", "a=1+b=2 has not lower eval/x than default, by 3 points", "≥", "eval/x"),
    ],
)
def test_the_sides_of_an_assertion(kind, direction, claim, sign, number):
    assertion = {"arm": ["a=1", "b=2"], "versus": [], "kind": kind, "direction": direction, "claim": claim}
    assert numbers.sides(assertion) == ("a=1+b=2", sign, "default", number)


@pytest.mark.rare
def test_it_becomes_a_pdf(tmp_path, monkeypatch):
    pytest.importorskip("typst")
    from benchmarks.paper import __main__ as command

    monkeypatch.setattr("sys.argv", ["paper", "--out", str(tmp_path)])
    command.main()
    assert (tmp_path / "rlexp.pdf").read_bytes().startswith(b"%PDF")


def test_its_figures_are_those_that_its_text_names():
    text = (numbers.ROOT / "benchmarks" / "paper" / "paper.typ").read_text(encoding="utf-8")
    assert all(f'image("{name}.svg"' in text for name in figures())
