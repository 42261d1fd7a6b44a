"""What a comparison leaves in its folder: long and wide tables as CSV, Markdown and LaTeX, and figures."""

import re
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from analysis.answer import Answer
from analysis.comparison import Comparison
from analysis.grids import WIDE_CELLS, interaction_grid, long_grid, wide_grid, wide_table
from analysis.load import Data, Problem
from analysis.read import AnalysisError
from analysis.tables import Grid, comparison_grid, latex, markdown, verdict_grid
from analysis.verdict import Verdict


def write(
    out: Path, found: Answer, judged: Sequence[Verdict], problems: Sequence[Problem], wide: str | None = None
) -> list[Path]:
    """Tables and figures in a folder; the paths written."""
    texts = {
        **_long(found, problems),
        **_wide(found.comparisons, wide),
        **_interactions(found),
        **_flips(found),
        **_verdicts(judged),
        "runs.csv": found.data.runs.to_csv(index=False),
    }
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            (out / name).write_text(text, encoding="utf-8")
        return [out / name for name in texts] + _write_figures(out, found)
    except OSError as error:
        raise AnalysisError(f"cannot write to '{out}': {error.strerror or error}") from error


def _tables(found: Answer) -> list[Comparison]:
    return [*found.comparisons, *([found.pooled] if found.pooled else [])]


def _long(found: Answer, problems: Sequence[Problem]) -> dict[str, str]:
    tables = _tables(found)
    below = [*found.notes, *(f"{problem.run}: {problem.reason}" for problem in problems)]
    parts = [_titled(comparison_grid(each), each.stratum) for each in tables]
    return {
        "table.csv": stacked([each.table for each in tables], [each.stratum for each in tables]).to_csv(),
        "table.md": "\n".join(parts) + "".join(f"\n- {remark}" for remark in below) + "\n",
        "table.tex": latex(long_grid(tables)),
    }


def _titled(grid: Grid, title: str) -> str:
    return (f"### {title}\n\n" if title else "") + markdown(grid)


def stacked(tables: Sequence[pd.DataFrame], strata: Sequence[str]) -> pd.DataFrame:
    """The tables below each other; several ones get a first column that says of which stratum each row is."""
    return tables[0] if len(tables) == 1 else pd.concat(tables, keys=strata, names=["stratum"])


def _wide(comparisons: Sequence[Comparison], across: str | None) -> dict[str, str]:
    """Nothing if there is one stratum and not two axes."""
    grids = {what: wide_grid(comparisons, what, across) for what in WIDE_CELLS}
    if None in grids.values():
        return {}
    numbers = {column: wide_table(comparisons, column, across) for column in ("iqm", "difference", "p_holm")}
    texts = {"wide.csv": pd.concat(numbers, axis=1, names=["number"]).to_csv()}
    texts["wide.md"] = "\n".join(_titled(grid, what) for what, grid in grids.items())
    return texts | {f"wide_{what}.tex": latex(grid) for what, grid in grids.items()}


def _interactions(found: Answer) -> dict[str, str]:
    pairs = [pair for pair in zip(found.comparisons, found.interactions, strict=True) if pair[1] is not None]
    if not pairs:
        return {}
    grids = [(comparison.stratum, interaction_grid(table)) for comparison, table in pairs]
    texts = {"interactions.csv": stacked([table for _, table in pairs], [each.stratum for each, _ in pairs]).to_csv()}
    texts["interactions.md"] = "\n".join(_titled(grid, stratum) for stratum, grid in grids)
    return texts | {"interactions.tex": "\n".join(latex(grid) for _, grid in grids)}


def _flips(found: Answer) -> dict[str, str]:
    named = [(each.stratum, flips) for each, flips in zip(found.comparisons, found.flips, strict=True) if len(flips)]
    if not named:
        return {}
    table = stacked([flips.rename_axis("seeds") for _, flips in named], [stratum for stratum, _ in named])
    return {"fewer_seeds.csv": table.to_csv()}


def _verdicts(judged: Sequence[Verdict]) -> dict[str, str]:
    if not judged:
        return {}
    return {"verdicts.csv": pd.DataFrame(judged).to_csv(index=False), "verdicts.md": markdown(verdict_grid(judged))}


def _write_figures(out: Path, found: Answer) -> list[Path]:
    """The figures for which there are data, of each stratum."""
    files = []
    for part, comparison in zip(found.parts, found.comparisons, strict=True):
        ending = "_" + re.sub(r"[^\w.-]+", "_", comparison.stratum) if comparison.stratum else ""
        files += _figures(out, part, comparison, ending)
    return files


def _figures(out: Path, data: Data, comparison: Comparison, ending: str) -> list[Path]:
    """Matplotlib is imported here, once there is something to draw."""
    from analysis.curves import learning_curves
    from analysis.figures import curves, effects
    from analysis.style import save

    files = []
    if (comparison.table["n_pairs"] > 0).any():
        files += save(effects(comparison), out / f"effects{ending}")
    if lines := learning_curves(data, comparison):
        files += save(curves(comparison, lines), out / f"curves{ending}")
    return files
