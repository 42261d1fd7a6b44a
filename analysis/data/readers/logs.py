"""What a reader gives: runs as they were logged, before anybody has said what an arm, a seed or the metric is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from rlexp.analysis.data.errors import AnalysisError, printable
from rlexp.analysis.data.metric_spec import Direction
from rlexp.analysis.data.runs import Problem
from rlexp.runfolder.variants import flatten

if TYPE_CHECKING:
    import pandas as pd

STEP = "step"
MOST_NAMED = 12


class Columns(NamedTuple):
    """Which columns or config keys are the arm, the seed, the metric and the step; empty or None: to be guessed."""

    arm: tuple[str, ...] = ()
    seed: str | None = None
    metric: str | None = None
    step: str | None = None
    better: Direction = None
    """The better end of the metric."""


class LoggedRun(NamedTuple):
    """One run as its log has it."""

    name: str
    """Of the run or its folder, as `grpo_seed3`."""
    rows: pd.DataFrame
    """In the order of the log; the column `step`, if there is one, and a column of numbers per metric."""
    config: Mapping[str, str] = {}
    """Flat, as text: `{"trainer.lr": "0.001"}`."""
    folder: str = ""
    status: str = "completed"
    reason: str | None = None


class Logs(NamedTuple):
    """What was read of one path."""

    kind: str
    """The format, as `CSV`."""
    runs: Sequence[LoggedRun]
    problems: Sequence[Problem] = ()
    """What was damaged, and skipped."""
    said: Sequence[str] = ()
    """How the reader understood the file, where it had to guess."""
    columns: Columns = Columns()
    """What the reader has found out; empty where it leaves that to the mapping."""
    repeats: str = ""
    """The column that tells repeated evaluations of one checkpoint apart."""
    appended: bool = True
    """Whether a later row of a step takes the place of an earlier one, as after a resume; else both are evaluations."""


def as_text(value: Any) -> str:
    """A value of a config or a cell as one writes it on a command line: `0.001`, `true`, `none`."""
    if value is None or (isinstance(value, float) and value != value):
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.12g}"
    return printable(str(value))


def flat_config(config: Mapping[str, Any]) -> dict[str, str]:
    """A nested configuration as flat text."""
    return {printable(str(key)): as_text(value) for key, value in flatten(config)}


def listed(names: Iterable[str]) -> str:
    """At most a dozen names, then how many more there are."""
    names = list(names)
    more = f"  and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ("  ".join(names[:MOST_NAMED]) + more) or "none"


def named(name: str, names: Iterable[str], option: str, what: str) -> str:
    """The one of the names that is meant: itself, or the only one of which it is the last part, or a part.

    Raises:
        AnalysisError: It fits none or several; the line lists them.
    """
    names = list(dict.fromkeys(names))
    if name in names:
        return name
    last = [each for each in names if re.split(r"[/.]", each)[-1] == name]
    for found in (last, [each for each in names if name in each]):
        if len(found) == 1:
            return found[0]
        if found:
            raise AnalysisError(f"{option} {name}: fits several {what}; choose one of: {listed(found)}")
    raise AnalysisError(f"{option} {name}: no such {what.removesuffix('s')}; there are: {listed(names)}")
