"""The probabilities of benchmarks.seeds are those of simulated t-tests, and card C20 has the numbers of its file."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from benchmarks.cards.texts import read_card
from benchmarks.claims.texts import HOME
from benchmarks.seeds import FILE, power, table, wrong

DRAWS = 20_000
TOLERANCE = 4 * (0.25 / DRAWS) ** 0.5  # four standard errors of a share


@pytest.mark.parametrize(("effect", "seeds"), [(0.0, 3), (0.5, 3), (0.5, 8), (1.5, 5)])
def test_probabilities_are_those_of_simulated_tests(effect, seeds):
    draws = np.random.default_rng(0).normal(effect, 2.0, (DRAWS, seeds))
    at = (np.array([effect]), np.array([2.0]), seeds)
    assert wrong(*at)[0] == pytest.approx((draws.mean(1) < 0).mean(), abs=TOLERANCE)
    assert power(*at)[0] == pytest.approx((stats.ttest_1samp(draws, 0, axis=1).pvalue < 0.05).mean(), abs=TOLERANCE)


def test_one_seed_shows_nothing():
    assert power(np.array([5.0]), np.array([1.0]), 1) == 0


def test_the_file_is_of_the_answers_that_are_stored():
    """Rounded to three digits, so that a digit's last place may differ between processors."""
    pd.testing.assert_frame_equal(pd.read_csv(FILE), table(), rtol=0, atol=0.0011)


def test_the_card_has_the_numbers_of_the_file():
    table = pd.read_csv(FILE).set_index(["at", "number", "seeds"])
    card = read_card(HOME / "cards" / "c20.yaml")
    said = " ".join(f"{card.answer} {card.details}".split())
    assert f"from {table['settings'].iloc[0]} settings" in said
    for at, number, seeds, quartile, text in (
        ("found", "wrong", 1, "median", "one seed gives the wrong order in {} of 100 cases in the median setting, and"),
        ("found", "wrong", 3, "median", "and three in {}."),
        ("counts", "wrong", 1, "median", "in {} of 100 cases in the median setting and in"),
        ("counts", "wrong", 1, "high", "and in {} where the scatter is large (upper quartile)"),
        ("counts", "wrong", 3, "high", "three seeds in 0.1 and {}."),
        ("counts", "shown", 5, "median", "with 5 seeds in {} of 100 cases in the median setting"),
        ("counts", "shown", 10, "low", "with 10 seeds in {} where the scatter is large"),
        ("found", "shown", 10, "median", "10 seeds show {} and"),
        ("found", "shown", 20, "median", "20 seeds {} in the median setting"),
    ):
        assert text.format(round(100 * table.loc[(at, number, seeds), quartile])) in said, text
