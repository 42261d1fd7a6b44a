"""One command from sweeps' folders to their answer: `python -m analysis.compare runs/<sweep>`."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.text import Text

from analysis.answer import Answer, Question, answer
from analysis.comparison import Comparison, compare, seed_scores
from analysis.files import write
from analysis.grids import WIDE_CELLS, interaction_grid, wide_grid
from analysis.load import Data, Problem, load
from analysis.read import AnalysisError
from analysis.tables import Grid, comparison_grid, fit, print_grid, print_verdicts
from analysis.verdict import Verdict, verdicts

__all__ = ["Comparison", "Question", "Report", "compare", "main", "report"]
MOST_PROBLEMS = 20
LONGEST_NAME = 100  # of a folder


class Report(NamedTuple):
    """What a report found and wrote."""

    data: Data
    comparison: Comparison
    """The first of the answer's."""
    verdicts: list[Verdict]
    notes: list[str]
    problems: list[Problem]
    files: list[Path]
    answer: Answer

    @property
    def exit_code(self) -> int:
        """1 if a run failed or is damaged, else 0."""
        return int(bool(self.problems))


def report(
    folders: str | Path | Sequence[str | Path],
    baseline: str | None = None,
    console: Console | None = None,
    metric: str | None = None,
    out: str | Path | None = None,
    wide: str | None = None,
    **choices: object,
) -> Report:
    """Compare a sweep's variants, print table, verdicts and notes, write tables and figures to `<folder>/analysis`.

    choices: other fields of `Question`; wide: print a table with this axis in the columns too. The baseline and metric
    of the configuration hold unless others are named. Runs that failed are left out and listed.
    Raises AnalysisError, one line, if nothing can be compared.
    """
    console = console or Console()
    question = Question(metric=metric, baseline=baseline, **choices)
    data = load(folders, metrics=_needed(question))
    study = data.study
    asked = metric or (None if question.matched else study.get("metric"))
    found = answer(data, question._replace(metric=asked))
    if wide and wide_grid(found.comparisons, "iqm", wide) is None:
        raise AnalysisError(f"nothing to lay out wide by '{wide}': there is one stratum, and not two axes")
    judged = verdicts(study, seed_scores(data, study.get("metric")), data.labels) if study else []
    show(console, data, found, judged, wide)
    files = write(Path(out) if out else _place(folders), found, judged, data.problems, wide)
    console.print()
    for path in files:
        console.print(Text(shown(path)), soft_wrap=True)
    return Report(data, found.comparisons[0], judged, found.notes, data.problems, files, found)


def _needed(question: Question) -> list[str]:
    return [name for name in (question.metric, question.matched and question.matched.metric) if name]


def _place(folders: str | Path | Sequence[str | Path]) -> Path:
    """`<folder>/analysis`; for several sweeps a folder in the first one's, named after the others."""
    first, *others = [folders] if isinstance(folders, str | Path) else list(folders)
    names = "+".join(Path(other).resolve().name for other in others)
    return Path(first) / "analysis" / (f"with {names}"[:LONGEST_NAME] if others else "")


def show(console: Console, data: Data, found: Answer, judged: Sequence[Verdict], wide: str | None = None) -> None:
    """Tables, verdicts, notes and problems on the terminal."""
    sweep = " + ".join(found.data.runs["sweep"].unique())
    tables = [*found.comparisons, *([found.pooled] if found.pooled else [])]
    for comparison in tables:
        _print(console, comparison_grid(comparison), f"{sweep}: {comparison.heading}", comparison.stratum)
    for comparison, table in zip(found.comparisons, found.interactions, strict=True):
        if table is not None:
            _print(console, interaction_grid(table), "interactions: difference of differences", comparison.stratum)
    for what in WIDE_CELLS if wide else ():
        _print(console, wide_grid(found.comparisons, what, wide), what)
    print_verdicts(judged, console)
    for remark in found.notes:
        console.print(Text(f"- {remark}", style="dim"))
    _print_problems(console, data.problems)


def _print(console: Console, grid: Grid | None, *title: str) -> None:
    if grid is not None:
        print_grid(fit(grid, console.width), console, ", ".join(filter(None, title)))


def _print_problems(console: Console, problems: Sequence[Problem]) -> None:
    if problems:
        console.print(Text(f"{len(problems)} problem{'s' * (len(problems) > 1)}:", style="bold red"))
    for problem in problems[:MOST_PROBLEMS]:
        console.print(Text(f"  {problem.run}: {problem.reason}"), soft_wrap=True)
    if len(problems) > MOST_PROBLEMS:
        console.print(f"  and {len(problems) - MOST_PROBLEMS} more, see runs.csv and table.md")


def shown(path: Path) -> str:
    """The path relative to the working directory if it lies inside, else in full."""
    path, here = path.resolve(), Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; 0: all runs are good, 1: some failed or are damaged (listed), 2: nothing could be compared."""
    from analysis.arguments import parse

    try:
        return report(**parse(arguments)).exit_code
    except AnalysisError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
