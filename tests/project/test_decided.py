"""The cost of a question: seeds of unpaired runs by statsmodels, and what each way says of simulated scores."""

from functools import partial
from math import ceil

import numpy as np
import pytest
from statsmodels.stats.power import TTestIndPower

from benchmarks.decided import planned, redrawn, unpaired, unpaired_seeds, until_decided
from rlexp.analysis.stats.significance import seeds_for_effect

DRAWS = 120


@pytest.mark.parametrize("effect", [0.2, 0.5, 0.8, 1.4])
def test_unpaired_seeds_are_those_of_statsmodels(effect):
    assert unpaired_seeds(effect, 1.0) == ceil(TTestIndPower().solve_power(effect, alpha=0.05, power=0.8))
    assert unpaired_seeds(-3 * effect, 3.0) == unpaired_seeds(effect, 1.0)


def bank(effect, correlation, runs=4000):
    """Scores of an arm and its baseline, SD 1, with this correlation."""
    shared, *own = np.random.default_rng(1).normal(size=(3, runs))
    arms = [np.sqrt(correlation) * shared + np.sqrt(1 - correlation) * each for each in own]
    return arms[0], arms[1] - arms[1].mean() + arms[0].mean() + effect


@pytest.mark.slow
def test_each_way_is_as_right_as_it_promises_and_pairing_saves_seeds():
    effect, correlation = 0.7, 0.8
    baseline, arm = bank(effect, correlation)
    alone, paired = unpaired_seeds(effect, 1.0), seeds_for_effect(effect, np.sqrt(2 * (1 - correlation)))
    assert alone == 34 and paired == 9
    found = {
        "unpaired": redrawn(baseline, arm, partial(unpaired, n=alone), DRAWS, 2 * alone),
        "planned": redrawn(baseline, arm, partial(planned, n=paired), DRAWS, paired),
        "until_decided": redrawn(baseline, arm, partial(until_decided, margin=effect / 2), DRAWS, 60),
    }
    for way in found.values():  # four standard errors of so many draws
        assert way.right > 0.8 - 4 * np.sqrt(0.8 * 0.2 / DRAWS)
        assert way.false < 0.05 + 4 * np.sqrt(0.05 * 0.95 / DRAWS)
        assert way.wrong < 0.05 + 4 * np.sqrt(0.05 * 0.95 / DRAWS)
    assert found["until_decided"].right > 0.9
    assert paired <= found["until_decided"].seeds < alone


def test_an_unpaired_sweep_shares_no_seed():
    baseline = np.array([0.0, 0.0, 0.0, 5.0, 5.1, 5.2])
    arm = np.array([1.0, 1.1, 1.2, 9.0, 9.0, 9.0])
    assert unpaired(baseline, arm, 3).word == "lower"
    assert planned(baseline, arm, 6) == ("higher", 6)
