"""jobs.jsonl: the list of a sweep's jobs and what became of them."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from rlexp.core.exits import describe_error
from rlexp.record.disk import replace
from rlexp.runfolder.files import INDEX_FILE, SUMMARY_FILE, line_with_checksum
from rlexp.sweep.job import Job

LOG = logging.getLogger(__name__)

_of_this_process: dict[Path, Index] = {}  # by the sweep's folder; a file may be another process's


class Index:
    """The rows of a sweep, in job order."""

    def __init__(self, folder: Path):
        self.path = folder / INDEX_FILE
        self.rows: list[dict[str, Any]] = []
        _of_this_process[folder.resolve()] = self

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
        self.path.parent.mkdir(parents=True, exist_ok=True)
        replace(self.path, lines(self.rows))

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
        """Replace the file at once, so that a reader never sees half of it; on a full disk write in the room it has."""
        try:
            replace(self.path, lines(self.rows))
        except OSError as error:
            if not self.written_over():
                LOG.warning("%s lacks what became of the jobs: %s", self.path, error.strerror or error)

    def written_over(self) -> bool:
        """Write over the file; where that is too little room, what became of the jobs alone. Whether all is there."""
        short = [row | {"overrides": [], "reason": None, "score": None} for row in self.rows]
        for rows in (self.rows, short):
            with suppress(OSError), open(self.path, "r+b") as file:
                file.write(lines(rows).encode())
                file.truncate()
                return rows is self.rows
        return False


def lines(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return rows as they stand in the file."""
    return "".join(line_with_checksum(row, len(rows)) for row in rows)


def unfinished(folder: Path) -> list[dict[str, Any]]:
    """Return the rows of the jobs that this process has launched and that did not complete; none of other launchers."""
    index = _of_this_process.pop(folder.resolve(), None)
    return [row for row in index.rows if row["status"] != "completed"] if index else []


def failure_in(folder: Path) -> dict[str, Any]:
    """Return status and reason of a run that says itself that it did not complete; nothing otherwise."""
    try:
        summary = json.loads((folder / SUMMARY_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    fate = {key: summary[key] for key in ("status", "reason") if summary.get(key)}
    return fate if fate.get("status") in ("failed", "diverged") else {}
