"""What a batch begins from: whose turn each run is, the state that it goes on from, its files."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from rlexp.core.exits import RunFailed
from rlexp.record.checkpoint import LATEST, PREVIOUS
from rlexp.record.disk.io_errors import unwritable
from rlexp.record.disk.lock import LOCK_FILE, locked
from rlexp.record.resume import inspect, last_good_state
from rlexp.runfolder.files import METRICS_FILE
from rlexp.sweep.events import FRESH
from rlexp.sweep.job import Job
from rlexp.sweep.run import Run

LOG = logging.getLogger(__name__)


def state_or_result(job: Job, locks: ExitStack) -> dict[str, Any] | float | Exception:
    """Lock the folder of a run and return the state that this process trains it on from.

    A fresh run's is that of step −1: nothing, not even evaluated. Of a run that is not trained its score, or why not.
    """
    if job.ended is not None:
        return job.ended
    try:
        locks.enter_context(locked(job.folder))
    except (RunFailed, OSError) as error:
        return unwritable(error, job.folder / LOCK_FILE)
    try:
        config = job.config.model_dump(mode="json")
        status = inspect(job.folder, config)  # once more: another process may have trained it since it was planned
        if status.result is not None:
            return status.result
        if status.diverged:
            return dict(FRESH)
        state, path, notes = last_good_state(job.folder, config, status)
        for line in notes:
            LOG.warning(line, extra={"job": job.name})
        if path == job.folder / PREVIOUS:  # a latest one that cannot be used must not become the previous one
            os.replace(path, job.folder / LATEST)
    except Exception as error:
        return error
    return state or dict(FRESH)


def open_run(job: Job, saved: Mapping[str, Any]) -> Run | Exception:
    """Open the files of a run; return why that cannot be done."""
    try:
        return Run.open(job, saved["step"], saved.get("files"))
    except OSError as error:
        return unwritable(error, job.folder / METRICS_FILE)
    except Exception as error:
        return error
