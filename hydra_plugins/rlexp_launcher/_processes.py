"""Batches side by side, in processes of this machine."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from subprocess import TimeoutExpired

from submitit import LocalExecutor, LocalJob

from hydra_plugins.rlexp_launcher._submitit import FOLDER, Pool

NO_LIMIT_MINUTES = 60 * 24 * 365
SECONDS_TO_SAVE, SECONDS_TO_STOP = 20, 5


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


def stop(jobs: Sequence[LocalJob]) -> None:
    """End processes and give their runs time to save and to say so; a second Ctrl-C, or no end, ends them at once.

    Submitit's process hands a SIGTERM on to the one that trains, which takes a second one as it takes a second Ctrl-C.
    """
    for seconds in (SECONDS_TO_SAVE, SECONDS_TO_STOP):
        for job in jobs:
            job._process.terminate()
        end = time.monotonic() + seconds
        try:
            for job in jobs:
                job._process.wait(max(0.0, end - time.monotonic()))
            return
        except (TimeoutExpired, KeyboardInterrupt):
            continue
    for job in jobs:
        job._process.kill()
