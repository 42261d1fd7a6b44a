"""What a comparison at one learning rate would have said, where both arms were trained at several.

Looked at after the answers. Differences at one rate are not corrected for the number of rates.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from benchmarks.cards.asked import Asked, sides
from rlexp.analysis.stats.estimates import mean_difference

FEWEST = 3  # rates


class Compared(NamedTuple):
    """Two arms in a setting; differences are in units of the smallest effect that counts."""

    same: bool
    """Both are best at the same rate."""
    best: float
    """The difference of their means, each at its best rate."""
    counted: list[float]
    """The differences at one rate for both that have a size that counts and a 95 % interval without 0."""


def compared(used: Iterable[Asked]) -> Iterator[Compared]:
    """Yield all valid settings in which two arms of a small transformer were tuned for their accuracy."""
    for one in used:
        valid = {
            (sides(each), setting["condition"]): None
            for each in one.assertions
            for setting in each["conditions"]
            if not setting["fails"]
        }
        for pair, condition in valid if one.tier == "small" and one.tuned else ():
            grids = [one.grid(condition, arm) for arm in pair]
            first, second = (
                dict(zip(each.rates[each.complete], each.values[each.complete], strict=True)) for each in grids
            )
            shared = [rate for rate in first if rate in second]
            if one.scale(condition, 0)[0].name == "log-odds" and len(shared) >= FEWEST:
                found = mean_difference(
                    np.array([first[rate] - second[rate] for rate in shared]) / one.smallest(condition)
                )
                counts = (np.abs(found.mean) >= 1) & ((found.low > 0) | (found.high < 0))
                best = [each.values[each.best].mean() for each in grids]
                yield Compared(
                    same=grids[0].rates[grids[0].best] == grids[1].rates[grids[1].best],
                    best=(best[0] - best[1]) / one.smallest(condition),
                    counted=found.mean[counts].tolist(),
                )


def summary(found: Sequence[Compared]) -> str:
    """Return how often arms are best at the same rate, and how often one rate would mislead."""
    near = [each for each in found if abs(each.best) < 1]
    misled = sum(bool(each.counted) for each in near)
    turned = sum(any(rate * each.best < 0 for rate in each.counted) for each in found)
    return (
        f"In {sum(each.same for each in found)} of {len(found)} settings both arms are best at the same rate. In "
        f"{len(near)} they differ by less than counts, each at its best rate; in {misled} of these there is a rate at "
        f"which they differ by an amount that counts (p < .05). In {turned} settings the arm that is behind at the "
        "best rates is ahead by such an amount at another."
    )
