"""Batches in processes that submitit starts, here or through SLURM; each tells how it goes in files."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from submitit import Job
from submitit.core.core import PicklingExecutor

from hydra_plugins.rlexp_launcher._core import Bucket, Results
from hydra_plugins.rlexp_launcher._part import LOST, lost, train_until_told
from rlexp.exits import reason
from rlexp.hooks import shortest

SECONDS_BETWEEN_LOOKS = 0.1
FOLDER = ".workers"


@dataclass
class Worker:
    """A process, what it trains, and how much of its stderr was shown."""

    job: Job
    bucket: Bucket
    shown: int = 0

    def tell(self) -> None:
        """Repeat here what the process wrote to its stderr since the last time, in whole lines."""
        try:
            new = self.job.paths.stderr.read_bytes()[self.shown :]
        except OSError:
            return
        new = new[: new.rfind(b"\n") + 1]
        self.shown += len(new)
        lines = new.decode(errors="replace").splitlines()
        sys.stderr.writelines(f"{line}\n" for line in lines if not line.startswith("submitit "))
        sys.stderr.flush()

    def results(self) -> Results:
        """Return what the process sent back, or why it did not."""
        self.tell()
        if not self.job.paths.result_pickle.exists():
            return lost(self.bucket.part, f"{LOST}; see {shortest(self.job.paths.stderr)}")
        try:
            return self.job.result()
        except Exception as error:
            return lost(self.bucket.part, str(error).rstrip(" \n-").splitlines()[-1])


@dataclass
class Pool:
    """At most so many processes at a time. ``ended`` says whether a job has, with or without a result."""

    executor: PicklingExecutor
    workers: int
    cores: int
    ended: Callable[[Job], bool]
    stop: Callable[[Sequence[Job]], None]

    def run(self, buckets: Iterable[Bucket]) -> Iterator[tuple[Bucket, Results]]:
        """Train the buckets; each comes back when it has ended."""
        waiting, going = iter(buckets), []
        try:
            while True:
                for bucket in islice(waiting, self.workers - len(going)):
                    try:
                        going.append(Worker(self.executor.submit(train_until_told, bucket.part, self.cores), bucket))
                    except Exception as error:
                        yield bucket, lost(bucket.part, f"no worker: {reason(error)}")
                if not going:
                    return
                time.sleep(SECONDS_BETWEEN_LOOKS)
                for worker in going[:]:
                    worker.tell()
                    if self.ended(worker.job):
                        going.remove(worker)
                        yield worker.bucket, worker.results()
        finally:
            self.stop([worker.job for worker in going])
