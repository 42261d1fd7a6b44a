"""A comparison for programs: everything that its tables, notes and verdicts say, as one JSON object."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from rlexp.analysis.data.read import read_object
from rlexp.analysis.stats.answer import Answer
from rlexp.analysis.stats.comparison import Comparison
from rlexp.analysis.stats.inference.significance import ALPHA
from rlexp.analysis.stats.verdicts.decide import Verdict

JSON_FILE = "comparison.json"
SCHEMA = 1  # raised where a program that reads an older one would be wrong


def answer_json(result: Answer, files: Sequence[Path]) -> str:
    """Return the text, as `comparison.schema.json` describes it.

    Numbers that are missing are null; infinite ones, as the cost of what a run never reaches, are "inf" or "-inf".
    """
    first = result.comparisons[0]
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
        "comparisons": [_comparison(result, place) for place in range(len(result.comparisons))],
        "pooled": {"arms": _arms(result.pooled)} if result.pooled else None,
        "study": result.study.get("name"),
        "no_verdict": result.no_verdict or None,
        "verdicts": [_verdict(verdict) for verdict in result.verdicts],
        "notes": result.notes,
        "problems": [problem._asdict() for problem in result.data.problems],
        "runs": _rows(result.data.runs),
        "files": [path.name for path in files],
    }
    return json.dumps(plain(content), indent=1, ensure_ascii=False, allow_nan=False)


def written_files(folder: Path) -> set[Path]:
    """Return the files that the last comparison in a folder has written, by its JSON."""
    names = read_object(folder / JSON_FILE)[0].get("files")
    named = names if isinstance(names, list) else []
    files = [folder / name for name in named if isinstance(name, str) and Path(name).name == name]
    return {file for file in files if file.is_file()}


def _comparison(result: Answer, place: int) -> dict[str, Any]:
    comparison, interactions = result.comparisons[place], result.interactions[place]
    content = {
        "stratum": comparison.stratum or None,
        "ranked": comparison.ranked,
        "arms": _arms(comparison),
        "scores": {variant: comparison.scores[variant].to_dict() for variant in comparison.scores},
        "interactions": [] if interactions is None else _rows(interactions.reset_index()),
        "fewer_seeds": _rows(result.flips[place].rename_axis("seeds").reset_index()),
    }
    return _infinite(content) if comparison.ranked else content


def _verdict(verdict: Verdict) -> dict[str, Any]:
    """Return the fields; those that a claim does not have, such as the other variant of a level, are null."""
    fields, optional = verdict._asdict(), ("stratum", "direction", "metric", "variant", "versus")
    return _infinite(fields | {key: fields[key] or None for key in optional})


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
