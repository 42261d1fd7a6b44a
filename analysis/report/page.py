"""One page per sweep that can be read without asking: `rlexp report runs/<sweep>`."""

import io
import re
import shlex
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jinja2 import Environment, FileSystemLoader, Template
from markupsafe import Markup, escape
from matplotlib.figure import Figure
from matplotlib.text import Text

from rlexp.analysis.data.kept import Records, read_samples, variant_gradients
from rlexp.analysis.data.load import SweepData, load
from rlexp.analysis.data.read import inner, read_object, read_yaml, write_text, writing_to
from rlexp.analysis.data.readers.logs import Columns
from rlexp.analysis.data.readers.options import output_folder, say_origin
from rlexp.analysis.data.runs import UNFINISHED
from rlexp.analysis.data.variants import common_settings, differing_settings, sweep_overrides, variant_configs
from rlexp.analysis.figures import layout
from rlexp.analysis.figures.gallery import SECTIONS, draw_figures
from rlexp.analysis.figures.inputs import OmittedFigure, RenderedFigure
from rlexp.analysis.report.summary import summarize
from rlexp.analysis.report.tables import SECONDARY, TextTable, comparison_table, secondary_tables, verdict_table
from rlexp.analysis.stats.answer import Answer, Question, answer
from rlexp.analysis.stats.endpoints import Endpoint
from rlexp.analysis.stats.formatting import DASH, format_number, format_optional, yes_no
from rlexp.analysis.stats.verdicts import EXPLORATORY
from rlexp.runfolder.files import CONFIG_FILE, SUMMARY_FILE

CURVE_WIDTH, CURVE_HEIGHT, POINTS = 150, 40, 60  # of a run's small curve
VARIABLES = {layout.INK: "ink", layout.BASELINE: "baseline", layout.OTHERS: "others"}  # of the style sheet, by color
VARIABLES |= {"#EBEBEB": "grid", "#FFFFFF": "paper", layout.dark(layout.BASELINE): "muted"}
VARIABLES |= {color: f"mark{place}" for place, color in enumerate(layout.COLORS)}
VARIABLES |= {layout.dark(color): f"text{place}" for place, color in enumerate(layout.COLORS)}
VARIABLES = {color.lower(): name for color, name in VARIABLES.items()}
_NUMBERS = re.compile(r'\b(d|x|y|x1|x2|y1|y2|width|height|points|transform|viewBox)="([^"]*)"')
_LONG = re.compile(r"(\d\.\d\d)\d+")
_ID = re.compile(r'\bid="([^"]*)"')
_STYLE = re.compile(r'style="[^"]*"')
_COLOR = re.compile(r"\b((?:fill|stroke): )(#[0-9a-fA-F]{6})\b")


def inline_svg(figure: Figure, name: str, text: str) -> Markup:
    """Return a figure as an `<svg>` element whose alternative is `text`, with ids that begin with `name`.

    Without its title and its caption, which the page has as text.
    """
    buffer = io.StringIO()
    outside = figure.findobj(lambda artist: artist.get_gid() in (layout.TITLE, layout.CAPTION))
    with layout.theme():
        for text_of_page in outside:
            text_of_page.set_visible(False)
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None, "Type": None, "Format": None})
        seen = figure.get_tightbbox()
        for text_of_page in outside:
            text_of_page.set_visible(True)

    # The height is cropped to what is visible; a figure that is wider than most has a width at which it can be read.
    width, height = figure.get_size_inches()
    top, bottom = max(height - seen.y1 - 0.04, 0.0), min(height - seen.y0 + 0.04, height)
    wide = f'style="min-width:{width:.2f}in" ' if width > 1.1 * layout.WIDTH else ""
    box = f"0 {72 * top:.2f} {72 * width:.2f} {72 * (bottom - top):.2f}"
    frame = f'viewBox="{box}" {wide}xmlns:xlink="http://www.w3.org/1999/xlink"'

    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<!--.*?-->|<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = _NUMBERS.sub(lambda match: f'{match[1]}="{_LONG.sub(lambda n: n[1], match[2])}"', svg)
    svg = re.sub(r"<svg [^>]*>", f"<svg {frame}>", svg, count=1)
    used = set(re.findall(r'(?:url\(#|href="#)([^")]+)', svg))
    svg = _ID.sub(lambda match: f'id="{name}-{match[1]}"' if match[1] in used else "", svg)
    svg = re.sub(r'(url\(#|href="#)', rf"\g<1>{name}-", svg)
    svg = _STYLE.sub(lambda match: _COLOR.sub(_variable, match[0]), svg)
    svg = re.sub(r">\s+<", "><", re.sub(r"[ \n]+", " ", svg))
    return Markup(svg.replace("<svg", f'<svg role="img" aria-label="{escape(text)}"', 1))


def text_outside(figure: Figure, gid: str) -> str:
    """Return the title or the caption, which `inline_svg` leaves out, in one line; empty if the figure has none."""
    return next((text.get_text().replace("\n", " ") for text in figure.findobj(Text) if text.get_gid() == gid), "")


def _variable(match: re.Match) -> str:
    """Replace a color of the theme by the page's own, which differs where the reader's screen is dark."""
    name = VARIABLES.get(match[2].lower())
    return f"{match[1]}var(--{name})" if name else match[0]


def color_variables(is_dark: bool) -> str:
    """Return the colors of marks and of small text as variables of a style sheet."""
    if is_dark:
        pairs = [(layout.lighter(color, 3.0), layout.lighter(color, 4.5)) for color in layout.COLORS]
    else:
        pairs = [(color, layout.dark(color)) for color in layout.COLORS]
    return "".join(f"--mark{i}:{mark};--text{i}:{text};" for i, (mark, text) in enumerate(pairs))


def color_of(color: str) -> Markup:
    """Return a variant's color as the page's own variable."""
    return Markup("var(--{})").format(VARIABLES[color.lower()])


def sparkline(steps: np.ndarray, values: np.ndarray, name: str, color: str) -> Markup:
    """Draw a small curve of one run, with its first, last, lowest and highest value; at least one must be finite."""
    finite = np.isfinite(values)
    steps, values = steps[finite], values[finite]
    low, high = float(values.min()), float(values.max())
    places = np.unique(np.linspace(0, values.size - 1, min(values.size, POINTS)).round().astype(int))
    x = (CURVE_WIDTH * (steps[places] - steps[0]) / max(steps[-1] - steps[0], 1)).round().astype(int)
    y = (CURVE_HEIGHT - CURVE_HEIGHT * (values[places] - low) / ((high - low) or 1)).round(1)
    points = " ".join(f"{a},{b:g}" for a, b in zip(x, y, strict=True))
    text = f"{name}: {values[0]:.3g} at step {steps[0]}, {values[-1]:.3g} at step {steps[-1]}, {low:.3g} to {high:.3g}"
    return Markup(
        f'<svg role="img" aria-label="{escape(text)}" width="{CURVE_WIDTH}" height="{CURVE_HEIGHT + 4}" '
        f'viewBox="0 -2 {CURVE_WIDTH} {CURVE_HEIGHT + 4}">'
        f'<polyline fill="none" style="stroke:{color_of(color)}" points="{points}"/></svg>'
        f"<br>{values[-1]:.3g} ({low:.3g} to {high:.3g})"
    )


TEMPLATES = Path(__file__).parent / "templates"
FEW_ROWS = 8  # of a table that is shown unfolded
CURVES = ("reward/mean", "policy/entropy", "kl/ref_exact", "length/mean")  # of each run, beside its score's metric
METRICS = (*CURVES, "kl/ref_k3", "length/correct", "length/wrong", "groups/zero_variance", "progress/completions")
MAX_RUN_SECTIONS = 200  # runs with curves and completions of their own
MAX_TEXT = 300  # characters of a prompt or completion
OVERRIDES_FILE = ".hydra/overrides.yaml"
PROGRAM = "python -m rlexp.train"
WITHOUT_EFFECT = ("hydra.sweep.dir=", "hydra.run.dir=", "hydra.mode=")  # where results go changes none
WITHOUT_EFFECT += ("~hydra.callbacks.rlexp", "hydra/hydra_logging=none", "hydra/job_logging=none")  # of rlexp.api


class ReportPage(NamedTuple):
    """The page that was written, and what it was made of."""

    path: Path
    data: SweepData
    answer: Answer
    figures: list[RenderedFigure]
    omitted: list[OmittedFigure]


def write_report(
    folder: str | Path,
    baseline: str | None = None,
    metric: str | None = None,
    out: str | Path | None = None,
    endpoint: Endpoint | None = None,
    columns: Columns = Columns(),  # noqa: B008 (a tuple)
) -> ReportPage:
    """Write the page to `<folder>/analysis/report.html`. Raises AnalysisError, one line, if nothing can be compared.

    columns: what of other tools' logs is the arm, the seed and the metric.
    """
    question = Question(metric=metric, baseline=baseline, endpoint=endpoint)
    data = load(folder, metrics={*METRICS, *question.metrics}, columns=columns)
    if data.origin:  # its score is of the metric that was named
        say_origin(data)
        question = question._replace(metric=None)
    result = answer(data, question)
    samples, configs = read_samples(data), variant_configs(data.runs)
    figures, omitted = draw_figures(result, configs, samples, variant_gradients(data))
    asked = {"metric": metric, "baseline": baseline, "endpoint": str(endpoint or "")} | columns._asdict()
    asked |= {"metric": metric, "arm": ",".join(columns.arm)}
    given = [word for option, value in asked.items() if value for word in (f"--{option}", value)]
    command = shlex.join(["rlexp", "report", str(folder if data.origin else data.folder), *given])
    text = render(data, result, configs, samples, figures, omitted, command)
    place = output_folder(folder) if data.origin else inner(folder, "analysis")
    path = Path(out) if out else place / "report.html"
    with writing_to(path):
        write_text(path, text)
    return ReportPage(path, data, result, figures, omitted)


def render(
    data: SweepData,
    result: Answer,
    configs: Mapping[str, Mapping[str, Any]],
    samples: Mapping[str, Records],
    figures: Sequence[RenderedFigure],
    omitted: Sequence[OmittedFigure],
    own_command: str,
) -> str:
    """Return the page as HTML; the template escapes every text from a configuration or a completion."""
    comparisons = {comparison.stratum or "Variants": comparison_table(comparison) for comparison in result.tables}
    secondary = {
        ", ".join(filter(None, [SECONDARY[kind], stratum])): table
        for kind, tables in secondary_tables(result).items()
        for stratum, table in tables.items()
    }
    unusual = (data.runs["status"] != "completed") | data.runs["collapsed"].fillna(False).astype(bool)
    detailed = [*data.runs.loc[unusual, "name"], *data.runs.loc[~unusual, "name"]][:MAX_RUN_SECTIONS]
    metric, baseline = result.comparisons[0].metric, result.comparisons[0].baseline
    colors = layout.variant_colors(result.data.variants, baseline)
    own = colors if set(data.variants) <= set(colors) else layout.variant_colors(data.variants, baseline)
    columns = differing_settings(configs)
    settings = [[data.labels[v], *(values[i] for values in columns.values())] for i, v in enumerate(configs)]
    summaries = (read_object(Path(folder) / SUMMARY_FILE)[0] for folder in data.runs["folder"])
    versions = (summary.get("versions") for summary in summaries)
    packages = next((found for found in versions if isinstance(found, dict) and found), {})
    return template("report.html").render(
        title=data.folder.resolve().name,
        summary=summarize(data, result),
        light_marks=color_variables(is_dark=False),
        dark_marks=color_variables(is_dark=True),
        swatches={result.data.labels[variant]: color_of(color) for variant, color in colors.items()},
        few=FEW_ROWS,
        comparisons=comparisons,
        secondary=secondary,
        verdicts=verdict_table(result.verdicts) if result.verdicts else None,
        exploratory=EXPLORATORY,
        notes=result.notes,
        figures=figure_sections(figures, len(result.data.variants)),
        omitted=omitted,
        differences=TextTable([data.axis, *columns], settings if columns else []),
        common=common_settings(configs),
        problems=problems_table(data),
        runs=runs_table(data),
        sections=variant_sections(data, metric, samples, detailed, own),
        shown=len(detailed),
        shortened=len(detailed) < len(data.runs),
        command=sweep_command(data.folder),
        own_command=own_command,
        is_ours=data.origin is None,
        versions=", ".join(f"{package} {version}" for package, version in packages.items()),
    )


def template(name: str) -> Template:
    """Return a template that escapes every text and shows control characters as their codes."""
    loader = FileSystemLoader(TEMPLATES)
    environment = Environment(loader=loader, autoescape=True, trim_blocks=True, finalize=_printable)
    environment.filters |= {"breakable": breakable, "capitalized": lambda text: text[:1].upper() + text[1:]}
    return environment.get_template(name)


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
    sections: dict[str, list[dict[str, Any]]] = {title: [] for title in SECTIONS}
    for figure in figures:
        base, _, stratum = figure.title.partition(", ")
        sections[figure.section].append({
            "name": figure.name,
            "alt_text": figure.alt_text,
            "heading": ", ".join(filter(None, [text_outside(figure.figure, layout.TITLE) or base, stratum])),
            "svg": inline_svg(figure.figure, figure.name, f"{figure.title}. {figure.caption} {figure.alt_text}"),
            "wide": figure.figure.get_figwidth() > 1.5 * layout.WIDTH,
            "caption": text_outside(figure.figure, layout.CAPTION) or figure.caption,  # its own says how it is laid out
        })  # fmt: skip
    unfolded = SECTIONS[:2] if variants <= layout.MAX_LINES else SECTIONS[:1]
    return [{"title": title, "figures": found, "open": title in unfolded} for title, found in sections.items() if found]


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


def variant_sections(
    data: SweepData, metric: str, samples: Mapping[str, Records], names: Sequence[str], colors: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Return the sections of the chosen runs, by variant: command, curves, and rows of completions by step."""
    metrics = [name for name in dict.fromkeys([metric, *CURVES]) if name in data.metrics]
    rows = dict(list(data.metrics[["name", "step", *metrics]].groupby("name")))
    sections = []
    for variant, runs in data.runs.groupby("variant", sort=False):
        shown = []
        for run in runs[runs["name"].isin(names)].itertuples():
            curves, constants = {}, []  # of the metrics that change over the run, and of those that do not
            for name in metrics if run.name in rows else ():
                values = rows[run.name][name].to_numpy(dtype=float)
                different = np.unique(values[np.isfinite(values)])
                if different.size > 1:
                    curves[name] = sparkline(rows[run.name]["step"].to_numpy(), values, name, colors[variant])
                elif different.size:
                    constants.append(f"{name} {different[0]:.3g}")
            by_step = groupby(samples.get(run.name, []), lambda record: record.get("step"))
            shown.append({
                "name": run.name,
                "status": run.status,
                "reason": run.reason if isinstance(run.reason, str) else None,
                "command": run_command(Path(run.folder)),
                "curves": curves,
                "constants": constants,
                "samples": [(step, list(map(_sample, records))) for step, records in by_step],
            })  # fmt: skip
        if shown:
            sections.append({
                "label": data.labels[variant],
                "color": color_of(colors[variant]),
                "count": len(runs),
                "runs": shown,
                "unusual": sum(run["status"] != "completed" for run in shown),
            })  # fmt: skip
    return sections


def _sample(row: Mapping[str, Any]) -> list[str]:
    texts = [str(row.get(key, "")) for key in ("prompt", "completion")]
    numbers = [row.get(key) for key in ("reward", "advantage")]
    return [
        *(text[:MAX_TEXT] + "…" * (len(text) > MAX_TEXT) for text in texts),
        yes_no(row.get("correct")),
        *(format_number(value, 2, signed=place > 0) if isinstance(value, int | float) else DASH
          for place, value in enumerate(numbers)),
    ]  # fmt: skip


def sweep_command(folder: Path) -> str | None:
    """Return the command of a sweep (or single run) without where it was to be written; None if it is not on record."""
    overrides = sweep_overrides(folder)
    if overrides is not None:
        return _command(f"{PROGRAM} -m", overrides)
    single = read_yaml(folder / OVERRIDES_FILE)
    return _command(PROGRAM, single) if isinstance(single, list) else None


def run_command(folder: Path) -> str | None:
    """Return the command of one run of a sweep, by the overrides that Hydra kept or else by its saved configuration."""
    overrides = read_yaml(folder / OVERRIDES_FILE)
    if isinstance(overrides, list):
        return _command(PROGRAM, overrides)
    return f"{PROGRAM} --from {shlex.quote(str(folder.resolve()))}" if (folder / CONFIG_FILE).exists() else None


def _command(program: str, overrides: Sequence[Any]) -> str:
    relevant = [str(override) for override in overrides if not str(override).startswith(WITHOUT_EFFECT)]
    return " ".join([program, *map(shlex.quote, relevant)])


def save_figures(figures: Sequence[RenderedFigure], folder: Path) -> list[Path]:
    """Save each figure as SVG, PDF and PNG."""
    with writing_to(folder):
        folder.mkdir(parents=True, exist_ok=True)
        return [path for figure in figures for path in layout.save_figure(figure.figure, folder / figure.name)]
