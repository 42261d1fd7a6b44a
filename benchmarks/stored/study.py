"""A stored study: what was asked, what was found, each run's score, and its curves, whatever file it comes from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from rlexp.runfolder.variants import DEFAULT, split_overrides

EXPECTED, CONTROL, POOLED, CONDITION, PART, DIFFERENCE, SECONDARY = (
    "expectation",
    "control",
    "pooled over conditions",
    "in one condition",
    "part of a recipe",
    "difference",
    "secondary",
)
OF_THE_METRIC, LOG_ODDS = "of the metric", "log-odds"
RUN_COLUMNS = ("condition", "arm", "metric", "value", "best", "seed", "status", "score", "on_scale", "run")
LEVEL_COLUMNS = ("condition", "arm", "n", "mean", "iqm", "iqm_low", "iqm_high", "collapsed", "failed")


class Finding(NamedTuple):
    """One comparison of a study and what became of it; None where its file says nothing."""

    role: str
    """Why it was made, as `expectation` or `secondary`."""
    condition: str
    """Where it was made, as overrides joined by commas; empty where there is one place."""
    arm: str
    versus: str
    metric: str
    verdict: str = ""
    expected: str = ""
    """The claim in words."""
    effect: float | None = None
    low: float | None = None
    high: float | None = None
    units: str = OF_THE_METRIC
    n: int | None = None
    p: float | None = None
    """Two-sided, corrected where its study corrects it."""
    smallest: float | None = None
    """The smallest effect that counts."""
    said: str = ""
    """The numbers as they were printed."""

    @property
    def tricks(self) -> list[str]:
        """What its two sides do not share, as overrides: `clip=higher`."""
        return unshared(self.arm, self.versus)


class Study(NamedTuple):
    """What is stored of one study."""

    name: str
    kind: str
    """Where it comes from: `claim`, `question`, `ablation`, `sweep` or `speedrun`."""
    question: str
    source: str
    page: str
    """Where it is told, below docs/."""
    command: str
    """Trains it."""
    overrides: Sequence[str]
    """What all of its runs share."""
    metric: str
    findings: Sequence[Finding]
    runs: pd.DataFrame
    """A row a run, RUN_COLUMNS; empty where no single scores are stored. `on_scale` is the score on the scale by which
    the value was chosen, larger is better."""
    levels: pd.DataFrame
    """A row a condition and arm, LEVEL_COLUMNS; empty where runs are stored."""
    curves: pd.DataFrame | None = None
    """A row a run and evaluation: `run`, `step`, `completions` and metrics."""
    tuned: str = ""
    """The key that `value` of the runs is of."""
    facts: Mapping[str, Any] = {}
    """Commit and machine, as far as they are stored."""
    worlds: Sequence[str] = ()
    """Overrides in place of `overrides` that say task, model and start where those name files."""
    weights: int | None = None
    """Of the model, where a file says it."""

    @property
    def conditions(self) -> list[str]:
        """The places in which something was compared or trained."""
        found = [each.condition for each in self.findings]
        return [*dict.fromkeys([*found, *self.runs["condition"], *self.levels["condition"]])]


def run_rows(rows: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Return a table of runs."""
    unless_said = {"value": None, "best": True, "status": "completed", "on_scale": None}
    return pd.DataFrame([unless_said | dict(row) for row in rows], columns=RUN_COLUMNS)


def level_rows(rows: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """Return a table of levels."""
    return pd.DataFrame(list(rows), columns=LEVEL_COLUMNS)


def parts_of(text: str) -> list[str]:
    """Return the overrides of an arm or a condition: `"clip=gspo+agg=sequence"` and `"task=sort,lr=1"` → two each."""
    named = [] if text in ("", DEFAULT, "baseline") else split_overrides(text.partition(" at ")[0])
    return [part for each in named for part in plus_parts(each)]


def plus_parts(text: str) -> Iterator[str]:
    """Yield the overrides that + joins: `"clip=gspo+agg=sequence"` → two."""
    found = text.split("+")
    for place, each in enumerate(found):
        if "=" in each or not place:
            yield each


def unshared(arm: str, versus: str) -> list[str]:
    """Return the overrides that only one side has."""
    one, other = parts_of(arm), parts_of(versus)
    return [each for each in dict.fromkeys([*one, *other]) if (each in one) != (each in other)]


def without(variant: str, stratum: str) -> str:
    """Return a variant's name without the overrides of its stratum."""
    left = [part for part in split_overrides(variant) if part not in split_overrides(stratum)]
    return ",".join(left) or DEFAULT
