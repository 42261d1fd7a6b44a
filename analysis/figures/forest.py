"""Figures with one row per variant: its name and numbers, below them an estimate with its interval, then the seeds."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
import seaborn
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from analysis.data.direction import direction_note
from analysis.figures.inputs import Drawing, FigureInputs, NoData
from analysis.figures.labels import few_seeds_note, require_finite, require_spread, seed_count, short_names
from analysis.figures.layout import GAP, LINE, add_text, fit_caption, top_edge, write_caption, write_title
from analysis.figures.style import (
    BASELINE,
    FONT,
    INK,
    NOTE,
    TICK,
    WIDTH,
    Colours,
    light_grid,
    set_margins,
    text_size,
    theme,
)
from analysis.stats.comparison import Comparison
from analysis.stats.formatting import decimal_places, format_corrected_p, format_interval
from analysis.stats.inference.significance import ALPHA

ESTIMATE, SEEDS, ROW_END = 0.1, 0.25, 0.36  # inches below a row's text: the estimate, its seeds, the next row
BOX = 0.16  # inches of height of a box
NAME_WIDTH = 26  # characters
BOX_SEEDS = 5  # fewer have no quartiles to speak of


Columns = Sequence[Sequence[str]]  # of text, each below its header


class Row(NamedTuple):
    """One row: wrapped name, (estimate, low, high), the seeds' values, colour, and whether the mark is filled."""

    name: str
    estimate: tuple[float, float, float]
    seeds: np.ndarray
    colour: str
    filled: bool


def draw_effects(inputs: FigureInputs) -> Drawing:
    """Paired differences to the baseline, the best variant first."""
    comparison = inputs.comparison
    if not (comparison.table["n_pairs"] > 0).any():
        raise NoData("no variant shares a seed with the baseline")
    require_finite(comparison)
    require_spread(comparison.scores.to_numpy(), f"{comparison.metric} of every run", allow_one=True)
    alt_text = _intervals_as_text(comparison, "difference", signed=True)
    return Drawing(effects_caption(comparison), alt_text, effects_figure(comparison, inputs.colours))


def draw_scores(inputs: FigureInputs) -> Drawing:
    """The distribution of each variant's final scores over seeds, the best variant first."""
    comparison = inputs.comparison
    if not (comparison.table["n"] > 0).any():
        raise NoData("no run has a score")
    require_finite(comparison)
    require_spread(comparison.scores.to_numpy(), f"{comparison.metric} of every run", allow_one=True)
    figure = scores_figure(comparison, inputs.colours)
    return Drawing(scores_caption(comparison), _intervals_as_text(comparison, "iqm"), figure)


def _intervals_as_text(comparison: Comparison, column: str, signed: bool = False) -> str:
    digits = decimal_places(comparison.scores.to_numpy().ravel())
    table = comparison.table if column == "iqm" else comparison.table.loc[comparison.others]
    ends = zip(table.index, table[column], table[f"{column}_low"], table[f"{column}_high"], strict=True)
    return "; ".join(f"{comparison.labels[name]}: {format_interval(*row, digits, signed)}" for name, *row in ends)


def effects_caption(comparison: Comparison) -> str:
    """What the marks of `effects_figure` mean, and from how many seeds."""
    pairs = comparison.table.loc[comparison.others, "n_pairs"]
    return (
        f"Dot and line: mean difference over paired seeds to {comparison.labels[comparison.baseline]} with its 95 % "
        f"paired t interval (not adjusted); small dots: the seeds, {seed_count(pairs)} per variant. "
        f"Filled: p < {ALPHA:g} by sign flips, corrected by Holm over the variants shown.{few_seeds_note(pairs)}"
    )


def effects_figure(comparison: Comparison, colours: Colours) -> Figure:
    """Differences with their intervals, the seeds, the numbers."""
    table = comparison.table.loc[comparison.others]
    table = table[table["n_pairs"] > 0].sort_values("difference", ascending=comparison.better == "lower")
    names = short_names(comparison, table.index, NAME_WIDTH)
    ends = list(zip(table["difference"], table["difference_low"], table["difference_high"], strict=True))
    rows = [
        Row(names[variant], estimate, comparison.differences(variant), colours[variant], p < ALPHA)
        for variant, estimate, p in zip(table.index, ends, table["p_holm"], strict=True)
    ]
    digits = decimal_places(comparison.scores.to_numpy().ravel())
    columns = [
        ["difference [95 %]", *(format_interval(*row, digits, signed=True) for row in ends)],
        ["p (Holm)", *format_corrected_p(comparison, table)],
    ]
    baseline = short_names(comparison, [comparison.baseline], 40, 1)[comparison.baseline]
    title = f"Difference to {baseline}{direction_note(comparison.better)}"
    label = f"paired difference in {comparison.metric}"
    return forest_plot(rows, columns, title, label, effects_caption(comparison), zero=True)


def scores_caption(comparison: Comparison) -> str:
    """What the marks of `scores_figure` mean, and from how many seeds."""
    counts = comparison.table["n"]
    boxes = f"; box: median and quartiles, of {BOX_SEEDS} seeds or more"
    return (
        "Dot and line: interquartile mean of the score over seeds with its 95 % percentile bootstrap interval; small "
        f"dots: the seeds, {seed_count(counts)} per variant{boxes if counts.max() >= BOX_SEEDS else ''}. "
        f"Grey: {comparison.labels[comparison.baseline]}.{few_seeds_note(counts)}"
    )


def scores_figure(comparison: Comparison, colours: Colours) -> Figure:
    """Final scores: interquartile mean, its interval, the distribution of the seeds, the numbers."""
    table = comparison.table[comparison.table["n"] > 0].sort_values("iqm", ascending=comparison.better == "lower")
    names = short_names(comparison, table.index, NAME_WIDTH)
    ends = list(zip(table["iqm"], table["iqm_low"], table["iqm_high"], strict=True))
    rows = [
        Row(names[name], estimate, comparison.scores[name].dropna().to_numpy(), colours[name], True)
        for name, estimate in zip(table.index, ends, strict=True)
    ]
    digits = decimal_places(comparison.scores.to_numpy().ravel())
    columns = [
        ["IQM [95 %]", *(format_interval(*row, digits) for row in ends)],
        ["n", *(f"{n:g}" for n in table["n"])],
    ]
    title = f"Final scores{direction_note(comparison.better)}"
    return forest_plot(rows, columns, title, comparison.metric, scores_caption(comparison), boxes=True)


def forest_plot(
    rows: Sequence[Row],
    columns: Columns,
    title: str,
    label: str,
    caption: str,
    zero: bool = False,
    boxes: bool = False,
) -> Figure:
    """Rows from top to bottom, each as high as the longest name needs."""
    with theme():
        figure = Figure(figsize=(WIDTH, 3))
        axes = figure.add_subplot()
        text_height = max(row.name.count("\n") + 1 for row in rows) * LINE
        unit = text_height + ROW_END  # inches of a row, which is 1 on the y axis
        _lay_out(figure, axes, rows, columns, title, caption, unit)
        axes.set(ylim=(len(rows), 0), yticks=[], xlabel=label, ylabel="")
        _draw_seeds(axes, rows, boxes, (text_height + SEEDS) / unit, BOX / unit)
        for place, row in enumerate(rows):
            middle = place + (text_height + ESTIMATE) / unit
            _draw_estimate(axes, middle, row)
            if zero:
                axes.plot(
                    [0, 0], [place + text_height / unit, place + 1], "--", color=BASELINE, linewidth=0.8, zorder=1
                )
        axes.set(ylim=(len(rows), 0))
        axes.spines["left"].set_visible(False)
        axes.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
        light_grid(axes)
        _write_rows(axes, rows, columns, unit)
    return figure


def _draw_estimate(axes: Axes, y: float, row: Row) -> None:
    middle, low, high = row.estimate
    axes.plot([low, high], [y, y], color=row.colour, linewidth=1.8, zorder=4)
    face = row.colour if row.filled else "white"
    axes.plot(middle, y, "o", color=row.colour, markerfacecolor=face, markersize=5, zorder=5)


def _draw_seeds(axes: Axes, rows: Sequence[Row], boxes: bool, y: float, height: float) -> None:
    """A swarm of the seeds in each row, over a box where there are enough; `y`: where in its row, in rows."""
    seeds = [pd.DataFrame({"value": row.seeds, "y": place + y}) for place, row in enumerate(rows)]
    palette = {place + y: row.colour for place, row in enumerate(rows)}
    common = {"x": "value", "y": "y", "hue": "y", "palette": palette, "orient": "h", "native_scale": True}
    common |= {"legend": False, "ax": axes}
    many = [frame for frame in seeds if len(frame) >= BOX_SEEDS]
    if boxes and many:  # of the letter values only the quartiles; seaborn.boxplot calls what Matplotlib 3.13 drops
        look = {"k_depth": 1, "showfliers": False, "width": height, "saturation": 1, "linewidth": 0.6, "alpha": 0.25}
        seaborn.boxenplot(pd.concat(many), **common, **look, line_kws={"linewidth": 0.8, "color": INK})
    seaborn.swarmplot(pd.concat(seeds), **common, size=2.6, alpha=0.8, linewidth=0, warn_thresh=1, zorder=3)
    axes.set(ylabel="")


def _lay_out(figure, axes: Axes, rows: Sequence[Row], columns: Columns, title: str, caption: str, unit: float) -> None:
    widths = _column_widths(figure, columns)
    name = max(text_size(figure, row.name, TICK)[0] for row in rows)
    heading = text_size(figure, title, FONT, weight="bold")[0]
    width = max(WIDTH, name + sum(widths) + 3 * GAP, heading + 2 * GAP)
    caption, bottom = fit_caption(caption, width)
    top = 0.25 + 2 * LINE
    figure.set_size_inches(width, top + unit * len(rows) + bottom)
    set_margins(figure, 2 * GAP, GAP, bottom, top)
    write_title(figure, title)
    write_caption(figure, caption)


def _column_widths(figure: Figure, columns: Columns) -> list[float]:
    return [max(text_size(figure, text, NOTE)[0] for text in column) + GAP for column in columns]


def _write_rows(axes: Axes, rows: Sequence[Row], columns: Columns, unit: float) -> None:
    """Each row's name at the left, above its marks; its numbers at the right, below their headers."""
    figure = axes.figure
    across = axes.get_position().width * figure.get_figwidth()
    behind = {"facecolor": "white", "edgecolor": "none", "pad": 0.6}  # so that no line of the grid runs through it
    middle = 0.55 * LINE / unit
    look = {"transform": axes.get_yaxis_transform(), "va": "center", "bbox": behind, "zorder": 6}
    for place, row in enumerate(rows):
        y = place + middle * (row.name.count("\n") + 1)
        axes.text(-GAP / across, y, row.name, fontsize=TICK, ha="left", color=INK, weight="bold", **look)
    right = across
    for column, width in reversed(list(zip(columns, _column_widths(figure, columns), strict=True))):
        x = axes.get_position().x0 * figure.get_figwidth() + right
        add_text(figure, column[0], x, top_edge(axes) + LINE / 2, size=NOTE, weight="bold", va="center", ha="right")
        for place, text in enumerate(column[1:]):
            axes.text(right / across, place + middle, text, fontsize=NOTE, ha="right", **look)
        right -= width
