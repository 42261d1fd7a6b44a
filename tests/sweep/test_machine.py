"""The machine's part: devices, what fits memory, memory that is kept, compiled functions."""

from __future__ import annotations

import platform
import subprocess
import sys

import jaxtyping
import pytest
import torch
from command import command  # noqa: F401 (a fixture)
from small_runs import SHORT, SMALL, compose

from rlexp.core.blocks import Masked
from rlexp.loop.evaluation import evaluate
from rlexp.loop.step import train_step
from rlexp.sweep import build as buckets
from rlexp.sweep import engine, machine
from rlexp.sweep.build import build, bytes_of
from rlexp.sweep.machine import available_bytes, usable_cores

without_cuda = pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
TINY = {
    "llama": ["model=llama", "model.width=8", "model.heads=2", "model.layers=1"],
    "gru": ["model=gru", "model.hidden=8"],
    "transformer": ["model.width=8", "model.heads=2", "model.feedforward=8"],
    "transformer_plain": ["model=transformer_plain", "model.width=8", "model.heads=2", "model.feedforward=8"],
    "positional": ["task=sort_lecture", "model=positional", "model.width=8"],
    "tabular": ["task=bandit", "model=tabular"],
}


def state(*overrides: str, seeds=(3, 5)):
    config = compose(*SHORT, *SMALL, "kl=k3", *overrides)
    return build([config.model_copy(update={"seed": seed}) for seed in seeds])


def stepped(runs, steps: int = 2) -> list[torch.Tensor]:
    """Rows of some steps and an evaluation, and the weights after them."""
    found = [row for step in range(1, steps + 1) for row in train_step(runs, step, True).values()]
    found += evaluate(runs, steps, prompts=4, samples=2, ks=[1]).values()
    found = [each.values if isinstance(each, Masked) else each for each in [*found, *runs.policy.parameters()]]
    return [tensor.detach().cpu() for tensor in found]


@pytest.mark.parametrize("model", TINY)
def test_every_tensor_is_made_on_the_device_of_the_run(model):
    """Tensors made without a device go to another one here, one that holds no numbers and mixes with none."""
    runs = state(*TINY[model])
    with torch.device("meta"):
        row = train_step(runs, 1, True) | evaluate(runs, 1, prompts=4, samples=2, ks=[1])
    assert {value.device.type for value in row.values()} == {"cpu"}


@pytest.mark.cuda
@pytest.mark.parametrize("model", TINY)
@pytest.mark.parametrize("compiling", ["false", pytest.param("true", marks=pytest.mark.rare)])  # compiling: minutes
def test_cuda_gives_the_numbers_of_the_cpu(model, compiling, monkeypatch):
    """One step: later ones sample other tokens where a probability differs in its last digits.

    Compiled sums have another order, and of a gradient that is rounding alone Adam makes a step of either sign.
    """
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", compiling == "true")  # see below
    there = stepped(state(*TINY[model], "device=cuda", f"compile={compiling}"), 1)
    torch.testing.assert_close(
        there, stepped(state(*TINY[model]), 1), rtol=1e-3, atol=1e-4 if compiling == "false" else 1e-3, equal_nan=True
    )


@without_cuda
@pytest.mark.parametrize("arguments", [[], ["-m"], ["-m", "hydra/launcher=basic"]], ids=str)
@pytest.mark.slow
def test_a_missing_device_is_bad_input(command, tmp_path, arguments):  # noqa: F811
    said = command(*arguments, "device=cuda")
    line = f"device=cuda: PyTorch {torch.__version__} sees no CUDA device here; allowed here: cpu\n"
    assert (said.code, said.out, said.err) == (2, "", line)
    assert not list(tmp_path.iterdir())


def test_what_fits_memory_shrinks_with_the_size_of_a_run(monkeypatch):
    small, large = compose(), compose("group_size=64", "model.width=128")
    monkeypatch.setattr(buckets, "ENOUGH", 10**9)
    assert buckets.fitting(small, 1) > buckets.fitting(large, 1) >= 1
    assert buckets.fitting(small, 2) == pytest.approx(buckets.fitting(small, 1) / 2, abs=1)
    assert buckets.fitting(small, 10**9) == 1


@pytest.mark.slow
def test_a_sweep_is_cut_into_batches_that_fit_memory(command, monkeypatch):  # noqa: F811
    """Room for three runs: one after another in this process, or shared by two workers."""
    config, sizes = compose(*SHORT, *SMALL), []
    room = 3.5 * bytes_of(config)
    monkeypatch.setattr(buckets, "available_bytes", lambda device: room)
    monkeypatch.setattr(engine, "train_jobs", lambda jobs, title: [sizes.append(len(jobs)) or 0.0 for _ in jobs])
    assert command("-m", "seed=range(0,8)", *SHORT, *SMALL).code == 0
    assert sizes == [3, 3, 3, 3, 3, 3, 2, 2]
    assert buckets.fitting(config, workers=2) == 1


FAULTS = """
import resource, torch
from rlexp.sweep.machine import keep_freed_memory
{call}
def touch():
    torch.ones(10_000_000)
[touch() for _ in range(20)]
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
touch(), touch()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc is told to keep memory")
def test_freed_memory_is_kept():
    """40 MB twice: 20,000 pages are fetched anew (fewer if they are huge), or none but those that the system took."""

    def faults(call: str) -> int:
        script = [sys.executable, "-c", FAULTS.format(call=call)]
        return int(subprocess.run(script, capture_output=True, text=True, check=True).stdout)

    assert 10 * faults("keep_freed_memory()") < faults("")


HINTED = ["task=two_habits", "task.hint=4", "teacher.network=policy", "teacher.hint=success"]


@pytest.mark.rare  # capturing takes as long as a hundred steps
@pytest.mark.parametrize("more", [[], ["distillation=jsd", *HINTED]], ids=["plain", "whole vocabulary"])
def test_compiled_functions_give_the_same_numbers(monkeypatch, more):
    """Captured and differentiated ahead of time, but not translated: that needs a compiler and minutes."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # it cannot check shapes while they are captured
    real = torch.compile
    monkeypatch.setattr(torch, "compile", lambda f, dynamic: real(f, dynamic=dynamic, backend="aot_eager"))
    runs, plain = (state(*TINY["transformer"], *more, f"compile={compiling}") for compiling in ("true", "false"))
    assert runs.sample is not plain.sample and runs.log_probs is not plain.log_probs
    # the order of a few sums differs; two steps of Adam multiply that
    torch.testing.assert_close(stepped(runs), stepped(plain), rtol=1e-3, atol=1e-4, equal_nan=True)


@pytest.mark.parametrize(
    ("own", "files", "cpus", "memory"),
    [
        ("0::/", {"cpu.max": "150000 100000", "memory.max": "max"}, 1.5, None),
        ("0::/a/b", {"a/cpu.max": "400000 100000", "a/b/cpu.max": "max 100000", "a/memory.max": "1000"}, 4.0, 1000),
        ("3:cpu,cpuacct:/d\n2:memory:/d", {"memory/d/memory.limit_in_bytes": "2000"}, None, 2000),
        ("1:cpu:/d", {"cpu/d/cpu.cfs_quota_us": "200000", "cpu/d/cpu.cfs_period_us": "100000"}, 2.0, None),
        ("1:cpu:/", {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, None, None),
        (None, {}, None, None),
    ],
)
def test_what_a_container_may_use(tmp_path, monkeypatch, own, files, cpus, memory):
    for name, text in ({"own": own} | files if own else {}).items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text + "\n")
    monkeypatch.setattr(machine, "CGROUPS", tmp_path)
    monkeypatch.setattr(machine, "OWN_CGROUP", tmp_path / "own")
    assert (machine.granted_cpus(), machine.granted_memory()) == (cpus, memory)
    assert 1 <= usable_cores() <= (cpus or usable_cores())
    assert available_bytes("cpu") <= (memory or float("inf")) / 2
