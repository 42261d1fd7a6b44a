"""Batches side by side, in processes of this machine."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import TimeoutExpired

from submitit import LocalExecutor, LocalJob

from hydra_plugins.rlexp_launcher._submitit import FOLDER, Pool

NO_LIMIT_MINUTES = 60 * 24 * 365
SECONDS_TO_STOP = 20


class DeafExecutor(LocalExecutor):
    """Its processes do not hear the Ctrl-C of the terminal: this process does, and then stops them."""

    def _submit_command(self, command: str) -> LocalJob:
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            return super()._submit_command(command)
        finally:
            signal.signal(signal.SIGINT, before)


@contextmanager
def open_pool(folder: Path, *, workers: int | None) -> Iterator[Pool]:
    """Return a pool that shares the cores among its processes."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    workers = workers or cores
    executor = DeafExecutor(folder / FOLDER)
    executor.update_parameters(timeout_min=NO_LIMIT_MINUTES)
    yield Pool(executor, workers, max(1, cores // workers), LocalJob.done, stop)


def stop(job: LocalJob) -> None:
    """End a process and give its runs time to say so in their summaries."""
    job._process.terminate()
    try:
        job._process.wait(SECONDS_TO_STOP)
    except TimeoutExpired:
        job._process.kill()
