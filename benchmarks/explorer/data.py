"""The stored studies as the page has them: a study with its findings, runs, levels, curves and settings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd
import yaml

from benchmarks.stored.study import Finding, Study, parts_of
from benchmarks.stored.world import World, changed, world
from rlexp.runfolder.variants import key_of, parse_override

ROW = ("role", "condition", "arm", "versus", "metric", "verdict", "expected", "effect", "low", "high", "units")
ROW += ("n", "p", "smallest", "said", "tricks", "tasks", "starts", "weights")
RUN = ("condition", "arm", "metric", "value", "best", "seed", "score")
LEVEL = ("condition", "arm", "n", "iqm", "iqm_low", "iqm_high")
DIGITS = 5  # significant ones of a number on the page, which shows three


def page_data(stored: Sequence[Study]) -> list[dict[str, Any]]:
    """Return what the page knows: names of columns, then the studies."""
    return [{"row": ROW, "run": RUN, "level": LEVEL}, *map(study_data, stored)]


def row(study: Study, found: Finding) -> list[Any]:
    """Return a finding in the order of ROW."""
    worlds = worlds_of(study, found)
    return [
        *(short(getattr(found, name)) for name in ROW[:15]),
        found.tricks,
        sorted({each.task for each in worlds}),
        sorted({each.start for each in worlds}),
        sorted({each.weights for each in worlds if each.weights is not None}),
    ]


def worlds_of(study: Study, found: Finding) -> list[World]:
    """Return where a finding was made: in its condition, or in all of them where it has none of its own."""
    conditions = [found.condition] if found.condition else [each for each in study.conditions if each] or [""]
    shared = tuple(study.worlds or study.overrides)
    arm = [part for part in parts_of(found.arm) if "=" in part]
    return [
        each._replace(weights=study.weights or each.weights)
        for each in (world(shared, [*parts_of(condition), *arm]) for condition in conditions)
    ]


def study_data(study: Study) -> dict[str, Any]:
    """Return a study for the page; what is not stored is left out."""
    found = {name: getattr(study, name) for name in ("name", "kind", "question", "source", "page", "command", "metric")}
    found |= {"tuned": study.tuned, **study.facts, "config": config_of(study)}
    found["rows"] = [row(study, each) for each in study.findings]
    found["runs"] = [[short(value) for value in values] for values in study.runs[[*RUN]].itertuples(index=False)]
    found["levels"] = [[short(value) for value in values] for values in study.levels[[*LEVEL]].itertuples(index=False)]
    found["curves"] = curve_data(study)
    return {key: value for key, value in found.items() if value not in ("", None, [], {})}


def config_of(study: Study) -> dict[str, str]:
    """Return the settings in which its runs differ from the default run, as text."""
    return {key: "null" if value is None else str(value) for key, value in settings_of(study).items()}


def settings_of(study: Study) -> dict[str, Any]:
    """Return the settings in which its runs differ from the default run; those of conditions stand with them.

    What is of a group that conditions choose, as ``task.hint=3`` where they have ``task=countdown``, is as written: the
    default choice may not know it.
    """
    theirs = {key_of(part) for condition in study.conditions for part in parts_of(condition)}
    shown = [each for each in study.overrides if not each.startswith(("start.path=", "model.path="))]
    apart = [each for each in shown if each.startswith(tuple(f"{key}." for key in theirs))]
    own = changed(tuple(each for each in shown if each not in apart))
    told = {key: value for key, value in own.items() if key not in theirs}
    return told | {key: yaml.safe_load(value) for key, value in map(parse_override, apart)}


def curve_data(study: Study) -> dict[str, Any]:
    """Return the curves of the runs that are judged: the metric, arrays of completions, and a line a run."""
    if study.curves is None:
        return {}
    metric = study.metric if study.metric in study.curves else study.curves.columns[-1]
    judged, places, lines = study.runs[study.runs["best"]].drop_duplicates(["condition", "arm", "run"]), {}, []
    curves = dict(iter(study.curves.dropna(subset=[metric]).sort_values("step").groupby("run")))
    for run in judged.itertuples():
        if (rows := curves.get(run.run)) is not None:
            spent = tuple(map(int, rows["completions"]))
            place = places.setdefault(spent, len(places))
            lines.append([run.condition, run.arm, int(run.seed), place, [short(value) for value in rows[metric]]])
    return {"metric": metric, "spent": [[*each] for each in places], "lines": lines}


def short(value: Any) -> Any:
    """Return a value as JSON has it: numbers to DIGITS significant digits, nothing for what is missing."""
    if isinstance(value, str | bool | list | tuple) or value is None:
        return value
    if pd.isna(value):
        return None
    if isinstance(value, Iterable):
        return list(value)
    number = float(f"{float(value):.{DIGITS}g}") if isinstance(value, float) else value
    return int(number) if float(number).is_integer() else float(number)
