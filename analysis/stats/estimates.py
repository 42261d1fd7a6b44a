"""Statistics of a few seeds: functions of NumPy arrays whose last axis is runs (or seeds, when paired).

Choices follow a coverage study of nominal 95 % intervals at 5, 10 and 20 seeds: the paired t interval holds its level,
bootstrap intervals of means do not (83 % at n = 5), so no interval of a difference is bootstrapped here.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import bdtr, ndtri, stdtrit

Array = np.ndarray

TAILS = (1 - 0.95) / 2, (1 + 0.95) / 2  # beyond which the ends of all intervals are: they are of 95 %
RESAMPLES = 10_000
MAX_ELEMENTS = 2**22  # numbers held at once
BEYOND, LARGEST = 1e200, 1e120  # what stands for infinity in sums, and what no score is larger than


class Interval(NamedTuple):
    """Both ends of an interval, each `[...]`."""

    low: Array
    high: Array


class Difference(NamedTuple):
    """A location of paired differences with its interval; `effect_size` is mean / SD of the differences."""

    mean: Array
    low: Array
    high: Array
    sd: Array | float = np.nan
    effect_size: Array | float = np.nan


class WinRate(NamedTuple):
    """Seeds on which the variant is better (a tie counts one half) out of n, with the interval of the share."""

    wins: float
    n: int
    rate: float
    low: float
    high: float


def iqm(scores: Array) -> Array | np.float64:
    """Interquartile mean `[..., n] → [...]`: the mean without the ⌊n/4⌋ lowest and ⌊n/4⌋ highest; NaN are left out.

    Source: Agarwal et al. 2021; equals `scipy.stats.trim_mean(x, 0.25)`. For n ≤ 3 nothing is cut: it is the mean.
    """
    ordered = np.sort(np.asarray(scores, dtype=float), axis=-1)  # NaN last
    count = (~np.isnan(ordered)).sum(-1, keepdims=True)
    cut = count // 4
    rank = np.arange(ordered.shape[-1])
    inside = (rank >= cut) & (rank < count - cut)
    with np.errstate(invalid="ignore"):
        return np.where(inside, ordered, 0.0).sum(-1) / inside.sum(-1)


def iqm_interval(scores: Array, resamples: int = RESAMPLES) -> Interval:
    """Percentile bootstrap of the IQM over runs, `[..., n] → [...]` twice; NaN are left out, fewer than 2 runs: NaN.

    Source: Agarwal et al. 2021 (one task). Measured coverage: about 90 % at n = 5, 93 % at n = 10.
    The random stream is fixed: the same scores, in any order, always give the same interval.
    """
    scores = np.asarray(scores, dtype=float)
    ordered = np.sort(scores.reshape(-1, scores.shape[-1]), axis=-1)  # NaN last
    counts = (~np.isnan(ordered)).sum(-1)
    ends = np.full((len(ordered), 2), np.nan)
    for n in set(counts.tolist()) - {0, 1}:
        rows = ordered[counts == n, :n]
        rows = np.where(np.isposinf(rows), BEYOND, rows)  # so that sums have no NaN
        ends[counts == n] = _bootstrap_quantiles(rows, resamples)
    ends[ends > LARGEST] = np.inf
    low, high = np.moveaxis(ends.reshape(*scores.shape[:-1], 2), -1, 0)
    return Interval(low, high)


def _bootstrap_quantiles(ordered: Array, resamples: int) -> Array:
    """Quantiles `[rows, 2]` of the IQM of resamples of sorted rows `[rows, n]`.

    A resample with its indices sorted is itself sorted, so each IQM is a weighted sum of the row: one product for all.
    """
    n = ordered.shape[-1]
    cut = n // 4
    index = np.sort(np.random.default_rng(0).integers(n, size=(resamples, n)), axis=-1)[:, cut : n - cut]
    places = (index + n * np.arange(resamples)[:, None]).ravel()
    weights = np.bincount(places, minlength=resamples * n).reshape(resamples, n) / (n - 2 * cut)
    step = max(1, MAX_ELEMENTS // resamples)
    blocks = [ordered[start : start + step] @ weights.T for start in range(0, len(ordered), step)]
    return np.concatenate([np.quantile(block, TAILS, axis=-1).T for block in blocks])


def stratified_iqm_interval(scores: Array, strata: Array) -> Interval:
    """Percentile bootstrap of the IQM of all scores `[n]`, runs resampled within their stratum `[n]` (task).

    Source: Agarwal et al. 2021. Fewer than 2 scores: NaN.
    """
    scores, strata = np.asarray(scores, dtype=float), np.asarray(strata)
    if scores.size < 2:
        return Interval(np.nan, np.nan)
    rng = np.random.default_rng(0)
    parts = [np.sort(scores[strata == stratum]) for stratum in dict.fromkeys(strata.tolist())]
    resampled = [part[rng.integers(part.size, size=(RESAMPLES, part.size))] for part in parts]
    low, high = np.quantile(iqm(np.concatenate(resampled, axis=-1)), TAILS)
    return Interval(float(low), float(high))


def mean_difference(differences: Array) -> Difference:
    """Mean of paired differences with the paired t interval d̄ ± t(n-1)·SD/√n, `[..., n] → [...]`; n < 2: NaN ends.

    Source: Student 1908. Effect size d̄/SD (Cohen's d_z). An SD that is only rounding error counts as 0.
    """
    differences = np.asarray(differences, dtype=float)
    n = differences.shape[-1]
    if n == 0:
        return Difference(*np.full((5, *differences.shape[:-1]), np.nan))
    mean = differences.mean(-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        sd = differences.std(-1, ddof=1) if n > 1 else np.full_like(mean, np.nan)
        sd = np.where(sd <= 1e-12 * np.abs(mean), 0.0, sd)
        effect_size = np.where((sd == 0) & (mean == 0), 0.0, mean / sd)
    # scipy.stats.ttest_1samp agrees to the last bit but one (tested); it warns where differences are equal but for
    # rounding, does not give the SD, and takes 18 times as long.
    half = stdtrit(n - 1, TAILS[1]) * sd / np.sqrt(n)
    return Difference(mean, mean - half, mean + half, sd, effect_size)


def trimmed_difference(differences: Array) -> Difference:
    """25 % trimmed mean of paired differences with its t interval, `[..., n] → [...]`: the typical effect.

    k = ⌊n/4⌋, se = SD_winsorised / ((1 - 2k/n)·√n), df = n - 2k - 1. Source: Tukey & McLaughlin 1963.
    It keeps its level when a fifth of the runs collapse, because it does not see them: read it beside `collapsed`.
    """
    ordered = np.sort(np.asarray(differences, dtype=float), axis=-1)
    n = ordered.shape[-1]
    cut = n // 4
    if n < 2:
        mean = ordered.mean(-1) if n else np.full(ordered.shape[:-1], np.nan)
        return Difference(mean, np.full_like(mean, np.nan), np.full_like(mean, np.nan))
    # scipy.stats.mstats.trimmed_mean_ci is the same only where n is a multiple of 4; elsewhere it winsorises by the
    # nominal 25 %, not by what is cut.
    mean = ordered[..., cut : n - cut].mean(-1)
    winsorised = ordered.clip(ordered[..., cut, None], ordered[..., n - cut - 1, None])
    error = winsorised.std(-1, ddof=1) / ((1 - 2 * cut / n) * np.sqrt(n))
    half = stdtrit(n - 2 * cut - 1, TAILS[1]) * error
    return Difference(mean, mean - half, mean + half)


def median_difference(differences: Array) -> Difference:
    """Median of paired differences `[n]`, some of which may be infinite, with the interval between two of them.

    Of two middle ones the mean, or that which is finite, or 0 if they are infinite either way. The interval is of the
    sign test, from the k-th lowest to the k-th highest difference: it holds the median with at least this probability,
    whatever the differences are like. Too few for that (5 for 95 %), or none: NaN. The SD is of finite differences.
    """
    ordered = np.sort(np.asarray(differences, dtype=float))
    n = ordered.size
    if n == 0:
        return Difference(*np.full(5, np.nan))
    sd = ordered.std(ddof=1) if n > 1 and np.isfinite(ordered).all() else np.nan
    # the largest k with P(fewer than k of n coin tosses are heads) ≤ half of what is left; 0 if there is none
    beyond = int((bdtr(np.arange(n), n, 0.5) <= TAILS[0]).sum())
    low, high = (ordered[beyond - 1], ordered[n - beyond]) if beyond else (np.nan, np.nan)
    middles = ordered[(n - 1) // 2], ordered[n // 2]
    finite = [each for each in middles if np.isfinite(each)]
    middle = sum(finite) / len(finite) if finite else middles[0] if middles[0] == middles[1] else 0.0
    return Difference(np.float64(middle), low, high, np.float64(sd))


def wilson_interval(successes: float, n: int) -> Interval:
    """Interval of a share k/n: (p + z²/2n ± z·√(p(1-p)/n + z²/4n²)) / (1 + z²/n). Source: Wilson 1927."""
    if n == 0:
        return Interval(np.nan, np.nan)
    # A tie is one half of a success, which scipy.stats.binomtest does not take.
    z, share = ndtri(TAILS[1]), successes / n
    centre = share + z**2 / (2 * n)
    half = z * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    low, high = (np.array([centre - half, centre + half]) / (1 + z**2 / n)).clip(0, 1)
    return Interval(float(low), float(high))


def win_rate(differences: Array) -> WinRate:
    """Share of seeds with a positive difference `[n]`, ties one half, with the Wilson interval: P(difference > 0).

    Not the P(X > Y) of independent runs (Agarwal et al. 2021): seeds are paired.
    """
    differences = np.asarray(differences, dtype=float)
    wins, n = float((differences > 0).sum() + 0.5 * (differences == 0).sum()), differences.size
    return WinRate(wins, n, wins / n if n else np.nan, *wilson_interval(wins, n))


def superiority(scores: Array, baseline: Array) -> float:
    """P(X > Y) of two independent samples `[n]` and `[m]`, ties one half: Mann-Whitney U / (n·m).

    Source: Mann & Whitney 1947; the "probability of improvement" of Agarwal et al. 2021. Not paired.
    """
    from scipy.stats import mannwhitneyu  # takes most of a second to import, and only pooled tables need it

    scores, baseline = np.asarray(scores, dtype=float), np.asarray(baseline, dtype=float)
    statistic = mannwhitneyu(scores, baseline, method="asymptotic").statistic  # its p is not used
    return float(statistic / (scores.size * baseline.size))
