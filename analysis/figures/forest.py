"""Figures with one row per variant: its name and numbers, below them an estimate with its interval, then the seeds."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
import seaborn
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from rlexp.analysis.data.metric_spec import direction_note
from rlexp.analysis.figures.inputs import Drawing, FigureInputs, NoData, require_finite, require_spread
from rlexp.analysis.figures.labels import few_seeds_note, line_names, seed_count
from rlexp.analysis.figures.layout import GAP, LINE, add_text, fit_caption, write_caption, write_title
from rlexp.analysis.figures.style import (
    BASELINE,
    FONT,
    INK,
    NOTE,
    TICK,
    WIDTH,
    Colors,
    light_grid,
    set_margins,
    text_size,
    theme,
)
from rlexp.analysis.stats.comparison import Comparison
from rlexp.analysis.stats.formatting import decimal_places, format_corrected_p, format_interval
from rlexp.analysis.stats.inference.significance import ALPHA

ESTIMATE, SEEDS, ROW_END = 0.1, 0.25, 0.36  # inches below a row's text: the estimate, its seeds, the next row
BOX = 0.16  # inches of height of a box
NAME_WIDTH = 26  # characters
BOX_SEEDS = 5  # fewer have no quartiles to speak of

Columns = Sequence[Sequence[str]]  # of text, each below its header


class Row(NamedTuple):
    """One row: wrapped name, (estimate, low, high), the seeds' values, color, and whether the mark is filled."""

    name: str
    estimate: tuple[float, float, float]
    seeds: np.ndarray
    color: str
    filled: bool


def draw_effects(inputs: FigureInputs) -> Drawing:
    """Draw paired differences to the baseline, the best variant first."""
    comparison = inputs.comparison
    if not (comparison.table["n_pairs"] > 0).any():
        raise NoData("no variant shares a seed with the baseline")
    require_finite(comparison)
    require_spread(comparison.scores.to_numpy(), f"{comparison.metric} of every run", allow_one=True)
    return effects_drawing(comparison, inputs.colors)


def draw_scores(inputs: FigureInputs) -> Drawing:
    """Draw the distribution of each variant's final scores over seeds, the best variant first."""
    comparison = inputs.comparison
    if not (comparison.table["n"] > 0).any():
        raise NoData("no run has a score")
    require_finite(comparison)
    require_spread(comparison.scores.to_numpy(), f"{comparison.metric} of every run", allow_one=True)
    return scores_drawing(comparison, inputs.colors)


def effects_drawing(comparison: Comparison, colors: Colors) -> Drawing:
    """Draw the differences with their intervals, the seeds, the numbers."""
    table = comparison.table.loc[comparison.others]
    caption = (
        f"Dot and line: mean difference over paired seeds to {comparison.labels[comparison.baseline]} with its 95 % "
        f"paired t interval (not adjusted); small dots: the seeds, {seed_count(table['n_pairs'])} per variant. "
        f"Filled: p < {ALPHA:g} by sign flips, corrected by Holm over the variants shown."
        f"{few_seeds_note(table['n_pairs'])}"
    )
    intervals = _format_intervals(comparison, table, "difference", signed=True)
    alt_text = "; ".join(f"{comparison.labels[name]}: {text}" for name, text in intervals.items())
    table = table[table["n_pairs"] > 0].sort_values("difference", ascending=comparison.better == "lower")
    names = line_names(comparison, table.index, NAME_WIDTH)
    rows = [
        Row(names[variant], ends, comparison.differences(variant), colors[variant], p < ALPHA)
        for variant, ends, p in zip(table.index, _intervals(table, "difference"), table["p_holm"], strict=True)
    ]
    columns = [
        ["difference [95 %]", *(intervals[variant] for variant in table.index)],
        ["p (Holm)", *format_corrected_p(comparison, table)],
    ]
    baseline = line_names(comparison, [comparison.baseline], 40, 1)[comparison.baseline]
    title = f"Difference to {baseline}{direction_note(comparison.better)}"
    label = f"paired difference in {comparison.metric}"
    return Drawing(caption, alt_text, forest_plot(rows, columns, title, label, caption, zero=True))


def scores_drawing(comparison: Comparison, colors: Colors) -> Drawing:
    """Draw final scores: interquartile mean, its interval, the distribution of the seeds, the numbers."""
    table = comparison.table
    boxes = f"; box: median and quartiles, of {BOX_SEEDS} seeds or more" if table["n"].max() >= BOX_SEEDS else ""
    caption = (
        "Dot and line: interquartile mean of the score over seeds with its 95 % percentile bootstrap interval; small "
        f"dots: the seeds, {seed_count(table['n'])} per variant{boxes}. "
        f"Grey: {comparison.labels[comparison.baseline]}.{few_seeds_note(table['n'])}"
    )
    intervals = _format_intervals(comparison, table, "iqm")
    alt_text = "; ".join(f"{comparison.labels[name]}: {text}" for name, text in intervals.items())
    table = table[table["n"] > 0].sort_values("iqm", ascending=comparison.better == "lower")
    names = line_names(comparison, table.index, NAME_WIDTH)
    rows = [
        Row(names[variant], ends, comparison.scores[variant].dropna().to_numpy(), colors[variant], True)
        for variant, ends in zip(table.index, _intervals(table, "iqm"), strict=True)
    ]
    columns = [
        ["IQM [95 %]", *(intervals[variant] for variant in table.index)],
        ["n", *(f"{n:g}" for n in table["n"])],
    ]
    title = f"Final scores{direction_note(comparison.better)}"
    return Drawing(caption, alt_text, forest_plot(rows, columns, title, comparison.metric, caption, boxes=True))


def _intervals(table: pd.DataFrame, column: str) -> list[tuple[float, float, float]]:
    return list(table[[column, f"{column}_low", f"{column}_high"]].itertuples(index=False, name=None))


def _format_intervals(comparison: Comparison, table: pd.DataFrame, column: str, signed: bool = False) -> dict[str, str]:
    digits = decimal_places(comparison.scores.to_numpy().ravel())
    texts = (format_interval(*ends, digits, signed) for ends in _intervals(table, column))
    return dict(zip(table.index, texts, strict=True))


def forest_plot(
    rows: Sequence[Row],
    columns: Columns,
    title: str,
    label: str,
    caption: str,
    zero: bool = False,
    boxes: bool = False,
) -> Figure:
    """Draw rows from top to bottom, each as high as the longest name needs."""
    with theme():
        figure = Figure(figsize=(WIDTH, 3))
        axes = figure.add_subplot()
        widths = [max(text_size(figure, text, NOTE)[0] for text in column) + GAP for column in columns]
        name = max(text_size(figure, row.name, TICK)[0] for row in rows)
        heading = text_size(figure, title, FONT, weight="bold")[0]
        width = max(WIDTH, name + sum(widths) + 3 * GAP, heading + 2 * GAP)
        text_height = max(row.name.count("\n") + 1 for row in rows) * LINE
        unit = text_height + ROW_END  # inches of a row, which is 1 on the y axis
        text, bottom = fit_caption(caption, width)
        top = 0.25 + 2 * LINE
        figure.set_size_inches(width, top + unit * len(rows) + bottom)
        set_margins(figure, 2 * GAP, GAP, bottom, top)
        write_title(figure, title)
        write_caption(figure, text)
        _draw_seeds(axes, rows, boxes, (text_height + SEEDS) / unit, BOX / unit)
        for place, row in enumerate(rows):
            y, (middle, low, high) = place + (text_height + ESTIMATE) / unit, row.estimate
            axes.plot([low, high], [y, y], color=row.color, linewidth=1.8, zorder=4)
            face = row.color if row.filled else "white"
            axes.plot(middle, y, "o", color=row.color, markerfacecolor=face, markersize=5, zorder=5)
            if zero:
                ends = [place + text_height / unit, place + 1]
                axes.plot([0, 0], ends, "--", color=BASELINE, linewidth=0.8, zorder=1)
        axes.set(ylim=(len(rows), 0), yticks=[], xlabel=label, ylabel="")
        axes.spines["left"].set_visible(False)
        axes.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
        light_grid(axes)
        _write_rows(axes, rows, columns, widths, unit)
    return figure


def _draw_seeds(axes: Axes, rows: Sequence[Row], boxes: bool, y: float, height: float) -> None:
    """Draw a swarm of the seeds in each row, over a box where there are enough; `y`: where in its row, in rows."""
    axes.set(ylim=(len(rows), 0), yticks=[])  # a swarm is laid out in pixels
    seeds = [pd.DataFrame({"value": row.seeds, "y": place + y}) for place, row in enumerate(rows)]
    palette = {place + y: row.color for place, row in enumerate(rows)}
    common = {"x": "value", "y": "y", "hue": "y", "palette": palette, "orient": "h", "native_scale": True}
    common |= {"legend": False, "ax": axes}
    many = [frame for frame in seeds if len(frame) >= BOX_SEEDS]
    if boxes and many:  # of the letter values only the quartiles; seaborn.boxplot calls what Matplotlib 3.13 drops
        look = {"k_depth": 1, "showfliers": False, "width": height, "saturation": 1, "linewidth": 0.6, "alpha": 0.25}
        seaborn.boxenplot(pd.concat(many), **common, **look, line_kws={"linewidth": 0.8, "color": INK})
    seaborn.swarmplot(pd.concat(seeds), **common, size=2.6, alpha=0.8, linewidth=0, warn_thresh=1, zorder=3)


def _write_rows(axes: Axes, rows: Sequence[Row], columns: Columns, widths: Sequence[float], unit: float) -> None:
    """Write each row's name at the left, above its marks; its numbers at the right, below their headers."""
    figure, box = axes.figure, axes.get_position()
    across = box.width * figure.get_figwidth()
    behind = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}  # so that no line of the grid runs through it
    middle = 0.55 * LINE / unit
    look = {"transform": axes.get_yaxis_transform(), "va": "center", "bbox": behind, "zorder": 6}
    for place, row in enumerate(rows):
        y = place + middle * (row.name.count("\n") + 1)
        axes.text(-GAP / across, y, row.name, fontsize=TICK, ha="left", color=INK, weight="bold", **look)
    right, top = across, box.y1 * figure.get_figheight() + LINE / 2
    for column, width in reversed(list(zip(columns, widths, strict=True))):
        x = box.x0 * figure.get_figwidth() + right
        add_text(figure, column[0], x, top, size=NOTE, weight="bold", va="center", ha="right")
        for place, text in enumerate(column[1:]):
            axes.text(right / across, place + middle, text, fontsize=NOTE, ha="right", **look)
        right -= width
