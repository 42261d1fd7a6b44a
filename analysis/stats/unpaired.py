"""Two arms whose runs are not paired: other seeds, unequal numbers of runs, or seeds that nobody knows.

    sums up    difference of means, with Welch's t interval
    tests      permutation of the runs between the arms, by |t| of Welch

Welch's t (1947) does not take the two arms to scatter alike; its degrees of freedom are Satterthwaite's (1946). The
permutations are all of them where there are at most `PERMUTATIONS`, else as many random ones. They are exact where both
arms scatter alike. Where the smaller arm scatters more they reject too often, by Welch's t less so than by the bare
difference (Janssen 1997): in a tenth of the cases with 12 and 4 runs of which the 4 scatter three times as much.
"""

from math import comb
from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from rlexp.analysis.stats.estimates import TAILS
from rlexp.analysis.stats.significance import ALPHA, MOST, detectable_shift

Array = np.ndarray
PERMUTATIONS = 19_999
ROUNDING = 1e-12
SEPARATE = 1e12  # |t| of arms that differ and do not scatter


class WelchDifference(NamedTuple):
    """The difference of two means with its 95 % interval; NaN where an arm has one run."""

    mean: float
    low: float
    high: float
    sd: float
    """Of the difference of a run of one arm and a run of the other: √(s₁² + s₂²)."""
    effect_size: float
    """Cohen's d: the difference over √((s₁² + s₂²)/2)."""
    error: float
    """Standard error of the difference."""
    df: float
    """Degrees of freedom."""


def welch_difference(first: Array, second: Array) -> WelchDifference:
    """Difference of the means of two arms `[n]` and `[m]`, first less second; NaN of an arm without runs."""
    first, second = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    n, m = first.size, second.size
    if not n or not m:
        return WelchDifference(*[np.nan] * 7)
    mean = float(first.mean() - second.mean())
    if min(n, m) < 2:
        return WelchDifference(mean, *[np.nan] * 6)
    variances = np.array([first.var(ddof=1), second.var(ddof=1)])
    variances[variances <= (ROUNDING * max(np.abs(first).max(), np.abs(second).max())) ** 2] = 0.0
    shares = variances / [n, m]
    error, sd = float(np.sqrt(shares.sum())), float(np.sqrt(variances.sum()))
    df = float(shares.sum() ** 2 / (shares**2 / [n - 1, m - 1]).sum()) if error else float(n + m - 2)
    half = float(stdtrit(df, TAILS[1])) * error
    effect_size = mean / (sd / np.sqrt(2)) if sd else np.copysign(np.inf, mean) if mean else 0.0
    return WelchDifference(mean, mean - half, mean + half, sd, float(effect_size), error, df)


def permutation_p(first: Array, second: Array) -> float:
    """Two-sided p of "which run is of which arm is luck", of two arms `[n]` and `[m]`; NaN of an arm without runs."""
    first, second = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    if not first.size or not second.size:
        return np.nan
    if min(first.size, second.size) < 2:
        return _single_p(first, second)
    from scipy.stats import permutation_test  # slow to import

    found = permutation_test(
        (first, second),
        _absolute_t,
        permutation_type="independent",
        vectorized=True,
        alternative="greater",
        n_resamples=PERMUTATIONS,
        batch=2_000,
        random_state=0,
    )
    return float(found.pvalue)


def _single_p(first: Array, second: Array) -> float:
    """The same where an arm has one run, by the bare difference: how far off it is among all of the runs."""
    runs = np.concatenate([first, second] if first.size == 1 else [second, first])
    distances = np.abs(runs - (runs.sum() - runs) / (runs.size - 1))
    return float((distances >= distances[0] * (1 - ROUNDING)).mean())


def _absolute_t(first: Array, second: Array, axis: int = -1) -> Array:
    """|t| of Welch along an axis; very large where arms differ and do not scatter, 0 where they do not differ."""
    difference = np.abs(first.mean(axis) - second.mean(axis))
    error = np.sqrt(first.var(axis, ddof=1) / first.shape[axis] + second.var(axis, ddof=1) / second.shape[axis])
    size = np.maximum(np.abs(first).max(axis), np.abs(second).max(axis))
    tiny = error <= ROUNDING * size
    separate = np.where(difference > ROUNDING * size, SEPARATE, 0.0)
    return np.where(tiny, separate, np.divide(difference, error, out=np.zeros_like(difference), where=~tiny))


def min_unpaired_p(n: int, m: int) -> float:
    """Smallest p that `permutation_p` can give: an extreme split, and its mirror image where n = m."""
    if min(n, m) < 1:
        return 1.0
    splits = comb(n + m, n)
    exact = min(1.0, (1 + (n == m)) / splits)
    return exact if splits <= PERMUTATIONS else max(exact, 1 / (1 + PERMUTATIONS))


def runs_for_p(comparisons: int = 1, alpha: float = ALPHA) -> int:
    """Fewest runs an arm with which one of so many differences can reach alpha."""
    n = 2
    while max(comparisons, 1) * min_unpaired_p(n, n) > alpha and n < MOST:
        n += 1
    return n


def detectable_difference(error: float, df: float, comparisons: int = 1, alpha: float = ALPHA) -> float:
    """Smallest true difference found with 80 % power by Welch's t test; NaN where nothing scatters."""
    return float(error) * detectable_shift(float(df), alpha / max(comparisons, 1)) if error > 0 else np.nan


def runs_for_effect(effect: float, sd: float, comparisons: int = 1, alpha: float = ALPHA) -> int | None:
    """Fewest runs an arm that find a true difference with 80 % power, one of so many; None beyond `MOST`.

    sd: of the difference of two runs, as `WelchDifference.sd`.
    """
    for n in range(max(3, runs_for_p(comparisons, alpha)), MOST + 1):
        if detectable_difference(sd / np.sqrt(n), 2 * n - 2, comparisons, alpha) <= effect:
            return n
    return None
