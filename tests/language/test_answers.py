"""Whether texts give an answer: against numbers written by Python, and against what a reader would say."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlexp.language.answers import altered, boxed, exact, last_box, last_number, last_number_text, numeric


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("the answer is 42.", 42),
        ("it costs $1,234.50 in all", Fraction(2469, 2)),
        ("1,234,567", 1234567),
        ("one of 1,2", 2),
        ("1,2345", 2345),
        ("x = -7", -7),
        ("10-3", 3),
        ("10 - 3 = 7", 7),
        ("f(2)-1", 1),
        ("\N{MINUS SIGN}5", -5),
        ("+5", 5),
        ("3/4 of it", Fraction(3, 4)),
        ("-3 / 4", Fraction(-3, 4)),
        (r"so $-\frac{1}{3}$", Fraction(-1, 3)),
        (r"\dfrac{10}{4}", Fraction(5, 2)),
        ("0.5/0.25", 2),
        (".25", Fraction(1, 4)),
        ("2.5e-3 m", Fraction(1, 400)),
        ("1E3", 1000),
        ("1/0", None),
        ("x2 and y_3", None),
        ("答案是42", 42),
        ("#### 18", 18),
        ("50%", 50),
        ("5km", 5),
        ("no number", None),
        ("", None),
        ("9" * 5000, None),
        ("1e999999999", None),
    ],
)
def test_the_last_number(text, number):
    assert last_number(text) == number


WHOLE = st.integers(-(10**12), 10**12)


@given(WHOLE, st.integers(1, 9999), st.text("abc ,.:;=\n", max_size=20))
def test_numbers_as_python_writes_them_are_read_exactly(above, below, around):
    assert last_number(f"{around} {above}/{below}") == Fraction(above, below)
    assert last_number(f"7 {around} {above:,} ") == above
    tenths = f"{above / 16:.4f}"
    assert last_number(f"{around} {tenths}") == Fraction(tenths)


@given(st.text())
def test_any_text_is_read_without_an_error(text):
    assert numeric(text, "3") in (True, False) and boxed(rf"\boxed{{{text}", text) in (True, False)


@pytest.mark.parametrize(
    ("text", "inside"),
    [
        (r"\boxed{5}", "5"),
        (r"\boxed{1} then \boxed{\frac{1}{2}}.", r"\frac{1}{2}"),
        (r"\boxed{1} then \boxed{2", "1"),
        (r"\boxed{\boxed{3}}", "3"),
        (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
        (r"\boxed{a\}b}", r"a\}b"),
        (r"\boxed{}", ""),
        (r"\boxed 5", None),
        ("5", None),
    ],
)
def test_the_last_box(text, inside):
    assert last_box(text) == inside


@pytest.mark.parametrize(
    ("match", "text", "answer", "right"),
    [
        (exact, " Paris\n", "Paris", True),
        (exact, "paris", "Paris", False),
        (exact, "It is Paris", "Paris", False),
        (numeric, "so 1,000.0", "1000", True),
        (numeric, "0.3333", "1/3", False),
        (numeric, "0.125", "1/8", True),
        (numeric, "4 or 5", "4", False),
        (numeric, "none", "4", False),
        (numeric, "none", "none", False),
        (numeric, "12", "3 + 9 = 12 #### 12", True),
        (boxed, r"\boxed{0.5}", r"\frac{1}{2}", True),
        (boxed, r"\boxed{ x+1 }", "x+1", True),
        (boxed, r"\boxed{x=5}", "5", False),
        (boxed, r"\boxed{(1,2)}", "2", False),
        (boxed, r"\boxed{5} or \boxed{6}", "5", False),
        (boxed, r"\boxed{$1,000$}", r"\boxed{1000}", True),
        (boxed, "5", "5", False),
    ],
)
def test_matches(match, text, answer, right):
    assert match(text, answer) is right


@given(WHOLE)
def test_an_altered_answer_is_another_one_of_the_same_form(number):
    other = altered(f"{number}")
    assert other != f"{number}" and last_number(other) != number and len(other) == len(f"{number}")


def test_altered_words_and_what_cannot_be_altered():
    assert [altered(text) for text in ("yes", "x9", "z", "→", "")] == ["yet", "x0", "a", None, None]


def test_a_number_is_found_as_it_is_written():
    assert last_number_text("it is 1,250.50 kg") == "1,250.50"
