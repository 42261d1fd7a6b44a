"""Comparisons as text: tables on the terminal, as Markdown, LaTeX and CSV; verdicts, notes and problems.

Long tables have a row per arm and stratum, wide ones a cell; those of interactions a row per pair of choices.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rlexp.analysis.data.load import SweepData
from rlexp.analysis.data.read import printable
from rlexp.analysis.report.summary import summarize
from rlexp.analysis.stats.answer import Answer
from rlexp.analysis.stats.comparison import Comparison, can_be_significant
from rlexp.analysis.stats.formatting import (
    DASH,
    decimal_places,
    format_corrected_p,
    format_difference,
    format_fraction,
    format_interval,
    format_number,
    format_p,
    format_size,
    format_win_rate,
)
from rlexp.analysis.stats.secondary import pivot_axes
from rlexp.analysis.stats.verdicts import Verdict

LATEX = str.maketrans(
    {character: rf"\{character}" for character in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    | {"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", '"': r"\char34{}", "-": "-{}"}
    | {"`": r"\textasciigrave{}", "'": r"\textquotesingle{}"}
    | {"−": "$-$", "±": r"$\pm$", "–": r"\textendash{}", "∞": r"$\infty$", "≥": r"$\geq$", "×": r"$\times$"}
)
WIDE_CELLS = {"iqm": ("iqm", "iqm_low", "iqm_high"), "difference": ("difference", "difference_low", "difference_high")}


class TextTable(NamedTuple):
    """A table as strings; the first column is text, the others are numbers."""

    headers: list[str]
    rows: list[list[str]]


def comparison_table(comparison: Comparison) -> TextTable:
    """Return all columns of a comparison; a sweep with one variant has only levels."""
    digits = decimal_places(comparison.scores.to_numpy().ravel())
    corrected = format_corrected_p(comparison, comparison.table) if comparison.others else comparison.table.index
    unfinished = comparison.table["unfinished"].any()
    rows = []
    for (variant, row), p in zip(comparison.table.iterrows(), corrected, strict=True):
        cells = {"n": f"{row['n']:g}"}
        if comparison.ranked:
            cells["arrived"] = format_fraction(row["arrived"], row["n"])
            cells["median"] = format_number(row["median"], digits)
        cells["IQM [95 %]"] = format_interval(row["iqm"], row["iqm_low"], row["iqm_high"], digits)
        if comparison.others:
            effects = {
                "difference [95 %]": format_difference(row, digits),
                "effect": format_number(row["effect_size"], 2, signed=True),
                **({"win rate [95 %]": format_win_rate(row)} if comparison.better else {}),
                "p": format_p(row["p"]) if can_be_significant(row, 1) else DASH,
                "p (Holm)": p,
                "detectable": format_size(row["detectable"], digits),
                **({"decided": comparison.decision(variant)} if comparison.sequential else {}),
            }
            if variant == comparison.baseline:
                effects = dict.fromkeys(effects, "") | {"difference [95 %]": "baseline"}
            cells |= effects
        cells["collapsed"] = format_fraction(row["collapsed"], row["collapsed_of"])
        cells["failed"] = format_fraction(row["failed"], row["runs"])
        if unfinished:
            cells["unfinished"] = format_fraction(row["unfinished"], row["runs"])
        rows.append([comparison.labels[variant], *cells.values()])
    return TextTable([comparison.axis, *cells], rows)


def interaction_table(table: pd.DataFrame) -> TextTable:
    """Return the interactions of two axes, which are the first two columns: one row per pair of choices."""
    axes = table.columns[:2]
    digits = decimal_places(table[["difference", "difference_low", "difference_high"]].to_numpy().ravel())
    family = int((table["n_pairs"] > 0).sum())
    rows = [
        [
            " × ".join(f"{axis}={row[axis]}" for axis in axes),
            f"{row['n_pairs']:g}",
            format_difference(row, digits),
            format_number(row["effect_size"], 2, signed=True),
            format_p(row["p_holm"]) if can_be_significant(row, family) else DASH,
            format_size(row["detectable"], digits),
        ]
        for _, row in table.iterrows()
    ]
    return TextTable(["interaction", "n", "difference [95 %]", "effect", "p (Holm)", "detectable"], rows)


def long_table(comparisons: Sequence[Comparison]) -> TextTable:
    """Put the tables below each other; several get a first column that names the stratum of each row."""
    tables = [comparison_table(comparison) for comparison in comparisons]
    if len(tables) == 1:
        return tables[0]
    pairs = zip(comparisons, tables, strict=True)
    rows = [[comparison.stratum, *row] for comparison, table in pairs for row in table.rows]
    return TextTable(["stratum", *tables[0].headers], rows)


def wide_text(comparisons: Sequence[Comparison], what: str, across: str | None = None) -> TextTable | None:
    """Return a cell per arm and stratum, or per pair of choices on two axes: IQM or difference, with its interval.

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
    """Turn a column of the long table: arms × strata, or the two axes of a single stratum; None if it has not two."""
    if len(comparisons) == 1:
        return pivot_axes(comparisons[0], column, across)
    first = comparisons[0]
    columns = {comparison.stratum: comparison.table[column].rename(comparison.labels) for comparison in comparisons}
    return pd.DataFrame(columns).rename_axis(index=first.axis)


def verdict_table(verdicts: Sequence[Verdict]) -> TextTable:
    """Return one row per expectation of a study: what was claimed, what came out, the verdict."""
    rows = [[claim_text(verdict), verdict.reason, verdict.verdict] for verdict in verdicts]
    return TextTable(["claim", "result", "verdict"], rows)


def claim_text(verdict: Verdict) -> str:
    """Return the claim; a control is called so."""
    return f"control: {verdict.claim}" if verdict.control else verdict.claim


def select_columns(table: TextTable, headers: Iterable[str]) -> TextTable:
    """Return the named columns, in the table's order."""
    wanted = set(headers)
    places = [place for place, header in enumerate(table.headers) if header in wanted]
    return TextTable([table.headers[i] for i in places], [[row[i] for i in places] for row in table.rows])


def markdown(table: TextTable) -> str:
    """Format as a GitHub table."""
    rule = ["---"] + ["---:"] * (len(table.headers) - 1)
    headers, *rows = (list(map(markdown_text, line)) for line in (table.headers, *table.rows))
    return "\n".join("| " + " | ".join(line) + " |" for line in (headers, rule, *rows)) + "\n"


def markdown_text(text: str) -> str:
    """Escape a text so that it is shown as it is, in one line: no HTML, no link, no new cell."""
    line = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;")
    return line.replace("](", r"]\(").replace("|", r"\|")


def csv_text(frame: pd.DataFrame, index: bool = True) -> str:
    """Return a frame as CSV in which no text is a formula to a spreadsheet: what begins as one gets an apostrophe."""
    texts = frame.map(_no_formula)
    if index:
        texts.index = frame.index.map(_no_formula)
        texts.index.names = frame.index.names
    return texts.rename(columns=_no_formula).to_csv(index=index)


def _no_formula(value: object) -> object:
    if isinstance(value, tuple):  # of several levels of an index
        return tuple(map(_no_formula, value))
    if not isinstance(value, str):
        return value
    text = printable(value)
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


def latex(table: TextTable) -> str:
    r"""Format as a booktabs tabular; needs `\usepackage{booktabs}`."""

    def cell(text: str) -> str:
        """Escape; at the start of a row, `[` or `*` would be read as an argument of the line break before it."""
        escaped = " ".join(text.split()).translate(LATEX)
        return "{}" + escaped if escaped.startswith(("[", "*")) else escaped

    lines = [" & ".join(map(cell, line)) + r" \\" for line in (table.headers, *table.rows)]
    head = rf"\begin{{tabular}}{{l{'r' * (len(table.headers) - 1)}}}"
    return "\n".join([head, r"\toprule", lines[0], r"\midrule", *lines[1:], r"\bottomrule", r"\end{tabular}", ""])


DROP_ORDER = ["p", "effect", "win rate [95 %]", "detectable", "n", "failed", "collapsed", "IQM [95 %]"]
SPACE = 2
VERDICT_COLORS = {"reproduced": "green", "reversed": "red", "practically equal": "cyan", "not reproduced": "red"}
MAX_PROBLEMS = 20


def fit_to_width(table: TextTable, width: int) -> TextTable:
    """Drop as many of the least needed columns as it takes to fit into a terminal."""
    counts = [row[0] for row in select_columns(table, ["failed"]).rows if row]
    order = DROP_ORDER if any(not cell.startswith(("0/", DASH)) for cell in counts) else ["failed", *DROP_ORDER]
    for dropped in order:
        first, *others = (max(map(len, column)) + SPACE for column in zip(table.headers, *table.rows, strict=True))
        if min(first, 32) + sum(others) <= width:
            break
        table = select_columns(table, [header for header in table.headers if header != dropped])
    return table


class Terminal(Console):
    """The console of a command. Rich's own ends the command with exit code 1 once its output is closed."""

    def on_broken_pipe(self) -> None:
        """Leave it to ``data.errors.ends_in_a_line``."""
        raise BrokenPipeError


def print_table(table: TextTable, console: Console, title: str | None = None) -> None:
    """Print numbers unbroken at the right, long names folded. Names are never read as markup."""
    printed = Table(title=title and Text(title), title_justify="left", box=box.SIMPLE_HEAD, show_edge=False)
    printed.padding = (0, SPACE - 1, 0, 0)
    for place, header in enumerate(table.headers):
        printed.add_column(Text(header), justify="left" if place == 0 else "right", no_wrap=place > 0, overflow="fold")
    for row in table.rows:
        printed.add_row(*map(Text, row))
    console.print(printed)


def print_answer(
    console: Console, data: SweepData, result: Answer, wide: str | None = None, page: str | None = None
) -> None:
    """Print summary, tables, verdicts, notes (or on which page they are) and problems on the terminal."""
    summary = summarize(data, result)
    titled = {"What was asked": [summary.question], "What came out": summary.findings, "How sure": summary.confidence}
    for title, lines in titled.items():
        console.print(Text(f"{title}: ", style="bold") + Text("\n  ".join(lines)))
    console.print()
    sweep = " + ".join(result.data.runs["sweep"].unique())
    for comparison in [*result.comparisons, *([result.pooled] if result.pooled else [])]:
        _print_fitted(console, comparison_table(comparison), f"{sweep}: {comparison.heading}", comparison.stratum)
    for comparison, table in zip(result.comparisons, result.interactions, strict=True):
        if table is not None:
            title = "interactions: difference of differences"
            _print_fitted(console, interaction_table(table), title, comparison.stratum)
    for what in WIDE_CELLS if wide else ():
        _print_fitted(console, wide_text(result.comparisons, what, wide), what)
    for verdict in result.verdicts:
        style = VERDICT_COLORS.get(verdict.verdict, "yellow")
        console.print(Text(f"{verdict.verdict}: ", style=style) + Text(claim_text(verdict)))
        console.print(Text(f"    {verdict.reason}"))
    folded = f"{len(result.notes)} notes on how the numbers were made and what they cannot show: {page}"
    for note in [folded] if page else result.notes:
        console.print(Text(f"- {note}", style="dim"))
    if problems := data.problems:
        console.print(Text(f"{len(problems)} problem{'s' * (len(problems) > 1)}:", style="bold red"))
    for problem in problems[:MAX_PROBLEMS]:
        console.print(Text(f"  {problem.run}: {problem.reason}"), soft_wrap=True)
    if len(problems) > MAX_PROBLEMS:
        console.print(f"  and {len(problems) - MAX_PROBLEMS} more, see runs.csv and table.md")


def _print_fitted(console: Console, table: TextTable | None, *title: str) -> None:
    if table is not None:
        print_table(fit_to_width(table, console.width), console, ", ".join(filter(None, title)))


def print_files(console: Console, files: Sequence[Path], folder: str) -> None:
    """Print the files of a folder in one line: `runs/a/analysis: table (csv md tex)  runs (csv)`."""
    endings: dict[str, list[str]] = {}
    for file in files:
        endings.setdefault(file.stem, []).append(file.suffix.lstrip("."))
    listed = "  ".join(f"{stem} ({' '.join(found)})" for stem, found in endings.items())
    console.print(Text(f"{folder}: {listed}", style="dim"))
