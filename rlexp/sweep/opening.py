"""What a batch begins from: whose turn each run is, the state that it goes on from, its files."""

from __future__ import annotations

import logging
from contextlib import ExitStack
from typing import Any

from rlexp.core.exits import RunFailed
from rlexp.record.disk.lock import LOCK_FILE, locked
from rlexp.record.disk.troubles import unwritable
from rlexp.record.files import METRICS_FILE
from rlexp.record.resume import last_good_state, outcome, promote, restarts
from rlexp.sweep.job import Job
from rlexp.sweep.run import Run

LOG = logging.getLogger(__name__)
COUNTED = ("tokens", "completions", "verdicts")


def locked_outcome(job: Job, locks: ExitStack) -> float | Exception | None:
    """Return how a run has ended, or why nobody may train it; None if this process is the one that trains it now."""
    ended = outcome(job.folder, job.config.resume)
    if ended is not None:
        return ended
    try:
        locks.enter_context(locked(job.folder))
    except (RunFailed, OSError) as error:
        return unwritable(error, job.folder / LOCK_FILE)
    return outcome(job.folder, job.config.resume)  # another process may have trained it meanwhile


def checkpoint_of(job: Job) -> dict[str, Any] | Exception:
    """Return the saved state of a job, that of a fresh one (step −1: nothing, not even evaluated), or an error."""
    fresh = {"step": -1, **dict.fromkeys(COUNTED, 0)}
    try:
        if restarts(job.folder):
            return fresh
        saved, said = last_good_state(job.config.model_dump(mode="json"), job.folder)
        for line in said:
            LOG.warning(line, extra={"job": job.name})
        promote(job.folder, saved["step"] if saved else -1)
    except Exception as error:
        return error
    return saved or fresh


def opened_run(job: Job, step: int) -> Run | Exception:
    """Open the files of a run; return why that cannot be done."""
    try:
        return Run.open(job, step)
    except OSError as error:
        return unwritable(error, job.folder / METRICS_FILE)
    except Exception as error:
        return error
