"""How many processes pay for themselves: what a sweep will take, from a few steps that are tried out before it starts.

What is measured is processor time, which busy neighbours change little, of one run and of a few as one batch. A batch
of n runs then takes ``fixed + n * each`` a step: runs share the fixed part while they train together. Results do not
depend on any of this.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch

from rlexp.config.schema import Config
from rlexp.language.backend import CAPABILITIES
from rlexp.loop.step import train_step
from rlexp.sweep.buckets import by_shape, by_variant, pieces_of, sizes_of
from rlexp.sweep.build import build
from rlexp.sweep.job import Job
from rlexp.sweep.machine import available_bytes, gpus

SECONDS_TO_START = 3.0  # of a process: Python, torch, the first step (docs/performance.md)
BYTES_OF_PROCESS = 300e6  # without its runs (benchmarks.memory)
PARALLEL = 0.8  # share of a step of many runs that threads divide among them where nobody else wants the cores
FEWEST_STEPS = 200  # of all runs together: nothing shorter is worth trying out
SECONDS_TO_TRY = 2.0  # for all shapes of a sweep together
TRIED_TOGETHER = 4


class Cost(NamedTuple):
    """Seconds of one core for a step: of a batch, and of every run in it."""

    fixed: float
    each: float


def workers_that_pay(jobs: Sequence[Job], most: int | None, cores: int) -> int:
    """Return how many processes, with one core each, end first; 1 if others save less than twice their start."""
    left = [job for job in jobs if job.ended is None]
    room = most_workers(left, cores)
    if not all(CAPABILITIES[job.config.backend.name].batched for job in left):  # each is trained by itself anyway
        return max(1, min(len(left), len(gpus()) if left[0].config.device == "cuda" else room))
    if room < 2 or sum(job.config.steps for job in left) < FEWEST_STEPS:
        return 1
    buckets = by_shape(left)
    try:
        costs = measured(buckets)
    except Exception:  # whatever is wrong with a run is said where it is trained
        return 1
    alone = sum(seconds_inline(bucket, costs[key], cores) for key, bucket in buckets.items())
    seconds = {count: seconds_with(buckets, costs, most, count) for count in range(2, room + 1)}
    best = min(seconds, key=seconds.get)
    return best if alone - seconds[best] > SECONDS_TO_START else 1


def most_workers(jobs: Sequence[Job], cores: int) -> int:
    """How many processes the cores, the memory and the jobs are enough for; one where a GPU trains."""
    if not jobs or any(job.config.device != "cpu" for job in jobs):
        return 1
    threads = max(job.config.threads or 1 for job in jobs)
    return min(cores // threads, len(jobs), int(available_bytes("cpu") / BYTES_OF_PROCESS))


def seconds_inline(bucket: Sequence[Job], cost: Cost, cores: int) -> float:
    """What a bucket takes in this process with as many threads as there are cores; one run has one thread."""
    threads = min(cores, bucket[0].config.threads or cores)
    parallel = PARALLEL * (1 - 1 / len(bucket))
    return batch_seconds(bucket[0].config, cost, len(bucket)) * (1 - parallel + parallel / threads)


def seconds_with(
    buckets: Mapping[str, Sequence[Job]], costs: Mapping[str, Cost], most: int | None, workers: int
) -> float:
    """What all buckets take in so many processes, each of which takes the next batch when it is done with one."""
    ends = [SECONDS_TO_START] * workers
    pieces = pieces_of(buckets, most, workers)
    for key, bucket in buckets.items():
        for size in sizes_of(len(bucket), pieces[key]):
            heapq.heapreplace(ends, ends[0] + batch_seconds(bucket[0].config, costs[key], size))
    return max(ends)


def batch_seconds(config: Config, cost: Cost, runs: int) -> float:
    """Seconds of one core for all steps of a batch."""
    return config.steps * (cost.fixed + runs * cost.each)


def measured(buckets: Mapping[str, Sequence[Job]]) -> dict[str, Cost]:
    """Try out every bucket; those that there is no time for take the mean of the others."""
    started, threads, costs = time.perf_counter(), torch.get_num_threads(), {}
    torch.set_num_threads(1)
    try:
        for key, bucket in buckets.items():
            if not costs or time.perf_counter() - started < SECONDS_TO_TRY:
                costs[key] = cost_of([job.config for job in by_variant(bucket)[:TRIED_TOGETHER]])
    finally:
        torch.set_num_threads(threads)
    mean = Cost(*(sum(part) / len(costs) for part in zip(*costs.values(), strict=True)))
    return {key: costs.get(key, mean) for key in buckets}


def cost_of(configs: Sequence[Config]) -> Cost:
    """Time a step of the first config, and of all as one batch; what takes long alone is not tried together."""
    alone = step_seconds(configs[:1])
    if len(configs) == 1 or alone > SECONDS_TO_TRY / 4:
        return Cost(0.0, alone)
    each = max(0.0, step_seconds(configs) - alone) / (len(configs) - 1)
    return Cost(max(0.0, alone - each), each)


def step_seconds(configs: Sequence[Config]) -> float:
    """Processor time of the faster of two steps; the first one also sets things up."""
    state = build([config.model_copy(update={"compile": False}) for config in configs])
    seconds = []
    for step in (1, 2):
        started = time.process_time()
        train_step(state, step, False)
        seconds.append(time.process_time() - started)
    return min(seconds)
