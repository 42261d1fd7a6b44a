"""The score over group size, at equal steps and at equal rollouts, which larger groups also cost."""

import re
from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from rlexp.analysis.data.load import SweepData
from rlexp.analysis.data.run_values import late_means
from rlexp.analysis.figures.frontier import iqm_with_interval
from rlexp.analysis.figures.inputs import Drawing, FigureInputs, NoData, require_spread
from rlexp.analysis.figures.labels import few_seeds_note, seed_count, wrap_labels
from rlexp.analysis.figures.layout import LineStyle, two_panels
from rlexp.analysis.figures.style import BAND, DASHES, INK, Colors, theme
from rlexp.analysis.stats.comparison import Comparison

KEYS = ("group_size", "group_size.completions")
ROLLOUTS = "progress/completions"


class SizeLine(NamedTuple):
    """One line over group sizes: `[sizes]` each."""

    sizes: np.ndarray
    iqm: np.ndarray
    low: np.ndarray
    high: np.ndarray
    n: np.ndarray
    variants: list[str]
    """Of which variant each point is."""


class Scaling(NamedTuple):
    """Lines by name at equal steps and at equal rollouts, and what was equal."""

    steps: int
    rollouts: int
    at_steps: dict[str, SizeLine]
    at_rollouts: dict[str, SizeLine]


def draw_group_sizes(inputs: FigureInputs) -> Drawing:
    """Draw the score over group size, where nothing else varies with it, at equal steps and at equal rollouts."""
    key = size_key(inputs.data)
    scaling = compare_sizes(inputs.data, inputs.comparison, key) if key else None
    if scaling is None:
        raise NoData("needs variants that differ in group_size only, and runs that log completions and the metric")
    parts = [f"{name or 'group size'} {size:g}: {value:.3g}" for name, line in scaling.at_rollouts.items()
             for size, value in zip(line.sizes, line.iqm, strict=True)]  # fmt: skip
    require_spread(np.concatenate([line.iqm for line in scaling.at_steps.values()]), "the score at every size")
    counts = np.concatenate([line.n for line in scaling.at_steps.values()])
    caption = (
        f"Interquartile mean over seeds with its 95 % percentile bootstrap interval, {seed_count(counts)} per point. "
        f"Left: all runs after {scaling.steps:,} steps. Right: all runs after {scaling.rollouts:,} completions, as "
        "many as the smallest run sampled. Where prompts a step shrink as the group grows, both panels are the same."
        + few_seeds_note(counts)
    )
    names = wrap_labels(scaling.at_steps, 52, 1)
    styles: dict[str, LineStyle] = {
        name: {"color": INK, "linewidth": 1.0, "linestyle": DASHES[place % len(DASHES)]}
        for place, name in enumerate(names)
    }

    def draw(axes: Axes, place: int) -> None:
        _draw(axes, (scaling.at_steps, scaling.at_rollouts)[place], styles, inputs.colors)

    with theme():
        titles, labels = ("equal steps", "equal rollouts"), ("completions a prompt", inputs.comparison.metric)
        figure = two_panels(draw, titles, names, styles, labels, caption)
    return Drawing(caption, "at equal rollouts, " + "; ".join(parts), figure)


def _draw(axes: Axes, lines: dict[str, SizeLine], styles: dict[str, LineStyle], colors: Colors) -> None:
    """Draw the lines; each joins points of several variants, which have their variants' colors."""
    for name, line in lines.items():
        axes.fill_between(line.sizes, line.low, line.high, color=INK, alpha=BAND / 2, linewidth=0)
        axes.plot(line.sizes, line.iqm, **styles[name])
        axes.scatter(line.sizes, line.iqm, c=[colors[variant] for variant in line.variants], s=18, zorder=3)
    sizes = sorted({size for line in lines.values() for size in line.sizes})
    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes, [f"{size:g}" for size in sizes], minor=False)
    axes.minorticks_off()


def size_key(data: SweepData) -> str | None:
    """Return the varying override that sets the group size, if there is one and all its values are numbers."""
    keys = [key for key in KEYS if key in data.runs and pd.api.types.is_numeric_dtype(data.runs[key])]
    return keys[0] if keys else None


def compare_sizes(data: SweepData, comparison: Comparison, key: str) -> Scaling | None:
    """Compare scores where the shortest run ends, in steps and in rollouts; None without two sizes to compare."""
    metric = comparison.metric
    if metric not in data.metrics or ROLLOUTS not in data.metrics:
        return None
    runs = data.runs[(data.runs["status"] == "completed") & data.runs[key].notna()]
    rows = data.metrics.loc[data.metrics["name"].isin(runs["name"]), ["name", "step", ROLLOUTS, metric]].dropna()
    if rows.empty:
        return None
    ends = rows.groupby("name")[["step", ROLLOUTS]].max().min()
    lines = [
        _lines(data, runs, key, late_means(data, metric, rows[rows[cost] <= ends[cost]])) for cost in ("step", ROLLOUTS)
    ]
    if max(line.sizes.size for line in lines[0].values()) < 2:
        return None
    return Scaling(int(ends["step"]), int(ends[ROLLOUTS]), *lines)


def _lines(data: SweepData, runs: pd.DataFrame, key: str, scores: pd.Series) -> dict[str, SizeLine]:
    runs = runs.assign(value=runs["name"].map(scores), line=[_without_size(data, v, key) for v in runs["variant"]])
    lines = {}
    for name, group in runs.dropna(subset="value").groupby("line", sort=False):
        sizes = group.groupby(key)
        values = {size: sized["value"].to_numpy(dtype=float) for size, sized in sizes}
        points = [(size, *iqm_with_interval(found), found.size) for size, found in values.items()]
        lines[name] = SizeLine(*np.array(points, dtype=float).T, sizes["variant"].first().tolist())
    return lines


def _without_size(data: SweepData, variant: str, key: str) -> str:
    """Return the variant's label without its group size."""
    label = data.labels[variant]
    rest = re.sub(rf"(^|,){re.escape(key)}=[^,]*", "", label).strip(",")
    return "" if rest == label and data.axis == key else rest
