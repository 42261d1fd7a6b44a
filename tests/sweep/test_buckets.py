"""Which runs train together, and in how many processes and threads."""

import resource
from dataclasses import replace
from pathlib import Path

import pytest
from command import command, no_comparison  # noqa: F401 (fixtures)
from small_runs import SHORT, SMALL, compose

from rlexp.sweep import build as buckets
from rlexp.sweep import engine, machine
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


@pytest.fixture
def few_files():
    """So many files that eight runs can have open at once."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    few = buckets.OTHER_FILES + 8 * buckets.FILES_A_RUN
    resource.setrlimit(resource.RLIMIT_NOFILE, (few, hard))
    yield few
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_cutting_leaves_the_limit_of_open_files_as_it_is_and_keeps_to_it(few_files):
    jobs = [Job(compose(), Path("x"), "x", "x")] * 20
    assert [len(batch) for batch in buckets.into_batches(jobs, None)] == [7, 7, 6]
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == few_files


@pytest.mark.slow  # ten runs are composed
def test_a_sweep_that_trains_may_open_more_files(command, monkeypatch, no_comparison, few_files):  # noqa: F811
    sizes = []
    monkeypatch.setattr(engine, "train_jobs", lambda jobs, title: [sizes.append(len(jobs)) or 0.0 for _ in jobs])
    assert command("-m", "seed=range(0,10)", *SHORT, *SMALL).code == 0
    assert set(sizes) == {10} and resource.getrlimit(resource.RLIMIT_NOFILE)[0] > few_files


def test_a_worker_tries_no_more_threads_than_its_share(monkeypatch):
    monkeypatch.setattr(machine, "usable_cores", lambda: 64)
    monkeypatch.setattr(machine.torch, "get_num_threads", lambda: 6)
    assert machine.Threads(30, None).choices == [1, 2, 4, 6]
    assert machine.Threads(30, 8).choices == [8]


def jobs(runs, *overrides, **changes):
    config = compose(*overrides).model_copy(update=changes)
    return [Job(config.model_copy(update={"seed": seed}), Path(f"no/{seed}"), "x", "x") for seed in range(runs)]


@pytest.mark.parametrize(
    ("runs", "changes", "cores", "workers"),
    [
        (30, {}, 2, 2),
        (30, {}, 16, 4),  # with four threads each
        (30, {}, 1, 1),
        (9, {}, 2, 1),  # half a minute
        (4, {"steps": 100}, 2, 1),  # a few seconds
        (2, {"steps": 100_000}, 16, 2),  # no more than there are runs
        (30, {"threads": 2}, 2, 1),
        (30, {"threads": 2}, 6, 3),
        (30, {"device": "cuda"}, 16, 1),
        (0, {}, 16, 1),
    ],
)
def test_each_process_has_enough_to_do_and_a_core(runs, changes, cores, workers):
    assert buckets.num_workers(jobs(runs, **changes), cores) == workers


def test_runs_that_have_ended_need_no_process():
    assert buckets.num_workers([replace(job, ended=0.5) for job in jobs(30)], 16) == 1


def test_longer_completions_are_more_to_do():
    assert buckets.num_workers(jobs(9, "task.cap=12"), 16) == 2


def test_processes_share_the_memory(monkeypatch):
    monkeypatch.setattr(buckets, "available_bytes", lambda device: 3.5 * buckets.BYTES_OF_PROCESS)
    assert buckets.num_workers(jobs(30), 16) == 3
