"""From a question about a sweep to its tables: which runs, which number of each, compared with what."""

from collections.abc import Sequence
from typing import NamedTuple

import pandas as pd

from analysis.comparison import Comparison, compare, correct
from analysis.crossed import interactions
from analysis.design import balanced, best_of, known_axes, regroup, strata, where
from analysis.direction import sign
from analysis.load import Data
from analysis.measure import Budget, Target, measure
from analysis.notes import notes
from analysis.pooling import pool
from analysis.ranking import ranking_flips, told
from analysis.variants import key_value, known, resolve, split

TASK = "task"


class Question(NamedTuple):
    """What is asked. Axes are override keys that vary, or "sweep"."""

    metric: str | None = None
    """Another metric than the stored score, or part of its name."""
    baseline: str | None = None
    """With whom the others are compared; as planned, else the first."""
    where: Sequence[str] = ()
    """Conditions on the runs, each `axis=value,value`."""
    by: Sequence[str] | None = None
    """The axes that make the arms; all but those of `within` and `best_of`. Over the others scores are averaged."""
    within: Sequence[str] | None = None
    """The axes whose values are compared apart, then pooled; the task if it varies."""
    at: Budget | None = None
    """Compare at an equal budget."""
    matched: Target | None = None
    """Compare where a metric is first high enough."""
    best_of: Sequence[str] = ()
    """The axes of a grid, such as the learning rate, of which each arm gets its best point."""
    choose_seeds: Sequence[int] | None = None
    """On which seeds the best point is chosen; the others are reported."""


class Answer(NamedTuple):
    """What came out; each list has one entry per stratum, most often one."""

    data: Data
    """The runs that meet the conditions; their variants are the arms."""
    parts: list[Data]
    comparisons: list[Comparison]
    pooled: Comparison | None
    interactions: list[pd.DataFrame | None]
    flips: list[pd.DataFrame]

    @property
    def notes(self) -> list[str]:
        """What a reader must know: what holds for all strata once, the rest with the name of its stratum."""
        each = [
            [*notes(part, comparison), told(flips, "lowest" if comparison.better == "lower" else "highest")]
            for part, comparison, flips in zip(self.parts, self.comparisons, self.flips, strict=True)
        ]
        everywhere = [note for note in each[0] if note and all(note in others for others in each)]
        apart = [
            f"{comparison.stratum}: {note}"
            for comparison, own in zip(self.comparisons, each, strict=True)
            for note in own
            if note and note not in everywhere
        ]
        return everywhere + apart + list(self.pooled.remarks if self.pooled else ())


def answer(data: Data, question: Question) -> Answer:
    """Compare the runs as asked. A question that cannot be answered is an AnalysisError of one line."""
    data = where(data, question.where)
    grid = known_axes(data, question.best_of)
    within = _within(data, question, grid)
    by = known_axes(data, question.by) if question.by is not None else _others(data, (*within, *grid))
    if question.by is not None or within or grid:
        data = regroup(data, by, (*within, *grid))
    baseline, remarks = _baseline(data, question.baseline, by)
    parts, comparisons = [], []
    for stratum, part in strata(data, within).items():
        part, cut = balanced(part)
        measured = measure(part, question.metric, question.at, question.matched)
        if grid:
            part, chosen = best_of(part, grid, measured, question.choose_seeds)
            cut = [*cut, *chosen]
        measured = measured._replace(remarks=[*remarks, *measured.remarks, *cut])
        parts.append(part)
        comparisons.append(compare(part, baseline=baseline, measured=measured)._replace(stratum=stratum))
    comparisons = correct(comparisons)
    between = [interactions(comparison) for comparison in comparisons]
    flips = [ranking_flips(sign(comparison.better) * comparison.scores) for comparison in comparisons]
    return Answer(data, parts, comparisons, pool(comparisons), between, flips)


def _within(data: Data, question: Question, grid: Sequence[str]) -> tuple[str, ...]:
    """The axes of the strata; the task by default, if it varies and is not all that does."""
    if question.within is not None:
        return known_axes(data, question.within)
    taken = (*(question.by or ()), *grid)
    return (TASK,) if TASK in data.axes and TASK not in taken and _others(data, (TASK, *grid)) else ()


def _others(data: Data, taken: Sequence[str]) -> tuple[str, ...]:
    return tuple(axis for axis in data.axes if axis not in taken)


def _baseline(data: Data, name: str | None, by: Sequence[str]) -> tuple[str, list[str]]:
    """The arm that a name means, by its axes that make arms; the planned one, or the first if that one has no run."""
    if name:
        return resolve(_on(name, by, data), data.labels), []
    first, planned = data.variants[0], data.planned_baseline
    if not planned:
        return first, []
    if known(_on(planned, by, data), data.labels):
        return resolve(_on(planned, by, data), data.labels), []
    return first, [f"the planned baseline {planned} has no run; compared with {data.labels[first]}."]


def _on(name: str, by: Sequence[str], data: Data) -> str:
    """The name without the overrides that make no arms, if it is none as it stands."""
    arm = ",".join(part for part in split(name) if key_value(part)[0] in by)
    return name if known(name, data.labels) else arm or name
