"""Which arms an ablation trains, and what each part of a recipe is worth by them.

A recipe is k parts, each on or off. An arm is the set of the parts that are on, by their places 0 … k−1. Everything
that is said of a part is a linear contrast of the arms' values, taken seed by seed: the seeds are paired.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import factorial, log2
from typing import NamedTuple

import numpy as np

from rlexp.analysis.data.errors import AnalysisError

Array = np.ndarray
Arm = frozenset[int]

DESIGNS = ("add-one", "leave-one-out", "ladder", "factorial")
FULL_FACTORIAL = 6
"""With more parts than this a factorial is a fraction of 2^6 arms."""
MOST_PARTS = 12
BEAM = 60  # fractions that are held while generators are chosen


class Contrast(NamedTuple):
    """A weighted sum of arms that says what a part, or two, is worth."""

    kind: str
    """added first, removed last, step, main effect, interaction or Shapley value"""
    parts: tuple[int, ...]
    weights: Array
    """Of the arms `[arms]`; they add up to 0."""


class Fraction(NamedTuple):
    """A two-level design: its arms, and what cannot be told apart in it."""

    arms: list[Arm]
    generators: dict[int, tuple[int, ...]]
    """A part that has no column of its own → the parts whose product its column is; empty for a full factorial."""
    words: list[frozenset[int]]
    """The defining words: the product of the columns of each is constant."""

    @property
    def resolution(self) -> int | None:
        """The length of the shortest word; None where there is none. At 5 no two-way interaction hides another one."""
        return min(map(len, self.words), default=None)

    def aliases(self, parts: Sequence[int], most: int = 2) -> list[frozenset[int]]:
        """Return the effects of at most so many parts that an effect cannot be told apart from."""
        same = (frozenset(parts) ^ word for word in self.words)
        return sorted((each for each in same if 0 < len(each) <= most), key=lambda each: (len(each), sorted(each)))


def factorial_design(k: int, columns: int = FULL_FACTORIAL) -> Fraction:
    """Choose the arms of a two-level factorial of k parts: all 2^k, or a regular fraction of 2^columns of them.

    Args:
        k: number of parts.
        columns: a fraction has 2^columns arms, where k is larger.

    Returns:
        The design. Its generators leave the fewest words of length 1, then 2, 3, … (minimum aberration, by a beam
        search), which gives the resolution of the tables: VII for 7 parts, V for 8, IV for 9 and more. All parts on is
        an arm; none on need not be.

    Raises:
        AnalysisError: fewer than one part, or more than the columns allow.

    Source: Box, Hunter and Hunter, Statistics for Experimenters (2005), chapter 6: regular 2^(k−p) designs.
    """
    if not 1 <= k <= MOST_PARTS:
        raise AnalysisError(f"{k} parts: a factorial takes 1 to {MOST_PARTS}")
    base = min(k, columns)
    levels = np.array([[(arm >> place) & 1 for place in range(base)] for arm in range(2**base)], dtype=bool)
    candidates = [columns_of_it for size in range(2, base + 1) for columns_of_it in combinations(range(base), size)]
    found: list[tuple[tuple[tuple[int, ...], ...], list[frozenset[int]]]] = [((), [])]  # generators and words so far
    for part in range(base, k):
        longer = {}
        for chosen, words in found:
            for columns_of_it in candidates:
                word = frozenset((*columns_of_it, part))
                longer[*chosen, columns_of_it] = [*words, word, *(word ^ other for other in words)]
        found = sorted(longer.items(), key=lambda each: [sum(len(w) == n for w in each[1]) for n in range(1, k + 1)])
        found = found[:BEAM]
    generators, words = found[0]
    for columns_of_it in generators:  # with all parts on every product is 1: that is an arm
        signs = np.where(levels[:, list(columns_of_it)], 1, -1).prod(1)
        levels = np.column_stack([levels, signs > 0])
    generators = dict(zip(range(base, k), generators, strict=True))
    return Fraction([frozenset(np.flatnonzero(row).tolist()) for row in levels], generators, words)


def arms_of(design: str, k: int, order: Sequence[int] | None = None) -> list[Arm]:
    """Return the arms of a design of k parts, the one without any part first.

    Args:
        design: ``add-one`` (none, and each part alone), ``leave-one-out`` (none, all, and all but one), ``ladder``
            (none, the first, the first two, … in the order given) or ``factorial`` (and none, if it lacks that one).
        k: number of parts.
        order: the order of a ladder; that of the parts unless given.
    """
    none, every = frozenset(), frozenset(range(k))
    if design == "add-one":
        return [none, *(frozenset({part}) for part in range(k))]
    if design == "leave-one-out":
        return [none, every, *(every - {part} for part in range(k))]
    if design == "ladder":
        order = list(order or range(k))
        return [frozenset(order[:steps]) for steps in range(k + 1)]
    if design == "factorial":
        return sorted({none, every, *factorial_design(k).arms}, key=lambda arm: (len(arm), sorted(arm)))
    raise AnalysisError(f"{design}: no such design; there are {', '.join(DESIGNS)}")


def contrasts_of(design: str, arms: Sequence[Arm], k: int, order: Sequence[int] | None = None) -> list[Contrast]:
    """Return what a design says of each part, as contrasts of the arms.

    - ``add-one``: the part alone − none.
    - ``leave-one-out``: all − all but the part.
    - ``ladder``: this rung − the one before.
    - ``factorial``: main effects (mean of the arms with the part − mean of those without), two-way interactions (what
      a part is worth beside another − what it is worth without it, over all settings of the rest) and, where all 2^k
      arms are there, Shapley values.

    Args:
        design: as of ``arms_of``.
        arms: the arms that are there, those of the design among them.
        k: number of parts.
        order: the order of a ladder.
    """
    place = {arm: number for number, arm in enumerate(arms)}
    none, every = frozenset(), frozenset(range(k))

    def difference(more: Arm, less: Arm) -> Array:
        weights = np.zeros(len(arms))
        weights[place[more]] += 1
        weights[place[less]] -= 1
        return weights

    if design == "add-one":
        return [Contrast("added first", (part,), difference(frozenset({part}), none)) for part in range(k)]
    if design == "leave-one-out":
        return [Contrast("removed last", (part,), difference(every, every - {part})) for part in range(k)]
    if design == "ladder":
        order = list(order or range(k))
        rungs = [frozenset(order[:steps]) for steps in range(k + 1)]
        return [Contrast("step", (order[step],), difference(rungs[step + 1], rungs[step])) for step in range(k)]
    of_design = factorial_design(k).arms
    signs = {part: np.array([1.0 if part in arm else -1.0 for arm in of_design]) for part in range(k)}
    rows = [place[arm] for arm in of_design]

    def weighted(values: Array) -> Array:
        weights = np.zeros(len(arms))
        weights[rows] = values
        return weights

    n = len(of_design)
    found = [Contrast("main effect", (part,), weighted(signs[part] * 2 / n)) for part in range(k)]
    if n >= 4:
        found += [
            Contrast("interaction", pair, weighted(signs[pair[0]] * signs[pair[1]] * 4 / n))
            for pair in combinations(range(k), 2)
        ]
    if log2(n) == k:
        found += [
            Contrast("Shapley value", (part,), weighted(shapley_weights(of_design, part, k))) for part in range(k)
        ]
    return found


def shapley_weights(arms: Sequence[Arm], part: int, k: int) -> Array:
    """Return the weights `[arms]` whose sum is the exact Shapley value of a part among all 2^k arms.

    The mean, over all orders in which the parts may be added, of what the part brings when its turn comes. The values
    of all parts add up to (all − none).

    Source: Shapley 1953; φ_i = Σ_S |S|! (k−|S|−1)! / k! · (v(S ∪ i) − v(S)).
    """
    before = [len(arm - {part}) for arm in arms]  # how many parts are there when this one comes
    signs = [1 if part in arm else -1 for arm in arms]
    return np.array(
        [sign * factorial(n) * factorial(k - n - 1) for sign, n in zip(signs, before, strict=True)]
    ) / factorial(k)


def per_seed(contrast: Contrast, values: Array) -> Array:
    """Return the contrast of each seed `[seeds]`, of values `[arms, seeds]`; NaN where an arm that it weighs is."""
    used = contrast.weights != 0
    return contrast.weights[used] @ values[used]
