"""A score per seed and processor type, both drawn at random: whose the variance is, and what an interval leaves out.

    y[s, p] = mean + seed[s] + processor[p] + cross[s, p]

A run with the same seed on the same processor has the same bits, so `cross` has no other noise in it. The variances
come from the mean squares of the balanced two-way layout. Source: Searle, Casella and McCulloch, Variance Components
(1992), chapter 4.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import fdtrc, fdtri, stdtr, stdtrit

from rlexp.analysis.stats.estimates import Interval
from rlexp.analysis.stats.significance import ALPHA

Array = np.ndarray

RESAMPLES = 10_000


class Parts(NamedTuple):
    """A number for each source of variance, or an array of them."""

    seed: Array
    processor: Array
    cross: Array


class Effect(NamedTuple):
    """F and p of "no processor has an effect of its own"; 95 % interval of their variance, that of `cross` being 1."""

    f: float
    p: float
    low: float
    high: float


def mean_squares(values: Array) -> Parts:
    """Mean squares of `[..., seeds, processors]`."""
    values = np.asarray(values, dtype=float)
    seeds, processors = values.shape[-2:]
    whole = values.mean((-2, -1), keepdims=True)
    by_seed, by_processor = values.mean(-1, keepdims=True), values.mean(-2, keepdims=True)
    rest = values - by_seed - by_processor + whole
    return Parts(
        processors * ((by_seed - whole) ** 2).sum((-2, -1)) / (seeds - 1),
        seeds * ((by_processor - whole) ** 2).sum((-2, -1)) / (processors - 1),
        (rest**2).sum((-2, -1)) / ((seeds - 1) * (processors - 1)),
    )


def components(values: Array) -> Parts:
    """Variance of each source, `[..., seeds, processors] → [...]`. Unbiased, so it can be negative."""
    seeds, processors = np.shape(values)[-2:]
    squares = mean_squares(values)
    return Parts(
        (squares.seed - squares.cross) / processors, (squares.processor - squares.cross) / seeds, squares.cross
    )


def shares(values: Array) -> Parts:
    """Share of each source in the variance of one number; estimates below 0 count as 0. All 0 if nothing varies."""
    found = np.clip(np.stack(components(values)), 0, None)
    total = found.sum(0)
    return Parts(*np.divide(found, total, out=np.zeros_like(found), where=total > 0))


def share_intervals(values: Array, seed: int = 0) -> Parts:
    """95 % interval of each share. That of the processors is from `processor_effect`, the others being as estimated.

    The others are percentiles over resampled seeds. Seeds that are in a sample twice pull the means of processors
    apart, and no sample has other processors, so theirs cannot be had that way.
    """
    values = np.asarray(values, dtype=float)
    rows = np.random.default_rng(seed).integers(len(values), size=(RESAMPLES, len(values)))
    of_seed, _, of_cross = np.quantile(np.stack(shares(values[rows])), [ALPHA / 2, 1 - ALPHA / 2], axis=-1).T
    by_seed, _, cross = np.clip(components(values), 0, None)
    effect = processor_effect(values)
    of_processor = (end * cross / (by_seed + cross + end * cross) if cross else np.nan for end in effect[-2:])
    return Parts(*(Interval(*map(float, ends)) for ends in (of_seed, of_processor, of_cross)))


def processor_effect(values: Array) -> Effect:
    """F = MS(processor) / MS(cross) is (1 + seeds · ratio) times an F of (P − 1, (S − 1)(P − 1)) degrees of freedom.

    The interval follows from that and is exact for normal effects; it is cut off at 0. NaN where nothing is crossed.
    """
    seeds, processors = np.shape(values)[-2:]
    squares = mean_squares(values)
    if not squares.cross > 0:
        return Effect(*[float("nan")] * 4)
    degrees = processors - 1, (seeds - 1) * (processors - 1)
    f = float(squares.processor / squares.cross)
    low, high = (max(0.0, float(f / fdtri(*degrees, end) - 1) / seeds) for end in (1 - ALPHA / 2, ALPHA / 2))
    return Effect(f, float(fdtrc(*degrees, f)), low, high)


def too_narrow(values: Array, n: int) -> tuple[float, float, float]:
    """How many times as wide the interval of n seeds on one processor would have to be to hold for all, and its ends.

    The variance of the mean is processor + (seed + cross) / n, of which the interval knows the second part:
    √(1 + n · share / (1 − share)) of the processor's share.
    """
    known = (shares(values).processor, *share_intervals(values).processor)
    return tuple(float(np.sqrt(1 + n * share / (1 - share))) for share in known)


def coverage(factor: float, n: int) -> float:
    """How often a paired t interval of n seeds, nominally 95 %, holds if it is too narrow by this factor."""
    return float(2 * stdtr(n - 1, stdtrit(n - 1, 1 - ALPHA / 2) / factor) - 1)


def typical_gaps(values: Array) -> tuple[float, float]:
    """Root mean square gap between two means of all n seeds: of two of these processors, and of other seeds on one."""
    values = np.asarray(values, dtype=float)
    by_seeds = values.var(0, ddof=1).mean() / len(values)
    return float(np.sqrt(2 * values.mean(0).var(ddof=1))), float(np.sqrt(2 * by_seeds))
