"""Tables, verdicts, notes and problems on the terminal."""

from collections.abc import Sequence
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from analysis.data.load import SweepData
from analysis.data.runs import Problem
from analysis.report.grids import WIDE_CELLS, interaction_table, wide_text
from analysis.report.summary import Summary, summarise
from analysis.report.tables import TextTable, claim_text, comparison_table, select_columns
from analysis.stats.answer import Answer
from analysis.stats.formatting import DASH
from analysis.stats.verdicts.judge import Verdict

DROP_ORDER = ["p", "effect", "win rate [95 %]", "detectable", "n", "failed", "collapsed", "IQM [95 %]"]
SPACE = 2
MAX_PROBLEMS = 20


def fit_to_width(table: TextTable, width: int) -> TextTable:
    """The table without as many of its least needed columns as it takes to fit into a terminal."""
    uninformative = [] if _has_counts(table, "failed") else ["failed"]
    for header in uninformative + [header for header in DROP_ORDER if header not in uninformative]:
        if _width(table) <= width:
            break
        table = select_columns(table, [other for other in table.headers if other != header])
    return table


def _has_counts(table: TextTable, header: str) -> bool:
    return any(not cell.startswith(("0/", DASH)) for row in select_columns(table, [header]).rows for cell in row)


def _width(table: TextTable) -> int:
    columns = zip(table.headers, *table.rows, strict=True)
    widths = [max(map(len, column)) + SPACE for column in columns]
    return min(widths[0], 32) + sum(widths[1:])


class Terminal(Console):
    """The console of a command. Rich's own ends it with exit code 1 where nobody reads it any more."""

    def on_broken_pipe(self) -> None:
        """Leave that to whoever ends the command (``data.errors.ends_in_a_line``)."""
        raise BrokenPipeError


def print_table(table: TextTable, console: Console, title: str | None = None) -> None:
    """Numbers unbroken at the right, long names folded. Names are never read as markup."""
    printed = Table(title=title and Text(title), title_justify="left", box=box.SIMPLE_HEAD, show_edge=False)
    printed.padding = (0, SPACE - 1, 0, 0)
    for place, header in enumerate(table.headers):
        printed.add_column(Text(header), justify="left" if place == 0 else "right", no_wrap=place > 0, overflow="fold")
    for row in table.rows:
        printed.add_row(*map(Text, row))
    console.print(printed)


def print_verdicts(verdicts: Sequence[Verdict], console: Console) -> None:
    """One block of lines per expectation: verdict, claim, numbers."""
    colours = {"reproduced": "green", "reversed": "red", "practically equal": "cyan", "not reproduced": "red"}
    for verdict in verdicts:
        style = colours.get(verdict.verdict, "yellow")
        console.print(Text(f"{verdict.verdict}: ", style=style) + Text(claim_text(verdict)))
        console.print(Text(f"    {verdict.reason}"))


def print_answer(
    console: Console, data: SweepData, result: Answer, wide: str | None = None, page: str | None = None
) -> None:
    """Summary, tables, verdicts, notes (or on which page they are) and problems on the terminal."""
    print_summary(console, summarise(data, result))
    sweep = " + ".join(result.data.runs["sweep"].unique())
    tables = [*result.comparisons, *([result.pooled] if result.pooled else [])]
    for comparison in tables:
        _print(console, comparison_table(comparison), f"{sweep}: {comparison.heading}", comparison.stratum)
    for comparison, table in zip(result.comparisons, result.interactions, strict=True):
        if table is not None:
            _print(console, interaction_table(table), "interactions: difference of differences", comparison.stratum)
    for what in WIDE_CELLS if wide else ():
        _print(console, wide_text(result.comparisons, what, wide), what)
    print_verdicts(result.verdicts, console)
    folded = f"{len(result.notes)} notes on how the numbers were made and what they cannot show: {page}"
    for remark in [folded] if page else result.notes:
        console.print(Text(f"- {remark}", style="dim"))
    _print_problems(console, data.problems)


def print_summary(console: Console, summary: Summary) -> None:
    """What was asked, what came out, how sure that is."""
    titled = {"What was asked": [summary.asked], "What came out": summary.found, "How sure": summary.sure}
    for title, lines in titled.items():
        console.print(Text(f"{title}: ", style="bold") + Text("\n  ".join(lines)))
    console.print()


def print_files(console: Console, files: Sequence[Path], folder: str) -> None:
    """The files of a folder in one line: `runs/a/analysis: table (csv md tex)  runs (csv)`."""
    endings: dict[str, list[str]] = {}
    for file in files:
        endings.setdefault(file.stem, []).append(file.suffix.lstrip("."))
    listed = "  ".join(f"{stem} ({' '.join(found)})" for stem, found in endings.items())
    console.print(Text(f"{folder}: {listed}", style="dim"))


def _print(console: Console, table: TextTable | None, *title: str) -> None:
    if table is not None:
        print_table(fit_to_width(table, console.width), console, ", ".join(filter(None, title)))


def _print_problems(console: Console, problems: Sequence[Problem]) -> None:
    if problems:
        console.print(Text(f"{len(problems)} problem{'s' * (len(problems) > 1)}:", style="bold red"))
    for problem in problems[:MAX_PROBLEMS]:
        console.print(Text(f"  {problem.run}: {problem.reason}"), soft_wrap=True)
    if len(problems) > MAX_PROBLEMS:
        console.print(f"  and {len(problems) - MAX_PROBLEMS} more, see runs.csv and table.md")
