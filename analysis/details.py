"""The section of each run on a sweep's page: its command, its curves, a few of its completions."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from markupsafe import Markup

from analysis.inline import spark
from analysis.load import Data
from analysis.reproduce import run_command
from analysis.samples import Rows
from analysis.tables import NOTHING, number, yes_no

CURVES = ("reward/mean", "policy/entropy", "kl/ref_exact", "length/mean")  # of each run, beside its score's metric
MOST_DETAILS = 200  # runs with curves and completions of their own
LONGEST_TEXT = 300  # characters of a prompt or completion


class Curve(NamedTuple):
    """A run's small curve."""

    name: str
    svg: Markup


class Moment(NamedTuple):
    """A run's completions after some step, as text."""

    step: int
    rows: list[list[str]]


class Detail(NamedTuple):
    """The section of one run."""

    name: str
    status: str
    reason: str | None
    command: str | None
    curves: list[Curve]
    moments: list[Moment]


def detailed(data: Data) -> list[str]:
    """Names of the runs that get a section: all if there are few, else what failed or collapsed first."""
    runs = data.runs
    odd = (runs["status"] != "completed") | runs["collapsed"].fillna(False).astype(bool)
    chosen = {*[*runs.loc[odd, "name"], *runs.loc[~odd, "name"]][:MOST_DETAILS]}
    return [name for name in runs["name"] if name in chosen]


def details(data: Data, metric: str, samples: Mapping[str, Rows], chosen: Sequence[str]) -> list[Detail]:
    """One section per chosen run."""
    metrics = [name for name in dict.fromkeys([metric, *CURVES]) if name in data.metrics]
    rows = dict(list(data.metrics[["name", "step", *metrics]].groupby("name")))
    folders = dict(zip(data.runs["name"], data.runs["folder"], strict=True))
    facts = {
        row.name: (row.status, row.reason if isinstance(row.reason, str) else None) for row in data.runs.itertuples()
    }
    return [
        Detail(
            name,
            *facts[name],
            run_command(Path(folders[name])),
            _curves(rows[name], metrics) if name in rows else [],
            _moments(samples.get(name, [])),
        )
        for name in chosen
    ]


def _curves(rows: pd.DataFrame, metrics: Sequence[str]) -> list[Curve]:
    steps = rows["step"].to_numpy()
    return [Curve(name, spark(steps, rows[name].to_numpy(dtype=float), name)) for name in metrics]


def _moments(rows: Rows) -> list[Moment]:
    return [Moment(step, [_sample(row) for row in own]) for step, own in groupby(rows, lambda row: row.get("step"))]


def _sample(row: Mapping[str, Any]) -> list[str]:
    texts = [str(row.get(key, "")) for key in ("prompt", "completion")]
    numbers = [row.get(key) for key in ("reward", "advantage")]
    return [
        *(text[:LONGEST_TEXT] + "…" * (len(text) > LONGEST_TEXT) for text in texts),
        yes_no(row.get("correct")),
        *(number(value, 2, sign=place > 0) if isinstance(value, int | float) else NOTHING
          for place, value in enumerate(numbers)),
    ]  # fmt: skip
