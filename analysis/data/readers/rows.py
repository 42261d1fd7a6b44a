"""Logged objects to a table of numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from rlexp.analysis.data.errors import printable
from rlexp.analysis.data.read import LARGEST

if TYPE_CHECKING:
    import pandas as pd

AT_ONCE = 20_000  # rows that are held as Python objects


def number_table(rows: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """A column of floats per number that any row has, `[rows, columns]`; nested ones as `a.b`. The rest is left out.

    Args:
        rows: objects as they were logged; a million of them take no more memory than their numbers.
    """
    import pandas as pd

    parts, chunk = [], []
    for row in rows:
        chunk.append(dict(_numbers(row)))
        if len(chunk) == AT_ONCE:
            parts.append(pd.DataFrame.from_records(chunk).astype(float))
            chunk = []
    if chunk:
        parts.append(pd.DataFrame.from_records(chunk).astype(float))
    table = pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()
    table.columns = [printable(str(name)) for name in table.columns]
    return table.where(table.abs() <= LARGEST)


def _numbers(row: Mapping[str, Any], path: str = "") -> Iterable[tuple[str, float]]:
    for key, value in row.items():
        if isinstance(value, int | float):
            yield f"{path}{key}", float(value)
        elif isinstance(value, Mapping):
            yield from _numbers(value, f"{path}{key}.")
