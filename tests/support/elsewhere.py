"""A device that computes as the CPU and is another one: tensors of both in one operation are an error, as on a GPU.

``python elsewhere.py FOLDER elsewhere "axis=choice key=value" ...`` trains each line of overrides there and on the CPU,
in as few batches as they allow, stopped in the middle and continued, and prints a line for each that fails or has other
numbers. Language models, whose
attention is another kernel, only have to come to their end. So do all with ``cuda`` instead of ``elsewhere``: other
tokens are sampled where a probability differs in its last digits. It is a process of its own: a device that is
registered stays.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch.utils import _pytree, backend_registration

import rlexp  # noqa: F401 (before anything is computed: it sets MKL's mode)
from rlexp.sweep.job import Job

ROOT = Path(__file__).parents[2]
NAME = "elsewhere"
CROSSING = {"_to_copy", "copy_", "index"}  # take tensors of both devices, as with CUDA
STOPPED_AT = 2
in_python = pytest.mark.skipif(
    not hasattr(backend_registration, "_setup_privateuseone_for_python_backend"),
    reason="this PyTorch has no devices that are written in Python",
)


def said(folder: Path, device: str, lines: list[str]) -> str:
    """Return what a process prints that trains the lines on a device: nothing where nothing is wrong."""
    path = os.pathsep.join([str(ROOT), *filter(None, sys.path)])
    environment = os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, __file__, str(folder), device, *lines]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


class Elsewhere(torch.Tensor):
    """A tensor of the other device; ``raw`` has its numbers."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, raw: torch.Tensor) -> Elsewhere:
        layout = {"strides": raw.stride(), "storage_offset": raw.storage_offset(), "dtype": raw.dtype}
        return torch.Tensor._make_wrapper_subclass(cls, raw.shape, device=torch.device(NAME, 0), **layout)

    def __init__(self, raw: torch.Tensor):
        self.raw = raw

    def tolist(self) -> list:
        return self.raw.tolist()

    @classmethod
    def __torch_dispatch__(cls, operation, types, args=(), kwargs=None):
        name = operation.overloadpacket.__name__
        values, form = _pytree.tree_flatten((args, kwargs or {}))
        tensors = [value for value in values if isinstance(value, torch.Tensor)]
        if name not in CROSSING and any(not isinstance(each, cls) and each.dim() for each in tensors):
            raise RuntimeError(f"{operation}: tensors are on different devices")
        to_cpu = any(isinstance(value, torch.device) and value.type == "cpu" for value in values)
        known = {id(each.raw): each for each in tensors if isinstance(each, cls)}  # what is written in place
        args, kwargs = _pytree.tree_unflatten([here(value) for value in values], form)
        found = operation(*args, **kwargs)

        def there(value):
            if not isinstance(value, torch.Tensor) or to_cpu:
                return value
            if name == "copy_":  # from the other device gives a new object
                return tensors[0]
            return known[id(value)] if id(value) in known else cls(value)

        return _pytree.tree_map(there, found)


def here(value):
    """Return a tensor, or the name of a device, as the CPU has it."""
    if isinstance(value, torch.device):
        return torch.device("cpu")
    return value.raw if isinstance(value, Elsewhere) else value


def register() -> None:
    """Let PyTorch make tensors on the device, by an interface that PyTorch calls experimental."""
    backend_registration._setup_privateuseone_for_python_backend(NAME)
    for name in ("empty.memory_format", "empty_strided", "arange", "arange.start", "arange.start_step"):
        make = getattr(torch, name.partition(".")[0])

        def made(*args, make=make, **kwargs):
            return Elsewhere(make(*args, **kwargs | {"device": "cpu", "pin_memory": False}))

        torch.library.impl(f"aten::{name}", "privateuseone")(made)

    @torch.library.impl("aten::_copy_from", "privateuseone")
    def copy(source, target, non_blocking=False):
        here(target).copy_(here(source))
        return target

    torch.inference_mode = torch.no_grad  # in which there are no views of such tensors


def jobs_of(line: str, folder: Path, device: str) -> list[Job]:
    """Two runs of a line of overrides, for cuda as anybody would say it."""
    from small_runs import SHORT, SMALL, compose

    where = ["device=cuda"] if device == "cuda" else []
    common = [*SHORT, *SMALL, "checkpoint_every=1", *where]
    return [
        Job(compose(*common, f"seed={seed}", *line.split()), folder / str(seed), f"{line} {seed}", line)
        for seed in (3, 5)
    ]


def trained(jobs: list[Job], device: str) -> list[list[dict[str, float]] | Exception]:
    """Train runs of one batch on a device, the first time up to a step; return each one's rows, or why it failed."""
    from interrupted import stop_engine
    from small_runs import rows

    from rlexp.backends.dispatch import trainer
    from rlexp.sweep import build

    for job in jobs:
        job.folder.mkdir(parents=True)
    backend = jobs[0].config.backend.name
    train_jobs = trainer(backend)
    with pytest.MonkeyPatch.context() as patch:
        if device == NAME:
            patch.setattr(build, "prepare", lambda config: torch.device(NAME, 0))
            if backend == "trl":
                let_trl_train_there(patch)
        stop_engine(patch, STOPPED_AT)
        try:
            results = train_jobs(jobs)
        except KeyboardInterrupt:
            results = train_jobs(jobs)
    return [each if isinstance(each, Exception) else rows(job.folder) for job, each in zip(jobs, results, strict=True)]


def let_trl_train_there(patch) -> None:
    """Let TRL take the device for its own, in float32, and save nothing: such tensors have no memory to write."""
    from accelerate import Accelerator
    from transformers import Trainer, TrainingArguments

    from rlexp.backends.trl.run import Session
    from rlexp.backends.trl.trainer import PRECISIONS

    set_up = TrainingArguments.device.fget
    place = torch.device(NAME, 0)
    patch.setattr(TrainingArguments, "device", property(lambda self: (set_up(self), place)[1]))
    patch.setattr(Accelerator, "device", property(lambda self: place))
    patch.setitem(PRECISIONS, "float32", {"bf16": False})  # the device has no autocast
    for owner, name in ((Trainer, "_save_checkpoint"), (Session, "on_save")):
        patch.setattr(owner, name, lambda *arguments, **others: None)


def differences(ours: list[dict[str, float]], theirs: list[dict[str, float]]) -> list[str]:
    """Return the metrics that are not alike; the kernels are the same, and the order of some sums is another."""
    if [row.keys() for row in ours] != [row.keys() for row in theirs]:
        return ["other rows"]
    pairs = [(key, a[key], b[key]) for a, b in zip(ours, theirs, strict=True) for key in a]
    return [f"{key} {a} {b}" for key, a, b in pairs if not alike(a, b)]


def alike(a: float | None, b: float | None) -> bool:
    return a == b or (None not in (a, b) and math.isclose(a, b, rel_tol=1e-3, abs_tol=1e-4))


def wrong(lines: list[str], folder: Path, device: str) -> Iterator[list[str]]:
    """Yield each line with which something is wrong, and what; the lines share a batch."""
    places = [folder / str(number) for number in range(len(lines))]
    compared = device == NAME and not any("backend=trl" in line for line in lines)
    found = []
    for where in (device, "cpu") if compared else (device,):
        jobs = [job for line, place in zip(lines, places, strict=True) for job in jobs_of(line, place / where, where)]
        found.append(trained(jobs, where))
    for number, line in enumerate(lines):
        runs = [each[2 * number : 2 * number + 2] for each in found]
        if failed := [each for run in runs for each in run if isinstance(each, Exception)]:
            yield [line, f"{type(failed[0]).__name__}: {failed[0]}"]
        elif compared and (metrics := [text for pair in zip(*runs, strict=True) for text in differences(*pair)]):
            yield [line, *metrics[:3]]


def main() -> None:
    from rlexp.sweep.build import bucket_key

    folder, device, batches = Path(sys.argv[1]), sys.argv[2], {}
    if device == NAME:
        register()
    for line in sys.argv[3:]:
        config = jobs_of(line, folder, device)[0].config
        key = line if config.backend.name == "trl" else bucket_key(config)
        batches.setdefault(key, []).append(line)
    for number, lines in enumerate(batches.values()):
        try:
            said = [*wrong(lines, folder / str(number), device)]
        except Exception as error:
            said = [[", ".join(lines), f"{type(error).__name__}: {error}"]]
        for each in said:
            print(json.dumps(each), flush=True)


if __name__ == "__main__":
    main()
