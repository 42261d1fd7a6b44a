"""The completions that runs keep as text (samples.jsonl), with their rewards and advantages."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rlexp.analysis.data.load import SweepData
from rlexp.analysis.data.read import read_lines
from rlexp.runfolder.files import SAMPLES_FILE

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
