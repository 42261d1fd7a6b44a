"""Batches one after another, in this process."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from hydra_plugins.rlexp_launcher._core import Bucket, Results
from hydra_plugins.rlexp_launcher._part import train


class Pool:
    """This process."""

    workers = 1

    def run(self, buckets: Iterable[Bucket]) -> Iterator[tuple[Bucket, Results]]:
        """Train each bucket as it comes."""
        for bucket in buckets:
            yield bucket, train(bucket.part)


@contextmanager
def open_pool(folder: Path) -> Iterator[Pool]:
    """Return the pool; there is nothing to start."""
    yield Pool()
