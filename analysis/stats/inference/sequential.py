"""Paired differences that are looked at again and again: a p, an interval and a decision that hold at every look.

Sign flips and t intervals hold for a number of seeds that was fixed beforehand. Whoever adds seeds until p is below
0.05 finds a difference sooner or later, whether there is one or not. What is here asks for the same as the sign flips,
that differences are symmetric around their centre m, and bets on their signs, each before it is seen:

    e_n = ∏ᵢ 2 / (1 + exp(−2 θᵢ xᵢ)),   x = d − m

The sign of xᵢ is a coin toss, whatever its size is, so the mean of a factor is 1 for any θᵢ that is chosen before the
sign is known. e is then a non-negative martingale, which ever reaches 1/α with a probability of at most α (Ville 1939).
θᵢ is that of the likelihood ratio of normal differences, μ/σ², from the signs before i and the sizes up to i; a prior
of half a standard deviation counts as one seed. The m that are not rejected, on either side at α/2, are a confidence
sequence. Source: Ramdas, Ruf, Larsson and Koolen (arXiv 2009.03167) for bets on signs; the θ are our own choice.

Waudby-Smith and Ramdas (arXiv 2010.09686) bet on bounded differences, which need not be symmetric (`hedged_capital`).
A difference of two shares lies in [−1, 1], and with so wide a range one seed says little: `python -m
rlexp.analysis.coverage` counts how many either takes.
"""

from collections.abc import Iterator
from math import ceil, log2

import numpy as np

from rlexp.analysis.stats.inference.estimates import Interval
from rlexp.analysis.stats.inference.significance import ALPHA

Array = np.ndarray

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
    """Ends of the smallest interval that holds every centre that `differences [n]` have not rejected so far.

    It holds the centre at all n at once with probability 1 − alpha. Fewer seeds than it takes to reject anything: NaN.
    """
    differences = np.asarray(differences, dtype=float)
    if differences.size < fewest_seeds(alpha):
        return Interval(np.array(np.nan), np.array(np.nan))
    return Interval(np.array(_low(differences, alpha)), np.array(-_low(-differences, alpha)))


def _low(differences: Array, alpha: float) -> float:
    """The first centre from below that is not rejected; minus infinity if none below all differences is."""
    width = max(np.ptp(differences), 1e-9 * np.abs(differences).max(), 1e-12)  # of differences that are all the same
    low, high = differences.min() - 3 * width, differences.max()
    for _ in range(3):  # each time closer around the first that is not rejected
        centres = np.linspace(low, high, GRID)
        x = differences[None, :] - centres[:, None]
        largest = np.maximum(log_evidence(x).max(-1), log_evidence(-x).max(-1))
        kept = ~(largest >= np.log(2 / alpha))
        if not kept.any():
            return float(high)
        first = int(kept.argmax())
        if first == 0:
            return -np.inf
        low, high = centres[first - 1], centres[first]
    return float(low)


def decision(differences: Array, margin: float, alpha: float = ALPHA) -> str:
    """The decision by the differences `[n]`: `equal` (smaller than the margin), `higher`, `lower`, or `open`."""
    return decide(confidence_sequence(differences, alpha), margin)


def decide(interval: Interval, margin: float) -> str:
    """The decision by an interval of the difference and this margin."""
    low, high = interval
    if low > -margin and high < margin:
        return "equal"
    return "higher" if low > 0 else "lower" if high < 0 else "open"


def fewest_seeds(alpha: float = ALPHA) -> int:
    """Fewest seeds after which anything can be rejected: no factor of e is above 2."""
    return ceil(log2(2 / alpha))


def look_schedule(most: int, alpha: float = ALPHA) -> Iterator[int]:
    """Seeds after each turn, at most so many: as many as can decide anything, then a quarter more each time."""
    n = fewest_seeds(alpha)
    while n < most:
        yield n
        n += ceil(n / 4)
    yield most


def hedged_capital(differences: Array, bound: float = 1.0, alpha: float = ALPHA) -> Interval:
    """Confidence sequence of the mean of `differences [n]` in [−bound, bound] after all n, symmetric or not.

    Source: Waudby-Smith & Ramdas (arXiv 2010.09686), Theorem 3 (the mean of both capitals in place of the larger),
    with the predictable plug-in bets and c = 1/2.
    """
    x = (np.asarray(differences, dtype=float) / bound + 1) / 2
    count = np.arange(1, x.size + 1)
    mean = (0.5 + np.cumsum(x)) / (count + 1)
    spread = (0.25 + np.cumsum((x - mean) ** 2)) / (count + 1)
    before = np.concatenate([[0.25], spread[:-1]])
    bets = np.sqrt(2 * np.log(2 / alpha) / (before * count * np.log(count + 1)))
    centres = np.linspace(0, 1, 8 * GRID)[1:-1, None]
    up = np.cumsum(np.log1p(np.minimum(bets, 0.5 / centres) * (x - centres)), -1)
    down = np.cumsum(np.log1p(-np.minimum(bets, 0.5 / (1 - centres)) * (x - centres)), -1)
    kept = centres[(np.logaddexp(up, down) - np.log(2)).max(-1) < np.log(1 / alpha), 0]
    low, high = (kept.min(), kept.max()) if kept.size else (np.nan, np.nan)
    return Interval(np.array(bound * (2 * low - 1)), np.array(bound * (2 * high - 1)))
