"""Two axes against each other: interactions, and tables with one axis in the rows and one in the columns."""

from typing import NamedTuple

import numpy as np
import pandas as pd

from rlexp.analysis.data.errors import AnalysisError
from rlexp.analysis.stats.columns import effect_columns
from rlexp.analysis.stats.comparison import Comparison, add_holm
from rlexp.analysis.stats.inference.paired import subtract
from rlexp.runfolder.variants import DEFAULT, parse_override, split_overrides, varying_keys


class AxisGrid(NamedTuple):
    """The two axes of a comparison and where on them each variant is."""

    axes: tuple[str, str]
    cells: dict[tuple[str, str], str]
    """Values on the two axes → variant."""


def axis_grid(comparison: Comparison) -> AxisGrid | None:
    """The two axes along which the variants differ; None if they differ along one, or along more than two."""
    overrides = {variant: split_overrides(variant) for variant in comparison.table.index}
    keys = varying_keys(overrides)
    if len(keys) != 2:
        return None
    choices = {variant: dict(map(parse_override, parts)) for variant, parts in overrides.items()}
    cells = {tuple(choice.get(key, DEFAULT) for key in keys): variant for variant, choice in choices.items()}
    return AxisGrid((keys[0], keys[1]), cells)


def interactions(comparison: Comparison) -> pd.DataFrame | None:
    """Difference of differences per seed, (y_ab - y_a0) - (y_0b - y_00), for each a and b that are not the baseline's.

    One row per variant with the values on both axes and the columns of `effect`; p is corrected over these rows.
    0: what the two choices bring adds up. None if there are not two axes, or no cell has its three partners.
    """
    grid = axis_grid(comparison)
    if grid is None:
        return None
    scores = comparison.scores
    a0, b0 = next(place for place, variant in grid.cells.items() if variant == comparison.baseline)
    rows = {}
    for (a, b), variant in grid.cells.items():
        partners = [grid.cells.get(place) for place in ((a, b0), (a0, b))]
        if a == a0 or b == b0 or None in partners:
            continue
        first, second = partners
        differences = interaction(scores, (variant, first), (second, comparison.baseline))
        rows[variant] = {grid.axes[0]: a, grid.axes[1]: b} | effect_columns(differences, test=comparison.paired_test)
    return add_holm(pd.DataFrame.from_dict(rows, orient="index").rename_axis("variant")) if rows else None


def interaction(scores: pd.DataFrame, pair: tuple[str, str], less: tuple[str, str]) -> np.ndarray:
    """By how much more the first pair of columns differs than the second, `[n]`, on the seeds that have all four."""
    first, second = (subtract(scores[one], scores[other]) for one, other in (pair, less))
    differences = subtract(first, second)
    return differences[~np.isnan(differences)]


def pivot_axes(comparison: Comparison, column: str, across: str | None = None) -> pd.DataFrame | None:
    """A column of the table with one axis in the rows and the other (`across`, the second unless named) in the columns.

    Missing combinations are NaN. None if there are not two axes.
    """
    grid = axis_grid(comparison)
    if grid is None:
        return None
    if across not in (None, *grid.axes):
        raise AnalysisError(f"'{across}' is not one of the two axes: {'  '.join(grid.axes)}")
    turned = across == grid.axes[0]
    rows: dict[str, dict[str, float]] = {}
    for (a, b), variant in grid.cells.items():
        row, place = (b, a) if turned else (a, b)
        rows.setdefault(row, {})[place] = comparison.table.loc[variant, column]
    names = grid.axes[::-1] if turned else grid.axes
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis(index=names[0], columns=names[1])
