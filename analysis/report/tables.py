"""Comparisons as text, on the terminal and as files: tables, also as Markdown, LaTeX, CSV and JSON; verdicts, notes.

Long tables have a row per arm and stratum, wide ones a cell; those of interactions a row per pair of choices.
"""

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pandas as pd
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rlexp.analysis.data.load import SweepData
from rlexp.analysis.data.read import printable, read_object, write_text, writing_to
from rlexp.analysis.data.starts import in_units
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
from rlexp.analysis.stats.racing import Race
from rlexp.analysis.stats.secondary import pivot_axes
from rlexp.analysis.stats.significance import ALPHA
from rlexp.analysis.stats.verdicts import EXPLORATORY, Verdict
from rlexp.runfolder.variants import IN_TURNS

if TYPE_CHECKING:
    from rlexp.analysis.figures.inputs import RenderedFigure

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
    unfinished, raced = comparison.table["unfinished"].any(), comparison.race
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
                **({"win rate [95 %]": format_win_rate(row)} if comparison.better and comparison.paired else {}),
                "p": format_p(row["p"]) if can_be_significant(row, 1) else DASH,
                "q (BH)" if "q" in row else "p (Holm)": p,
                "detectable": format_size(row["detectable"], digits),
                **({"decided": comparison.decision(variant)} if comparison.until("until_decided") else {}),
            }
            if variant == comparison.baseline:
                effects = dict.fromkeys(effects, "") | {"difference [95 %]": "baseline"}
            cells |= effects
        if raced:
            cells["race"] = race_text(comparison, raced, variant)
        cells["collapsed"] = format_fraction(row["collapsed"], row["collapsed_of"])
        cells["failed"] = format_fraction(row["failed"], row["runs"])
        if unfinished:
            cells["unfinished"] = format_fraction(row["unfinished"], row["runs"])
        rows.append([comparison.labels[variant], *cells.values()])
    return TextTable([comparison.axis, *cells], rows)


def race_text(comparison: Comparison, raced: Race, variant: str) -> str:
    """Return what became of a variant in a race: `best`, `left`, or why it has no more seeds."""
    if variant in raced.out:
        other = raced.out[variant]
        return f"worse than {comparison.labels[other]}" if other else "no score"
    return "best" if variant == raced.best else "left"


def interaction_table(table: pd.DataFrame) -> TextTable:
    """Return the interactions of two axes, which are the first two columns: one row per pair of choices."""
    axes = table.columns[:2]
    digits = decimal_places(table[["difference", "difference_low", "difference_high"]].to_numpy().ravel())
    rows = [
        [
            " × ".join(f"{axis}={row[axis]}" for axis in axes),
            f"{row['n_pairs']:g}",
            format_difference(row, digits),
            format_number(row["effect_size"], 2, signed=True),
            format_p(row["q"]) if can_be_significant(row, 1) else DASH,
            format_size(row["detectable"], digits),
        ]
        for _, row in table.iterrows()
    ]
    return TextTable(["interaction", "n", "difference [95 %]", "effect", "q (BH)", "detectable"], rows)


def collapse_table(table: pd.DataFrame, comparison: Comparison) -> TextTable:
    """Return how many runs of each arm collapsed, on how many seeds only it or only the baseline did, and the test."""
    rows = []
    for variant, row in table.iterrows():
        cells = [f"{row['only_here']:g}", f"{row['only_baseline']:g}", format_p(row["p"]), format_p(row["q"])]
        if variant == comparison.baseline:
            cells = ["baseline", "", "", ""]
        rows.append([comparison.labels[variant], format_fraction(row["collapsed"], row["of"]), *cells])
    return TextTable([comparison.axis, "collapsed", "only it", "only the baseline", "p", "q (BH)"], rows)


SECONDARY = {
    "interactions": "interactions: difference of differences per seed",
    "collapses": "collapsed runs: exact sign test (McNemar) over the same seeds",
}


def secondary_tables(result: Answer) -> dict[str, dict[str, TextTable]]:
    """Return the tables that have q in place of p (Holm), by their kind in `SECONDARY` and their stratum."""
    comparisons = {each.stratum: each for each in result.comparisons}
    collapses = {stratum: collapse_table(table, comparisons[stratum]) for stratum, table in result.collapses.items()}
    interactions = {stratum: interaction_table(table) for stratum, table in result.interactions.items()}
    return {"interactions": interactions, "collapses": collapses}


def long_table(comparisons: Sequence[Comparison]) -> TextTable:
    """Put the tables below each other; several get a first column that names the stratum of each row."""
    tables = [comparison_table(comparison) for comparison in comparisons]
    if len(tables) == 1:
        return tables[0]
    pairs = zip(comparisons, tables, strict=True)
    rows = [[comparison.stratum, *row] for comparison, table in pairs for row in table.rows]
    headers = [" / ".join(dict.fromkeys(each)) for each in zip(*(table.headers for table in tables), strict=True)]
    return TextTable(["stratum", *headers], rows)


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
    """Print numbers unbroken at the right; names and words are folded. Nothing is read as markup."""
    printed = Table(title=title and Text(title), title_justify="left", box=box.SIMPLE_HEAD, show_edge=False)
    printed.padding = (0, SPACE - 1, 0, 0)
    for place, header in enumerate(table.headers):
        words = place == 0 or any(re.search("[a-z] [a-z]", row[place]) for row in table.rows)
        printed.add_column(Text(header), justify="right" if place else "left", no_wrap=not words, overflow="fold")
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
    for comparison in result.tables:
        _print_fitted(console, comparison_table(comparison), f"{sweep}: {comparison.heading}", comparison.stratum)
    for kind, tables in secondary_tables(result).items():
        for stratum, table in tables.items():
            _print_fitted(console, table, in_units(SECONDARY[kind], data.unit), stratum)
    for what in WIDE_CELLS if wide else ():
        _print_fitted(console, wide_text(result.comparisons, what, wide), what)
    if result.verdicts:
        console.print(Text(EXPLORATORY))
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


JSON_FILE = "comparison.json"
SCHEMA = 2  # raised where a program that reads an older one would be wrong
SAVED_FIGURES = ("effects", "curves")


def write_files(
    out: Path, result: Answer, wide: str | None = None, figures: "Sequence[RenderedFigure] | None" = None
) -> list[Path]:
    """Write tables and figures to a folder, remove files of an earlier comparison; return the paths written.

    figures: those of the answer, if they have been drawn already.
    """
    from rlexp.analysis.figures.gallery import draw_figures
    from rlexp.analysis.figures.layout import save_figure

    texts = _tables(result, wide)
    with writing_to(out):
        names = read_object(out / JSON_FILE)[0].get("files")  # of an earlier comparison
        named = [name for name in names if isinstance(name, str)] if isinstance(names, list) else []
        earlier = {out / name for name in named if Path(name).name == name and (out / name).is_file()}
        files = [write_text(out / name, text) for name, text in texts.items()]
        for figure in draw_figures(result, {}, {}, {}, only=SAVED_FIGURES)[0] if figures is None else figures:
            if figure.kind in SAVED_FIGURES:
                files += save_figure(figure.figure, out / f"{figure.kind}{stratum_ending(figure.stratum)}")
        for path in earlier - set(files):
            path.unlink(missing_ok=True)
        files.append(out / JSON_FILE)
        write_text(out / JSON_FILE, answer_json(result, files) + "\n")
    return files


def stratum_ending(stratum: str) -> str:
    """Return what the name of a file or table of a stratum ends with; empty if there is only one."""
    return "_" + re.sub(r"[^\w.-]+", "_", stratum) if stratum else ""


def _tables(result: Answer, wide: str | None) -> dict[str, str]:
    """Return the texts by file name."""
    notes = [*result.notes, *(f"{problem.run}: {problem.reason}" for problem in result.data.problems)]
    long = {comparison.stratum: comparison_table(comparison) for comparison in result.tables}
    texts = {
        "table.csv": csv_text(_stacked({comparison.stratum: comparison.table for comparison in result.tables})),
        "table.md": _titled(long) + "".join(f"\n- {markdown_text(note)}" for note in notes) + "\n",
        "table.tex": latex(long_table(result.tables)),
    }
    tables = {what: wide_text(result.comparisons, what, wide) for what in WIDE_CELLS}
    if None not in tables.values():
        numbers = {column: wide_frame(result.comparisons, column, wide) for column in ("iqm", "difference", "p_holm")}
        texts["wide.csv"] = csv_text(pd.concat(numbers, axis=1, names=["number"]))
        texts["wide.md"] = _titled(tables)
        texts |= {f"wide_{what}.tex": latex(table) for what, table in tables.items()}
    for kind, tables in secondary_tables(result).items():
        if tables:
            texts[f"{kind}.csv"] = csv_text(_stacked(getattr(result, kind)))
            texts[f"{kind}.md"] = _titled(tables)
            texts[f"{kind}.tex"] = "\n".join(map(latex, tables.values()))
    if flips := {stratum: table.rename_axis("seeds") for stratum, table in result.flips.items() if len(table)}:
        texts["fewer_seeds.csv"] = csv_text(_stacked(flips))
    if result.verdicts:
        texts["verdicts.csv"] = csv_text(pd.DataFrame(result.verdicts), index=False)
        texts["verdicts.md"] = f"{EXPLORATORY}\n\n{markdown(verdict_table(result.verdicts))}"
    return texts | {"runs.csv": csv_text(result.data.runs, index=False)}


def _titled(tables: Mapping[str, TextTable]) -> str:
    return "\n".join((f"### {title}\n\n" if title else "") + markdown(table) for title, table in tables.items())


def _stacked(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Put the tables of strata below each other; several get a first column that names the stratum of each row."""
    return next(iter(tables.values())) if len(tables) == 1 else pd.concat(tables, names=["stratum"])


def answer_json(result: Answer, files: Sequence[Path]) -> str:
    """Return everything that tables, notes and verdicts say for programs, as `comparison.schema.json` describes it.

    Numbers that are missing are null; infinite ones, as the cost of what a run never reaches, are "inf" or "-inf".
    """
    first = result.comparisons[0]
    comparisons = []
    for comparison in result.comparisons:
        further = {kind: getattr(result, kind).get(comparison.stratum) for kind in SECONDARY}
        content = {
            "stratum": comparison.stratum or None,
            "ranked": comparison.ranked,
            "paired": comparison.paired,
            "arms": _arms(comparison),
            "scores": {variant: comparison.scores[variant].to_dict() for variant in comparison.scores},
            **{kind: [] if table is None else _rows(table.reset_index()) for kind, table in further.items()},
            "fewer_seeds": _rows(result.flips[comparison.stratum].rename_axis("seeds").reset_index()),
        }
        comparisons.append(plain(content, infinite=comparison.ranked))
    verdicts = []
    for fields in (verdict._asdict() for verdict in result.verdicts):  # null: what a claim does not have
        optional = ("stratum", "direction", "metric", "variant", "versus")
        verdicts.append(plain(fields | {key: fields[key] or None for key in optional}, infinite=True))
    content = {
        "schema": SCHEMA,
        "sweeps": list(result.data.runs["sweep"].unique()),
        "metric": first.metric,
        "better": first.better,
        "aggregation": first.aggregation,
        "baseline": first.baseline,
        "alpha": ALPHA,
        "differences_corrected": first.family,
        "secondary_corrected": result.secondary,
        **{key: first.until(key) for key in IN_TURNS},
        "comparisons": comparisons,
        "pooled": {"arms": _arms(result.pooled)} if result.pooled else None,
        "study": result.study.get("name"),
        "no_verdict": result.no_verdict or None,
        "verdicts": verdicts,
        "notes": result.notes,
        "problems": [problem._asdict() for problem in result.data.problems],
        "runs": _rows(result.data.runs),
        "files": [path.name for path in files],
    }
    return json.dumps(plain(content), indent=1, ensure_ascii=False, allow_nan=False)


def _arms(comparison: Comparison) -> list[dict[str, Any]]:
    arms, raced = [], comparison.race
    for row in _rows(comparison.table.reset_index()):
        variant = row["variant"]
        arm = {"variant": variant, "label": comparison.labels[variant], **row}
        if comparison.until("until_decided"):
            arm["decided"] = None if variant == comparison.baseline else comparison.decision(variant)
        if raced:
            arm["race"] = race_text(comparison, raced, variant)
        arms.append(arm)
    return arms


def _rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return frame.astype(object).where(frame.notna(), None).to_dict("records")


def plain(value: Any, infinite: bool = False) -> Any:
    """Return the value in Python's own types, for json; numbers that are missing or not finite are None.

    infinite: infinite ones are "inf" and "-inf" instead.
    """
    if isinstance(value, Mapping):
        return {str(key): plain(item, infinite) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item, infinite) for item in value]
    value = value.item() if hasattr(value, "item") else value
    if not isinstance(value, float) or math.isfinite(value):
        return value
    return f"{value:g}" if infinite and math.isinf(value) else None
