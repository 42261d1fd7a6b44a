"""Batches in processes that submitit starts, here or through SLURM; each writes its progress to a file."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from secrets import token_hex

from submitit import Job as Process
from submitit.core.core import PicklingExecutor

from rlexp.core.exits import describe_error
from rlexp.launch.paths import relative
from rlexp.launch.worker import NO_RESULT, failed_results, train_until_terminated
from rlexp.sweep.job import Batch, Job, Results

SECONDS_BETWEEN_POLLS = 0.1
FOLDER = ".workers"


def new_folder(sweep: Path) -> Path:
    """Return a folder of a sweep that nobody has put anything into: what workers send back are pickles."""
    folder = sweep / FOLDER / token_hex(8)
    folder.mkdir(parents=True)
    return folder


@dataclass
class Worker:
    """A process, what it trains, and how many bytes of its stderr were repeated."""

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


@dataclass
class Pool:
    """At most so many processes at a time. ``has_ended`` tells whether one has, with or without a result."""

    executor: PicklingExecutor
    workers: int
    cores: int
    has_ended: Callable[[Process], bool]
    stop: Callable[[Sequence[Process]], None]

    def workers_for(self, jobs: Sequence[Job], most: int | None) -> int:
        """Into how many parts to cut the jobs at least."""
        return self.workers

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
                time.sleep(SECONDS_BETWEEN_POLLS)
                for worker in running[:]:
                    worker.repeat_stderr()
                    if self.has_ended(worker.process):
                        running.remove(worker)
                        yield worker.batch, worker.results()
        finally:
            self.stop([worker.process for worker in running])
