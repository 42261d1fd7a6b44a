"""Batches as tasks of a Ray cluster, on this machine or elsewhere."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

os.environ.setdefault("RAY_DEDUP_LOGS", "0")  # progress of two batches is not the same line twice

import ray  # noqa: E402

from rlexp.core.errors import ConfigError  # noqa: E402
from rlexp.core.exits import describe_error  # noqa: E402
from rlexp.launch.worker import NO_RESULT, failed_results, train_in_worker  # noqa: E402
from rlexp.sweep.job import Batch, Job, Results  # noqa: E402

OBJECT_STORE_BYTES = 100_000_000  # a batch is a few kilobytes
SECONDS_TO_STOP = 20
SECONDS_TO_CONNECT = 10


@dataclass
class Pool:
    """At most so many tasks at a time."""

    task: Any
    workers: int
    cores: int

    def run(self, batches: Iterable[Batch]) -> Iterator[tuple[Batch, Results]]:
        """Train the batches; each comes back when it has ended."""
        pending, running = iter(batches), {}
        try:
            while True:
                for batch in islice(pending, self.workers - len(running)):
                    running[self.task.remote(batch, self.cores)] = batch
                if not running:
                    return
                (first, *_), _ = ray.wait(list(running))
                batch = running.pop(first)
                yield batch, results(first, batch)
        finally:
            for task in running:
                ray.cancel(task)
            if running:  # their runs get time to write their summaries
                ray.wait([*running], num_returns=len(running), timeout=SECONDS_TO_STOP)


def results(task: ray.ObjectRef, batch: Batch) -> Results:
    """Return what a task sent back, or why it did not."""
    try:
        return ray.get(task)
    except (ray.exceptions.WorkerCrashedError, ray.exceptions.NodeDiedError, ray.exceptions.OutOfMemoryError):
        return failed_results(batch, NO_RESULT)
    except ray.exceptions.RayError as error:
        return failed_results(batch, describe_error(error))


def accepts_connections(address: str) -> bool:
    """Whether someone listens at ``host:port``: Ray itself tries for minutes. What has no port Ray has to find."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if not port.isdigit():
        return True
    try:
        socket.create_connection((host, int(port)), SECONDS_TO_CONNECT).close()
    except (OSError, OverflowError):
        return False
    return True


@contextmanager
def open_pool(
    folder: Path, jobs: Sequence[Job], *, address: str | None, workers: int | None, cpus: int
) -> Iterator[Pool]:
    """Connect to a cluster or start one; a killed task is not tried again, as its runs may have killed it."""
    if address and not accepts_connections(address):
        raise ConfigError([f"hydra.launcher.address={address}: nobody answers there"])
    cluster = {} if address else {"num_cpus": workers * cpus if workers else None}
    cluster |= {} if address else {"object_store_memory": OBJECT_STORE_BYTES}
    try:
        ray.init(address or "local", include_dashboard=False, logging_level=logging.ERROR, **cluster)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise ConfigError([f"hydra.launcher.address={address}: {describe_error(error)}"]) from error
    try:
        room = int(ray.cluster_resources().get("CPU", 1)) // cpus
        if not room:
            raise ConfigError([f"hydra.launcher.cpus={cpus}: more than this Ray cluster has"])
        task = ray.remote(num_cpus=cpus, max_retries=0)(train_in_worker)
        yield Pool(task, workers or room, cpus)
    finally:
        ray.shutdown()
