"""Logged objects to a table of numbers."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from rlexp.analysis.data.errors import printable
from rlexp.analysis.data.read import LARGEST

if TYPE_CHECKING:
    import pandas as pd


def number_table(rows: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """A column of floats per number that any row has, `[rows, columns]`; nested ones as `a.b`. The rest is left out.

    Args:
        rows: objects as they were logged. A million of them take no more memory than their numbers and places.
    """
    import numpy as np
    import pandas as pd

    columns: dict[str, tuple[array, array]] = {}  # places and numbers
    count = 0
    for row in rows:
        for key, value in _numbers(row):
            if key not in columns:
                columns[key] = (array("q"), array("d"))
            places, numbers = columns[key]
            places.append(count)
            numbers.append(value)
        count += 1
    table = {}
    for key, (places, numbers) in columns.items():
        column = np.full(count, np.nan)
        column[np.frombuffer(places, dtype=np.int64)] = np.frombuffer(numbers)
        table[printable(str(key))] = column
    return pd.DataFrame(table, index=pd.RangeIndex(count))


def _numbers(row: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, float]]:
    for key, value in row.items():
        if isinstance(value, int | float):
            yield (f"{path}{key}" if path else key), (value if -LARGEST <= value <= LARGEST else float("nan"))
        elif isinstance(value, Mapping):
            yield from _numbers(value, f"{path}{key}.")
