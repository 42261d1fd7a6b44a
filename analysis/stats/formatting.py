"""Numbers as text: in tables, on figures and in sentences."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from rlexp.analysis.stats.comparison import Comparison, can_be_significant

DASH = "–"


def short_number(number: float) -> str:
    """Three digits: `0.713`, `−0.5`, `1,090`."""
    return f"{float(f'{number:.3g}') + 0.0:,g}".replace("-", "−")  # + 0.0: of −0 only the 0


def decimal_places(values: Iterable[float]) -> int:
    """Decimals that show three significant digits of the largest value: 3 for shares, 2 up to 10, 1 up to 100."""
    finite = [abs(value) for value in values if np.isfinite(value) and value]
    return int(np.clip(3 - np.ceil(np.log10(max(finite))), 0, 6)) if finite else 3


def format_number(value: float, digits: int, signed: bool = False) -> str:
    """A number with a true minus sign; NaN is a dash, and no digits but zeros carry no sign."""
    if value is None or np.isnan(value):
        return DASH
    if np.isinf(value):
        return "∞" if value > 0 else "−∞"
    text = f"{value:{'+' if signed else ''}.{digits}f}"
    return (text.lstrip("+-") if float(text) == 0 else text).replace("-", "−")


def format_interval(middle: float, low: float, high: float, digits: int, signed: bool = False) -> str:
    """`0.681 [0.660, 0.709]`; without its ends only the middle."""
    ends = "" if np.isnan(low) else f" [{format_number(low, digits, signed)}, {format_number(high, digits, signed)}]"
    return format_number(middle, digits, signed) + ends


def format_difference(row: pd.Series, digits: int) -> str:
    """The paired difference in a row of a table: `+0.164 [+0.142, +0.185]`."""
    return format_interval(row["difference"], row["difference_low"], row["difference_high"], digits, signed=True)


def format_size(value: float, digits: int) -> str:
    """A size that is above 0, and not shown as 0: `<0.001`."""
    least = 10.0**-digits
    return f"<{least:.{digits}f}" if 0 < value < least / 2 else format_number(value, digits)


def format_p(p: float) -> str:
    """Three decimals, or `<0.001`."""
    return DASH if np.isnan(p) else "<0.001" if p < 0.001 else f"{p:.3f}"


def format_fraction(part: float, whole: float) -> str:
    """`7/10`; halves (ties) as `7.5/10`."""
    return f"{part:g}/{whole:g}" if whole else DASH


def format_optional(value: Any, digits: int = 0) -> str:
    """A number of a run, which may be missing."""
    return DASH if pd.isna(value) else format_number(float(value), digits)


def yes_no(value: Any) -> str:
    """A truth value, which may be missing."""
    return DASH if pd.isna(value) else "yes" if value else "no"


def format_corrected_p(comparison: Comparison, table: pd.DataFrame) -> list[str]:
    """Holm's p, or q, of each row; a dash, not "not significant", where so few seeds could not reach 0.05."""
    column = "q" if "q" in table else "p_holm"
    return [
        format_p(row[column]) if can_be_significant(row, comparison.family) else DASH for _, row in table.iterrows()
    ]


def format_win_rate(row: pd.Series) -> str:
    """`9/10 [0.60, 0.98]`."""
    ends = "" if np.isnan(row["win_low"]) else f" [{row['win_low']:.2f}, {row['win_high']:.2f}]"
    return format_fraction(row["wins"], row["n_pairs"]) + ends
