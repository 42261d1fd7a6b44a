"""A comparison as text: one list of columns, written to the terminal, Markdown, LaTeX and CSV."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from analysis.comparison import Comparison
from analysis.notes import reachable
from analysis.verdict import Verdict

NOTHING = "–"
LATEX = str.maketrans(
    {character: rf"\{character}" for character in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    | {"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", '"': r"\char34{}", "-": "-{}"}
    | {"`": r"\textasciigrave{}", "'": r"\textquotesingle{}"}
    | {"−": "$-$", "±": r"$\pm$", "–": r"\textendash{}", "∞": r"$\infty$", "≥": r"$\geq$", "×": r"$\times$"}
)


class Grid(NamedTuple):
    """A table as strings; the first column is text, the others are numbers."""

    headers: list[str]
    rows: list[list[str]]


def decimals(values: Iterable[float]) -> int:
    """Decimals that show three significant digits of the largest value: 3 for shares, 2 up to 10, 1 up to 100."""
    finite = [abs(value) for value in values if np.isfinite(value) and value]
    return int(np.clip(3 - np.ceil(np.log10(max(finite))), 0, 6)) if finite else 3


def number(value: float, digits: int, sign: bool = False) -> str:
    """A number with a true minus sign; NaN is a dash, and no digits but zeros carry no sign."""
    if value is None or np.isnan(value):
        return NOTHING
    if np.isinf(value):
        return "∞" if value > 0 else "−∞"
    text = f"{value:{'+' if sign else ''}.{digits}f}"
    return (text.lstrip("+-") if float(text) == 0 else text).replace("-", "−")


def interval(middle: float, low: float, high: float, digits: int, sign: bool = False) -> str:
    """`0.681 [0.660, 0.709]`; without its ends only the middle."""
    ends = "" if np.isnan(low) else f" [{number(low, digits, sign)}, {number(high, digits, sign)}]"
    return number(middle, digits, sign) + ends


def p_value(p: float) -> str:
    """Three decimals, or `<0.001`."""
    return NOTHING if np.isnan(p) else "<0.001" if p < 0.001 else f"{p:.3f}"


def share(part: float, whole: float) -> str:
    """`7/10`; halves (ties) as `7.5/10`."""
    return f"{part:g}/{whole:g}" if whole else NOTHING


def plain(value: Any, digits: int = 0) -> str:
    """A number of a run, which may be missing."""
    return NOTHING if pd.isna(value) else number(float(value), digits)


def yes_no(value: Any) -> str:
    """A truth value, which may be missing."""
    return NOTHING if pd.isna(value) else "yes" if value else "no"


def comparison_grid(comparison: Comparison) -> Grid:
    """All columns of a comparison; a sweep with one variant has only levels."""
    columns = _level_columns(comparison) | (_effect_columns(comparison) if comparison.others else {})
    columns |= _count_columns()
    rows = [
        [comparison.labels[variant]] + [cell(variant, row) for cell in columns.values()]
        for variant, row in comparison.table.iterrows()
    ]
    return Grid([comparison.axis, *columns], rows)


Cell = Callable[[str, pd.Series], str]


def _level_columns(comparison: Comparison) -> dict[str, Cell]:
    digits = decimals(comparison.scores.to_numpy().ravel())
    return {
        "n": lambda variant, row: f"{row['n']:g}",
        "IQM [95 %]": lambda variant, row: interval(row["iqm"], row["iqm_low"], row["iqm_high"], digits),
    }


def _effect_columns(comparison: Comparison) -> dict[str, Cell]:
    digits = decimals(comparison.scores.to_numpy().ravel())
    corrected = dict(zip(comparison.table.index, corrected_p(comparison, comparison.table), strict=True))

    def difference(variant: str, row: pd.Series) -> str:
        return interval(row["difference"], row["difference_low"], row["difference_high"], digits, sign=True)

    wins: dict[str, Cell] = {"win rate [95 %]": lambda variant, row: win_rate(row)}
    columns: dict[str, Cell] = {
        "difference [95 %]": difference,
        "effect": lambda variant, row: number(row["effect_size"], 2, sign=True),
        **(wins if comparison.better else {}),
        "p": lambda variant, row: p_value(row["p"]) if reachable(row, 1) else NOTHING,
        "p (Holm)": lambda variant, row: corrected[variant],
        "detectable": lambda variant, row: number(row["detectable"], digits),
    }
    return {header: _not_for(comparison.baseline, cell, header) for header, cell in columns.items()}


def _not_for(baseline: str, cell: Cell, header: str) -> Cell:
    own = "baseline" if header.startswith("difference") else ""
    return lambda variant, row: own if variant == baseline else cell(variant, row)


def corrected_p(comparison: Comparison, table: pd.DataFrame) -> list[str]:
    """Holm's p of each row of the table; a dash, not "not significant", where so few seeds could not reach 0.05."""
    return [p_value(row["p_holm"]) if reachable(row, comparison.family) else NOTHING for _, row in table.iterrows()]


def win_rate(row: pd.Series) -> str:
    """`9/10 [0.60, 0.98]`."""
    ends = "" if np.isnan(row["win_low"]) else f" [{row['win_low']:.2f}, {row['win_high']:.2f}]"
    return share(row["wins"], row["n_pairs"]) + ends


def _count_columns() -> dict[str, Cell]:
    return {
        "collapsed": lambda variant, row: share(row["collapsed"], row["collapsed_of"]),
        "failed": lambda variant, row: share(row["failed"], row["runs"]),
    }


def verdict_grid(verdicts: Sequence[Verdict]) -> Grid:
    """One row per expectation of a study: what was claimed, what came out, the verdict."""
    rows = [[verdict.claim, verdict.reason, verdict.verdict] for verdict in verdicts]
    return Grid(["claim", "result", "verdict"], rows)


def select(grid: Grid, headers: Iterable[str]) -> Grid:
    """The named columns of a grid, in the grid's order."""
    wanted = set(headers)
    places = [place for place, header in enumerate(grid.headers) if header in wanted]
    return Grid([grid.headers[i] for i in places], [[row[i] for i in places] for row in grid.rows])


LEAST_NEEDED_FIRST = ["p", "effect", "win rate [95 %]", "detectable", "n", "failed", "collapsed", "IQM [95 %]"]
SPACE = 2


def fit(grid: Grid, width: int) -> Grid:
    """The grid without as many of its least needed columns as it takes to fit into a terminal."""
    idle = [] if _counts_anything(grid, "failed") else ["failed"]
    for header in idle + [header for header in LEAST_NEEDED_FIRST if header not in idle]:
        if _width(grid) <= width:
            break
        grid = select(grid, [other for other in grid.headers if other != header])
    return grid


def _counts_anything(grid: Grid, header: str) -> bool:
    return any(not cell.startswith(("0/", NOTHING)) for row in select(grid, [header]).rows for cell in row)


def _width(grid: Grid) -> int:
    columns = zip(grid.headers, *grid.rows, strict=True)
    widths = [max(map(len, column)) + SPACE for column in columns]
    return min(widths[0], 32) + sum(widths[1:])


def print_grid(grid: Grid, console: Console, title: str | None = None) -> None:
    """The grid on the terminal: numbers unbroken at the right, long names folded. Names are never read as markup."""
    table = Table(title=title and Text(title), title_justify="left", box=box.SIMPLE_HEAD, show_edge=False)
    table.padding = (0, SPACE - 1, 0, 0)
    for place, header in enumerate(grid.headers):
        table.add_column(Text(header), justify="left" if place == 0 else "right", no_wrap=place > 0, overflow="fold")
    for row in grid.rows:
        table.add_row(*map(Text, row))
    console.print(table)


def print_verdicts(verdicts: Sequence[Verdict], console: Console) -> None:
    """One block of lines per expectation: verdict, claim, numbers."""
    colours = {"reproduced": "green", "reversed": "red", "not reproduced": "red"}
    for verdict in verdicts:
        console.print(Text(f"{verdict.verdict}: ", style=colours.get(verdict.verdict, "yellow")) + Text(verdict.claim))
        console.print(Text(f"    {verdict.reason}"))


def markdown(grid: Grid) -> str:
    """A GitHub table."""
    lines = [grid.headers, ["---"] + ["---:"] * (len(grid.headers) - 1), *grid.rows]
    return "\n".join("| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |" for line in lines) + "\n"


def latex(grid: Grid) -> str:
    r"""A booktabs tabular; needs `\usepackage{booktabs}`."""
    lines = [" & ".join(map(_latex_cell, line)) + r" \\" for line in (grid.headers, *grid.rows)]
    head = rf"\begin{{tabular}}{{l{'r' * (len(grid.headers) - 1)}}}"
    return "\n".join([head, r"\toprule", lines[0], r"\midrule", *lines[1:], r"\bottomrule", r"\end{tabular}", ""])


def _latex_cell(text: str) -> str:
    """Escaped; at the start of a row, `[` or `*` would be read as an argument of the line break before it."""
    escaped = " ".join(text.split()).translate(LATEX)
    return "{}" + escaped if escaped.startswith(("[", "*")) else escaped
