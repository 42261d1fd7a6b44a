"""Two-axis sweeps: differences to the baseline cell, and what the axes do together beyond what each does alone."""

from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import TwoSlopeNorm
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from analysis.comparison import ALPHA, Comparison
from analysis.crossed import crossed, interactions, pivot
from analysis.forest import span
from analysis.labels import wrap
from analysis.layout import GAP, LINE, add_axes, at, captioned, write_caption
from analysis.style import FONT, FULL_WIDTH, NOTE, TICK, WIDTH, style, text_size
from analysis.tables import decimals, number

CELL_HEIGHT = 0.34
DARKEST = 0.45  # of the colour map's range: grey numbers stay readable on it


class Cells(NamedTuple):
    """A quantity for each pair of choices: values and corrected p, each one row per first, one column per second."""

    values: pd.DataFrame
    p: pd.DataFrame


class Cross(NamedTuple):
    """A sweep over two axes: their names, the two panels, and the cell that the others are compared with."""

    axes: tuple[str, str]
    difference: Cells
    interaction: Cells
    baseline: tuple[str, str]


def cross(comparison: Comparison) -> Cross | None:
    """Both panels, if there are two axes, and cells beside the baseline in its row and in its column."""
    places, table = crossed(comparison), interactions(comparison)
    if places is None or table is None:
        return None
    a0, b0 = next(place for place, variant in places.cells.items() if variant == comparison.baseline)
    difference = Cells(*(_sorted(pivot(comparison, column)) for column in ("difference", "p_holm")))
    empty = difference.values * np.nan
    interaction = Cells(empty.copy(), empty.copy())
    interaction.values.loc[a0, :], interaction.values.loc[:, b0] = 0.0, 0.0  # nothing is changed there, or one thing
    for _, row in table.iterrows():
        place = row[places.axes[0]], row[places.axes[1]]
        interaction.values.loc[place], interaction.p.loc[place] = row["difference"], row["p_holm"]
    return Cross(places.axes, difference, interaction, (a0, b0))


def _sorted(table: pd.DataFrame) -> pd.DataFrame:
    """Rows and columns in the order of their numbers, where all are numbers."""
    for axis in (0, 1):
        numbers = pd.to_numeric(table.axes[axis], errors="coerce")
        if not np.isnan(numbers).any():
            table = table.take(np.argsort(numbers, kind="stable"), axis=axis)
    return table.astype(float)


def heat_caption(comparison: Comparison) -> str:
    """What the colours and numbers of `heat_map` mean."""
    pairs = comparison.table.loc[comparison.others, "n_pairs"]
    return (
        f"Left: mean paired difference in {comparison.heading} to the boxed cell, which is 0 by definition. Right: "
        "interaction, the mean over seeds of (both changed − only one) − (only the other − neither); 0 in the boxed "
        f"row and column. Blue: more, red: less. {span(pairs)} paired seeds per cell. Bold black: p < {ALPHA:g} by "
        "sign flips, corrected by Holm over the cells of the panel; grey: not. Intervals of the differences are in the "
        "table."
    )


def heat_map(comparison: Comparison, found: Cross) -> Figure:
    """Both panels with the same colours: red is less, blue is more, white is 0."""
    panels = [("difference", found.difference), ("interaction", found.interaction)]
    largest = max([abs(cells.values.to_numpy()[np.isfinite(cells.values)]).max(initial=0) for _, cells in panels])
    reach = (largest or 1) / DARKEST
    norm = TwoSlopeNorm(0, -reach, reach)
    digits = decimals(comparison.scores.to_numpy().ravel())
    with style():
        return _panels(comparison, found, panels, norm, digits)


class Room(NamedTuple):
    """What one panel needs, in inches: for its cells, left of them and below them; and the texts that need it."""

    names: list[str]
    heads: list[str]
    cells: tuple[float, float]
    left: float
    below: float


def _room(figure: Figure, values: pd.DataFrame) -> Room:
    names, heads = [wrap(str(each), 22) for each in values.index], [wrap(str(each), 14) for each in values.columns]
    cell = max(0.56, max(text_size(figure, head, TICK)[0] for head in heads) + GAP)
    row = max(CELL_HEIGHT, max(name.count("\n") + 1 for name in names) * LINE)
    left = max(text_size(figure, name, TICK)[0] for name in names) + 4 * GAP
    below = max(head.count("\n") + 1 for head in heads) * LINE + 2 * LINE
    return Room(names, heads, (len(heads) * cell, len(names) * row), left, below)


def _panels(comparison: Comparison, found: Cross, panels, norm: TwoSlopeNorm, digits: int) -> Figure:
    """The panels beside each other if a page is wide enough, else below each other."""
    figure = Figure(figsize=(WIDTH, 3))
    room = _room(figure, found.difference.values)
    beside = 2 * (room.left + room.cells[0] + GAP) <= FULL_WIDTH
    width = max(WIDTH, (2 if beside else 1) * (room.left + room.cells[0] + GAP) + GAP)
    caption = heat_caption(comparison)
    if not beside:
        caption = caption.replace("Left:", "Above:").replace("Right:", "Below:")
    caption, _ = captioned(caption, width)
    foot = GAP + (caption.count("\n") + 2) * LINE
    panel = room.cells[1] + room.below + 2 * LINE
    figure.set_size_inches(width, foot + (1 if beside else 2) * panel)
    for place, (title, cells) in enumerate(panels):
        x = room.left + (width / 2 if beside and place else 0)
        y = foot + room.below + (panel if not beside and place == 0 else 0)
        axes = add_axes(figure, x, y, *room.cells)
        _cells(axes, cells, found.baseline, norm, digits)
        axes.set(xticks=range(len(room.heads)), xticklabels=room.heads, xlabel=found.axes[1])
        axes.set(yticks=range(len(room.names)), yticklabels=room.names, ylabel=found.axes[0])
        at(figure, title, x, y + room.cells[1] + 0.6 * LINE, size=FONT, weight="bold", va="center")
    write_caption(figure, caption)
    return figure


def _cells(axes: Axes, cells: Cells, baseline: tuple[str, str], norm: TwoSlopeNorm, digits: int) -> None:
    rows, columns = cells.values.shape
    colours = colormaps["RdBu"]
    axes.set(xlim=(-0.5, columns - 0.5), ylim=(-0.5, rows - 0.5))
    axes.tick_params(length=0)
    axes.spines[["left", "bottom"]].set_visible(False)
    for y, row in enumerate(cells.values.index):
        for x, column in enumerate(cells.values.columns):
            value = cells.values.loc[row, column]
            colour = colours(norm(value)) if np.isfinite(value) else "white"
            axes.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, facecolor=colour, edgecolor="white", linewidth=0.8))
            axes.text(x, y, number(value, digits, sign=True), ha="center", va="center", fontsize=NOTE,
                      **_look(cells.p.loc[row, column]))  # fmt: skip
    x, y = list(cells.values.columns).index(baseline[1]), list(cells.values.index).index(baseline[0])
    box = Rectangle((x - 0.5, y - 0.5), 1, 1, fill=False, edgecolor="black", linewidth=1.2, zorder=3, clip_on=False)
    axes.add_patch(box)


def _look(p: float) -> dict[str, str]:
    """Bold black where p is small, else grey."""
    return {"color": "black", "weight": "bold"} if p < ALPHA else {"color": "#595959"}
