"""Which jobs train together, and in how many processes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from math import ceil
from typing import TypeVar

from rlexp.config.schema import Config
from rlexp.language.backend import CAPABILITIES
from rlexp.sweep.build import bucket_key, bytes_of, variant_key
from rlexp.sweep.job import Job
from rlexp.sweep.machine import available_bytes, gpus, open_files

FILES_A_RUN, OTHER_FILES = 4, 100  # open at once: a lock, rows, a logger and one to spare; of the program itself
ENOUGH = 250  # runs: larger batches are no faster a run, and take memory and open files for each
TOKENS_A_WORKER = 2_000_000  # of completions: half a minute of the default policy on one core (docs/performance.md)
BYTES_OF_PROCESS = 300e6  # without its runs (benchmarks.memory)


Each = TypeVar("Each")  # a job, or anything else that has a config


def into_batches(jobs: Sequence[Each], most: int | None, workers: int = 1) -> list[list[Each]]:
    """Group the jobs that can be trained as one batch, at most ``most`` in each, and so that no worker is idle.

    Without ``most`` it is as many as the memory of this machine holds, an equal share of it for each worker, and never
    more than have room among the files that a process may have open.

    The larger buckets are cut first, always into equal batches, and runs of a variant stay together where they can. A
    run's numbers do not depend on its neighbours: cutting changes none.
    """
    buckets = by_shape(jobs)
    files = max(1, (open_files() - OTHER_FILES) // FILES_A_RUN)
    pieces = {}
    for key, bucket in buckets.items():
        config = bucket[0].config
        largest = most or fitting(config, workers) if CAPABILITIES[config.backend.name].batched else 1
        pieces[key] = ceil(len(bucket) / min(files, largest))
    while sum(pieces.values()) < min(workers, len(jobs)):
        pieces[max(buckets, key=lambda key: len(buckets[key]) / pieces[key])] += 1
    return [batch for key, bucket in buckets.items() for batch in cut(bucket, pieces[key])]


def by_shape(jobs: Sequence[Each]) -> dict[str, list[Each]]:
    """Group the jobs that can be trained as one batch."""
    buckets: dict[str, list[Each]] = {}
    for job in jobs:
        buckets.setdefault(bucket_key(job.config), []).append(job)
    return buckets


def fitting(config: Config, workers: int) -> int:
    """How many runs of a config fit into the memory of one of ``workers`` workers, at least 1, at most ``ENOUGH``."""
    return max(1, min(ENOUGH, int(available_bytes(config.device) / workers / bytes_of(config))))


def cut(bucket: Sequence[Each], pieces: int) -> list[list[Each]]:
    """Cut a bucket into batches of equal size, or one job more in the first ones."""
    bucket = by_variant(bucket) if pieces > 1 else bucket
    size, larger = divmod(len(bucket), pieces)
    ends = [0, *accumulate(size + (place < larger) for place in range(pieces))]
    return [list(bucket[start:end]) for start, end in pairwise(ends)]


def by_variant(bucket: Sequence[Each]) -> list[Each]:
    """Put jobs of a variant next to each other: the engine does their part of a step in one go."""
    return [bucket[place] for place in variant_order([job.config for job in bucket])]


def variant_order(configs: Sequence[Config]) -> list[int]:
    """Return the places of configs, those of a variant side by side, in the order in which variants first occur."""
    keys = [variant_key(config) for config in configs]
    first = {key: place for place, key in reversed(list(enumerate(keys)))}
    return sorted(range(len(configs)), key=lambda place: (first[keys[place]], place))


def num_workers(jobs: Sequence[Job], cores: int) -> int:
    """How many processes train the jobs of a sweep that have not ended, if nobody says it.

    As many as have ``TOKENS_A_WORKER`` of completions each to sample, at most one a core (or for the threads that the
    configs ask for) and as the memory holds; one where a GPU trains. A backend that trains each run by itself has one
    for each run, with a core or a GPU of its own. No result depends on it.
    """
    configs = [job.config for job in jobs if job.ended is None]
    if not configs:
        return 1
    room = int(min(cores // max(config.threads or 1 for config in configs), available_bytes("cpu") / BYTES_OF_PROCESS))
    if not all(CAPABILITIES[config.backend.name].batched for config in configs):
        room = len(gpus()) if configs[0].device == "cuda" else room
        return max(1, min(len(configs), room))
    if any(config.device != "cpu" for config in configs):
        return 1
    completions = (config.steps * config.group_size.prompts * config.group_size.completions for config in configs)
    tokens = sum(number * config.task.cap for number, config in zip(completions, configs, strict=True))
    return max(1, min(len(configs), room, tokens // TOKENS_A_WORKER))
