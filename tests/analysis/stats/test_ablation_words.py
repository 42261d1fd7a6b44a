"""The word of a part, by the interval of its effect."""

import pytest

from rlexp.analysis.stats.ablation import word_of


@pytest.mark.parametrize(
    ("low", "high", "word"),
    [
        (0.0, 0.0, "no material effect"),  # the same bit by bit
        (0.01, 0.09, "no material effect"),  # rounding has a sign
        (-0.09, -0.01, "no material effect"),
        (0.01, 0.11, "helps a little"),
        (-0.11, -0.01, "hurts a little"),
        (-0.9, 0.9, "no material effect"),
        (0.1, 1.0, "helps"),
        (-1.0, -0.1, "hurts"),
        (-0.1, 1.0, "open"),
        (float("nan"), float("nan"), "open"),
    ],
)
def test_the_word_of_an_interval_in_smallest_effects(low, high, word):
    assert word_of(2 * low, 2 * high, 2.0) == word
