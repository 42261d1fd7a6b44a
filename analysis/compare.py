"""One command from a sweep's folder to its answer: `python -m analysis.compare runs/<sweep>`."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.text import Text

from analysis.comparison import Comparison, compare, seed_scores
from analysis.load import Data, Problem, load
from analysis.notes import notes
from analysis.read import AnalysisError
from analysis.tables import comparison_grid, fit, latex, markdown, print_grid, print_verdicts, verdict_grid
from analysis.variants import known
from analysis.verdict import Verdict, verdicts

__all__ = ["Comparison", "Report", "compare", "main", "report"]
MOST_PROBLEMS = 20


class Report(NamedTuple):
    """What a report found and wrote."""

    data: Data
    comparison: Comparison
    verdicts: list[Verdict]
    notes: list[str]
    problems: list[Problem]
    files: list[Path]

    @property
    def exit_code(self) -> int:
        """1 if a run failed or is damaged, else 0."""
        return int(bool(self.problems))


def report(
    folder: str | Path,
    baseline: str | None = None,
    console: Console | None = None,
    metric: str | None = None,
    out: str | Path | None = None,
) -> Report:
    """Compare a sweep's variants, print table, verdicts and notes, write tables and figures to `<folder>/analysis`.

    The baseline and metric of the configuration hold unless others are named. Runs that failed are left out and listed.
    Raises AnalysisError, one line, if nothing can be compared.
    """
    console = console or Console()
    data = load(folder, metrics=[metric] if metric else [])
    planned = data.planned_baseline
    baseline = baseline or (planned if planned and known(planned, data.labels) else None)
    comparison = compare(data, metric or data.study.get("metric"), baseline)
    judged = verdicts(data.study, seed_scores(data, data.study.get("metric")), data.labels)
    remarks = notes(data, comparison)
    show(console, data, comparison, judged, remarks)
    files = write(Path(out) if out else Path(folder) / "analysis", data, comparison, judged, remarks)
    console.print()
    for path in files:
        console.print(Text(shown(path)), soft_wrap=True)
    return Report(data, comparison, judged, remarks, data.problems, files)


def show(
    console: Console, data: Data, comparison: Comparison, judged: Sequence[Verdict], remarks: Sequence[str]
) -> None:
    """Table, verdicts, notes and problems on the terminal."""
    title = f"{data.folder.resolve().name}: {comparison.metric}"
    print_grid(fit(comparison_grid(comparison), console.width), console, title)
    print_verdicts(judged, console)
    for remark in remarks:
        console.print(Text(f"- {remark}", style="dim"))
    if data.problems:
        count = f"{len(data.problems)} problem{'s' * (len(data.problems) > 1)}:"
        console.print(Text(count, style="bold red"))
    for problem in data.problems[:MOST_PROBLEMS]:
        console.print(Text(f"  {problem.run}: {problem.reason}"), soft_wrap=True)
    if len(data.problems) > MOST_PROBLEMS:
        console.print(f"  and {len(data.problems) - MOST_PROBLEMS} more, see runs.csv")


def write(
    out: Path, data: Data, comparison: Comparison, judged: Sequence[Verdict], remarks: Sequence[str]
) -> list[Path]:
    """Tables and figures in a folder; the paths written."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        return _write_tables(out, data, comparison, judged, remarks) + _write_figures(out, data, comparison)
    except OSError as error:
        raise AnalysisError(f"cannot write to '{out}': {error.strerror or error}") from error


def _write_tables(
    out: Path, data: Data, comparison: Comparison, judged: Sequence[Verdict], remarks: Sequence[str]
) -> list[Path]:
    import pandas as pd

    grid = comparison_grid(comparison)
    below = [*remarks, *(f"{problem.run}: {problem.reason}" for problem in data.problems)]
    texts = {
        "table.csv": comparison.table.to_csv(),
        "table.md": markdown(grid) + "".join(f"\n- {remark}" for remark in below) + "\n",
        "table.tex": latex(grid),
        "runs.csv": data.runs.to_csv(index=False),
    }
    if judged:
        texts["verdicts.csv"] = pd.DataFrame(judged).to_csv(index=False)
        texts["verdicts.md"] = markdown(verdict_grid(judged))
    for name, text in texts.items():
        (out / name).write_text(text, encoding="utf-8")
    return [out / name for name in texts]


def _write_figures(out: Path, data: Data, comparison: Comparison) -> list[Path]:
    """The figures for which there are data. Matplotlib is imported here, once there is something to draw."""
    from analysis.curves import learning_curves
    from analysis.figures import curves, effects
    from analysis.style import save

    files = []
    if (comparison.table["n_pairs"] > 0).any():
        files += save(effects(comparison), out / "effects")
    if lines := learning_curves(data, comparison):
        files += save(curves(comparison, lines), out / "curves")
    return files


def shown(path: Path) -> str:
    """The path relative to the working directory if it lies inside, else in full."""
    path, here = path.resolve(), Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; 0: all runs are good, 1: some failed or are damaged (listed), 2: nothing could be compared."""
    parser = argparse.ArgumentParser(prog="python -m analysis.compare", description=__doc__)
    parser.add_argument("folder", help="a sweep's folder, such as runs/<sweep>")
    parser.add_argument("--baseline", help="variant to compare with; the first unless named")
    parser.add_argument("--metric", help="compare this metric (mean over its last 10 %%) instead of the stored score")
    parser.add_argument("--out", help="folder for tables and figures; <folder>/analysis unless named")
    options = parser.parse_args(arguments)
    try:
        return report(options.folder, options.baseline, metric=options.metric, out=options.out).exit_code
    except AnalysisError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
