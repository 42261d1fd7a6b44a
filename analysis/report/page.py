"""One page per sweep that can be read without asking: `rlexp report runs/<sweep>`."""

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, FileSystemLoader
from markupsafe import Markup, escape

from rlexp.analysis.data.configs import common_settings, differing_settings, variant_configs
from rlexp.analysis.data.errors import AnalysisError
from rlexp.analysis.data.kept import Gradient, Records, read_samples, variant_gradients
from rlexp.analysis.data.load import SweepData, load
from rlexp.analysis.data.read import inner, unlinked
from rlexp.analysis.data.runs import UNFINISHED
from rlexp.analysis.figures.gallery import by_section, gallery
from rlexp.analysis.figures.inputs import FigureInputs, OmittedFigure, RenderedFigure
from rlexp.analysis.figures.layout import CAPTION, TITLE
from rlexp.analysis.figures.style import MAX_LINES, WIDTH, save_figure, variant_colors
from rlexp.analysis.report.details import CURVES, select_runs, variant_sections
from rlexp.analysis.report.inline import color_of, color_variables, inline_svg, text_outside
from rlexp.analysis.report.reproduce import sweep_command, versions
from rlexp.analysis.report.summary import summarize
from rlexp.analysis.report.tables import TextTable, comparison_table, interaction_table, verdict_table
from rlexp.analysis.stats.answer import Answer, Question, answer
from rlexp.analysis.stats.formatting import format_optional, yes_no

TEMPLATES = Path(__file__).parent / "templates"
ONCE_PER_SWEEP = ("profile", "clip", "overlong")  # figures that are the same for every stratum
INTERACTIONS = "Interactions: difference of differences per seed"
FEW_ROWS = 8  # of a table that is shown unfolded
METRICS = (*CURVES, "kl/ref_k3", "length/correct", "length/wrong", "groups/zero_variance", "progress/completions")


class ReportPage(NamedTuple):
    """The page that was written, and what it was made of."""

    path: Path
    data: SweepData
    answer: Answer
    figures: list[RenderedFigure]
    omitted: list[OmittedFigure]


def write_report(
    folder: str | Path, baseline: str | None = None, metric: str | None = None, out: str | Path | None = None
) -> ReportPage:
    """Write the page to `<folder>/analysis/report.html`. Raises AnalysisError, one line, if nothing can be compared."""
    data = load(folder, metrics={*METRICS, *([metric] if metric else [])})
    result = answer(data, Question(metric=metric, baseline=baseline))
    samples, configs = read_samples(data), variant_configs(data.runs)
    figures, omitted = draw_figures(result, configs, samples, variant_gradients(data))
    text = render(data, result, configs, samples, figures, omitted)
    path = Path(out) if out else inner(folder, "analysis") / "report.html"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        unlinked(path).write_text(text, encoding="utf-8", errors="replace")
    except OSError as error:
        raise AnalysisError(f"cannot write to '{path}': {error.strerror or error}") from error
    return ReportPage(path, data, result, figures, omitted)


def draw_figures(
    result: Answer,
    configs: Mapping[str, Mapping[str, Any]],
    samples: Mapping[str, Records],
    gradients: Mapping[str, Gradient],
) -> tuple[list[RenderedFigure], list[OmittedFigure]]:
    """Draw the figures of each stratum; those that would be the same in all once, with the first."""
    figures: list[RenderedFigure] = []
    omitted: list[OmittedFigure] = []
    colors = variant_colors(result.data.variants, result.comparisons[0].baseline)
    for place, (part, comparison) in enumerate(zip(result.parts, result.comparisons, strict=True)):
        inputs = FigureInputs(part, comparison, result.data, configs, samples, gradients, colors)
        drawn, left_out = gallery(inputs, without=ONCE_PER_SWEEP if place else ())
        for figure in drawn:
            if len(result.parts) > 1 and figure.name not in ONCE_PER_SWEEP:
                figure = figure._replace(name=f"{figure.name}-{place}", title=f"{figure.title}, {comparison.stratum}")
            figures.append(figure)
        title = f", {comparison.stratum}" if len(result.parts) > 1 else ""
        omitted += [figure._replace(title=figure.title + title) for figure in left_out]
    return figures, omitted


def render(
    data: SweepData,
    result: Answer,
    configs: Mapping[str, Mapping[str, Any]],
    samples: Mapping[str, Records],
    figures: Sequence[RenderedFigure],
    omitted: Sequence[OmittedFigure],
) -> str:
    """Return the page as HTML; the template escapes every text from a configuration or a completion."""
    comparisons = {comparison.stratum or "Variants": comparison_table(comparison) for comparison in result.comparisons}
    if result.pooled:
        comparisons[result.pooled.stratum] = comparison_table(result.pooled)
    interactions = {
        ", ".join(filter(None, [INTERACTIONS, comparison.stratum])): interaction_table(table)
        for comparison, table in zip(result.comparisons, result.interactions, strict=True)
        if table is not None
    }
    detailed_runs = select_runs(data)
    metric, baseline = result.comparisons[0].metric, result.comparisons[0].baseline
    colors = variant_colors(result.data.variants, baseline)
    own = colors if set(data.variants) <= set(colors) else variant_colors(data.variants, baseline)
    columns = differing_settings(configs)
    settings = [[data.labels[v], *(values[i] for values in columns.values())] for i, v in enumerate(configs)]
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES), autoescape=True, trim_blocks=True, finalize=_printable
    )
    environment.filters["breakable"] = breakable
    return environment.get_template("report.html").render(
        title=data.folder.resolve().name,
        summary=summarize(data, result),
        light_marks=color_variables(is_dark=False),
        dark_marks=color_variables(is_dark=True),
        swatches={result.data.labels[variant]: color_of(color) for variant, color in colors.items()},
        few=FEW_ROWS,
        comparisons=comparisons,
        interactions=interactions,
        verdicts=verdict_table(result.verdicts) if result.verdicts else None,
        notes=result.notes,
        figures=figure_sections(figures, len(result.data.variants)),
        omitted=omitted,
        differences=TextTable([data.axis, *columns], settings if columns else []),
        common=common_settings(configs),
        problems=problems_table(data),
        runs=runs_table(data),
        sections=variant_sections(data, metric, samples, detailed_runs, own),
        shown=len(detailed_runs),
        shortened=len(detailed_runs) < len(data.runs),
        command=sweep_command(data.folder),
        own_command=f"rlexp report {shlex.quote(str(data.folder))}",
        versions=versions(list(data.runs["folder"])),
    )


def _printable(value: Any) -> Any:
    """Replace what a page cannot hold (control characters) or should not obey (direction marks) by its code."""
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    return "".join(c if c.isprintable() or c.isspace() else f"\\u{ord(c):04x}" for c in value)


def breakable(text: str) -> Markup:
    """Allow breaks in a name after its commas, equals signs and underscores."""
    return Markup(re.sub(r"(?<=[,=_/])(?=\w)", "<wbr>", str(escape(_printable(str(text))))))


def figure_sections(figures: Sequence[RenderedFigure], variants: int) -> list[dict[str, Any]]:
    """Return the figures by what they are about; of many variants only the results are unfolded."""
    sections = []
    for title, names in by_section().items():
        chosen = [_as_svg(figure) for figure in figures if re.sub(r"-\d+$", "", figure.name) in names]
        is_open = title == "Results" or (title == "During training" and variants <= MAX_LINES)
        sections.append({"title": title, "figures": chosen, "open": is_open})
    return [section for section in sections if section["figures"]]


def _as_svg(rendered: RenderedFigure) -> dict[str, Any]:
    text = f"{rendered.title}. {rendered.caption} {rendered.alt_text}"
    wide = rendered.figure.get_figwidth() > 1.5 * WIDTH
    base, _, stratum = rendered.title.partition(", ")
    heading = ", ".join(filter(None, [text_outside(rendered.figure, TITLE) or base, stratum]))
    svg = inline_svg(rendered.figure, rendered.name, text)
    caption = text_outside(rendered.figure, CAPTION) or rendered.caption  # the figure's own says how it is laid out
    return rendered._asdict() | {"svg": svg, "wide": wide, "heading": heading, "caption": caption}


def problems_table(data: SweepData) -> TextTable:
    """List runs that failed or are damaged, with the reason, then those that completed below the floor."""
    unfinished = set(data.runs.loc[data.runs["status"].isin(UNFINISHED), "name"])
    rows = [
        [problem.run, "has not ended" if problem.run in unfinished else "failed or damaged", problem.reason]
        for problem in data.problems
    ]
    collapsed = data.runs[(data.runs["status"] == "completed") & data.runs["collapsed"].fillna(False)]
    rows += [
        [name, "collapsed", f"score {score:.3g} is below the floor"]
        for name, score in zip(collapsed["name"], collapsed["score"], strict=True)
    ]
    return TextTable(["run", "what", "reason"], rows)


def runs_table(data: SweepData) -> TextTable:
    """List all runs with what they cost."""
    rows = [
        [
            *(row.name, data.labels[row.variant], format_optional(row.seed), row.status),
            *(format_optional(row.score, 4), yes_no(row.collapsed)),
            *(format_optional(row.completions), format_optional(row.tokens), format_optional(row.wall_time_s, 1)),
        ]
        for row in data.runs.itertuples(index=False)
    ]
    headers = ["run", data.axis, "seed", "status", "score", "collapsed", "completions", "tokens", "seconds"]
    return TextTable(headers, rows)


def save_figures(figures: Sequence[RenderedFigure], folder: Path) -> list[Path]:
    """Save each figure as SVG, PDF and PNG."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return [path for figure in figures for path in save_figure(figure.figure, folder / figure.name)]
    except OSError as error:
        raise AnalysisError(f"cannot write to '{folder}': {error.strerror or error}") from error
