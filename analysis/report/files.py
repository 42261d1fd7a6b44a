"""The files of a comparison: long and wide tables as CSV, Markdown and LaTeX, and figures."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from rlexp.analysis.data.errors import AnalysisError
from rlexp.analysis.data.read import unlinked
from rlexp.analysis.report.as_json import JSON_FILE, answer_json, written_files
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


def write_files(out: Path, result: Answer, wide: str | None = None) -> list[Path]:
    """Write tables and figures to a folder, remove files of an earlier comparison; return the paths written."""
    texts = _tables(result, wide)
    try:
        out.mkdir(parents=True, exist_ok=True)
        earlier = written_files(out)
        for name, text in texts.items():
            unlinked(out / name).write_text(text, encoding="utf-8", errors="replace")
        files = [out / name for name in texts] + _write_figures(out, result)
        for path in earlier - set(files):
            path.unlink(missing_ok=True)
        files.append(out / JSON_FILE)
        unlinked(files[-1]).write_text(answer_json(result, files) + "\n", encoding="utf-8", errors="replace")
        return files
    except OSError as error:
        raise AnalysisError(f"cannot write to '{out}': {error.strerror or error}") from error


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
        **_wide(result.comparisons, wide),
    }
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


def _wide(comparisons: Sequence[Comparison], across: str | None) -> dict[str, str]:
    """Return nothing if there is one stratum and not two axes."""
    tables = {what: wide_text(comparisons, what, across) for what in WIDE_CELLS}
    if None in tables.values():
        return {}
    numbers = {column: wide_frame(comparisons, column, across) for column in ("iqm", "difference", "p_holm")}
    texts = {"wide.csv": csv_text(pd.concat(numbers, axis=1, names=["number"])), "wide.md": _titled(tables)}
    return texts | {f"wide_{what}.tex": latex(table) for what, table in tables.items()}


def _titled(tables: Mapping[str, TextTable]) -> str:
    return "\n".join((f"### {title}\n\n" if title else "") + markdown(table) for title, table in tables.items())


def _stacked(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Put the tables of strata below each other; several get a first column that names the stratum of each row."""
    return next(iter(tables.values())) if len(tables) == 1 else pd.concat(tables, names=["stratum"])


def _write_figures(out: Path, result: Answer) -> list[Path]:
    """Save the figures for which there are data, of each stratum; import Matplotlib once there is something to draw."""
    from rlexp.analysis.figures.forest import effects_drawing
    from rlexp.analysis.figures.inputs import varies
    from rlexp.analysis.figures.lines import curves_drawing
    from rlexp.analysis.figures.style import save_figure, variant_colors
    from rlexp.analysis.stats.curves import learning_curves

    files = []
    for part, comparison in zip(result.parts, result.comparisons, strict=True):
        ending = "_" + re.sub(r"[^\w.-]+", "_", comparison.stratum) if comparison.stratum else ""
        colors = variant_colors(result.data.variants, comparison.baseline)
        scores = comparison.scores.to_numpy(dtype=float)
        if (comparison.table["n_pairs"] > 0).any() and varies(scores) and not np.isinf(scores).any():
            files += save_figure(effects_drawing(comparison, colors).figure, out / f"effects{ending}")
        lines = learning_curves(part, comparison)
        if lines and varies(np.concatenate([line.iqm for line in lines.values()])):
            files += save_figure(curves_drawing(comparison, lines, colors).figure, out / f"curves{ending}")
    return files
