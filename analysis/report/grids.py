"""Tables of more than one comparison, or of two axes: long (a row per arm and stratum), wide (a cell), interactions."""

from collections.abc import Sequence

import pandas as pd

from analysis.report.tables import TextTable, comparison_table
from analysis.stats.comparison import Comparison, can_be_significant
from analysis.stats.formatting import DASH, decimal_places, format_interval, format_number, format_p, format_size
from analysis.stats.interactions import pivot_axes


def interaction_table(table: pd.DataFrame) -> TextTable:
    """The interactions of two axes, which are the first two columns: one row per pair of choices."""
    axes = table.columns[:2]
    digits = decimal_places(table[["difference", "difference_low", "difference_high"]].to_numpy().ravel())
    family = int((table["n_pairs"] > 0).sum())
    rows = [
        [
            " × ".join(f"{axis}={row[axis]}" for axis in axes),
            f"{row['n_pairs']:g}",
            format_interval(row["difference"], row["difference_low"], row["difference_high"], digits, signed=True),
            format_number(row["effect_size"], 2, signed=True),
            format_p(row["p_holm"]) if can_be_significant(row, family) else DASH,
            format_size(row["detectable"], digits),
        ]
        for _, row in table.iterrows()
    ]
    return TextTable(["interaction", "n", "difference [95 %]", "effect", "p (Holm)", "detectable"], rows)


def long_table(comparisons: Sequence[Comparison], header: str = "stratum") -> TextTable:
    """The tables below each other; several ones get a first column that says of which stratum each row is."""
    tables = [comparison_table(comparison) for comparison in comparisons]
    if len(tables) == 1:
        return tables[0]
    pairs = zip(comparisons, tables, strict=True)
    rows = [[comparison.stratum, *row] for comparison, table in pairs for row in table.rows]
    return TextTable([header, *tables[0].headers], rows)


WIDE_CELLS = {"iqm": ("iqm", "iqm_low", "iqm_high"), "difference": ("difference", "difference_low", "difference_high")}


def wide_text(comparisons: Sequence[Comparison], what: str, across: str | None = None) -> TextTable | None:
    """One cell per arm and stratum, or per pair of choices on two axes: its IQM or its difference, with the interval.

    across: which of two axes is in the columns; the second unless named. None if there is one stratum and not two axes.
    """
    middle, low, high = (wide_frame(comparisons, column, across) for column in WIDE_CELLS[what])
    if middle is None:
        return None
    digits, signed = decimal_places(middle.to_numpy(dtype=float).ravel()), what == "difference"

    def cell(row: str, column: str) -> str:
        ends = (float(table.loc[row, column]) for table in (middle, low, high))
        return format_interval(*ends, digits, signed)

    rows = [[str(row), *(cell(row, column) for column in middle)] for row in middle.index]
    corner = f"{middle.index.name} \\ {middle.columns.name}" if middle.columns.name else str(middle.index.name)
    return TextTable([corner, *map(str, middle.columns)], rows)


def wide_frame(comparisons: Sequence[Comparison], column: str, across: str | None = None) -> pd.DataFrame | None:
    """A column of the long table turned: arms × strata, or the two axes of a single stratum; None if it has not two."""
    if len(comparisons) == 1:
        return pivot_axes(comparisons[0], column, across)
    first = comparisons[0]
    columns = {comparison.stratum: comparison.table[column].rename(comparison.labels) for comparison in comparisons}
    return pd.DataFrame(columns).rename_axis(index=first.axis)
