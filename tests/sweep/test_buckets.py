"""Which runs train together, and with how many threads."""

from pathlib import Path

import pytest
from small_runs import compose

from rlexp.sweep import buckets, threads
from rlexp.sweep.job import Job


@pytest.mark.parametrize(
    ("shapes", "most", "workers", "sizes"),
    [
        ("aaaa", None, 1, [4]),
        ("aaaaa", 2, 1, [2, 2, 1]),
        ("aaaaab", None, 2, [5, 1]),
        ("aaaaab", None, 3, [3, 2, 1]),
        ("aaaaaaaaa", None, 6, [2, 2, 2, 1, 1, 1]),
        ("ab", None, 8, [1, 1]),
        ("aaaabb", 1, 2, [1] * 6),
    ],
)
def test_batches_are_cut_until_no_worker_is_idle(monkeypatch, shapes, most, workers, sizes):
    monkeypatch.setattr(buckets, "bucket_key", lambda config: shapes[config.seed])
    monkeypatch.setattr(buckets, "variant_key", lambda config: str(config.seed % 2))
    monkeypatch.setattr(buckets, "fitting", lambda config, workers: len(shapes))
    configs = [compose().model_copy(update={"seed": seed}) for seed in range(len(shapes))]
    batches = buckets.into_batches([Job(config, Path("x"), "x", "x") for config in configs], most, workers)
    seeds = [[job.config.seed for job in batch] for batch in batches]
    assert [len(batch) for batch in seeds] == sizes
    assert sorted(sum(seeds, [])) == list(range(len(shapes)))
    if workers == 3:  # a variant stays together
        assert seeds == [[0, 2, 4], [1, 3], [5]]


def test_a_worker_tries_no_more_threads_than_its_share(monkeypatch):
    monkeypatch.setattr(threads, "AVAILABLE", 64)
    threads.limit(2)
    assert threads.Threads(30, None).choices == [1, 2]
    assert threads.Threads(30, 8).choices == [8]
