"""A comparison for programs: everything that its tables, notes and verdicts say, as one JSON object."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.data.read import read_object
from analysis.stats.answer import Answer
from analysis.stats.comparison import Comparison
from analysis.stats.inference.significance import ALPHA

JSON_FILE = "comparison.json"


def answer_json(result: Answer, files: Sequence[Path]) -> str:
    """The text; numbers that are missing or not finite are null."""
    first = result.comparisons[0]
    content = {
        "sweeps": list(result.data.runs["sweep"].unique()),
        "metric": first.metric,
        "better": first.better,
        "aggregation": first.aggregation,
        "baseline": first.baseline,
        "alpha": ALPHA,
        "differences_corrected": first.family,
        "until_decided": first.until_decided,
        "comparisons": [_comparison(result, place) for place in range(len(result.comparisons))],
        "pooled": {"arms": _arms(result.pooled)} if result.pooled else None,
        "study": result.study.get("name"),
        "verdicts": [verdict._asdict() for verdict in result.verdicts],
        "notes": result.notes,
        "problems": [problem._asdict() for problem in result.data.problems],
        "runs": _rows(result.data.runs),
        "files": [path.name for path in files],
    }
    return json.dumps(plain(content), indent=1, ensure_ascii=False, allow_nan=False)


def written_files(folder: Path) -> set[Path]:
    """What the last comparison wrote in a folder, by its own account."""
    names = read_object(folder / JSON_FILE)[0].get("files")
    named = names if isinstance(names, list) else []
    return {folder / name for name in named if isinstance(name, str) and Path(name).name == name}


def _comparison(result: Answer, place: int) -> dict[str, Any]:
    comparison, interactions = result.comparisons[place], result.interactions[place]
    return {
        "stratum": comparison.stratum or None,
        "arms": _arms(comparison),
        "scores": {variant: comparison.scores[variant].to_dict() for variant in comparison.scores},
        "interactions": [] if interactions is None else _rows(interactions.reset_index()),
        "fewer_seeds": _rows(result.flips[place].rename_axis("seeds").reset_index()),
    }


def _arms(comparison: Comparison) -> list[dict[str, Any]]:
    rows = _rows(comparison.table.reset_index())
    arms = [{"variant": row["variant"], "label": comparison.labels[row["variant"]], **row} for row in rows]
    if comparison.sequential:
        arms = [arm | {"decided": _decided(comparison, arm["variant"])} for arm in arms]
    return arms


def _decided(comparison: Comparison, variant: str) -> str | None:
    return None if variant == comparison.baseline else comparison.decision(variant)


def _rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return frame.astype(object).where(frame.notna(), None).to_dict("records")


def plain(value: Any) -> Any:
    """The value in Python's own types, for json; numbers that are missing or not finite are None."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    value = value.item() if hasattr(value, "item") else value
    return None if isinstance(value, float) and not math.isfinite(value) else value
