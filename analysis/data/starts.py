"""Runs that share a start: where starts vary, the start is the random unit, and its runs count as one.

Runs of one start are alike by more than their arm. Counted one by one they make intervals too narrow, which then say
nothing about another start. Source: the mean of each cluster as its only number, as for clustered designs (Cochran,
Sampling Techniques, chapter 9).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from rlexp.analysis.data.runs import RunRecord

if TYPE_CHECKING:
    import numpy as np

SEED_AT_END = re.compile(r",seed=[^,]*$")
OF_RUNS = re.compile(r"\b(few|over|\d+) seeds\b")
SUMS = ("completions", "tokens", "wall_time_s")


def merge_starts(runs: list[RunRecord]) -> tuple[list[RunRecord], str, list[str]]:
    """Return one record for each variant and start, what a record is (``"start"`` or ``"seed"``), and what to say.

    Nothing is merged unless runs name two starts or more, and all name one. A merged record has the mean of its runs'
    rows at the steps that all have, the mean of their scores, the number of its start as its seed, and the first run's
    folder. It is completed where all its runs are.
    """
    starts = {run.start for run in runs}
    if len(starts) < 2:
        return runs, "seed", [_one_start(starts)] if starts != {None} else []
    if None in starts:
        return runs, "seed", ["Some runs name their start and others do not, so seeds are counted, not starts."]
    groups: dict[tuple[Any, ...], list[RunRecord]] = {}
    for run in runs:
        key = (run.facts["sweep"], run.facts["variant"], run.start)
        groups.setdefault(key, []).append(run)
    sizes = " or ".join(map(str, sorted({len(group) for group in groups.values()})))
    mean = "" if sizes == "1" else f"Each number is the mean of {sizes} runs that share a start. "
    remark = f"{mean}n, p and intervals count the {len(starts)} starts: they say what other starts could have given."
    return [_merged(group) for group in groups.values()], "start", [remark]


def in_units(text: str, unit: str) -> str:
    """Say ``starts``, or ``runs``, for ``seeds`` where these are the unit."""
    if unit == "seed":
        return text
    if unit == "run":
        return OF_RUNS.sub(r"\1 runs", text)
    text = text.replace(' seed="', ' start.seed="').replace("single runs", "single starts")
    return re.sub(r"(?<!start\.)\b([Ss])eed(s?)\b", r"\1tart\2", text)


def _one_start(starts: Iterable[int | None]) -> str:
    return f"All runs begin at start {next(iter(starts))}: intervals do not contain what another start would change."


def _merged(runs: Sequence[RunRecord]) -> RunRecord:
    first, facts = runs[0], [run.facts for run in runs]
    missing = next((each for each in facts if each["status"] != "completed"), None)
    scores = [each["score"] for each in facts]
    fallen = [each["collapsed"] for each in facts if each["collapsed"] is not None]
    merged = {
        **first.facts,
        "name": SEED_AT_END.sub("", first.facts["name"]),
        "seed": first.start,
        "status": missing["status"] if missing else "completed",
        "reason": missing["reason"] if missing else None,
        "score": None if missing or None in scores else sum(scores) / len(scores),
        "collapsed": 2 * sum(fallen) > len(fallen) if fallen else None,
    }
    for key in SUMS:
        known = [each[key] for each in facts]
        merged[key] = None if None in known else sum(known) / len(known)
    for key in ("code", "commit", "machine"):
        merged[key] = ", ".join(dict.fromkeys(each[key] for each in facts if each[key])) or None
    return first._replace(facts=merged, columns=_mean_columns([run.columns for run in runs]))


def _mean_columns(columns: Sequence[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Return the mean of each metric over runs at the steps that all have; NaN counts as absent."""
    import warnings

    import numpy as np

    steps = columns[0]["step"]
    for each in columns[1:]:
        steps = np.intersect1d(steps, each["step"])
    places = [np.searchsorted(each["step"], steps) for each in columns]
    found = {"step": steps}
    for key in dict.fromkeys(key for each in columns for key in each if key != "step"):
        values = [
            each[key][place] if key in each else np.full(len(steps), np.nan)
            for each, place in zip(columns, places, strict=True)
        ]
        with warnings.catch_warnings():  # of steps where no run has the metric
            warnings.simplefilter("ignore", RuntimeWarning)
            found[key] = np.nanmean(values, axis=0)
    return found
