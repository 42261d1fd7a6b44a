"""More completions a prompt: what they buy at equal steps, and what at equal rollouts, which they also cost."""

import re
from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.comparison import MIN_SEEDS, Comparison, late_means
from analysis.forest import unless_few
from analysis.labels import wrap_all
from analysis.layout import Point, two_panels
from analysis.load import Data
from analysis.statistics import iqm, iqm_interval
from analysis.style import BAND, COLOURS, style

KEYS = ("group_size", "group_size.completions")
ROLLOUTS = "progress/completions"


class Line(NamedTuple):
    """One line over group sizes: `[sizes]` each."""

    sizes: np.ndarray
    iqm: np.ndarray
    low: np.ndarray
    high: np.ndarray
    n: np.ndarray


class Scaling(NamedTuple):
    """Lines by name at equal steps and at equal rollouts, and what was equal."""

    steps: int
    rollouts: int
    at_steps: dict[str, Line]
    at_rollouts: dict[str, Line]


def size_key(data: Data) -> str | None:
    """The varying override that sets the group size, if there is one and all its values are numbers."""
    found = [key for key in KEYS if key in data.runs and pd.api.types.is_numeric_dtype(data.runs[key])]
    return found[0] if found else None


def scaling(data: Data, comparison: Comparison, key: str) -> Scaling | None:
    """Scores where the shortest run ends, in steps and in rollouts; None without two sizes to compare."""
    metric = comparison.metric
    if metric not in data.metrics or ROLLOUTS not in data.metrics:
        return None
    runs = data.runs[(data.runs["status"] == "completed") & data.runs[key].notna()]
    rows = data.metrics.loc[data.metrics["name"].isin(runs["name"]), ["name", "step", ROLLOUTS, metric]].dropna()
    if rows.empty:
        return None
    ends = rows.groupby("name")[["step", ROLLOUTS]].max().min()
    lines = [
        _lines(data, runs, key, late_means(data, metric, rows[rows[cost] <= ends[cost]]))
        for cost in ("step", ROLLOUTS)
    ]
    if max(line.sizes.size for line in lines[0].values()) < 2:
        return None
    return Scaling(int(ends["step"]), int(ends[ROLLOUTS]), *lines)


def _lines(data: Data, runs: pd.DataFrame, key: str, scores: pd.Series) -> dict[str, Line]:
    runs = runs.assign(value=runs["name"].map(scores), line=[_rest(data, v, key) for v in runs["variant"]])
    return {name: _line(own, key) for name, own in runs.dropna(subset="value").groupby("line", sort=False)}


def _rest(data: Data, variant: str, key: str) -> str:
    """The variant's label without its group size."""
    label = data.labels[variant]
    rest = re.sub(rf"(^|,){re.escape(key)}=[^,]*", "", label).strip(",")
    return "" if rest == label and data.axis == key else rest


def _line(runs: pd.DataFrame, key: str) -> Line:
    points = []
    for size, own in runs.groupby(key):
        values = own["value"].to_numpy(dtype=float)
        low, high = iqm_interval(values) if values.size >= MIN_SEEDS else (np.nan, np.nan)
        points.append((size, float(iqm(values)), float(low), float(high), values.size))
    return Line(*np.array(points, dtype=float).T)


def scaling_caption(found: Scaling) -> str:
    """What the points of `group_sizes` mean."""
    counts = np.concatenate([line.n for line in found.at_steps.values()])
    n = f"n = {counts.min():g}" if counts.min() == counts.max() else f"n = {counts.min():g} to {counts.max():g}"
    return (
        f"Interquartile mean over seeds with its 95 % percentile bootstrap interval, {n} per point. Left: all runs "
        f"after {found.steps:,} steps. Right: all runs after {found.rollouts:,} completions, as many as the smallest "
        "run sampled. Where prompts a step shrink as the group grows, both panels are the same." + unless_few(counts)
    )


def group_sizes(comparison: Comparison, found: Scaling) -> Figure:
    """Score over group size, twice."""
    names = wrap_all(found.at_steps, 22)
    colours = {name: COLOURS[i % len(COLOURS)] for i, name in enumerate(names)}

    def draw(axes: Axes, place: int) -> dict[str, Point]:
        lines = (found.at_steps, found.at_rollouts)[place]
        _panel(axes, lines, colours)
        return {name: (line.sizes[-1], line.iqm[-1]) for name, line in lines.items()}

    with style():
        titles, labels = ("equal steps", "equal rollouts"), ("completions a prompt", comparison.metric)
        return two_panels(draw, titles, names, colours, labels, scaling_caption(found))


def _panel(axes: Axes, lines: dict[str, Line], colours: dict[str, str]) -> None:
    for name, line in lines.items():
        axes.fill_between(line.sizes, line.low, line.high, color=colours[name], alpha=BAND, linewidth=0)
        axes.plot(line.sizes, line.iqm, "o-", color=colours[name], markersize=4)
    sizes = sorted({size for line in lines.values() for size in line.sizes})
    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes, [f"{size:g}" for size in sizes], minor=False)
    axes.minorticks_off()
