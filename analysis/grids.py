"""Tables of more than one comparison, or of two axes: long (a row per arm and stratum), wide (a cell), interactions."""

from collections.abc import Sequence

import pandas as pd

from analysis.comparison import Comparison
from analysis.crossed import pivot
from analysis.notes import reachable
from analysis.tables import NOTHING, Grid, comparison_grid, decimals, interval, number, p_value


def interaction_grid(table: pd.DataFrame) -> Grid:
    """The interactions of two axes, which are the first two columns: one row per pair of choices."""
    axes = table.columns[:2]
    digits = decimals(table[["difference", "difference_low", "difference_high"]].to_numpy().ravel())
    family = int((table["n_pairs"] > 0).sum())
    rows = [
        [
            " × ".join(f"{axis}={row[axis]}" for axis in axes),
            f"{row['n_pairs']:g}",
            interval(row["difference"], row["difference_low"], row["difference_high"], digits, sign=True),
            number(row["effect_size"], 2, sign=True),
            p_value(row["p_holm"]) if reachable(row, family) else NOTHING,
            number(row["detectable"], digits),
        ]
        for _, row in table.iterrows()
    ]
    return Grid(["interaction", "n", "difference [95 %]", "effect", "p (Holm)", "detectable"], rows)


def long_grid(comparisons: Sequence[Comparison], header: str = "stratum") -> Grid:
    """The tables below each other; several ones get a first column that says of which stratum each row is."""
    grids = [comparison_grid(comparison) for comparison in comparisons]
    if len(grids) == 1:
        return grids[0]
    named = zip(comparisons, grids, strict=True)
    return Grid([header, *grids[0].headers], [[each.stratum, *row] for each, grid in named for row in grid.rows])


WIDE_CELLS = {"iqm": ("iqm", "iqm_low", "iqm_high"), "difference": ("difference", "difference_low", "difference_high")}


def wide_grid(comparisons: Sequence[Comparison], what: str, across: str | None = None) -> Grid | None:
    """One cell per arm and stratum, or per pair of choices on two axes: its IQM or its difference, with the interval.

    across: which of two axes is in the columns; the second unless named. None if there is one stratum and not two axes.
    """
    middle, low, high = (wide_table(comparisons, column, across) for column in WIDE_CELLS[what])
    if middle is None:
        return None
    digits, sign = decimals(middle.to_numpy(dtype=float).ravel()), what == "difference"

    def cell(row: str, column: str) -> str:
        ends = (float(table.loc[row, column]) for table in (middle, low, high))
        return interval(*ends, digits, sign)

    rows = [[str(row), *(cell(row, column) for column in middle)] for row in middle.index]
    corner = f"{middle.index.name} \\ {middle.columns.name}" if middle.columns.name else str(middle.index.name)
    return Grid([corner, *map(str, middle.columns)], rows)


def wide_table(comparisons: Sequence[Comparison], column: str, across: str | None = None) -> pd.DataFrame | None:
    """A column of the long table turned: arms × strata, or the two axes of a single stratum; None if it has not two."""
    if len(comparisons) == 1:
        return pivot(comparisons[0], column, across)
    first = comparisons[0]
    columns = {comparison.stratum: comparison.table[column].rename(comparison.labels) for comparison in comparisons}
    return pd.DataFrame(columns).rename_axis(index=first.axis)
