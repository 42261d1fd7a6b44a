"""Batches side by side, in processes of this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import TimeoutExpired

from submitit import LocalExecutor, LocalJob

from hydra_plugins.rlexp_launcher._submitit import FOLDER, Pool

NO_LIMIT_MINUTES = 60 * 24 * 365
SECONDS_TO_STOP = 20


@contextmanager
def open_pool(folder: Path, *, workers: int | None) -> Iterator[Pool]:
    """Return a pool that shares the cores among its processes."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    workers = workers or cores
    executor = LocalExecutor(folder / FOLDER)
    executor.update_parameters(timeout_min=NO_LIMIT_MINUTES)
    yield Pool(executor, workers, max(1, cores // workers), LocalJob.done, stop)


def stop(job: LocalJob) -> None:
    """Interrupt a process and give its runs time to say so in their summaries."""
    job.cancel()
    try:
        job._process.wait(SECONDS_TO_STOP)
    except TimeoutExpired:
        job._process.kill()
