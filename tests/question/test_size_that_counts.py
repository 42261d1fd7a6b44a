"""The size that counts is printed for the side that is claimed: a share near an end moves by less towards it."""

from types import SimpleNamespace

import pytest
from scipy.special import expit, logit

from analysis.report.question import natural_size
from analysis.stats.scales import Scale


@pytest.mark.parametrize(
    ("kind", "direction", "side"),
    [
        ("superior", "higher", 1),
        ("superior", "lower", -1),
        ("not inferior", "higher", -1),
        ("not inferior", "lower", 1),
    ],
)
@pytest.mark.parametrize("level", [0.1, 0.8])
def test_the_size_that_counts_is_that_of_the_side_which_is_claimed(kind, direction, side, level):
    sign = 1 if direction == "higher" else -1
    declared = {"kind": kind, "direction": direction}
    one = SimpleNamespace(declared=declared, sign=sign, scale=Scale("log-odds", 1e9), smallest=0.25, level=level)
    points = 100 * abs(expit(logit(level) + side * 0.25) - level)
    assert natural_size(one) == f"{points:.3g} points"
    one.scale = Scale("log")
    assert natural_size(one) == {1: "28.4 %", -1: "22.1 %"}[side]  # e^±0.25
