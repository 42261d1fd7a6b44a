"""Batches as jobs of a SLURM cluster, by submitit. Its nodes must see the sweep's folder and this installation."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from secrets import token_hex
from typing import Any

from submitit import Job as Process
from submitit import SlurmExecutor

from rlexp.core.exits import describe_error, relative
from rlexp.launch.worker import NO_RESULT, failed_results, train_until_terminated
from rlexp.sweep.job import Batch, Job, Results

SECONDS_BETWEEN_LOOKS, SECONDS_BETWEEN_POLLS, POLLS_UNTIL_ENDED = 0.1, 2.0, 3
SECONDS_TO_SAVE = 20
FOLDER = ".workers"


@contextmanager
def open_pool(
    folder: Path,
    jobs: Sequence[Job],
    *,
    workers: int,
    partition: str | None,
    cpus: int,
    mem_gb: int,
    minutes: int,
    options: Mapping[str, Any],
) -> Iterator[Pool]:
    """Return a pool of SLURM jobs, in a folder that nobody has put anything into: what workers send are pickles."""
    own = folder / FOLDER / token_hex(8)
    own.mkdir(parents=True)
    executor = SlurmExecutor(own)
    settings = {"job_name": "rlexp", "cpus_per_task": cpus, "mem": f"{mem_gb}GB", "time": minutes}
    settings |= {"partition": partition} if partition else {}
    executor.update_parameters(additional_parameters=dict(options), **settings)
    yield Pool(executor, workers, cpus)


@dataclass
class Worker:
    """A process, what it trains, and how many bytes of its stderr, where its progress is, were repeated."""

    process: Process
    batch: Batch
    repeated: int = 0

    def repeat_stderr(self) -> None:
        """Repeat here what the process wrote to its stderr since the last time, in whole lines."""
        try:
            new = self.process.paths.stderr.read_bytes()[self.repeated :]
        except OSError:
            return
        new = new[: new.rfind(b"\n") + 1]
        self.repeated += len(new)
        lines = new.decode(errors="replace").splitlines()
        sys.stderr.writelines(f"{line}\n" for line in lines if not line.startswith("submitit "))
        sys.stderr.flush()

    def results(self) -> Results:
        """Return what the process sent back, or why it did not."""
        self.repeat_stderr()
        if not self.process.paths.result_pickle.exists():
            return failed_results(self.batch, f"{NO_RESULT}; see {relative(self.process.paths.stderr)}")
        try:
            return self.process.result()
        except Exception as error:
            return failed_results(self.batch, str(error).rstrip(" \n-").splitlines()[-1])


class Pool:
    """At most so many processes at a time."""

    def __init__(self, executor: Any, workers: int, cores: int):
        self.executor, self.workers, self.cores = executor, workers, cores
        self.polled, self.missing = 0.0, Counter()  # when the queue was, and how often in a row each was not there

    def run(self, batches: Iterable[Batch]) -> Iterator[tuple[Batch, Results]]:
        """Train the batches; each comes back when it has ended."""
        pending, running = iter(batches), []
        try:
            while True:
                for batch in islice(pending, self.workers - len(running)):
                    try:
                        running.append(Worker(self.executor.submit(train_until_terminated, batch, self.cores), batch))
                    except Exception as error:
                        yield batch, failed_results(batch, f"no worker: {describe_error(error)}")
                if not running:
                    return
                time.sleep(SECONDS_BETWEEN_LOOKS)
                for worker in running[:]:
                    worker.repeat_stderr()
                    if self.has_ended(worker.process):
                        running.remove(worker)
                        yield worker.batch, worker.results()
        finally:
            stop([worker.process for worker in running])

    def has_ended(self, process: Process) -> bool:
        """Whether a job has a result, or was repeatedly not in the queue: a result may take a while to be seen.

        Only the queue is polled, as many clusters have no accounting; an ``squeue`` that fails says nothing.
        """
        if process.paths.result_pickle.exists():
            return True
        self.missing.setdefault(process.job_id, 0)
        if time.monotonic() - self.polled > SECONDS_BETWEEN_POLLS:
            self.polled, queued = time.monotonic(), queued_ids()
            for job in self.missing if queued is not None else ():
                self.missing[job] = 0 if job in queued else self.missing[job] + 1
        return self.missing[process.job_id] >= POLLS_UNTIL_ENDED


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
