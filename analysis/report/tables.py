"""A comparison as text: one list of columns, written to the terminal, Markdown, LaTeX and CSV."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import pandas as pd

from analysis.data.read import printable
from analysis.stats.comparison import Comparison, can_be_significant
from analysis.stats.formatting import (
    DASH,
    decimal_places,
    format_corrected_p,
    format_fraction,
    format_interval,
    format_number,
    format_p,
    format_size,
    format_win_rate,
)
from analysis.stats.verdicts.judge import Verdict

LATEX = str.maketrans(
    {character: rf"\{character}" for character in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    | {"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", '"': r"\char34{}", "-": "-{}"}
    | {"`": r"\textasciigrave{}", "'": r"\textquotesingle{}"}
    | {"−": "$-$", "±": r"$\pm$", "–": r"\textendash{}", "∞": r"$\infty$", "≥": r"$\geq$", "×": r"$\times$"}
)


class TextTable(NamedTuple):
    """A table as strings; the first column is text, the others are numbers."""

    headers: list[str]
    rows: list[list[str]]


def comparison_table(comparison: Comparison) -> TextTable:
    """All columns of a comparison; a sweep with one variant has only levels."""
    columns = _level_columns(comparison) | (_effect_columns(comparison) if comparison.others else {})
    columns |= _count_columns(comparison)
    rows = [
        [comparison.labels[variant]] + [cell(variant, row) for cell in columns.values()]
        for variant, row in comparison.table.iterrows()
    ]
    return TextTable([comparison.axis, *columns], rows)


Cell = Callable[[str, pd.Series], str]


def _level_columns(comparison: Comparison) -> dict[str, Cell]:
    digits = decimal_places(comparison.scores.to_numpy().ravel())
    ranked: dict[str, Cell] = {
        "arrived": lambda variant, row: format_fraction(row["arrived"], row["n"]),
        "median": lambda variant, row: format_number(row["median"], digits),
    }
    return {
        "n": lambda variant, row: f"{row['n']:g}",
        **(ranked if comparison.ranked else {}),
        "IQM [95 %]": lambda variant, row: format_interval(row["iqm"], row["iqm_low"], row["iqm_high"], digits),
    }


def _effect_columns(comparison: Comparison) -> dict[str, Cell]:
    digits = decimal_places(comparison.scores.to_numpy().ravel())
    corrected = dict(zip(comparison.table.index, format_corrected_p(comparison, comparison.table), strict=True))

    def difference(variant: str, row: pd.Series) -> str:
        return format_interval(row["difference"], row["difference_low"], row["difference_high"], digits, signed=True)

    wins: dict[str, Cell] = {"win rate [95 %]": lambda variant, row: format_win_rate(row)}
    columns: dict[str, Cell] = {
        "difference [95 %]": difference,
        "effect": lambda variant, row: format_number(row["effect_size"], 2, signed=True),
        **(wins if comparison.better else {}),
        "p": lambda variant, row: format_p(row["p"]) if can_be_significant(row, 1) else DASH,
        "p (Holm)": lambda variant, row: corrected[variant],
        "detectable": lambda variant, row: format_size(row["detectable"], digits),
        **({"decided": lambda variant, row: comparison.decision(variant)} if comparison.sequential else {}),
    }
    return {header: _except_for(comparison.baseline, cell, header) for header, cell in columns.items()}


def _except_for(baseline: str, cell: Cell, header: str) -> Cell:
    baseline_cell = "baseline" if header.startswith("difference") else ""
    return lambda variant, row: baseline_cell if variant == baseline else cell(variant, row)


def _count_columns(comparison: Comparison) -> dict[str, Cell]:
    columns: dict[str, Cell] = {
        "collapsed": lambda variant, row: format_fraction(row["collapsed"], row["collapsed_of"]),
        "failed": lambda variant, row: format_fraction(row["failed"], row["runs"]),
    }
    if comparison.table["unfinished"].any():
        columns["unfinished"] = lambda variant, row: format_fraction(row["unfinished"], row["runs"])
    return columns


def verdict_table(verdicts: Sequence[Verdict]) -> TextTable:
    """One row per expectation of a study: what was claimed, what came out, the verdict."""
    rows = [[claim_text(verdict), verdict.reason, verdict.verdict] for verdict in verdicts]
    return TextTable(["claim", "result", "verdict"], rows)


def claim_text(verdict: Verdict) -> str:
    """What was claimed, and whether it is a control."""
    return f"control: {verdict.claim}" if verdict.control else verdict.claim


def select_columns(table: TextTable, headers: Iterable[str]) -> TextTable:
    """The named columns of a grid, in the grid's order."""
    wanted = set(headers)
    places = [place for place, header in enumerate(table.headers) if header in wanted]
    return TextTable([table.headers[i] for i in places], [[row[i] for i in places] for row in table.rows])


def markdown(table: TextTable) -> str:
    """A GitHub table."""
    rule = ["---"] + ["---:"] * (len(table.headers) - 1)
    headers, *rows = (list(map(markdown_text, line)) for line in (table.headers, *table.rows))
    return "\n".join("| " + " | ".join(line) + " |" for line in (headers, rule, *rows)) + "\n"


def markdown_text(text: str) -> str:
    """A text in one line that is shown as it is: no HTML, no link, no new cell."""
    line = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;")
    return line.replace("](", r"]\(").replace("|", r"\|")


def csv_text(frame: pd.DataFrame, index: bool = True) -> str:
    """A frame as CSV in which no text is a formula to a spreadsheet: one that begins as such gets an apostrophe."""
    texts = frame.map(_no_formula)
    if index:
        texts.index = frame.index.map(
            lambda key: tuple(map(_no_formula, key)) if isinstance(key, tuple) else _no_formula(key)
        )
        texts.index.names = frame.index.names
    return texts.rename(columns=_no_formula).to_csv(index=index)


def _no_formula(value: object) -> object:
    if not isinstance(value, str):
        return value
    text = printable(value)
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


def latex(table: TextTable) -> str:
    r"""A booktabs tabular; needs `\usepackage{booktabs}`."""
    lines = [" & ".join(map(_latex_cell, line)) + r" \\" for line in (table.headers, *table.rows)]
    head = rf"\begin{{tabular}}{{l{'r' * (len(table.headers) - 1)}}}"
    return "\n".join([head, r"\toprule", lines[0], r"\midrule", *lines[1:], r"\bottomrule", r"\end{tabular}", ""])


def _latex_cell(text: str) -> str:
    """Escaped; at the start of a row, `[` or `*` would be read as an argument of the line break before it."""
    escaped = " ".join(text.split()).translate(LATEX)
    return "{}" + escaped if escaped.startswith(("[", "*")) else escaped
