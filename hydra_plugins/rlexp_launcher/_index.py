"""jobs.jsonl: the list of a sweep's jobs and what became of them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from rlexp.exits import reason
from rlexp.plan import Planned


class Index:
    """The rows of a sweep, in job order; ``rows`` goes on from batch to batch."""

    def __init__(self, folder: Path, rows: list[dict[str, Any]]):
        self.path, self.rows = folder / "jobs.jsonl", rows

    def open(self, planned: list[Planned]) -> None:
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
            for job in planned
        )
        self.write()

    def record(self, job: Planned, result: float | Exception) -> None:
        """Note what became of a job; its own summary knows whether it failed or diverged."""
        row = next(row for row in self.rows if row["job"] == job.number)
        if isinstance(result, Exception):
            row |= {"status": "failed", "reason": reason(result)} | summary_of(job.folder)
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
        draft = self.path.with_suffix(".tmp")
        draft.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in self.rows), encoding="utf-8")
        os.replace(draft, self.path)


def summary_of(folder: Path) -> dict[str, Any]:
    """Return status and reason of a run that says itself that it did not complete; nothing otherwise."""
    try:
        summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    known = {key: summary[key] for key in ("status", "reason") if summary.get(key)}
    return known if known.get("status") in ("failed", "diverged") else {}
