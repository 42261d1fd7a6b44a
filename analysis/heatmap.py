"""Two-axis sweeps: differences to the baseline cell, and what the axes do together beyond what each does alone."""

from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import TwoSlopeNorm
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from analysis import statistics
from analysis.comparison import ALPHA, Comparison
from analysis.forest import span
from analysis.labels import wrap
from analysis.layout import GAP, LINE, at, captioned, write_caption
from analysis.load import RUN_COLUMNS, Data
from analysis.style import FONT, FULL_WIDTH, NOTE, TICK, WIDTH, style, text_size
from analysis.tables import decimals, number

CELL_HEIGHT = 0.34
DARKEST = 0.45  # of the colour map's range: grey numbers stay readable on it


class Cells(NamedTuple):
    """A quantity for each pair of choices: values and corrected p, each one row per first, one column per second."""

    values: pd.DataFrame
    p: pd.DataFrame


class Crossed(NamedTuple):
    """A sweep over two axes: which variant each cell is, and the cell that the others are compared with."""

    keys: tuple[str, str]
    variants: pd.DataFrame
    baseline: tuple[str, str]


def axes_of(data: Data) -> list[str]:
    """Override keys that vary between the variants."""
    return [column for column in data.runs.columns if column not in RUN_COLUMNS]


def crossed(data: Data, comparison: Comparison) -> Crossed | None:
    """The two axes of a sweep, if there are two, each cell is one variant, and the baseline's row and column exist."""
    keys = axes_of(data)
    if len(keys) != 2:
        return None
    first = data.runs.drop_duplicates("variant").set_index("variant")[keys]
    named = first.map(_shown)
    if named.duplicated().any() or len(named) <= max(named.nunique()):
        return None
    orders = [list(dict.fromkeys(_sorted(first[key]).map(_shown))) for key in keys]
    variants = named.reset_index().pivot(index=keys[0], columns=keys[1], values="variant")
    baseline = tuple(named.loc[comparison.baseline])
    variants = variants.reindex(index=orders[0], columns=orders[1])
    alone = variants.loc[baseline[0], :].notna().sum(), variants.loc[:, baseline[1]].notna().sum()
    return Crossed((keys[0], keys[1]), variants, baseline) if min(alone) > 1 else None


def _shown(value) -> str:
    missing = value is None or value is pd.NA or (isinstance(value, float) and np.isnan(value))
    return "default" if missing else f"{value:g}" if isinstance(value, float) else str(value)


def _sorted(column: pd.Series) -> pd.Series:
    return column.sort_values() if pd.api.types.is_numeric_dtype(column) else column


def differences(comparison: Comparison, cross: Crossed) -> Cells:
    """Mean paired difference of each cell to the baseline cell, which is exactly 0, and Holm's p."""
    table = comparison.table
    return Cells(
        cross.variants.map(lambda variant: table["difference"].get(variant, np.nan), na_action="ignore").astype(float),
        cross.variants.map(lambda variant: table["p_holm"].get(variant, np.nan), na_action="ignore").astype(float),
    )


def interactions(comparison: Comparison, cross: Crossed) -> Cells:
    """Mean over seeds of (y_ab − y_a0) − (y_0b − y_00), and its Holm-corrected sign-flip p; 0 where a or b is 0."""
    scores, (a0, b0) = comparison.scores, cross.baseline
    values, p = (pd.DataFrame(np.nan, cross.variants.index, cross.variants.columns) for _ in range(2))
    values.loc[a0, :], values.loc[:, b0] = 0.0, 0.0
    for a in values.index.drop(a0):
        for b in values.columns.drop(b0):
            corners = [cross.variants.loc[cell] for cell in ((a, b), (a, b0), (a0, b), (a0, b0))]
            if all(isinstance(corner, str) for corner in corners):
                ab, a_alone, b_alone, neither = (scores[corner] for corner in corners)
                seeds = ((ab - a_alone) - (b_alone - neither)).dropna().to_numpy(dtype=float)
                values.loc[a, b] = seeds.mean() if seeds.size else np.nan
                p.loc[a, b] = statistics.sign_flip_p(seeds)
    corrected = statistics.holm(p.to_numpy().ravel()).reshape(p.shape)
    return Cells(values, pd.DataFrame(corrected, p.index, p.columns))


def heat_caption(comparison: Comparison, cross: Crossed) -> str:
    """What the colours and numbers of `heat_map` mean."""
    pairs = comparison.table.loc[comparison.others, "n_pairs"]
    return (
        f"Left: mean paired difference in {comparison.metric} to the boxed cell, which is 0 by definition. Right: "
        "interaction, the mean over seeds of (both changed − only one) − (only the other − neither); 0 in the boxed "
        f"row and column. {span(pairs)} paired seeds per cell. Bold black: p < {ALPHA:g} by sign flips, corrected by "
        "Holm over the cells of the panel; grey: not. Intervals of the differences are in the table."
    )


def heat_map(comparison: Comparison, cross: Crossed) -> Figure:
    """Both panels with the same colours: red is less, blue is more, white is 0."""
    panels = [("difference", differences(comparison, cross)), ("interaction", interactions(comparison, cross))]
    largest = max([abs(cells.values.to_numpy()[np.isfinite(cells.values)]).max(initial=0) for _, cells in panels])
    reach = (largest or 1) / DARKEST
    norm = TwoSlopeNorm(0, -reach, reach)
    digits = decimals(comparison.scores.to_numpy().ravel())
    with style():
        return _panels(comparison, cross, panels, norm, digits)


def _panels(comparison: Comparison, cross: Crossed, panels, norm: TwoSlopeNorm, digits: int) -> Figure:
    figure = Figure(figsize=(WIDTH, 3))
    rows, columns = cross.variants.shape
    names = [wrap(str(name), 22) for name in cross.variants.index]
    heads = [wrap(str(name), 14) for name in cross.variants.columns]
    left = max(text_size(figure, name, TICK)[0] for name in names) + 4 * GAP
    cell = max(0.56, max(text_size(figure, head, TICK)[0] for head in heads) + GAP)
    below = max(head.count("\n") + 1 for head in heads) * LINE + 2 * LINE
    row_height = max(CELL_HEIGHT, max(name.count("\n") + 1 for name in names) * LINE)
    size = (columns * cell, rows * row_height)
    beside = 2 * (left + size[0]) + 2 * GAP <= FULL_WIDTH
    width = max(WIDTH, (2 if beside else 1) * (left + size[0] + GAP) + GAP)
    caption = heat_caption(comparison, cross)
    if not beside:
        caption = caption.replace("Left:", "Above:").replace("Right:", "Below:")
    caption, _ = captioned(caption, width)
    foot = GAP + (caption.count("\n") + 2) * LINE
    panel = size[1] + below + 2 * LINE
    figure.set_size_inches(width, foot + (1 if beside else 2) * panel)
    height = figure.get_figheight()
    for place, (title, cells) in enumerate(panels):
        x = left + (width / 2 if beside and place else 0)
        y = foot + below + (panel if not beside and place == 0 else 0)
        axes = figure.add_axes((x / width, y / height, size[0] / width, size[1] / height))
        _cells(axes, cells, cross.baseline, norm, digits)
        axes.set(xticks=range(columns), xticklabels=heads, yticks=range(rows), yticklabels=names)
        axes.set_xlabel(cross.keys[1])
        axes.set_ylabel(cross.keys[0])
        at(figure, title, x, y + size[1] + 0.6 * LINE, size=FONT, weight="bold", va="center")
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
