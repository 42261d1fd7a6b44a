"""Racing: which arm is best, while arms that are shown to be worse stop.

After each turn every two arms are compared on the seeds that both have. An arm that is shown to be worse than another
is out. The race is over when one arm is shown to be the best but for a margin: no other that is left is better than it
by so much. Source: Maron and Moore 1994 (Hoeffding races) and Birattari et al. 2002 (F-race) for the arms that stop,
Even-Dar, Mannor and Mansour 2006 for the margin. The test is here one that holds at every look
(`significance.lower_bound`), at ALPHA / (arms − 1).

Two things can be false: that the best arm is out, and that another is the best but for the margin. Either needs a bound
of a difference to the best arm that has passed its centre. There are arms − 1 of those, so either happens with a
probability of at most ALPHA. Of two arms that are both worse than the best, the wrong one may stop more often.
"""

from itertools import permutations
from typing import NamedTuple

import numpy as np
import pandas as pd

from rlexp.analysis.stats.significance import ALPHA, is_above, subtract


class Race(NamedTuple):
    """Where a race stands."""

    left: list[str]
    """Arms, in their order."""
    out: dict[str, str | None]
    """By the arm that is out: one that it is shown to be worse than; None if no run of it has a score."""
    best: str | None
    """The arm that no other is better than by the margin, if one is shown to be; the race is then over."""


def race_alpha(arms: int) -> float:
    """The level of each bound, on one side."""
    return ALPHA / max(arms - 1, 1)


def race(scores: pd.DataFrame, margin: float, arms: int | None = None) -> Race:
    """Say which arms are out, and whether the race is over.

    Args:
        scores: one row per seed in their order, one column per arm that is not out yet, the higher the better; NaN
            where a run has none.
        margin: arms are equal that are less than this apart.
        arms: how many the race began with; those in ``scores`` unless it says.
    """
    alpha, names = race_alpha(arms or scores.shape[1]), list(scores)
    out: dict[str, str | None] = {arm: None for arm in names if scores[arm].isna().all()}
    racing = [arm for arm in names if arm not in out]
    columns = {arm: scores[arm].to_numpy(dtype=float) for arm in racing}
    gains = {(arm, other): subtract(columns[other], columns[arm]) for arm, other in permutations(racing, 2)}
    gains = {pair: gain[~np.isnan(gain)] for pair, gain in gains.items()}
    for arm in sorted(racing, key=lambda arm: scores[arm].mean()):
        better = [other for other in racing if other != arm and is_above(gains[arm, other], 0.0, alpha)]
        if better and len(out) < len(names) - 1:  # were all of them worse than others, the highest mean stays
            out[arm] = max(better, key=lambda other: gains[arm, other].mean())
    left = [arm for arm in names if arm not in out]
    for arm in sorted(left, key=lambda arm: -scores[arm].mean()):
        if all(is_above(gains[other, arm], -margin, alpha) for other in left if other != arm):
            return Race(left, out, arm)
    return Race(left, out, None)
