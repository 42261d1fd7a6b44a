"""Tables, verdicts, notes and problems on the terminal."""

from collections.abc import Sequence
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rlexp.analysis.data.load import SweepData
from rlexp.analysis.data.runs import Problem
from rlexp.analysis.report.summary import summarize
from rlexp.analysis.report.tables import (
    WIDE_CELLS,
    TextTable,
    claim_text,
    comparison_table,
    interaction_table,
    select_columns,
    wide_text,
)
from rlexp.analysis.stats.answer import Answer
from rlexp.analysis.stats.formatting import DASH

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
    _print_problems(console, data.problems)


def _print_problems(console: Console, problems: Sequence[Problem]) -> None:
    if problems:
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
