"""jobs.jsonl: the list of a sweep's jobs and what became of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rlexp.core.exits import describe_error
from rlexp.record.disk.durable import replace
from rlexp.record.disk.seals import sealed_line
from rlexp.record.files import SUMMARY_FILE
from rlexp.sweep.job import Job

INDEX_FILE = "jobs.jsonl"


class Index:
    """The rows of a sweep, in job order."""

    def __init__(self, folder: Path):
        self.path = folder / INDEX_FILE
        self.rows: list[dict[str, Any]] = []

    def add(self, jobs: Sequence[Job]) -> None:
        """List jobs that are about to start."""
        self.rows.extend(
            {
                "job": job.number,
                "name": job.name,
                "overrides": list(job.overrides),
                "variant": job.variant,
                "seed": job.config.seed,
                "status": "running",
                "reason": None,
                "score": None,
            }
            for job in jobs
        )
        self.write()

    def record(self, job: Job, result: float | Exception) -> None:
        """Enter what became of a job; its own summary knows whether it failed or diverged."""
        row = next(row for row in self.rows if row["job"] == job.number)
        if isinstance(result, Exception):
            row |= {"status": "failed", "reason": describe_error(result)} | failure_in(job.folder)
        else:
            row |= {"status": "completed", "score": result}

    def close(self) -> None:
        """Whatever still runs now was interrupted."""
        for row in self.rows:
            if row["status"] == "running":
                row["status"] = "interrupted"
        self.write()

    def write(self) -> None:
        """Replace the file at once, so that a reader never sees half of it."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        replace(self.path, "".join(sealed_line(row, len(self.rows)) for row in self.rows))


def read_index(folder: Path) -> list[dict[str, Any]]:
    """Return the rows of jobs.jsonl; none if another launcher ran."""
    path = folder / INDEX_FILE
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def failure_in(folder: Path) -> dict[str, Any]:
    """Return status and reason of a run that says itself that it did not complete; nothing otherwise."""
    try:
        summary = json.loads((folder / SUMMARY_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    fate = {key: summary[key] for key in ("status", "reason") if summary.get(key)}
    return fate if fate.get("status") in ("failed", "diverged") else {}
