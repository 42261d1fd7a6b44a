"""Batches on this machine: one after another in this process, or side by side in as many as pay for themselves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from rlexp.launch.worker import train_batch
from rlexp.sweep.job import Batch, Job, Results


@dataclass
class Pool:
    """``wanted`` processes at a time; None for one a core, "auto" for as many as pay."""

    wanted: int | str | None
    jobs: Sequence[Job] = field(default_factory=list)
    workers: int = 1
    cores: int = 1

    def workers_for(self, jobs: Sequence[Job], most: int | None) -> int:
        """Return how many processes train these jobs."""
        from rlexp.sweep.cost import workers_that_pay
        from rlexp.sweep.machine import usable_cores

        self.jobs, self.cores = jobs, usable_cores()
        wanted = workers_that_pay(jobs, most, self.cores) if self.wanted == "auto" else self.wanted or self.cores
        self.workers = min(int(wanted), len(jobs))
        return self.workers

    def run(self, batches: Iterable[Batch]) -> Iterator[tuple[Batch, Results]]:
        """Train the batches; each comes back when it has ended."""
        if self.workers > 1:
            from rlexp.launch.executors.processes import Processes

            yield from Processes(self.workers, max(1, self.cores // self.workers)).run(self.jobs, batches)
        else:
            for batch in batches:
                yield batch, train_batch(batch)


@contextmanager
def open_pool(folder: Path, *, workers: int | str | None) -> Iterator[Pool]:
    """Return the pool; processes are started when there is something to train."""
    yield Pool(workers)
