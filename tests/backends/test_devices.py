"""A run of a language model is a batch of its own, has one of several CUDA devices to itself, and trains on it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("trl")

from elsewhere import in_python, said  # noqa: E402
from small_runs import compose  # noqa: E402

from rlexp.launch.executors import local  # noqa: E402
from rlexp.sweep import build as buckets  # noqa: E402
from rlexp.sweep import machine  # noqa: E402
from rlexp.sweep.build import into_batches  # noqa: E402
from rlexp.sweep.job import Job  # noqa: E402


def jobs(number: int, *overrides: str) -> list[Job]:
    return [Job(compose(f"seed={i}", *overrides), Path(f"/nowhere/{i}"), str(i), "variant", i) for i in range(number)]


def test_runs_of_language_models_are_never_one_batch():
    made = jobs(3, "backend=trl", "model=llama")
    assert [len(batch) for batch in into_batches(made, most=10)] == [1, 1, 1]
    assert [len(batch) for batch in into_batches(jobs(3), most=10)] == [3]


def test_there_are_as_many_workers_as_devices_or_cores(monkeypatch):
    made = jobs(5, "backend=trl", "model=llama")
    assert buckets.num_workers(made, cores=4) == 4
    assert buckets.num_workers(made[:2], cores=4) == 2
    monkeypatch.setattr(buckets, "gpus", lambda: ["0", "1", "2"])
    on_gpus = [Job(each.config.model_copy(update={"device": "cuda"}), each.folder, "", "") for each in made]
    assert buckets.num_workers(on_gpus, cores=1) == 3


def test_devices_are_those_that_the_process_sees(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")
    assert machine.gpus() == ["3", "5"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setattr(machine.torch.cuda, "device_count", lambda: 2)
    assert machine.gpus() == ["0", "1"]


def test_a_new_worker_has_the_device_that_fewest_have(monkeypatch):
    monkeypatch.setattr(machine, "gpus", lambda: ["3", "5"])
    pool = local.Pool([], 3, 1)
    given = []
    for _ in range(3):
        given.append(pool.free_gpu())
        pool.processes.append(SimpleNamespace(gpu=given[-1]))
    assert given == ["3", "5", "3"]
    assert local.Pool([], 1, 1).free_gpu() is None


TINY = "backend=trl model=llama model.layers=1 model.width=8 model.heads=2 backend.max_completion_length=6"
WITH = ["kl=k3", "norm=running", "kl=k1 kl_control=adaptive norm=global", "clip=gspo agg=dr_grpo inner_steps=2"]
WITH += ["reference=polyak kl=k2 entropy_control=adaptive"]


@in_python
@pytest.mark.slow  # whole runs
def test_a_language_model_trains_on_another_device(tmp_path):
    assert said(tmp_path, "elsewhere", [f"{TINY} {each}" for each in WITH]) == ""


@pytest.mark.cuda
@pytest.mark.slow
def test_a_language_model_trains_on_cuda(tmp_path):
    assert said(tmp_path, "cuda", [f"{TINY} {each}" for each in WITH]) == ""
