"""The section of each run on a sweep's page: its command, its curves, a few of its completions."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from markupsafe import Markup

from analysis.data.kept.samples import Records
from analysis.data.load import SweepData
from analysis.report.inline import colour_of, sparkline
from analysis.report.reproduce import run_command
from analysis.stats.formatting import DASH, format_number, yes_no

CURVES = ("reward/mean", "policy/entropy", "kl/ref_exact", "length/mean")  # of each run, beside its score's metric
MAX_RUN_SECTIONS = 200  # runs with curves and completions of their own
MAX_TEXT = 300  # characters of a prompt or completion


class RunCurve(NamedTuple):
    """A run's small curve."""

    name: str
    svg: Markup


class SampleTable(NamedTuple):
    """A run's completions after some step, as text."""

    step: int
    rows: list[list[str]]


class RunSection(NamedTuple):
    """The section of one run."""

    name: str
    status: str
    reason: str | None
    command: str | None
    curves: list[RunCurve]
    constants: list[str]
    """What has one value only, as text."""
    sample_tables: list[SampleTable]


class VariantSection(NamedTuple):
    """The runs of a variant."""

    label: str
    colour: Markup
    count: int
    """Of its runs, with or without a section."""
    runs: list[RunSection]

    @property
    def unusual(self) -> int:
        """How many of the runs shown did not complete."""
        return sum(run.status != "completed" for run in self.runs)


def select_runs(data: SweepData) -> list[str]:
    """Names of the runs that get a section: all if there are few, else what failed or collapsed first."""
    runs = data.runs
    unusual = (runs["status"] != "completed") | runs["collapsed"].fillna(False).astype(bool)
    names = {*[*runs.loc[unusual, "name"], *runs.loc[~unusual, "name"]][:MAX_RUN_SECTIONS]}
    return [name for name in runs["name"] if name in names]


def variant_sections(
    data: SweepData, metric: str, samples: Mapping[str, Records], names: Sequence[str], colours: Mapping[str, str]
) -> list[VariantSection]:
    """The chosen runs, by variant."""
    runs = dict(zip(names, _run_sections(data, metric, samples, names, colours), strict=True))
    groups = data.runs.groupby("variant", sort=False)["name"].agg(list)
    sections = [
        VariantSection(data.labels[v], colour_of(colours[v]), len(all_), [runs[name] for name in all_ if name in runs])
        for v, all_ in groups.items()
    ]
    return [section for section in sections if section.runs]


def _run_sections(
    data: SweepData, metric: str, samples: Mapping[str, Records], names: Sequence[str], colours: Mapping[str, str]
) -> list[RunSection]:
    metrics = [name for name in dict.fromkeys([metric, *CURVES]) if name in data.metrics]
    rows = dict(list(data.metrics[["name", "step", *metrics]].groupby("name")))
    folders, variants = (dict(zip(data.runs["name"], data.runs[key], strict=True)) for key in ("folder", "variant"))
    status = {
        row.name: (row.status, row.reason if isinstance(row.reason, str) else None) for row in data.runs.itertuples()
    }
    return [
        RunSection(
            name,
            *status[name],
            run_command(Path(folders[name])),
            *(_curves(rows[name], metrics, colours[variants[name]]) if name in rows else ([], [])),
            _sample_tables(samples.get(name, [])),
        )
        for name in names
    ]


def _curves(rows: pd.DataFrame, metrics: Sequence[str], colour: str) -> tuple[list[RunCurve], list[str]]:
    """The metrics that change over the run as curves, those that do not as text."""
    steps, curves, constants = rows["step"].to_numpy(), [], []
    for name in metrics:
        values = rows[name].to_numpy(dtype=float)
        different = np.unique(values[np.isfinite(values)])
        if different.size > 1:
            curves.append(RunCurve(name, sparkline(steps, values, name, colour)))
        elif different.size:
            constants.append(f"{name} {different[0]:.3g}")
    return curves, constants


def _sample_tables(records: Records) -> list[SampleTable]:
    by_step = groupby(records, lambda record: record.get("step"))
    return [SampleTable(step, [_sample(record) for record in group]) for step, group in by_step]


def _sample(row: Mapping[str, Any]) -> list[str]:
    texts = [str(row.get(key, "")) for key in ("prompt", "completion")]
    numbers = [row.get(key) for key in ("reward", "advantage")]
    return [
        *(text[:MAX_TEXT] + "…" * (len(text) > MAX_TEXT) for text in texts),
        yes_no(row.get("correct")),
        *(format_number(value, 2, signed=place > 0) if isinstance(value, int | float) else DASH
          for place, value in enumerate(numbers)),
    ]  # fmt: skip
