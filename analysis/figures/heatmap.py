"""Two-axis sweeps: differences to the baseline cell, and what the axes do together beyond what each does alone."""

from typing import NamedTuple

import numpy as np
import pandas as pd
import seaborn
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from rlexp.analysis.figures.inputs import Drawing, FigureInputs, NoData, require_different_scores
from rlexp.analysis.figures.layout import GAP, LINE, add_text, fit_caption, seed_count, wrap_label, write_caption
from rlexp.analysis.figures.style import FONT, NOTE, TICK, WIDTH, text_size, theme
from rlexp.analysis.stats.comparison import Comparison
from rlexp.analysis.stats.formatting import DASH, decimal_places, format_number
from rlexp.analysis.stats.inference.significance import ALPHA
from rlexp.analysis.stats.secondary import axis_grid, interactions, pivot_axes

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
    data = heat_map_data(comparison)
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
        f"p < {ALPHA:g} by sign flips, corrected by Holm over the cells of the panel; grey: not. Intervals of the "
        "differences are in the table."
    )
    values = data.interaction.values.stack().dropna()
    alt_text = "interactions: " + "; ".join(f"{a} and {b}: {value:+.3g}" for (a, b), value in values.items() if value)
    if data.difference.values.shape[1] > data.difference.values.shape[0]:
        turned = (Cells(cells.values.T, cells.p.T) for cells in (data.difference, data.interaction))
        data = HeatMapData(data.axes[::-1], *turned, data.baseline[::-1])
    with theme():
        return Drawing(caption, alt_text, _panels(caption, data, decimal_places(comparison.scores.to_numpy().ravel())))


def heat_map_data(comparison: Comparison) -> HeatMapData | None:
    """Return both panels, if there are two axes, and cells beside the baseline in its row and in its column."""
    grid, table = axis_grid(comparison), interactions(comparison)
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
        interaction.values.loc[cell], interaction.p.loc[cell] = row["difference"], row["p_holm"]
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
