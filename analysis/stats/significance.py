"""Tests and summaries of paired differences: sign flips, Holm's correction, a p that holds at every look; planning.

Sign flips and t intervals hold for a number of seeds that was fixed beforehand. Whoever adds seeds until p is below
0.05 finds a difference sooner or later, whether there is one or not. What is here asks for the same as the sign flips,
that differences are symmetric around their centre m, and bets on their signs, each before it is seen:

    e_n = ∏ᵢ 2 / (1 + exp(−2 θᵢ xᵢ)),   x = d − m

The sign of xᵢ is a coin toss, whatever its size is, so the mean of a factor is 1 for any θᵢ that is chosen before the
sign is known. e is then a non-negative martingale, which ever reaches 1/α with a probability of at most α (Ville 1939).
θᵢ is that of the likelihood ratio of normal differences, μ/σ², from the signs before i and the sizes up to i; a prior
of half a standard deviation counts as one seed. The m that are not rejected, on either side at α/2, are a confidence
sequence. Source: Ramdas, Ruf, Larsson and Koolen (arXiv 2009.03167) for bets on signs; the θ are our own choice.

The estimand is the centre of symmetry. Skewed differences have none: p and the sequence then say nothing of their mean,
and `symmetry_p` asks whether they are skewed.

Differences are summed up and tested by their mean, or where some are infinite by their ranks:

                 usually                        ranked
sums up          mean, paired t interval        median, interval of the sign test
tests            sign flips of the differences  sign flips of their signed ranks
points to        the sign of the mean           the sign of the sum of the signed ranks

Where seeds were added until something was decided p holds at every look: by bets on signs, which ranked differences
have too, but without their sizes.
"""

from collections.abc import Callable, Iterator
from functools import cache
from math import ceil, log2
from typing import NamedTuple

import numpy as np
from scipy.special import bdtr, nctdtr, stdtrit

from rlexp.analysis.stats.estimates import Difference, Interval, mean_difference, median_difference

Array = np.ndarray

EXACT_SEEDS = 14  # up to here all 2ⁿ sign flips are enumerated
RANDOM_FLIPS = 9_999
ALPHA = 0.05  # a p (Holm) below it is a difference


@cache
def _sign_flips(n: int) -> Array:
    """All sign patterns `[2ⁿ⁻¹, n]` whose last sign is +; the other half mirrors them."""
    bits = np.arange(2 ** (n - 1))[:, None] >> np.arange(n) & 1
    return 1.0 - 2.0 * bits


def sign_flip_p(differences: Array) -> float:
    """Two-sided p of "the sign of each paired difference `[n]` is a coin toss", statistic |mean|.

    Source: Fisher 1935. Exact (all 2ⁿ flips) for n ≤ 14, and for differences of one size as those of rates; else
    (1 + hits)/(1 + 9 999) random flips. n = 0: NaN.
    """
    differences = np.asarray(differences, dtype=float)
    n = differences.size
    if n == 0:
        return np.nan
    observed = abs(differences.sum()) - 1e-12 * np.abs(differences).sum()  # ties up to rounding count as hits
    # scipy.stats.permutation_test gives the same exact p (tested) but takes 100 times as long for 5 seeds and 2,000
    # times for 14; its random flips, of more seeds, are others than those of earlier tables.
    if n <= EXACT_SEEDS:
        return float((np.abs(_sign_flips(n) @ differences) >= observed).mean())
    sizes = np.abs(differences[differences != 0])
    if sizes.size and (sizes == sizes[0]).all():
        heads = int((differences > 0).sum())  # a two-sided test of coin tosses (McNemar 1947, exact)
        return float(min(1.0, 2 * bdtr(min(heads, sizes.size - heads), sizes.size, 0.5)))
    flips = np.random.default_rng(0).choice([-1.0, 1.0], size=(RANDOM_FLIPS, n))
    return float((1 + (np.abs(flips @ differences) >= observed).sum()) / (1 + RANDOM_FLIPS))


def signed_ranks(differences: Array) -> Array:
    """The rank of each difference `[n]` by its size, with its sign; ties share their mean rank, and 0 has rank 0.

    Sign flips of ranks are the exact test of Wilcoxon (1945), which takes differences that are infinite: the largest.
    """
    differences = np.asarray(differences, dtype=float)
    sizes = np.abs(differences)
    other = sizes > 0
    below = (sizes[other][:, None] > sizes[other]).sum(-1)
    same = (sizes[other][:, None] == sizes[other]).sum(-1)
    ranks = np.zeros(differences.size)
    ranks[other] = below + (same + 1) / 2
    return np.sign(differences) * ranks


def holm(p: Array) -> Array:
    """Holm's step-down adjustment `[m] → [m]`: running maximum of (m - rank)·p₍rank₎, at most 1; NaN are not counted.

    Source: Holm 1979. Valid under any dependence, so also for variants that share one baseline.
    """
    p = np.asarray(p, dtype=float)
    order = np.argsort(p)  # NaN last
    valid = int((~np.isnan(p)).sum())
    steps = np.maximum(valid - np.arange(p.size), 1) * p[order]
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return adjusted


def false_discovery_q(p: Array) -> Array:
    """Benjamini and Hochberg's adjustment `[m] → [m]` of p; NaN are not counted.

    Of the tests with q ≤ 0.05 at most a share of 0.05 is false on average.

    Source: Benjamini & Hochberg 1995, by `scipy.stats.false_discovery_control`; it holds for p that are independent or
    positively dependent, as of arms that share a baseline.

    Raises:
        ValueError: For a p outside [0, 1].
    """
    from scipy.stats import false_discovery_control  # slow to import

    q = np.array(p, dtype=float)
    known = ~np.isnan(q)
    if known.any():
        q[known] = false_discovery_control(q[known])
    return q


def false_discovery_level(p: Array, alpha: float = ALPHA) -> float:
    """The level such that p ≤ it exactly where `false_discovery_q(p)` ≤ alpha; alpha / m where that is nowhere.

    An interval at this level leaves out 0 exactly for the discoveries, and of theirs a share of alpha at most does not
    hold the truth on average (Benjamini & Yekutieli 2005).
    """
    q = false_discovery_q(p)
    return alpha * max(int((q <= alpha).sum()), 1) / max(int((~np.isnan(q)).sum()), 1)


def sign_test_p(differences: Array) -> float:
    """Exact two-sided sign test of paired differences `[n]`, zeros left out; of 0 and 1 it is McNemar's exact test.

    Twice the smaller tail of a fair coin, at most 1; without any difference: 1, n = 0: NaN.
    """
    above, below = int((differences > 0).sum()), int((differences < 0).sum())
    return min(1.0, 2 * float(bdtr(min(above, below), above + below, 0.5))) if len(differences) else np.nan


def min_p(n: int) -> float:
    """Smallest two-sided p that `sign_flip_p` can give with n seeds: 2/2ⁿ (0.0625 at n = 5), 1/10 000 beyond n = 14."""
    exact = 2.0 / 2.0**n if n > 0 else 1.0
    return exact if n <= EXACT_SEEDS else max(exact, 1 / (1 + RANDOM_FLIPS))


def reachable_p(n: int, comparisons: int = 1) -> float:
    """Smallest p that n seeds can give one of so many differences under Holm: comparisons · min_p(n), at most 1."""
    return min(1.0, max(comparisons, 1) * min_p(n))


def seeds_for_p(comparisons: int = 1, alpha: float = ALPHA) -> int:
    """Fewest seeds with which one of so many differences can reach alpha: reachable_p(n, comparisons) ≤ alpha."""
    n = 1
    while reachable_p(n, comparisons) > alpha and n < EXACT_SEEDS:
        n += 1
    return n


def seeds_with_choice(comparisons: int = 1) -> int:
    """Fewest seeds of a sweep in which the lower half chooses a best point and the others must reach ALPHA."""
    return 2 * seeds_for_p(comparisons) - 1


PRIOR = 0.5  # expected size of a difference before the first, in standard deviations; it counts as one seed
LEAST_VARIANCE = 0.15  # of the second moment: what a few equal differences say of their spread
GRID = 513  # centres that are tried between the ends


def log_evidence(differences: Array) -> Array:
    """log e_n `[..., n]` after each of the differences `[..., n]` against "they are symmetric around 0", for above."""
    x = np.asarray(differences, dtype=float)
    count = np.arange(1, x.shape[-1] + 1)
    second = np.cumsum(x**2, -1) / count
    before = np.cumsum(x, -1) - x
    mean = np.clip((PRIOR * np.sqrt(second) + before) / count, 0.0, None)
    variance = np.maximum(second - mean**2, LEAST_VARIANCE * second)
    with np.errstate(invalid="ignore", divide="ignore"):
        bets = np.where(second > 0, 2 * mean / variance * x, 0.0)
    return np.cumsum(np.log(2) - np.logaddexp(0.0, -bets), -1)


def anytime_p(differences: Array) -> float:
    """Two-sided p of differences `[n]`, in the order of their seeds, which holds wherever one stops; n = 0: NaN.

    2 / max e over all n so far and both sides, at most 1. No smaller than 2/2ⁿ, as that of the sign flips.
    """
    differences = np.asarray(differences, dtype=float)
    if not differences.size:
        return np.nan
    largest = max(log_evidence(side * differences).max() for side in (1, -1))
    return float(min(1.0, 2 * np.exp(-largest)))


def confidence_sequence(differences: Array, alpha: float = ALPHA) -> Interval:
    """Interval of the centre of symmetry of `differences [n]`, from a lower and an upper bound at alpha/2 each.

    It holds the centre at all n at once with probability 1 − alpha. Fewer seeds than it takes to reject anything: NaN.
    """
    differences = np.asarray(differences, dtype=float)
    bounds = lower_bound(differences, alpha / 2), -lower_bound(-differences, alpha / 2)
    return Interval(*map(np.array, bounds))


def lower_bound(differences: Array, alpha: float = ALPHA) -> float:
    """The lowest centre of symmetry that bets on differences `[n]` above it have not rejected so far.

    It is at most the centre at all n at once with probability 1 − alpha. Fewer seeds than it takes to reject anything:
    NaN.
    """
    differences = np.asarray(differences, dtype=float)
    if differences.size < fewest_seeds(2 * alpha):
        return np.nan
    width = max(np.ptp(differences), 1e-9 * np.abs(differences).max(), 1e-12)  # of differences that are all the same
    low, high = differences.min() - 3 * width, differences.max()
    for _ in range(3):  # each time closer around the first that is not rejected
        centres = np.linspace(low, high, GRID)
        kept = ~(log_evidence(differences - centres[:, None]).max(-1) >= np.log(1 / alpha))
        if not kept.any():
            return float(high)
        first = int(kept.argmax())
        if first == 0:
            return -np.inf
        low, high = centres[first - 1], centres[first]
    return float(low)


def is_above(differences: Array, center: float, alpha: float = ALPHA) -> bool:
    """Whether `lower_bound` of differences `[n]` is above a center: whether bets reject it and all that are lower."""
    differences = np.asarray(differences, dtype=float)
    if not differences.size or log_evidence(differences - center).max() < np.log(1 / alpha):
        return False
    lowest = min(float(differences.min()), center)
    centers = np.linspace(lowest - 3 * (differences.max() - lowest), center, GRID)
    return bool((log_evidence(differences - centers[:, None]).max(-1) >= np.log(1 / alpha)).all())


def decide(interval: Interval, margin: float) -> str:
    """What an interval of the difference says: `equal` (smaller than the margin), `higher`, `lower`, or `open`."""
    low, high = interval
    if low > -margin and high < margin:
        return "equal"
    return "higher" if low > 0 else "lower" if high < 0 else "open"


def fewest_seeds(alpha: float = ALPHA) -> int:
    """Fewest seeds after which anything can be rejected, on either side at alpha/2: no factor of e is above 2."""
    return ceil(log2(2 / alpha))


def look_schedule(most: int, alpha: float = ALPHA) -> Iterator[int]:
    """Seeds after each turn, at most so many: as many as can decide anything, then a quarter more each time."""
    return turns(fewest_seeds(alpha), most)


def turns(first: int, most: int) -> Iterator[int]:
    """Seeds after each turn, at most so many: so many first, then a quarter more each time."""
    n = first
    while n < most:
        yield n
        n += ceil(n / 4)
    yield most


WIDTH_SEEDS = 10  # fewest where seeds are added until an interval is narrow: a few can happen to lie close
SYMMETRY_FLIPS = 1_999
TRIMMED = 0.2  # of the differences, cut off at each end


def symmetry_p(differences: Array) -> float:
    """p of "differences `[n]` are symmetric around some centre"; NaN below five, of which nothing is trimmed.

    The statistic is the gap between their mean and their trimmed mean, in standard deviations. Its distribution is that
    under random signs of their distances from the Hodges–Lehmann centre, the median of the means of all pairs. The
    centre is estimated, so the level is not exact; `benchmarks.stopping` measures it.
    """
    differences = np.asarray(differences, dtype=float)
    n = differences.size
    if n < 1 / TRIMMED:
        return np.nan
    first, second = np.triu_indices(n)
    distances = differences - np.median((differences[first] + differences[second]) / 2)
    flips = np.random.default_rng(0).choice([-1.0, 1.0], size=(SYMMETRY_FLIPS, n))
    hits = _skew(flips * np.abs(distances)) >= _skew(distances) - 1e-12
    return float((1 + hits.sum()) / (1 + SYMMETRY_FLIPS))


def _skew(x: Array) -> Array:
    """Distance of mean and trimmed mean of `x [..., n]`, in standard deviations; 0 where there are none."""
    cut, spread = int(TRIMMED * x.shape[-1]), x.std(-1)
    gap = np.abs(x.mean(-1) - np.sort(x, -1)[..., cut : x.shape[-1] - cut].mean(-1))
    return np.divide(gap, spread, out=np.zeros_like(gap), where=spread > 0)


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
    return shift_power(effect_size * np.sqrt(n), n - 1, alpha)


def shift_power(shift: float, df: float, alpha: float = 0.05) -> float:
    """Power of a two-sided t test whose mean is so many standard errors from 0."""
    critical = stdtrit(df, 1 - alpha / 2)
    lower_tail = np.nan_to_num(nctdtr(df, shift, -critical))  # SciPy gives NaN where it is below 1e-10
    return float(1 - nctdtr(df, shift, critical) + lower_tail)


@cache
def detectable_shift(df: float, alpha: float = 0.05, target: float = 0.8) -> float:
    """Standard errors from 0 that a t test finds with probability 0.8."""
    return _smallest(9 * float(stdtrit(df, 1 - alpha / 2)), lambda shift: shift_power(shift, df, alpha) >= target)


@cache
def detectable_effect_size(n: int, alpha: float = 0.05, target: float = 0.8) -> float:
    """Effect size d̄/SD that a paired t test with n seeds finds with probability 0.8; n < 3: NaN."""
    if n < 3:
        return np.nan
    return _smallest(3 * float(stdtrit(n - 1, 1 - alpha / 2)), lambda effect: power(effect, n, alpha) >= target)


def _smallest(high: float, reaches: Callable[[float], bool]) -> float:
    """Smallest number below `high` that reaches what it should (bisection)."""
    low = 0.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if reaches(middle) else (middle, high)
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
