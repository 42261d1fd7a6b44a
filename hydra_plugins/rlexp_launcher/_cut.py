"""Which jobs train together."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from rlexp.build import bucket_key, most_runs, variant_key
from rlexp.config import Config
from rlexp.machine import memory
from rlexp.plan import Planned


def into_buckets(planned: Sequence[Planned], most: int | None, workers: int = 1) -> list[list[Planned]]:
    """Group the jobs that can be trained as one batch, at most ``most`` in each, and so that no worker is idle.

    Without ``most`` it is as many as the memory of this machine holds, an equal share of it for each worker.

    The larger buckets are cut first, always into equal parts, and runs of a variant stay together where they can. A
    run's numbers do not depend on its neighbours: cutting changes none.
    """
    groups: dict[str, list[Planned]] = {}
    for job in planned:
        groups.setdefault(bucket_key(job.config), []).append(job)
    pieces = {key: ceil(len(group) / (most or fitting(group[0].config, workers))) for key, group in groups.items()}
    while sum(pieces.values()) < min(workers, len(planned)):
        pieces[max(groups, key=lambda key: len(groups[key]) / pieces[key])] += 1
    return [part for key, group in groups.items() for part in cut(group, pieces[key])]


def fitting(config: Config, workers: int) -> int:
    """How many runs of a config fit into the memory of one of ``workers`` workers."""
    return most_runs(config, memory(config.device) / workers)


def cut(group: Sequence[Planned], pieces: int) -> list[list[Planned]]:
    """Cut a group into pieces of equal size, or one job more in the first ones."""
    group = by_variant(group) if pieces > 1 else group
    size, larger = divmod(len(group), pieces)
    ends = [0, *((size + 1) * i if i <= larger else size * i + larger for i in range(1, pieces + 1))]
    return [list(group[start:end]) for start, end in zip(ends, ends[1:], strict=False)]


def by_variant(group: Sequence[Planned]) -> list[Planned]:
    """Put jobs of a variant next to each other: the engine does their part of a step in one go."""
    keys = [variant_key(job.config) for job in group]
    first = {key: place for place, key in reversed(list(enumerate(keys)))}
    return [group[place] for place in sorted(range(len(group)), key=lambda place: (first[keys[place]], place))]
