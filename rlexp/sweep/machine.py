"""The machine that a batch trains on: its device, its memory, the precision of its products, compiled code."""

from __future__ import annotations

import ctypes
import os
import re
import resource
from collections.abc import Callable
from contextlib import suppress

import torch
from torch import nn

from rlexp.config.schema import Config
from rlexp.core.errors import ConfigError
from rlexp.core.registry import bind_choice
from rlexp.loop.data import DATA
from rlexp.sweep import cgroup

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # of mallopt(3), <malloc.h>
BYTES_A_TOKEN = 17  # of a completion that is kept: the token, two log-probabilities, whether it counts
LARGEST = 2**31 - 1
MOST_FILES = 2**16  # a limit of a billion slows programs that close them all
NO_MEMORY = "can't allocate memory|not enough memory|out of memory|Cannot allocate memory"
STATES = 5  # numbers a parameter: itself, its gradient, two moments, the reference
PASSES = 3  # numbers a value of a layer while it trains: itself, its gradient, a temporary


def prepare(config: Config) -> torch.device:
    """Set what holds for the whole process; return the device. ConfigError if it is not here."""
    if problem := device_problem(config):
        raise ConfigError([problem])
    torch.set_float32_matmul_precision(config.matmul_precision)
    keep_freed_memory()
    return torch.device(config.device)


def device_problem(config: Config) -> str | None:
    """Say that the device is not on this machine, if so."""
    if config.device == "cuda" and not torch.cuda.is_available():
        return f"device=cuda: PyTorch {torch.__version__} sees no CUDA device here; allowed here: cpu"
    return None


def gpus() -> list[str]:
    """Return the CUDA devices that this process sees, as ``CUDA_VISIBLE_DEVICES`` names them."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    return [each for each in named.split(",") if each] if named else [str(i) for i in range(torch.cuda.device_count())]


def keep_freed_memory() -> None:
    """Tell glibc to serve every block from memory that it keeps; allocators without ``mallopt`` are left alone.

    A batch of thirty runs frees and allocates half a gigabyte a step. glibc returns large blocks at once, and every
    page is cleared anew when it is touched: a third of the time of a step.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt:
        mallopt(MMAP_THRESHOLD, LARGEST)
        mallopt(TRIM_THRESHOLD, LARGEST)


def compiled(function: Callable, config: Config) -> Callable:
    """Return the function as ``torch.compile`` makes it, on CUDA with captured graphs, if the config wants that."""
    if not config.compile:
        return function
    dynamo = torch._dynamo.config  # each place of a completion is code of its own, and eight is the most by default
    dynamo.recompile_limit = max(dynamo.recompile_limit, 2 * config.task.cap)
    return torch.compile(function, dynamic=False, mode="reduce-overhead" if config.device == "cuda" else "default")


def usable_cores() -> int:
    """Cores that this process may use: what its affinity and its control group leave of the machine's."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores, int(cgroup.cpus() or cores)))


def available_bytes(device: str) -> float:
    """Bytes that batches may take: half of what the machine (or container), or its first CUDA device, has."""
    if device == "cuda" and torch.cuda.is_available():
        return torch.cuda.mem_get_info()[1] / 2
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min(memory, cgroup.memory() or memory) / 2


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory has run out, the machine's or its device's."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and bool(re.search(NO_MEMORY, str(error)))


def release_memory() -> None:
    """Give back what a batch that has ended took of its device."""
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def open_files() -> int:
    """How many files this process may have open."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return MOST_FILES if soft == resource.RLIM_INFINITY else soft


def allow_open_files() -> None:
    """Allow this process as many open files as the system lets it have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def bytes_a_run(policy: nn.Module, config: Config, prompt_length: int, cap: int) -> float:
    """Estimate from above what one more run of a batch takes, from the outputs of all layers at all tokens."""
    values = sum(parameter.shape[-1] for parameter in policy.parameters())
    sampled = config.group_size.prompts * (prompt_length + config.group_size.completions * cap)
    trained = sampled * (1 + PASSES / config.minibatches)  # the forward_cache of all, the pass of a minibatch
    evaluated = config.eval.prompts * (prompt_length + config.eval.samples * cap)
    parameters = sum(parameter[0].numel() for parameter in policy.parameters())
    data = bind_choice(DATA, config.data)()
    groups = data.slots * data.sampled(config.group_size.prompts)
    held = groups * (8 * prompt_length + BYTES_A_TOKEN * config.group_size.completions * cap)
    return 4.0 * (STATES * parameters + values * (trained + evaluated)) + held
