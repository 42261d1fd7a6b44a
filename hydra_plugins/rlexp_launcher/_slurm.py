"""Batches as jobs of a SLURM cluster. Its nodes must see the sweep's folder and this installation."""

from __future__ import annotations

import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from submitit import Job, SlurmExecutor

from hydra_plugins.rlexp_launcher._submitit import FOLDER, Pool

SECONDS_BETWEEN_LOOKS, LOOKS_UNTIL_LOST = 2.0, 3
SECONDS_TO_SAVE = 20


@contextmanager
def open_pool(
    folder: Path, *, workers: int, partition: str | None, cpus: int, mem_gb: int, minutes: int, options: dict[str, Any]
) -> Iterator[Pool]:
    """Return a pool of SLURM jobs; the queue is the only thing asked about them, as many clusters keep no accounts."""
    executor = SlurmExecutor(folder / FOLDER)
    known = {"partition": partition} if partition else {}
    executor.update_parameters(
        job_name="rlexp",
        cpus_per_task=cpus,
        mem=f"{mem_gb}GB",
        time=minutes,
        additional_parameters=dict(options),
        **known,
    )
    yield Pool(executor, workers, cpus, Queue().ended, stop)


class Queue:
    """What ``squeue`` says, asked now and then."""

    def __init__(self):
        self.asked, self.missing = 0.0, Counter()

    def ended(self, job: Job) -> bool:
        """Whether a job has a result, or was repeatedly not in the queue: a result may take a while to be seen."""
        if job.paths.result_pickle.exists():
            return True
        if job.job_id not in self.missing:
            self.missing[job.job_id] = 0
        if time.monotonic() - self.asked > SECONDS_BETWEEN_LOOKS:
            self.look()
        return self.missing[job.job_id] >= LOOKS_UNTIL_LOST

    def look(self) -> None:
        """Count for each job how often in a row it was missing; no answer is no news."""
        self.asked = time.monotonic()
        queued = in_the_queue()
        if queued is not None:
            for job in self.missing:
                self.missing[job] = 0 if job in queued else self.missing[job] + 1


def in_the_queue() -> set[str] | None:
    """Return the numbers of this user's jobs; None if there is no answer."""
    answer = subprocess.run(["squeue", "--me", "--noheader", "--format=%A"], capture_output=True, text=True)
    return set(answer.stdout.split()) if answer.returncode == 0 else None


def stop(jobs: Sequence[Job]) -> None:
    """Cancel jobs and wait while their runs save and say so; SLURM sees to their end without this process, too."""
    for job in jobs:
        job.cancel()
    numbers, end = {job.job_id for job in jobs}, time.monotonic() + SECONDS_TO_SAVE
    while numbers & (in_the_queue() or set()) and time.monotonic() < end:
        time.sleep(SECONDS_BETWEEN_LOOKS / 4)
