"""Figures of estimates: a row per variant with its interval and seeds, and two axes as a heat map."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
import seaborn
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from rlexp.analysis.data.metric_spec import direction_note
from rlexp.analysis.figures.inputs import Drawing, FigureInputs, NoData, require_different_scores
from rlexp.analysis.figures.layout import (
    BASELINE,
    FONT,
    GAP,
    INK,
    LINE,
    NOTE,
    TICK,
    WIDTH,
    add_text,
    few_seeds_note,
    fit_caption,
    light_grid,
    seed_count,
    set_frame,
    text_size,
    theme,
    variant_names,
    wrap_label,
    write_caption,
)
from rlexp.analysis.stats.comparison import Comparison
from rlexp.analysis.stats.formatting import DASH, decimal_places, format_corrected_p, format_interval, format_number
from rlexp.analysis.stats.secondary import axis_grid, pivot_axes
from rlexp.analysis.stats.significance import ALPHA

ESTIMATE, SEEDS, ROW_END = 0.1, 0.25, 0.36  # inches below a row's text: the estimate, its seeds, the next row
BOX = 0.16  # inches of height of a box
NAME_WIDTH = 26  # characters
BOX_SEEDS = 5  # fewer have no quartiles to speak of

Interval = tuple[float, float, float]  # the estimate, and both ends


class Row(NamedTuple):
    """One row: wrapped name, estimate, the seeds' values, color, and whether the mark is filled."""

    name: str
    estimate: Interval
    seeds: np.ndarray
    color: str
    filled: bool


def draw_effects(inputs: FigureInputs) -> Drawing:
    """Draw paired differences to the baseline with their intervals, the seeds and the numbers, the best first."""
    comparison = inputs.comparison
    if not (comparison.table["n_pairs"] > 0).any():
        raise NoData("no variant shares a seed with the baseline")
    require_different_scores(comparison, allow_one=True)
    counts = comparison.table.loc[comparison.others, "n_pairs"]
    caption = (
        f"Dot and line: mean difference over paired seeds to {comparison.labels[comparison.baseline]} with its 95 % "
        f"paired t interval (not adjusted); small dots: the seeds, {seed_count(counts)} per variant. "
        f"Filled: p < {ALPHA:g} by sign flips, corrected by Holm over the variants shown.{few_seeds_note(counts)}"
    )
    if not comparison.paired:
        caption = (
            f"Dot and line: difference of the mean to that of {comparison.labels[comparison.baseline]} with its 95 % "
            f"Welch t interval (not adjusted), over runs that are not paired. Filled: p < {ALPHA:g} by permutation, "
            "corrected by Holm over the variants shown."
        )
    alt_text, table = _best_first(comparison, comparison.others, "difference", "n_pairs")
    rows = [
        Row(row["name"], row["ends"], comparison.differences(variant), inputs.colors[variant], row["p_holm"] < ALPHA)
        for variant, row in table.iterrows()
    ]
    columns = {"difference [95 %]": list(table["text"]), "p (Holm)": format_corrected_p(comparison, table)}
    baseline = variant_names(comparison, [comparison.baseline], 40, 1)[comparison.baseline]
    title = f"Difference to {baseline}{direction_note(comparison.better)}"
    label = f"{'paired ' * comparison.paired}difference in {comparison.metric}"
    return Drawing(caption, alt_text, forest_plot(rows, columns, title, label, caption, zero=True))


def draw_scores(inputs: FigureInputs) -> Drawing:
    """Draw final scores: interquartile mean, its interval, the distribution of the seeds, the numbers."""
    comparison, counts = inputs.comparison, inputs.comparison.table["n"]
    if not (counts > 0).any():
        raise NoData("no run has a score")
    require_different_scores(comparison, allow_one=True)
    boxes = f"; box: median and quartiles, of {BOX_SEEDS} seeds or more" if counts.max() >= BOX_SEEDS else ""
    caption = (
        "Dot and line: interquartile mean of the score over seeds with its 95 % percentile bootstrap interval; small "
        f"dots: the seeds, {seed_count(counts)} per variant{boxes}. "
        f"Grey: {comparison.labels[comparison.baseline]}.{few_seeds_note(counts)}"
    )
    alt_text, table = _best_first(comparison, list(comparison.table.index), "iqm", "n")
    rows = [
        Row(row["name"], row["ends"], comparison.scores[variant].dropna().to_numpy(), inputs.colors[variant], True)
        for variant, row in table.iterrows()
    ]
    columns = {"IQM [95 %]": list(table["text"]), "n": [f"{n:g}" for n in table["n"]]}
    title = f"Final scores{direction_note(comparison.better)}"
    return Drawing(caption, alt_text, forest_plot(rows, columns, title, comparison.metric, caption, boxes=True))


def _best_first(comparison: Comparison, variants: Sequence[str], column: str, count: str) -> tuple[str, pd.DataFrame]:
    """Return an estimate of variants in words, and the rows that have one with their name, interval and its text."""
    table, digits = comparison.table.loc[variants], decimal_places(comparison.scores.to_numpy().ravel())
    ends = list(table[[column, f"{column}_low", f"{column}_high"]].itertuples(index=False, name=None))
    texts = [format_interval(*each, digits, signed=column == "difference") for each in ends]
    alt_text = "; ".join(f"{comparison.labels[name]}: {text}" for name, text in zip(variants, texts, strict=True))
    table = table.assign(ends=pd.Series(ends, table.index, dtype=object), text=texts)
    table = table[table[count] > 0].sort_values(column, ascending=comparison.better == "lower")
    return alt_text, table.assign(name=variant_names(comparison, table.index, NAME_WIDTH))


def forest_plot(
    rows: Sequence[Row],
    columns: dict[str, list[str]],
    title: str,
    label: str,
    caption: str,
    zero: bool = False,
    boxes: bool = False,
) -> Figure:
    """Draw rows from top to bottom, each as high as the longest name needs; columns: of text, by their header."""
    with theme():
        figure = Figure(figsize=(WIDTH, 3))
        axes = figure.add_subplot()
        widths = [max(text_size(figure, text, NOTE)[0] for text in (each, *columns[each])) + GAP for each in columns]
        name = max(text_size(figure, row.name, TICK)[0] for row in rows)
        heading = text_size(figure, title, FONT, weight="bold")[0]
        width = max(WIDTH, name + sum(widths) + 3 * GAP, heading + 2 * GAP)
        text_height = max(row.name.count("\n") + 1 for row in rows) * LINE
        unit = text_height + ROW_END  # inches of a row, which is 1 on the y axis
        set_frame(figure, (width, unit * len(rows)), 2 * GAP, GAP, 0.25 + 2 * LINE, caption, title)
        _draw_seeds(axes, rows, boxes, (text_height + SEEDS) / unit, BOX / unit)
        for place, row in enumerate(rows):
            draw_mark(axes, place + (text_height + ESTIMATE) / unit, row.estimate, row.color, row.filled, 1.8, 5)
            if zero:
                ends = [place + text_height / unit, place + 1]
                axes.plot([0, 0], ends, "--", color=BASELINE, linewidth=0.8, zorder=1)
        finish_forest(axes, len(rows), label)
        _write_rows(axes, rows, columns, widths, unit)
    return figure


def draw_mark(
    axes: Axes, y: float, estimate: Interval, color: str, filled: bool, linewidth: float, size: float
) -> None:
    """Draw an estimate and the line of its interval."""
    middle, low, high = estimate
    axes.plot([low, high], [y, y], color=color, linewidth=linewidth, zorder=4)
    axes.plot(middle, y, "o", color=color, markerfacecolor=color if filled else "white", markersize=size, zorder=5)


def finish_forest(axes: Axes, bottom: float, label: str) -> None:
    """Set the limits, the ticks and the label of rows that are drawn from 0 down to the bottom."""
    axes.set(ylim=(bottom, 0), yticks=[], xlabel=label, ylabel="")
    axes.spines["left"].set_visible(False)
    axes.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    light_grid(axes)


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


def _write_rows(
    axes: Axes, rows: Sequence[Row], columns: dict[str, list[str]], widths: Sequence[float], unit: float
) -> None:
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
    for (header, texts), width in reversed(list(zip(columns.items(), widths, strict=True))):
        x = box.x0 * figure.get_figwidth() + right
        add_text(figure, header, x, top, size=NOTE, weight="bold", va="center", ha="right")
        for place, text in enumerate(texts):
            axes.text(right / across, place + middle, text, fontsize=NOTE, ha="right", **look)
        right -= width


CELL_WIDTH, CELL_HEIGHT = 0.5, 0.3
DARKEST = 0.45  # of the color map's range: gray numbers stay readable on it
GRAY = "#595959"


class Cells(NamedTuple):
    """A quantity for each pair of choices: values and corrected p, each one row per first, one column per second."""

    values: pd.DataFrame
    p: pd.DataFrame


class HeatMapData(NamedTuple):
    """A sweep over two axes: their names, the two panels, and the cell that the others are compared with."""

    axes: tuple[str, str]
    difference: Cells
    interaction: Cells
    baseline: tuple[str, str]


def draw_heat_map(inputs: FigureInputs) -> Drawing:
    """Draw both panels with the same colors: red is less, blue is more, white is 0. The longer axis runs downwards."""
    comparison = inputs.comparison
    data = heat_map_data(comparison, inputs.interactions)
    if data is None:
        raise NoData("needs a sweep over exactly two axes, with each choice beside the baseline's other one")
    require_different_scores(comparison)
    if not (comparison.table["n_pairs"] > 0).any():
        raise NoData("no variant shares a seed with the baseline")
    pairs = comparison.table.loc[comparison.others, "n_pairs"]
    caption = (
        f"Left: mean paired difference in {comparison.heading} to the boxed cell, which is 0 by definition. Right: "
        "interaction, the mean over seeds of (both changed − only one) − (only the other − neither); 0 in the boxed "
        f"row and column. Blue: more, red: less. {seed_count(pairs)} paired seeds per cell. Bold black: "
        f"p (Holm) of a difference, q (BH) of an interaction below {ALPHA:g}; grey: not. Intervals of the differences "
        "are in the table."
    )
    values = data.interaction.values.stack().dropna()
    alt_text = "interactions: " + "; ".join(f"{a} and {b}: {value:+.3g}" for (a, b), value in values.items() if value)
    if data.difference.values.shape[1] > data.difference.values.shape[0]:
        turned = (Cells(cells.values.T, cells.p.T) for cells in (data.difference, data.interaction))
        data = HeatMapData(data.axes[::-1], *turned, data.baseline[::-1])
    with theme():
        return Drawing(caption, alt_text, _panels(caption, data, decimal_places(comparison.scores.to_numpy().ravel())))


def heat_map_data(comparison: Comparison, table: pd.DataFrame | None) -> HeatMapData | None:
    """Return both panels, if there are two axes, and cells beside the baseline in its row and in its column."""
    grid = axis_grid(comparison)
    if grid is None or table is None:
        return None
    cells = []
    for column in ("difference", "p_holm"):
        pivoted = pivot_axes(comparison, column)
        for axis in (0, 1):  # in the order of the numbers, if all are
            numbers = pd.to_numeric(pivoted.axes[axis], errors="coerce")
            if not np.isnan(numbers).any():
                pivoted = pivoted.take(np.argsort(numbers, kind="stable"), axis=axis)
        cells.append(pivoted.astype(float))
    a0, b0 = next(cell for cell, variant in grid.cells.items() if variant == comparison.baseline)
    difference, interaction = Cells(*cells), Cells(cells[0] * np.nan, cells[0] * np.nan)
    interaction.values.loc[a0, :], interaction.values.loc[:, b0] = 0.0, 0.0  # nothing is changed there, or one thing
    for _, row in table.iterrows():
        cell = row[grid.axes[0]], row[grid.axes[1]]
        interaction.values.loc[cell], interaction.p.loc[cell] = row["difference"], row["q"]
    return HeatMapData(grid.axes, difference, interaction, (a0, b0))


def _panels(caption: str, data: HeatMapData, digits: int) -> Figure:
    """Draw the panels beside each other if a page is wide enough, else below each other."""
    panels = {"difference": data.difference, "interaction": data.interaction}
    largest = max(abs(cells.values.to_numpy()[np.isfinite(cells.values)]).max(initial=0) for cells in panels.values())
    figure = Figure(figsize=(WIDTH, 3))
    row_names = [wrap_label(str(name), 22) for name in data.difference.values.index]
    column_names = [wrap_label(str(name), 14) for name in data.difference.values.columns]
    cell = max(CELL_WIDTH, max(text_size(figure, name, TICK)[0] for name in column_names) + GAP)
    row = max(CELL_HEIGHT, max(name.count("\n") + 1 for name in row_names) * LINE)
    across, up = len(column_names) * cell, len(row_names) * row
    left = max(text_size(figure, name, TICK)[0] for name in row_names) + 3 * GAP
    below = max(name.count("\n") + 1 for name in column_names) * LINE + 2 * LINE
    one_row = 2 * (left + across + GAP) <= WIDTH
    width = max(WIDTH, (2 if one_row else 1) * (left + across + GAP) + GAP)
    if not one_row:
        caption = caption.replace("Left:", "Above:").replace("Right:", "Below:")
    caption, _ = fit_caption(caption, width)
    foot = GAP + (caption.count("\n") + 2) * LINE
    height = up + below + 2 * LINE
    total = foot + (1 if one_row else 2) * height
    figure.set_size_inches(width, total)
    for place, (title, cells) in enumerate(panels.items()):
        x = left + (width / 2 if one_row and place else 0)
        y = foot + below + (height if not one_row and place == 0 else 0)
        axes = figure.add_axes((x / width, y / total, across / width, up / total))
        _draw_cells(axes, cells, data.baseline, (largest or 1) / DARKEST, digits)
        axes.set_xticklabels(column_names, rotation=0)
        axes.set_yticklabels(row_names, rotation=0)
        axes.set(xlabel=data.axes[1], ylabel=data.axes[0])
        add_text(figure, title, x, y + up + 0.6 * LINE, size=FONT, weight="bold", va="center")
    write_caption(figure, caption)
    return figure


def _draw_cells(axes: Axes, cells: Cells, baseline: tuple[str, str], limit: float, digits: int) -> None:
    """Draw colors and numbers, the first row at the bottom; black and bold where p is small, else gray."""
    values = cells.values
    numbers = values.map(lambda value: format_number(value, digits, signed=True))
    seaborn.heatmap(
        values, ax=axes, cmap="RdBu", vmin=-limit, vmax=limit, annot=numbers, fmt="", cbar=False,
        linewidths=0.8, linecolor="white", xticklabels=1, yticklabels=1, annot_kws={"size": NOTE, "color": GRAY},
    )  # fmt: skip
    axes.invert_yaxis()
    axes.tick_params(length=0)
    rows, columns = np.nonzero(np.isfinite(values.to_numpy()))  # seaborn writes no number into the other cells
    for text, p in zip(axes.texts, cells.p.to_numpy()[rows, columns], strict=True):
        if p < ALPHA:
            text.set(color="black", weight="bold")
    for row, column in np.argwhere(~np.isfinite(values.to_numpy())):
        axes.text(column + 0.5, row + 0.5, DASH, ha="center", va="center", fontsize=NOTE, color=GRAY)
    corner = list(values.columns).index(baseline[1]), list(values.index).index(baseline[0])
    axes.add_patch(Rectangle(corner, 1, 1, fill=False, edgecolor="black", linewidth=1.2, zorder=3, clip_on=False))
