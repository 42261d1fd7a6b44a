"""A worked example as a table, and what the examples of all documents share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table as Drawn
from torch import Tensor

from rlexp.axes import AXES

Cell = str | float | bool
NO_BOUND = torch.tensor(torch.inf)  # of log-ratios: the documents have none


class Table(NamedTuple):
    """A worked example: ``title``, names of the columns, rows of as many cells, what is to be seen in it."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    note: str = ""


def numbers(values: Sequence) -> Tensor:
    """Return float64, so that what is printed is the formula's value and not its rounding."""
    return torch.tensor(values, dtype=torch.float64)


def advantages(groups: Sequence[Sequence[float | int]], norm: str, **hyperparameters: float | int) -> Tensor:
    """Return the advantages ``[P G]`` of rewards ``[P G]`` by a choice of ``norm``; every completion is kept."""
    rewards = numbers(groups)
    return AXES["norm"].functions[norm](rewards, torch.ones_like(rewards, dtype=torch.bool), **hyperparameters)


def ragged(lengths: Sequence[int]) -> Tensor:
    """Return the mask ``[1 G T]`` of completions of one prompt."""
    return torch.arange(max(lengths)) < torch.tensor(lengths).view(1, -1, 1)


def cell(value: Cell, decimals: int = 4) -> str:
    """Write a cell: four decimals without the zeros behind them, yes or no for a truth value."""
    if isinstance(value, str | bool):
        return value if isinstance(value, str) else ("no", "yes")[value]
    text = f"{value:.{decimals}f}".rstrip("0").rstrip(".")
    return "0" if text in ("-0", "") else text


def show(tables: Sequence[Table], console: Console) -> None:
    """Print tables, each with its note below it."""
    for table in tables:
        console.print(f"[bold]{escape(table.title)}[/]")
        drawn = Drawn(box=SIMPLE_HEAD, show_edge=False)
        for name, value in zip(table.columns, table.rows[0], strict=True):
            drawn.add_column(escape(name), justify="left" if isinstance(value, str) else "right")
        for row in table.rows:
            drawn.add_row(*(escape(cell(value)) for value in row))
        console.print(drawn)
        console.print(escape(table.note) + "\n" * bool(table.note))
