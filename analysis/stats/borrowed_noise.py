"""What the noise of other runs says of a difference, where arms have too few runs to say anything themselves.

The SD of a run is taken from a sweep with several seeds. Two means of n and m runs must then differ by
t(df)·SD·√(1/n + 1/m), with the degrees of freedom of that sweep. This takes runs to scatter as much here as there,
which nothing here can check.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import stdtr, stdtrit

from rlexp.analysis.stats.comparison import Comparison
from rlexp.analysis.stats.estimates import TAILS
from rlexp.analysis.stats.formatting import decimal_places, format_interval, format_number
from rlexp.analysis.stats.noise import Noise

Array = np.ndarray


class Borrowed(NamedTuple):
    """The difference of two means by another sweep's scatter."""

    difference: float
    low: float
    high: float
    p: float
    error: float
    must_differ: float


def borrowed_difference(first: Array, second: Array, noise: Noise, by: float = 0.0) -> Borrowed:
    """Difference of the means of two arms `[n]` and `[m]`; p is of "they differ by `by`"."""
    first, second = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    difference = float(first.mean() - second.mean())
    error = noise.sd * float(np.sqrt(1 / first.size + 1 / second.size))
    least = float(stdtrit(noise.df, TAILS[1])) * error
    p = float(2 * stdtr(noise.df, -abs(difference - by) / error))
    return Borrowed(difference, difference - least, difference + least, p, error, least)


def borrowed_sentences(comparison: Comparison, noise: Noise, name: str) -> list[str]:
    """A sentence for each arm: whether it differs from the baseline by more than luck of the runs in that sweep."""
    said = []
    for arm in comparison.others:
        runs, baseline = comparison.runs(arm), comparison.runs(comparison.baseline)
        if not runs.size or not baseline.size:
            continue
        found = borrowed_difference(runs, baseline, noise)
        digits = decimal_places([found.difference, found.must_differ])
        text = format_interval(found.difference, found.low, found.high, digits, signed=True)
        more = "more than" if abs(found.difference) > found.must_differ else "no more than"
        said.append(
            f"By the noise of {name} (SD of a run {format_number(noise.sd, digits)}, {noise.df:.0f} df): "
            f"{comparison.labels[arm]} differs from {comparison.labels[comparison.baseline]} by {text}, {more} luck of "
            f"the seed there; it takes {format_number(found.must_differ, digits)}. That holds if runs scatter here as "
            "much as there."
        )
    return said
