"""Levels of a stream of tests."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlexp.analysis.stats.alpha_spending import next_level


def fallback(rejected, questions, alpha):
    """Tian and Ramdas (2021), online fallback: each rejected test gives its level to the next (w[k, k + 1] = 1)."""
    levels = []
    for i in range(len(rejected) + 1):
        own = alpha / questions if i < questions else 0.0
        levels.append(own + sum(levels[k] for k in range(i) if rejected[k] and k + 1 == i))
    return levels[-1]


@pytest.mark.parametrize("questions", [1, 3, 5])
def test_the_levels_are_those_of_the_procedure(questions):
    for n in range(6):
        for rejected in product([False, True], repeat=n):
            expected = fallback(rejected, questions, 0.05)
            assert next_level(rejected, questions, 0.05) == pytest.approx(expected, abs=1e-15)  # rounding


@given(st.lists(st.booleans(), max_size=40), st.integers(1, 50), st.floats(0.001, 0.5))
def test_whatever_is_found_the_levels_of_what_is_not_found_are_alpha_at_most(rejected, questions, alpha):
    """The bound on the error: the levels of true null hypotheses that were not rejected sum to at most alpha."""
    spent = sum(next_level(rejected[:i], questions, alpha) for i, each in enumerate(rejected) if not each)
    assert spent + next_level(rejected, questions, alpha) <= alpha * (1 + 1e-12)


def test_printed_levels():
    assert next_level([], 64, 0.05) == 0.05 / 64
    assert next_level([False, True, True], 5, 0.05) == pytest.approx(0.03)
    assert next_level([False] * 5, 5, 0.05) == 0.0
    assert next_level([False] * 4 + [True], 5, 0.05) == pytest.approx(0.01)
