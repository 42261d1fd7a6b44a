"""One page per sweep that can be read without asking: `python -m analysis.report runs/<sweep>`."""

import argparse
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, FileSystemLoader
from markupsafe import Markup

from analysis.answer import Answer, Question, answer
from analysis.comparison import seed_scores
from analysis.configs import common, differing, variant_configs
from analysis.details import CURVES, detailed, details
from analysis.figures import Absent, Drawn, Evidence, gallery
from analysis.grids import interaction_grid
from analysis.inline import inline
from analysis.load import Data, load
from analysis.read import AnalysisError
from analysis.reproduce import sweep_command, versions
from analysis.samples import Rows, read_samples
from analysis.style import save
from analysis.tables import Grid, comparison_grid, plain, verdict_grid, yes_no
from analysis.verdict import verdicts

TEMPLATES = Path(__file__).parent / "templates"
OF_ALL = ("profile", "clip", "overlong")  # figures that are the same for every stratum
SHOWN_METRICS = (*CURVES, "kl/ref_k3", "length/correct", "length/wrong", "groups/zero_variance", "progress/completions")


class Page(NamedTuple):
    """What was written, and what it was made of."""

    path: Path
    answer: Answer
    figures: list[Drawn]
    absent: list[Absent]


def write_report(
    folder: str | Path, baseline: str | None = None, metric: str | None = None, out: str | Path | None = None
) -> Page:
    """Write the page to `<folder>/analysis/report.html`. Raises AnalysisError, one line, if nothing can be compared."""
    data = load(folder, metrics={*SHOWN_METRICS, *([metric] if metric else [])})
    found = answer(data, Question(metric=metric or data.study.get("metric"), baseline=baseline))
    samples, configs = read_samples(data), variant_configs(data)
    drawn, absent = figures_of(found, configs, samples)
    text = render(data, found, configs, samples, drawn, absent)
    path = Path(out) if out else Path(folder) / "analysis" / "report.html"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise AnalysisError(f"cannot write to '{path}': {error.strerror or error}") from error
    return Page(path, found, drawn, absent)


def figures_of(
    found: Answer, configs: Mapping[str, Mapping[str, Any]], samples: Mapping[str, Rows]
) -> tuple[list[Drawn], list[Absent]]:
    """The figures of each stratum; those that would be the same in all are drawn once, with the first."""
    drawn: list[Drawn] = []
    absent: list[Absent] = []
    for place, (part, comparison) in enumerate(zip(found.parts, found.comparisons, strict=True)):
        names = OF_ALL if place else ()
        figures, reasons = gallery(Evidence(part, comparison, found.data, configs, samples), without=names)
        if len(found.parts) > 1:
            figures = [_of(figure, comparison.stratum, place) for figure in figures]
            reasons = [reason._replace(title=f"{reason.title}, {comparison.stratum}") for reason in reasons]
        drawn, absent = drawn + figures, absent + reasons
    return drawn, absent


def _of(figure: Drawn, stratum: str, place: int) -> Drawn:
    if figure.name in OF_ALL:
        return figure
    return figure._replace(name=f"{figure.name}-{place}", title=f"{figure.title}, {stratum}")


def render(
    data: Data,
    found: Answer,
    configs: Mapping[str, Mapping[str, Any]],
    samples: Mapping[str, Rows],
    drawn: Sequence[Drawn],
    absent: Sequence[Absent],
) -> str:
    """The page as HTML; every text from a configuration or a completion is escaped by the template."""
    judged = verdicts(data.study, seed_scores(data, data.study.get("metric")), data.labels) if data.study else []
    chosen = detailed(data)
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES), autoescape=True, trim_blocks=True, finalize=_printable
    )
    return environment.get_template("report.html").render(
        title=data.folder.resolve().name,
        question=data.study.get("question"),
        overview=overview(data, found),
        comparisons=comparison_tables(found),
        verdicts=verdict_grid(judged) if judged else None,
        notes=found.notes,
        figures=[_figure(figure) for figure in drawn],
        absent=absent,
        differences=differences_grid(data, configs),
        common=common(configs),
        problems=problems_grid(data),
        runs=runs_grid(data),
        details=details(data, found.comparisons[0].metric, samples, chosen),
        shortened=len(chosen) < len(data.runs),
        command=sweep_command(data.folder),
        own_command=f"python -m analysis.report {shlex.quote(str(data.folder))}",
        versions=versions(list(data.runs["folder"])),
    )


def _printable(value: Any) -> Any:
    """What a page cannot hold (control characters) or should not obey (direction marks), by its code."""
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    return "".join(c if c.isprintable() or c.isspace() else f"\\u{ord(c):04x}" for c in value)


def comparison_tables(found: Answer) -> dict[str, Grid]:
    """The table of each stratum, the pooled one, and interactions, by title."""
    tables = {each.stratum or "Variants": comparison_grid(each) for each in found.comparisons}
    if found.pooled:
        tables[found.pooled.stratum] = comparison_grid(found.pooled)
    for comparison, table in zip(found.comparisons, found.interactions, strict=True):
        if table is not None:
            title = "Interactions: difference of differences per seed"
            tables[", ".join(filter(None, [title, comparison.stratum]))] = interaction_grid(table)
    return tables


def _figure(drawn: Drawn) -> dict[str, Any]:
    text = f"{drawn.title}. {drawn.caption} {drawn.words}"
    return drawn._asdict() | {"svg": inline(drawn.figure, drawn.name, text)}


def overview(data: Data, found: Answer) -> str:
    """How many runs, of what, compared by what with what."""
    status = data.runs["status"].value_counts()
    counts = ", ".join(f"{count} {name}" for name, count in status.items())
    count, first = len(data.variants), found.comparisons[0]
    return (
        f"{len(data.runs)} runs ({counts}) of {count} variant{'s' * (count > 1)}, compared by {first.heading} "
        f"with {first.labels[first.baseline]}."
    )


def differences_grid(data: Data, configs: Mapping[str, Mapping[str, Any]]) -> Grid:
    """One row per variant, one column per key that differs."""
    columns = differing(configs)
    rows = [[data.labels[v], *(values[i] for values in columns.values())] for i, v in enumerate(configs)]
    return Grid([data.axis, *columns], rows if columns else [])


def problems_grid(data: Data) -> Grid:
    """Runs that failed or are damaged, with the reason, then those that completed below the floor."""
    rows = [[problem.run, "failed or damaged", problem.reason] for problem in data.problems]
    low = data.runs[(data.runs["status"] == "completed") & data.runs["collapsed"].fillna(False)]
    rows += [
        [name, "collapsed", f"score {score:.3g} is below the floor"]
        for name, score in zip(low["name"], low["score"], strict=True)
    ]
    return Grid(["run", "what", "reason"], rows)


def runs_grid(data: Data) -> Grid:
    """All runs with what they cost."""
    rows = [
        [row.name, data.labels[row.variant], plain(row.seed), row.status, plain(row.score, 4), yes_no(row.collapsed),
         plain(row.completions), plain(row.tokens), plain(row.wall_time_s, 1)]
        for row in data.runs.itertuples(index=False)
    ]  # fmt: skip
    headers = ["run", data.axis, "seed", "status", "score", "collapsed", "completions", "tokens", "seconds"]
    return Grid(headers, rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; 0: written, 1: written, and some runs failed or are damaged, 2: nothing could be compared."""
    parser = argparse.ArgumentParser(prog="python -m analysis.report", description=__doc__)
    parser.add_argument("folder", help="a sweep's folder, such as runs/<sweep>")
    parser.add_argument("--baseline", help="variant to compare with; the first unless named")
    parser.add_argument("--metric", help="compare this metric (mean over its last 10 %%) instead of the stored score")
    parser.add_argument("--out", help="the page; <folder>/analysis/report.html unless named")
    parser.add_argument("--figures", metavar="FOLDER", help="also save every figure as SVG, PDF and PNG here")
    options = parser.parse_args(arguments)
    try:
        page = write_report(options.folder, options.baseline, options.metric, options.out)
        if options.figures:
            save_figures(page.figures, Path(options.figures))
    except AnalysisError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for absent in page.absent:
        print(f"left out: {absent.title}: {absent.reason}")
    print(page.path)
    return int(bool(page.answer.data.problems))


def save_figures(figures: Sequence[Drawn], folder: Path) -> list[Path]:
    """Each figure as SVG, PDF and PNG."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return [path for figure in figures for path in save(figure.figure, folder / figure.name)]
    except OSError as error:
        raise AnalysisError(f"cannot write to '{folder}': {error.strerror or error}") from error


if __name__ == "__main__":
    sys.exit(main())
