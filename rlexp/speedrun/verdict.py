"""Does a recipe need fewer completions than another on the same seeds? Signed ranks, by all flips of their signs."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

import numpy as np

from rlexp.launch.own_analysis import own_analysis

LEVEL = 0.01  # a record beats the one before with a p below it
Completions = Sequence[int | None]
"""Completions until a world was learned, by seed; None for a run that never got there."""


class Verdict(NamedTuple):
    """Whether one recipe beats another. ``p`` is two-sided."""

    beats: bool
    p: float


def judge(ours: Completions, theirs: Completions) -> Verdict:
    """Compare two recipes seed by seed: `[seeds]` and `[seeds]`.

    A run that never arrives needs more completions than any that does, and as many as any other that never does. The
    differences are replaced by the ranks of their sizes (those that are equal share the mean of their ranks, those
    that are 0 have none), with their signs; p is the share of the 2ⁿ ways to choose these signs whose sum is as far
    from 0. Source: Wilcoxon 1945, with its exact distribution also under ties.
    """
    with own_analysis():
        from analysis.stats.inference.significance import sign_flip_p

        ranks = signed_ranks(ours, theirs)
        p = sign_flip_p(ranks)
    return Verdict(bool(p < LEVEL and ranks.sum() > 0), float(p))


def signed_ranks(ours: Completions, theirs: Completions) -> np.ndarray:
    """Return the ranks `[seeds]` of the differences, positive where ours needs fewer completions, 0 where as many."""
    mine, others = as_numbers(ours), as_numbers(theirs)
    differences = np.subtract(others, mine, out=np.zeros(len(mine)), where=mine != others)
    sizes = np.abs(differences)
    counted = sizes[sizes > 0]
    below, equal = ((counted[None] < sizes[:, None]).sum(1), (counted[None] == sizes[:, None]).sum(1))
    return np.where(sizes > 0, np.sign(differences) * (below + (equal + 1) / 2), 0.0)


def as_numbers(completions: Completions) -> np.ndarray:
    """Return them as floats `[seeds]`, infinity for runs that never arrived."""
    return np.array([np.inf if number is None else float(number) for number in completions])


def typical(completions: Completions) -> float | None:
    """Return the median over seeds; None where half of the runs or more never arrive."""
    middle = median(as_numbers(completions).tolist())
    return middle if np.isfinite(middle) else None
