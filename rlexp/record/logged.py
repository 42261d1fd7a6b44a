"""What every dashboard is told of a run: its name, id, tags and settings, the code that trains it, its completions."""

from __future__ import annotations

import hashlib
import json
import logging
import math
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

from rlexp.record.provenance import code, history
from rlexp.runfolder.files import SAMPLES_FILE

LOG = logging.getLogger(__name__)
LONGEST_TAG = 64  # that W&B takes


@runtime_checkable
class LoggedJob(Protocol):
    """What a logger needs of ``rlexp.sweep.job.Job``, which this room does not import."""

    folder: Path
    variant: str
    config: Any


class Table(NamedTuple):
    """Rows of equal length under their columns."""

    columns: list[str]
    rows: list[list[Any]]


def display_name(job: LoggedJob) -> str:
    """Variant and seed: `norm=local-s3`."""
    return f"{job.variant}-s{job.config.seed}"


def run_id(job: LoggedJob) -> str:
    """Variant and seed in the characters that wandb allows, and a hash of the folder, which tells sweeps apart."""
    words = re.sub(r"[^\w.=-]+", "_", job.variant, flags=re.ASCII)[:60]
    return f"{words}-s{job.config.seed}-{hashlib.sha256(str(job.folder.resolve()).encode()).hexdigest()[:8]}"


def sweep_name(job: LoggedJob) -> str:
    """The name of the folder that holds the runs of a sweep."""
    return job.folder.resolve().parent.name


def run_settings(job: LoggedJob) -> dict[str, Any]:
    """Return the whole config of a run, what it is called, and the code that trains it.

    Of a run that other code has begun, `code.earlier` lists what that was and from which step it trained.
    """
    *earlier, now = history(job.folder) or [code()]
    return {
        **job.config.model_dump(mode="json"),
        "variant": job.variant,
        "seed": job.config.seed,
        "sweep_name": sweep_name(job),
        "code": {**now, "earlier": earlier} if earlier else now,
    }


def own_tags(job: LoggedJob) -> list[str]:
    """Return the tags that a run has by itself: its task, its study and its preset."""
    config = job.config.model_dump(mode="json")
    names = {key: (config.get(key) or {}).get("name") for key in ("task", "study")}
    preset = re.search(r"(?:^|,)\+*preset=([^,]+)", job.variant)
    names["preset"] = preset[1] if preset and preset[1] != "none" else None
    return [f"{key}={name}"[:LONGEST_TAG] for key, name in names.items() if name]


def completions(job: LoggedJob) -> Table | None:
    """Return the completions that a run has kept as text; None if it has kept none."""
    path = job.folder / SAMPLES_FILE
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    samples = [json.loads(line) for line in lines]
    if not samples:
        return None
    columns = list(samples[0])
    return Table(columns, [[sample.get(column) for column in columns] for sample in samples])


def finite(row: Mapping[str, int | float]) -> dict[str, int | float | None]:
    """Return a row as it stands in metrics.jsonl: numbers that are not finite are None."""
    return {key: value if math.isfinite(value) else None for key, value in row.items()}


def plain_values(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Return the numbers and words of a summary."""
    return {key: value for key, value in summary.items() if not isinstance(value, Mapping)}


@cache
def warn_once(message: str) -> None:
    """Say something that is the same for all runs of a process."""
    LOG.warning(message)
