"""A device that computes as the CPU and is another one: tensors of both in one operation are an error, as on a GPU.

``python elsewhere.py FOLDER elsewhere "axis=choice key=value" ...`` trains each line of overrides there and on the CPU,
stopped in the middle and continued, and prints a line for each that fails or has other numbers; ``cuda`` instead of
``elsewhere`` trains on the GPU alone, which samples other tokens where a probability differs in its last digits. It is
a process of its own: a device that is registered stays.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import torch
from torch.utils import _pytree

NAME = "elsewhere"
CROSSING = {"_to_copy", "copy_", "index"}  # take tensors of both devices, as with CUDA
STOPPED_AT = 2


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
    from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

    _setup_privateuseone_for_python_backend(NAME)
    for name in ("empty.memory_format", "empty_strided"):
        make = getattr(torch, name.partition(".")[0])

        def made(*args, make=make, **kwargs):
            return Elsewhere(make(*args, **kwargs | {"device": "cpu", "pin_memory": False}))

        torch.library.impl(f"aten::{name}", "privateuseone")(made)

    @torch.library.impl("aten::_copy_from", "privateuseone")
    def copy(source, target, non_blocking=False):
        here(target).copy_(here(source))
        return target

    torch.inference_mode = torch.no_grad  # in which there are no views of such tensors


def trained(folder: Path, device: str, overrides: list[str]) -> list[dict[str, float]]:
    """Train two runs on a device, cuda as anybody would, the first time up to a step; return their rows."""
    import pytest
    from interrupted import stop_engine
    from small_runs import SHORT, SMALL, compose, rows

    from rlexp.sweep import build
    from rlexp.sweep.engine import train_jobs
    from rlexp.sweep.job import Job

    jobs = []
    for seed in (3, 5):
        place = folder / device / str(seed)
        place.mkdir(parents=True)
        where = ["device=cuda"] if device == "cuda" else []
        config = compose(*SHORT, *SMALL, "checkpoint_every=1", f"seed={seed}", *where, *overrides)
        jobs.append(Job(config, place, str(seed), "variant"))
    with pytest.MonkeyPatch.context() as patch:
        if device == NAME:
            patch.setattr(build, "prepare", lambda config: torch.device(NAME, 0))
        stop_engine(patch, STOPPED_AT)
        try:
            results = train_jobs(jobs)
        except KeyboardInterrupt:
            results = train_jobs(jobs)
    if failed := [each for each in results if isinstance(each, Exception)]:
        raise failed[0]
    return [row for job in jobs for row in rows(job.folder)]


def differences(ours: list[dict[str, float]], theirs: list[dict[str, float]]) -> list[str]:
    """Return the metrics that are not alike; the kernels are the same, and the order of some sums is another."""
    if [row.keys() for row in ours] != [row.keys() for row in theirs]:
        return ["other rows"]
    pairs = [(key, a[key], b[key]) for a, b in zip(ours, theirs, strict=True) for key in a]
    return [f"{key} {a} {b}" for key, a, b in pairs if not alike(a, b)]


def alike(a: float | None, b: float | None) -> bool:
    return a == b or (None not in (a, b) and math.isclose(a, b, rel_tol=1e-3, abs_tol=1e-4))


def main() -> None:
    import rlexp  # noqa: F401 (first: it sets MKL's mode)

    folder, device = Path(sys.argv[1]), sys.argv[2]
    if device == NAME:
        register()
    for number, line in enumerate(sys.argv[3:]):
        try:
            rows = trained(folder / str(number), device, line.split())
            wrong = differences(rows, trained(folder / str(number), "cpu", line.split())) if device == NAME else []
        except Exception as error:
            wrong = [f"{type(error).__name__}: {error}"]
        if wrong:
            print(json.dumps([line, *wrong[:3]]), flush=True)


if __name__ == "__main__":
    main()
