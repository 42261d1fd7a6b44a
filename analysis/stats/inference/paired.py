"""Summaries and tests of paired differences: by their mean, or where some are infinite by their ranks.

                 usually                        ranked
sums up          mean, paired t interval        median, interval of the sign test
tests            sign flips of the differences  sign flips of their signed ranks
points to        the sign of the mean           the sign of the sum of the signed ranks

Where seeds were added until something was decided p holds at every look: by bets on signs, which ranked differences
have too, but without their sizes.
"""

from typing import NamedTuple

import numpy as np

from rlexp.analysis.stats.inference.estimates import Difference, mean_difference, median_difference
from rlexp.analysis.stats.inference.sequential import anytime_p, confidence_sequence
from rlexp.analysis.stats.inference.significance import ALPHA, sign_flip_p, signed_ranks

Array = np.ndarray


class PairedTest(NamedTuple):
    """A summary and a test of paired differences."""

    sequential: bool = False
    """Whether seeds were added until something was decided."""
    ranked: bool = False
    """Whether differences may be infinite."""

    def p(self, differences: Array) -> float:
        """Two-sided p of paired differences `[n]`; n = 0: NaN."""
        if self.sequential:
            return anytime_p(np.sign(differences) if self.ranked else differences)
        return sign_flip_p(signed_ranks(differences) if self.ranked else differences)

    def estimate(self, differences: Array) -> Difference:
        """Mean (median) of paired differences `[n]`, with its 95 % interval."""
        found = median_difference(differences) if self.ranked else mean_difference(differences)
        if not self.sequential:
            return found
        low, high = (np.float64(np.nan),) * 2 if self.ranked else confidence_sequence(differences)
        return found._replace(low=low, high=high)

    def side(self, differences: Array) -> float:
        """Above 0 if the differences `[n]` are on the whole, below 0 if they are below; 0 for none."""
        if not differences.size:
            return 0.0
        return float(signed_ranks(differences).sum() if self.ranked else differences.mean())

    def is_above(self, differences: Array, family: int) -> bool:
        """Whether the differences `[n]` are shown to be above 0, by a p that is corrected for so many."""
        return bool(self.side(differences) > 0 and family * self.p(differences) < ALPHA)


MEAN_TEST = PairedTest()


def subtract(first: Array, second: Array) -> Array:
    """The difference, element by element; of two that are infinite alike it is 0."""
    first, second = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    with np.errstate(invalid="ignore"):
        return np.where(np.isinf(first) & (first == second), 0.0, first - second)
