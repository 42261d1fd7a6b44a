"""Summaries and tests of paired differences: by their mean, or where some are infinite by their ranks.

                 usually                        ranked
sums up          mean, paired t interval        median, interval of the sign test
tests            sign flips of the differences  sign flips of their signed ranks
points to        the sign of the mean           the sign of the sum of the signed ranks

Where seeds were added until something was decided p holds at every look: by bets on signs, which ranked differences
have too, but without their sizes.
"""

from functools import cache
from typing import NamedTuple

import numpy as np
from scipy.special import nctdtr, stdtrit

from rlexp.analysis.stats.inference.estimates import Difference, mean_difference, median_difference
from rlexp.analysis.stats.inference.significance import (
    ALPHA,
    anytime_p,
    confidence_sequence,
    log_evidence,
    seeds_for_p,
    sign_flip_p,
    signed_ranks,
)

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


MOST = 1000  # seeds that anybody would run


def power(effect_size: float, n: int, alpha: float = 0.05) -> float:
    """Power of the two-sided paired t test: P(|T| > t_crit), T noncentral t(n-1) with noncentrality d·√n."""
    critical, shift = stdtrit(n - 1, 1 - alpha / 2), effect_size * np.sqrt(n)
    lower_tail = np.nan_to_num(nctdtr(n - 1, shift, -critical))  # SciPy gives NaN where it is below 1e-10
    return float(1 - nctdtr(n - 1, shift, critical) + lower_tail)


@cache
def detectable_effect_size(n: int, alpha: float = 0.05, target: float = 0.8) -> float:
    """Effect size d̄/SD that a paired t test with n seeds finds with probability 0.8 (bisection); n < 3: NaN."""
    if n < 3:
        return np.nan
    low, high = 0.0, 3 * float(stdtrit(n - 1, 1 - alpha / 2))
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if power(middle, n, alpha) >= target else (middle, high)
    return high


def minimum_detectable_effect(sd: float, n: int, alpha: float = 0.05, comparisons: int = 1) -> float:
    """Smallest true mean difference found with 80 % power: SD(d)·d(n, alpha/m) by the paired t test; n < 3: NaN.

    Differences that are all the same say nothing of their spread: NaN, not 0.
    """
    return float(sd) * detectable_effect_size(int(n), alpha / max(comparisons, 1)) if sd > 0 else np.nan


def seeds_for_effect(effect: float, sd: float, comparisons: int = 1, alpha: float = ALPHA) -> int | None:
    """Fewest seeds that find a true mean difference with 80 % power, one of so many; None beyond `MOST`.

    By the paired t test at alpha/comparisons, and no fewer than sign flips need for so small a p.
    """
    for n in range(max(3, seeds_for_p(comparisons, alpha)), MOST + 1):
        if minimum_detectable_effect(sd, n, alpha, comparisons) <= effect:
            return n
    return None


@cache
def seeds_until_decided(effect: float, sd: float, comparisons: int = 1, sweeps: int = 100) -> float:
    """Seeds after which bets on signs have shown a true mean difference, the mean of simulated sweeps.

    Normal differences with this SD, looked at after each seed; of a sweep that shows nothing, `MOST` seeds count.
    """
    noise = np.random.default_rng(0).normal(size=(sweeps, MOST))
    e = log_evidence(effect + sd * noise)
    shown = np.maximum.accumulate(e, 1) >= np.log(2 * max(comparisons, 1) / ALPHA)
    return float(np.where(shown.any(1), shown.argmax(1) + 1, MOST).mean())
