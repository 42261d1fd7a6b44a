"""The completions that runs keep as text (samples.jsonl), with their rewards and advantages."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from analysis.load import Data
from analysis.read import read_lines

SAMPLES_FILE = "samples.jsonl"
Rows = list[dict[str, Any]]


def read_samples(data: Data) -> dict[str, Rows]:
    """The samples of each run that has any."""
    places = zip(data.runs["name"], data.runs["folder"], strict=True)
    found = {name: read_lines(Path(folder) / SAMPLES_FILE)[0] for name, folder in places}
    return {name: rows for name, rows in found.items() if rows}


def advantages(data: Data, samples: Mapping[str, Rows]) -> dict[str, np.ndarray]:
    """All advantages in the samples of each variant's completed runs, `[n]`."""
    runs = data.runs[data.runs["status"] == "completed"]
    found: dict[str, list[float]] = {}
    for name, variant in zip(runs["name"], runs["variant"], strict=True):
        values = [row.get("advantage") for row in samples.get(name, [])]
        found.setdefault(variant, []).extend(v for v in values if isinstance(v, int | float))
    return {variant: np.array(values) for variant, values in found.items() if values}
