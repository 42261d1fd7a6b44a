"""Batches as jobs of a SLURM cluster. Its nodes must see the sweep's folder and this installation."""

from __future__ import annotations

import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from submitit import Job as Process
from submitit import SlurmExecutor

from rlexp.launch.executors.submitit import Pool, new_folder

SECONDS_BETWEEN_POLLS, POLLS_UNTIL_ENDED = 2.0, 3
SECONDS_TO_SAVE = 20


@contextmanager
def open_pool(
    folder: Path,
    *,
    workers: int,
    partition: str | None,
    cpus: int,
    mem_gb: int,
    minutes: int,
    options: Mapping[str, Any],
) -> Iterator[Pool]:
    """Return a pool of SLURM jobs; only the queue is polled for them, as many clusters have no accounting."""
    executor = SlurmExecutor(new_folder(folder))
    place = {"partition": partition} if partition else {}
    executor.update_parameters(
        job_name="rlexp",
        cpus_per_task=cpus,
        mem=f"{mem_gb}GB",
        time=minutes,
        additional_parameters=dict(options),
        **place,
    )
    yield Pool(executor, workers, cpus, Queue().has_ended, stop)


class Queue:
    """What ``squeue`` lists, polled now and then."""

    def __init__(self):
        self.polled, self.missing = 0.0, Counter()

    def has_ended(self, process: Process) -> bool:
        """Whether a job has a result, or was repeatedly not in the queue: a result may take a while to be seen."""
        if process.paths.result_pickle.exists():
            return True
        if process.job_id not in self.missing:
            self.missing[process.job_id] = 0
        if time.monotonic() - self.polled > SECONDS_BETWEEN_POLLS:
            self.poll()
        return self.missing[process.job_id] >= POLLS_UNTIL_ENDED

    def poll(self) -> None:
        """Count for each job how often in a row it was missing; a failed ``squeue`` says nothing."""
        self.polled = time.monotonic()
        queued = queued_ids()
        if queued is not None:
            for job in self.missing:
                self.missing[job] = 0 if job in queued else self.missing[job] + 1


def queued_ids() -> set[str] | None:
    """Return the numbers of this user's jobs; None if ``squeue`` fails."""
    answer = subprocess.run(["squeue", "--me", "--noheader", "--format=%A"], capture_output=True, text=True)
    return set(answer.stdout.split()) if answer.returncode == 0 else None


def stop(processes: Sequence[Process]) -> None:
    """Cancel jobs and wait while their runs save; SLURM sees to their end without this process, too."""
    for process in processes:
        process.cancel()
    numbers, end = {process.job_id for process in processes}, time.monotonic() + SECONDS_TO_SAVE
    while numbers & (queued_ids() or set()) and time.monotonic() < end:
        time.sleep(SECONDS_BETWEEN_POLLS / 4)
