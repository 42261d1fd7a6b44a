"""Which jobs train together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from math import ceil
from typing import Protocol, TypeVar, runtime_checkable

from rlexp.config.schema import Config
from rlexp.language.backend import CAPABILITIES
from rlexp.sweep.build import bucket_key, most_runs, variant_key
from rlexp.sweep.machine import available_bytes, open_files

FILES_A_RUN, OTHER_FILES = 4, 100  # open at once: a lock, rows, a logger and one to spare; of the program itself

ENOUGH = 250  # runs: larger batches are no faster a run, and take memory and open files for each


@runtime_checkable
class Configured(Protocol):
    """A job, or anything else that has a config."""

    config: Config


Each = TypeVar("Each", bound=Configured)


def into_batches(jobs: Sequence[Each], most: int | None, workers: int = 1) -> list[list[Each]]:
    """Group the jobs that can be trained as one batch, at most ``most`` in each, and so that no worker is idle.

    Without ``most`` it is as many as the memory of this machine holds, an equal share of it for each worker, and never
    more than have room among the files that a process may have open.

    The larger buckets are cut first, always into equal batches, and runs of a variant stay together where they can. A
    run's numbers do not depend on its neighbours: cutting changes none.
    """
    buckets = by_shape(jobs)
    pieces = pieces_of(buckets, most, workers)
    return [batch for key, bucket in buckets.items() for batch in cut(bucket, pieces[key])]


def by_shape(jobs: Sequence[Each]) -> dict[str, list[Each]]:
    """Group the jobs that can be trained as one batch."""
    buckets: dict[str, list[Each]] = {}
    for job in jobs:
        buckets.setdefault(bucket_key(job.config), []).append(job)
    return buckets


def pieces_of(buckets: Mapping[str, Sequence[Configured]], most: int | None, workers: int) -> dict[str, int]:
    """Return into how many batches each bucket is cut."""
    files = max(1, (open_files() - OTHER_FILES) // FILES_A_RUN)
    sizes = {key: min(files, largest(bucket[0].config, most, workers)) for key, bucket in buckets.items()}
    pieces = {key: ceil(len(bucket) / sizes[key]) for key, bucket in buckets.items()}
    while sum(pieces.values()) < min(workers, sum(map(len, buckets.values()))):
        pieces[max(buckets, key=lambda key: len(buckets[key]) / pieces[key])] += 1
    return pieces


def largest(config: Config, most: int | None, workers: int) -> int:
    """How many runs of a config train as one batch at most; one if its backend trains each by itself."""
    return most or fitting(config, workers) if CAPABILITIES[config.backend.name].batched else 1


def fitting(config: Config, workers: int) -> int:
    """How many runs of a config fit into the memory of one of ``workers`` workers, at most ``ENOUGH``."""
    return min(ENOUGH, most_runs(config, available_bytes(config.device) / workers))


def cut(bucket: Sequence[Each], pieces: int) -> list[list[Each]]:
    """Cut a bucket into batches of equal size, or one job more in the first ones."""
    bucket = by_variant(bucket) if pieces > 1 else bucket
    ends = [0, *accumulate(sizes_of(len(bucket), pieces))]
    return [list(bucket[start:end]) for start, end in pairwise(ends)]


def sizes_of(jobs: int, pieces: int) -> list[int]:
    """Return the sizes of so many batches: equal, or one job more in the first ones."""
    size, larger = divmod(jobs, pieces)
    return [size + (place < larger) for place in range(pieces)]


def by_variant(bucket: Sequence[Each]) -> list[Each]:
    """Put jobs of a variant next to each other: the engine does their part of a step in one go."""
    return [bucket[place] for place in variant_order([job.config for job in bucket])]


def variant_order(configs: Sequence[Config]) -> list[int]:
    """Return the places of configs, those of a variant side by side, in the order in which variants first occur."""
    keys = [variant_key(config) for config in configs]
    first = {key: place for place, key in reversed(list(enumerate(keys)))}
    return sorted(range(len(configs)), key=lambda place: (first[keys[place]], place))
