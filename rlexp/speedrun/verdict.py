"""Does a recipe need fewer completions than another on the same seeds? Signed ranks, by all flips of their signs."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

import numpy as np
from scipy.stats import rankdata

LEVEL = 0.01  # a record beats the one before with a p below it
Completions = Sequence[int | None]
"""Completions until a world was learned, by seed; None for a run that never got there."""


class Verdict(NamedTuple):
    """Whether one recipe beats another. ``p`` is two-sided; None of a first record, which has nobody to beat."""

    beats: bool
    p: float | None


def judge(ours: Completions, theirs: Completions | None, draws: int = 1) -> Verdict:
    """Compare two recipes seed by seed: `[seeds]` and `[seeds]`; of a first record, say whether it mostly arrives.

    A run that never arrives needs more completions than any that does, and as many as any other that never does. The
    differences are replaced by the ranks of their sizes (those that are equal share the mean of their ranks, those
    that are 0 have none), with their signs; p is the share of the 2ⁿ ways to choose these signs whose sum is as far
    from 0. Source: Wilcoxon 1945, with its exact distribution also under ties.

    ``draws``: how many have been judged one after another, each time with all seeds so far. Each after the first
    doubles p. A recipe that is no better passes with probability below LEVEL/2 + LEVEL/4 + … = LEVEL, whoever stops.
    """
    if theirs is None:
        return Verdict(typical(ours) is not None, None)
    ranks = signed_ranks(ours, theirs)
    p = min(1.0, exact_p(ranks) * 2 ** (draws - 1))
    return Verdict(bool(p < LEVEL and ranks.sum() > 0), p)


def signed_ranks(ours: Completions, theirs: Completions) -> np.ndarray:
    """Return the ranks of the differences, positive where ours needs fewer completions, without those that are 0."""
    pairs = [pair for pair in zip(as_numbers(ours), as_numbers(theirs), strict=True) if pair[0] != pair[1]]
    differences = np.array([other - mine for mine, other in pairs])
    return np.sign(differences) * rankdata(np.abs(differences))


def exact_p(ranks: np.ndarray) -> float:
    """Return the share of all flips of signs whose sum is as far from 0; ranks are multiples of a half."""
    halves = np.rint(2 * np.abs(ranks)).astype(int)
    shares = np.ones(1)  # of the flips in which the positive ranks sum to so many halves
    for half in halves:
        shares = (np.pad(shares, (0, half)) + np.pad(shares, (half, 0))) / 2
    sums = 2 * np.arange(shares.size) - halves.sum()
    return float(shares[np.abs(sums) >= abs(2 * ranks.sum())].sum())


def as_numbers(completions: Completions) -> list[float]:
    """Return them as floats, infinity for runs that never arrived."""
    return [np.inf if number is None else float(number) for number in completions]


def typical(completions: Completions) -> float | None:
    """Return the median over seeds; None where half of the runs or more never arrive."""
    middle = median(as_numbers(completions))
    return middle if np.isfinite(middle) else None
