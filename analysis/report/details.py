"""The section of each run on a sweep's page: its command, its curves, a few of its completions."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from markupsafe import Markup

from rlexp.analysis.data.kept import Records
from rlexp.analysis.data.load import SweepData
from rlexp.analysis.report.inline import color_of, sparkline
from rlexp.analysis.report.reproduce import run_command
from rlexp.analysis.stats.formatting import DASH, format_number, yes_no

CURVES = ("reward/mean", "policy/entropy", "kl/ref_exact", "length/mean")  # of each run, beside its score's metric
MAX_RUN_SECTIONS = 200  # runs with curves and completions of their own
MAX_TEXT = 300  # characters of a prompt or completion


class RunSection(NamedTuple):
    """The section of one run."""

    name: str
    status: str
    reason: str | None
    command: str | None
    curves: dict[str, Markup]
    """Small curves by metric."""
    constants: list[str]
    """Metrics with one value only, as text."""
    samples: list[tuple[int, list[list[str]]]]
    """Step, and rows of completions."""


class VariantSection(NamedTuple):
    """The runs of a variant."""

    label: str
    color: Markup
    count: int
    """Number of its runs, with or without a section."""
    runs: list[RunSection]
    unusual: int
    """Number of the runs shown that did not complete."""


def select_runs(data: SweepData) -> list[str]:
    """Return the names of the runs that get a section: all if there are few, else what failed or collapsed first."""
    runs = data.runs
    unusual = (runs["status"] != "completed") | runs["collapsed"].fillna(False).astype(bool)
    names = {*[*runs.loc[unusual, "name"], *runs.loc[~unusual, "name"]][:MAX_RUN_SECTIONS]}
    return [name for name in runs["name"] if name in names]


def variant_sections(
    data: SweepData, metric: str, samples: Mapping[str, Records], names: Sequence[str], colors: Mapping[str, str]
) -> list[VariantSection]:
    """Return the sections of the chosen runs, by variant."""
    metrics = [name for name in dict.fromkeys([metric, *CURVES]) if name in data.metrics]
    rows = dict(list(data.metrics[["name", "step", *metrics]].groupby("name")))
    sections = []
    for variant, runs in data.runs.groupby("variant", sort=False):
        shown = []
        for run in runs[runs["name"].isin(names)].itertuples():
            reason = run.reason if isinstance(run.reason, str) else None
            curves = _curves(rows[run.name], metrics, colors[variant]) if run.name in rows else ({}, [])
            by_step = groupby(samples.get(run.name, []), lambda record: record.get("step"))
            tables = [(step, [_sample(record) for record in records]) for step, records in by_step]
            shown.append(RunSection(run.name, run.status, reason, run_command(Path(run.folder)), *curves, tables))
        if shown:
            unusual = sum(run.status != "completed" for run in shown)
            label, color = data.labels[variant], color_of(colors[variant])
            sections.append(VariantSection(label, color, len(runs), shown, unusual))
    return sections


def _curves(rows: pd.DataFrame, metrics: Sequence[str], color: str) -> tuple[dict[str, Markup], list[str]]:
    """Return the metrics that change over the run as curves, those that do not as text."""
    steps, curves, constants = rows["step"].to_numpy(), {}, []
    for name in metrics:
        values = rows[name].to_numpy(dtype=float)
        different = np.unique(values[np.isfinite(values)])
        if different.size > 1:
            curves[name] = sparkline(steps, values, name, color)
        elif different.size:
            constants.append(f"{name} {different[0]:.3g}")
    return curves, constants


def _sample(row: Mapping[str, Any]) -> list[str]:
    texts = [str(row.get(key, "")) for key in ("prompt", "completion")]
    numbers = [row.get(key) for key in ("reward", "advantage")]
    return [
        *(text[:MAX_TEXT] + "…" * (len(text) > MAX_TEXT) for text in texts),
        yes_no(row.get("correct")),
        *(format_number(value, 2, signed=place > 0) if isinstance(value, int | float) else DASH
          for place, value in enumerate(numbers)),
    ]  # fmt: skip
