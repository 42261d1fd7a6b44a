"""Batches as tasks of a Ray cluster, on this machine or elsewhere."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

os.environ.setdefault("RAY_DEDUP_LOGS", "0")  # progress of two parts is not the same line twice

import ray  # noqa: E402

from hydra_plugins.rlexp_launcher._core import Bucket, Results  # noqa: E402
from hydra_plugins.rlexp_launcher._part import LOST, lost, train_in_worker  # noqa: E402
from rlexp.errors import ConfigError  # noqa: E402
from rlexp.exits import reason  # noqa: E402

OBJECT_STORE_BYTES = 100_000_000  # a part is a few kilobytes
SECONDS_TO_STOP = 20
SECONDS_TO_ANSWER = 10


@dataclass
class Pool:
    """At most so many tasks at a time."""

    task: Any
    workers: int
    cores: int

    def run(self, buckets: Iterable[Bucket]) -> Iterator[tuple[Bucket, Results]]:
        """Train the buckets; each comes back when it has ended."""
        waiting, going = iter(buckets), {}
        try:
            while True:
                for bucket in islice(waiting, self.workers - len(going)):
                    going[self.task.remote(bucket.part, self.cores)] = bucket
                if not going:
                    return
                (first, *_), _ = ray.wait(list(going))
                bucket = going.pop(first)
                yield bucket, results(first, bucket)
        finally:
            stop(list(going))


def results(task: ray.ObjectRef, bucket: Bucket) -> Results:
    """Return what a task sent back, or why it did not."""
    try:
        return ray.get(task)
    except (ray.exceptions.WorkerCrashedError, ray.exceptions.NodeDiedError, ray.exceptions.OutOfMemoryError):
        return lost(bucket.part, LOST)
    except ray.exceptions.RayError as error:
        return lost(bucket.part, reason(error))


def stop(tasks: list[ray.ObjectRef]) -> None:
    """Interrupt tasks and give their runs time to say so in their summaries."""
    for task in tasks:
        ray.cancel(task)
    if tasks:
        ray.wait(tasks, num_returns=len(tasks), timeout=SECONDS_TO_STOP)


def answers(address: str) -> bool:
    """Whether someone listens at ``host:port``: Ray itself tries for minutes. What has no port Ray has to find."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if not port.isdigit():
        return True
    try:
        socket.create_connection((host, int(port)), SECONDS_TO_ANSWER).close()
    except (OSError, OverflowError):
        return False
    return True


@contextmanager
def open_pool(folder: Path, *, address: str | None, workers: int | None, cpus: int) -> Iterator[Pool]:
    """Connect to a cluster or start one; a killed task is not tried again, as its runs may have killed it."""
    if address and not answers(address):
        raise ConfigError([f"hydra.launcher.address={address}: nobody answers there"])
    own = {"num_cpus": workers * cpus if workers else None, "object_store_memory": OBJECT_STORE_BYTES}
    try:
        ray.init(address or "local", include_dashboard=False, logging_level=logging.ERROR, **({} if address else own))
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise ConfigError([f"hydra.launcher.address={address}: {reason(error)}"]) from error
    try:
        room = int(ray.cluster_resources().get("CPU", 1)) // cpus
        if not room:
            raise ConfigError([f"hydra.launcher.cpus={cpus}: more than this Ray cluster has"])
        task = ray.remote(num_cpus=cpus, max_retries=0)(train_in_worker)
        yield Pool(task, workers or room, cpus)
    finally:
        ray.shutdown()
