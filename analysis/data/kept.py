"""What runs keep beside their metrics: completions as text (samples.jsonl), and gradients (summary.json)."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rlexp.analysis.data.load import SweepData
from rlexp.analysis.data.read import read_lines, read_object
from rlexp.analysis.data.variants import first_of_variants
from rlexp.runfolder.files import SAMPLES_FILE, SUMMARY_FILE

Records = list[dict[str, Any]]


def read_samples(data: SweepData) -> dict[str, Records]:
    """The samples of each run that has any."""
    folders = zip(data.runs["name"], data.runs["folder"], strict=True)
    samples_by_run = {name: read_lines(Path(folder) / SAMPLES_FILE)[0] for name, folder in folders}
    return {name: rows for name, rows in samples_by_run.items() if rows}


def advantages(data: SweepData, samples: Mapping[str, Records]) -> dict[str, np.ndarray]:
    """All advantages in the samples of each variant's completed runs, `[n]`."""
    runs = data.runs[data.runs["status"] == "completed"]
    by_variant: dict[str, list[float]] = {}
    for name, variant in zip(runs["name"], runs["variant"], strict=True):
        values = [row.get("advantage") for row in samples.get(name, [])]
        by_variant.setdefault(variant, []).extend(v for v in values if isinstance(v, int | float))
    return {variant: np.array(values) for variant, values in by_variant.items() if values}


class Gradient(NamedTuple):
    """Weights of A · ∇log π at ratios of the new to the old probability of a token; arrays `[ratios]`."""

    ratios: np.ndarray
    lines: dict[str, tuple[np.ndarray, np.ndarray]]
    """The weights where A > 0 and where A < 0, by name of a line; the name is empty if there is only one."""
    note: str
    """For the reader; may be empty."""


def variant_gradients(data: SweepData) -> dict[str, Gradient]:
    """The gradient of each variant's first run that holds one; older runs, and some losses, hold none."""

    def read(folder: str) -> Gradient | None:
        return parse_gradient(read_object(Path(folder) / SUMMARY_FILE)[0].get("gradient"))

    return first_of_variants(data.runs, read)


def parse_gradient(value: Any) -> Gradient | None:
    """`{"ratios": […], "lines": {"": {"positive": […], "negative": […]}}, "note": ""}`; None for any other form."""
    try:
        ratios = np.array(value["ratios"], dtype=float)  # null is NaN
        lines = {
            str(name): tuple(np.array(line[sign], dtype=float) for sign in ("positive", "negative"))
            for name, line in value["lines"].items()
        }
        note = str(value.get("note") or "")
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
        return None
    weights = [numbers for both in lines.values() for numbers in both]
    whole = all(numbers.shape == ratios.shape and np.isfinite(numbers).any() for numbers in weights)
    usable = ratios.ndim == 1 and ratios.size > 1 and np.isfinite(ratios).all() and (ratios > 0).all()
    return Gradient(ratios, lines, note) if lines and whole and usable else None
