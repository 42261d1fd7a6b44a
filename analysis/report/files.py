"""What a comparison leaves in its folder: long and wide tables as CSV, Markdown and LaTeX, and figures."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from analysis.data.disk.links import unlinked
from analysis.data.errors import AnalysisError
from analysis.data.load import SweepData
from analysis.data.runs import Problem
from analysis.report.as_json import JSON_FILE, answer_json, written_files
from analysis.report.grids import WIDE_CELLS, interaction_table, long_table, wide_frame, wide_text
from analysis.report.tables import TextTable, comparison_table, csv_text, latex, markdown, markdown_text, verdict_table
from analysis.stats.answer import Answer
from analysis.stats.comparison import Comparison
from analysis.stats.verdicts.judge import Verdict


def write_files(out: Path, result: Answer, wide: str | None = None) -> list[Path]:
    """Tables and figures in a folder; the paths written. Files of an earlier comparison that this one has not go."""
    texts = {
        **_long(result, result.data.problems),
        **_wide(result.comparisons, wide),
        **_interactions(result),
        **_flips(result),
        **_verdicts(result.verdicts),
        "runs.csv": csv_text(result.data.runs, index=False),
    }
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


def _comparisons(result: Answer) -> list[Comparison]:
    return [*result.comparisons, *([result.pooled] if result.pooled else [])]


def _long(result: Answer, problems: Sequence[Problem]) -> dict[str, str]:
    comparisons = _comparisons(result)
    remarks = [*result.notes, *(f"{problem.run}: {problem.reason}" for problem in problems)]
    parts = [_titled(comparison_table(comparison), comparison.stratum) for comparison in comparisons]
    return {
        "table.csv": csv_text(stacked({comparison.stratum: comparison.table for comparison in comparisons})),
        "table.md": "\n".join(parts) + "".join(f"\n- {markdown_text(remark)}" for remark in remarks) + "\n",
        "table.tex": latex(long_table(comparisons)),
    }


def _titled(table: TextTable, title: str) -> str:
    return (f"### {title}\n\n" if title else "") + markdown(table)


def stacked(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """The tables of strata below each other; several get a first column that says of which stratum each row is."""
    return next(iter(tables.values())) if len(tables) == 1 else pd.concat(tables, names=["stratum"])


def _wide(comparisons: Sequence[Comparison], across: str | None) -> dict[str, str]:
    """Nothing if there is one stratum and not two axes."""
    tables = {what: wide_text(comparisons, what, across) for what in WIDE_CELLS}
    if None in tables.values():
        return {}
    numbers = {column: wide_frame(comparisons, column, across) for column in ("iqm", "difference", "p_holm")}
    texts = {"wide.csv": csv_text(pd.concat(numbers, axis=1, names=["number"]))}
    texts["wide.md"] = "\n".join(_titled(table, what) for what, table in tables.items())
    return texts | {f"wide_{what}.tex": latex(table) for what, table in tables.items()}


def _interactions(result: Answer) -> dict[str, str]:
    pairs = zip(result.comparisons, result.interactions, strict=True)
    frames = {comparison.stratum: table for comparison, table in pairs if table is not None}
    if not frames:
        return {}
    tables = {stratum: interaction_table(table) for stratum, table in frames.items()}
    texts = {"interactions.csv": csv_text(stacked(frames))}
    texts["interactions.md"] = "\n".join(_titled(table, stratum) for stratum, table in tables.items())
    return texts | {"interactions.tex": "\n".join(map(latex, tables.values()))}


def _flips(result: Answer) -> dict[str, str]:
    pairs = zip(result.comparisons, result.flips, strict=True)
    frames = {comparison.stratum: flips.rename_axis("seeds") for comparison, flips in pairs if len(flips)}
    return {"fewer_seeds.csv": csv_text(stacked(frames))} if frames else {}


def _verdicts(verdicts: Sequence[Verdict]) -> dict[str, str]:
    if not verdicts:
        return {}
    frame = pd.DataFrame(verdicts)
    return {"verdicts.csv": csv_text(frame, index=False), "verdicts.md": markdown(verdict_table(verdicts))}


def _write_figures(out: Path, result: Answer) -> list[Path]:
    """The figures for which there are data, of each stratum."""
    files = []
    for part, comparison in zip(result.parts, result.comparisons, strict=True):
        ending = "_" + re.sub(r"[^\w.-]+", "_", comparison.stratum) if comparison.stratum else ""
        files += _figures(out, part, comparison, result.data.variants, ending)
    return files


def _figures(out: Path, data: SweepData, comparison: Comparison, variants: Sequence[str], ending: str) -> list[Path]:
    """Matplotlib is imported here, once there is something to draw."""
    from analysis.figures.forest import effects_figure
    from analysis.figures.labels import varies
    from analysis.figures.lines import curves_figure
    from analysis.figures.style import save_figure, variant_colours
    from analysis.stats.curves import learning_curves

    files = []
    colours = variant_colours(variants, comparison.baseline)
    scores = comparison.scores.to_numpy(dtype=float)
    if (comparison.table["n_pairs"] > 0).any() and varies(scores) and not np.isinf(scores).any():
        files += save_figure(effects_figure(comparison, colours), out / f"effects{ending}")
    lines = learning_curves(data, comparison)
    if lines and varies(np.concatenate([line.iqm for line in lines.values()])):
        files += save_figure(curves_figure(comparison, lines, colours), out / f"curves{ending}")
    return files
