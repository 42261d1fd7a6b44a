"""Controls of the questions that were asked, each judged as if it were an assertion that there is an effect."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from benchmarks.cards.asked import Asked, labelled
from rlexp.analysis.stats.rates import BestContrast, best_contrasts, rate_grid
from rlexp.analysis.stats.validity import CONTROL_P, PAIR
from rlexp.analysis.stats.words import (
    CONTRADICTED,
    NEGLIGIBLE,
    SMALLER,
    SUPERIOR,
    SUPPORTED,
    Assertion,
    Condition,
    judge,
)


class Null(NamedTuple):
    """A control over the conditions of its question."""

    question: str
    what: str
    word: str
    """That it would be given as an assertion of an effect."""
    moved: int
    """Conditions in which it failed the check of a control."""
    conditions: int

    @property
    def called(self) -> bool:
        """Whether it would be called something."""
        return self.word in (SUPPORTED, SMALLER, CONTRADICTED)


def nulls(one: Asked) -> Iterator[Null]:
    """Yield the controls of a question as if each were an assertion that there is an effect."""
    for control in one.declared["controls"]:
        arm = labelled(control["arm"], one.declared["budget"])
        versus = None if control["versus"] is None else labelled(control["versus"], one.declared["budget"])
        effects, moved = [], 0
        for name in one.conditions:
            found, smallest = contrast(one, name, arm, versus), one.smallest(name)
            low, high = found.interval(1 - CONTROL_P)
            moved += (low > 0 or high < 0) and max(-low, high) >= NEGLIGIBLE * smallest
            effects.append(Condition(name, found.value, found.error, found.n - 1.0))
        (judged,) = judge([Assertion(SUPERIOR, smallest, effects)])
        what = f"{arm} moves from its start" if versus is None else f"{arm} against {versus}"
        yield Null(one.name, what, judged.word, int(moved), len(effects))


def contrast(one: Asked, condition: str, arm: str, versus: str | None) -> BestContrast:
    """Return the effect of a control in a condition: of two arms, or of the end of one against its start."""
    if versus is not None:
        (found,) = best_contrasts([one.grid(condition, arm), one.grid(condition, versus)], PAIR)
        return found
    first = one.grid(condition, one.arms[0])  # at the value that is best for what others are compared with
    rows = one.runs[(one.runs["condition"] == condition) & (one.runs["arm"] == arm)]
    rows = rows[rows[one.tuned] == first.rates[first.best]] if one.tuned else rows
    scale, _ = one.scale(condition, 0)
    metric = one.package["scales"][condition][0]["metric"].split(", ")[0]
    curves = one.curves.dropna(subset=[metric]).sort_values("step").groupby("folder")[metric]
    late = curves.agg(lambda values: values.tail(late_rows(len(values), one.package["late_share"])).mean())
    ends = (scale.forward(each.reindex(rows["folder"]).dropna()) for each in (late, curves.first()))
    (found,) = best_contrasts([rate_grid([1.0], np.subtract(*ends)[None])], np.array([[1.0]]))
    return found


def late_rows(evaluations: int, share: float) -> int:
    """Return of how many of its evaluations the last ones of a run are the mean that it ends with."""
    return max(1, math.ceil(round(share * evaluations, 9)))
