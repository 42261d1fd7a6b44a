"""The files of a comparison: long and wide tables as CSV, Markdown and LaTeX, figures, and all of it as JSON."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from rlexp.analysis.data.errors import AnalysisError
from rlexp.analysis.data.read import read_object, unlinked
from rlexp.analysis.report.tables import (
    WIDE_CELLS,
    TextTable,
    comparison_table,
    csv_text,
    interaction_table,
    latex,
    long_table,
    markdown,
    markdown_text,
    verdict_table,
    wide_frame,
    wide_text,
)
from rlexp.analysis.stats.answer import Answer
from rlexp.analysis.stats.comparison import Comparison
from rlexp.analysis.stats.significance import ALPHA

if TYPE_CHECKING:
    from rlexp.analysis.figures.inputs import RenderedFigure

JSON_FILE = "comparison.json"
SCHEMA = 1  # raised where a program that reads an older one would be wrong
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
    try:
        out.mkdir(parents=True, exist_ok=True)
        names = read_object(out / JSON_FILE)[0].get("files")  # of an earlier comparison
        named = [name for name in names if isinstance(name, str)] if isinstance(names, list) else []
        earlier = {out / name for name in named if Path(name).name == name and (out / name).is_file()}
        for name, text in texts.items():
            unlinked(out / name).write_text(text, encoding="utf-8", errors="replace")
        files = [out / name for name in texts]
        for figure in draw_figures(result, {}, {}, {}, only=SAVED_FIGURES)[0] if figures is None else figures:
            if figure.kind in SAVED_FIGURES:
                files += save_figure(figure.figure, out / f"{figure.kind}{stratum_ending(figure.stratum)}")
        for path in earlier - set(files):
            path.unlink(missing_ok=True)
        files.append(out / JSON_FILE)
        unlinked(files[-1]).write_text(answer_json(result, files) + "\n", encoding="utf-8", errors="replace")
        return files
    except OSError as error:
        raise AnalysisError(f"cannot write to '{out}': {error.strerror or error}") from error


def stratum_ending(stratum: str) -> str:
    """Return what the name of a file or table of a stratum ends with; empty if there is only one."""
    return "_" + re.sub(r"[^\w.-]+", "_", stratum) if stratum else ""


def _tables(result: Answer, wide: str | None) -> dict[str, str]:
    """Return the texts by file name."""
    comparisons = [*result.comparisons, *([result.pooled] if result.pooled else [])]
    strata = [comparison.stratum for comparison in result.comparisons]
    notes = [*result.notes, *(f"{problem.run}: {problem.reason}" for problem in result.data.problems)]
    long = {comparison.stratum: comparison_table(comparison) for comparison in comparisons}
    texts = {
        "table.csv": csv_text(_stacked({comparison.stratum: comparison.table for comparison in comparisons})),
        "table.md": _titled(long) + "".join(f"\n- {markdown_text(note)}" for note in notes) + "\n",
        "table.tex": latex(long_table(comparisons)),
    }
    tables = {what: wide_text(result.comparisons, what, wide) for what in WIDE_CELLS}
    if None not in tables.values():
        numbers = {column: wide_frame(result.comparisons, column, wide) for column in ("iqm", "difference", "p_holm")}
        texts["wide.csv"] = csv_text(pd.concat(numbers, axis=1, names=["number"]))
        texts["wide.md"] = _titled(tables)
        texts |= {f"wide_{what}.tex": latex(table) for what, table in tables.items()}
    frames = {s: table for s, table in zip(strata, result.interactions, strict=True) if table is not None}
    if frames:
        interactions = {stratum: interaction_table(table) for stratum, table in frames.items()}
        texts["interactions.csv"] = csv_text(_stacked(frames))
        texts["interactions.md"] = _titled(interactions)
        texts["interactions.tex"] = "\n".join(map(latex, interactions.values()))
    flips = {s: table.rename_axis("seeds") for s, table in zip(strata, result.flips, strict=True) if len(table)}
    if flips:
        texts["fewer_seeds.csv"] = csv_text(_stacked(flips))
    if result.verdicts:
        texts["verdicts.csv"] = csv_text(pd.DataFrame(result.verdicts), index=False)
        texts["verdicts.md"] = markdown(verdict_table(result.verdicts))
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
    for comparison, interactions, flips in zip(result.comparisons, result.interactions, result.flips, strict=True):
        content = {
            "stratum": comparison.stratum or None,
            "ranked": comparison.ranked,
            "arms": _arms(comparison),
            "scores": {variant: comparison.scores[variant].to_dict() for variant in comparison.scores},
            "interactions": [] if interactions is None else _rows(interactions.reset_index()),
            "fewer_seeds": _rows(flips.rename_axis("seeds").reset_index()),
        }
        comparisons.append(_infinite(content) if comparison.ranked else content)
    verdicts = []
    for fields in (verdict._asdict() for verdict in result.verdicts):  # null: what a claim does not have
        optional = ("stratum", "direction", "metric", "variant", "versus")
        verdicts.append(_infinite(fields | {key: fields[key] or None for key in optional}))
    content = {
        "schema": SCHEMA,
        "sweeps": list(result.data.runs["sweep"].unique()),
        "metric": first.metric,
        "better": first.better,
        "aggregation": first.aggregation,
        "baseline": first.baseline,
        "alpha": ALPHA,
        "differences_corrected": first.family,
        "until_decided": first.until_decided,
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


def _infinite(value: Any) -> Any:
    """Replace infinite numbers by "inf" and "-inf"."""
    if isinstance(value, Mapping):
        return {key: _infinite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_infinite(item) for item in value]
    return f"{value:g}" if isinstance(value, float) and math.isinf(value) else value


def _arms(comparison: Comparison) -> list[dict[str, Any]]:
    arms = []
    for row in _rows(comparison.table.reset_index()):
        variant = row["variant"]
        arm = {"variant": variant, "label": comparison.labels[variant], **row}
        if comparison.sequential:
            arm["decided"] = None if variant == comparison.baseline else comparison.decision(variant)
        arms.append(arm)
    return arms


def _rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return frame.astype(object).where(frame.notna(), None).to_dict("records")


def plain(value: Any) -> Any:
    """Return the value in Python's own types, for json; numbers that are missing or not finite are None."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    value = value.item() if hasattr(value, "item") else value
    return None if isinstance(value, float) and not math.isfinite(value) else value
