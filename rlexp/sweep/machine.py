"""The machine that a batch trains on: its device, cores, memory and threads, the precision of its products."""

from __future__ import annotations

import ctypes
import os
import re
import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import torch

from rlexp.config.schema import Config
from rlexp.core.errors import ConfigError

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # of mallopt(3), <malloc.h>
LARGEST = 2**31 - 1
MOST_FILES = 2**16  # a limit of a billion slows programs that close them all
NO_MEMORY = "can't allocate memory|not enough memory|out of memory|Cannot allocate memory"
CGROUPS, OWN_CGROUP = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
UNLIMITED = 2**60  # version 1 of control groups writes the largest multiple of a page
PERIOD, TOLERATED = 25, 0.02  # steps between trials of a number of threads; the share of the time that trials cost


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
    """Return the function as ``torch.compile`` makes it, if the config wants that.

    CUDA graphs are not captured: sampling writes keys and values into its cache in place, which rules them out.
    """
    if not config.compile:
        return function
    dynamo = torch._dynamo.config  # each place of a completion is code of its own, and eight is the most by default
    dynamo.recompile_limit = max(dynamo.recompile_limit, 2 * config.task.cap)
    return torch.compile(function, dynamic=False)


def usable_cores() -> int:
    """Cores that this process may use: what its affinity and its control group leave of the machine's."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(cores, int(granted_cpus() or cores)))


def available_bytes(device: str) -> float:
    """Bytes that batches may take: half of what the machine (or container), or its first CUDA device, has."""
    if device == "cuda" and torch.cuda.is_available():
        return torch.cuda.mem_get_info()[1] / 2
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min(memory, granted_memory() or memory) / 2


def granted_cpus() -> float | None:
    """How many processors' time the control group, which is what a container is, may use; None without a limit."""
    limits = [limit for limit in cgroup_numbers("", "cpu.max") if len(limit) == 2]
    quotas, periods = cgroup_numbers("cpu", "cpu.cfs_quota_us"), cgroup_numbers("cpu", "cpu.cfs_period_us")
    limits += [[quota, period] for (quota,), (period,) in zip(quotas, periods, strict=False) if quota > 0]
    return min((quota / period for quota, period in limits), default=None)


def granted_memory() -> int | None:
    """How many bytes the control group may use; None without a limit."""
    found = [*cgroup_numbers("", "memory.max"), *cgroup_numbers("memory", "memory.limit_in_bytes")]
    return min((part[0] for part in found if part and part[0] < UNLIMITED), default=None)


def cgroup_numbers(controller: str, name: str) -> Iterator[list[int]]:
    """Read a file of the own group and of those above it: a line of numbers, in which "max" is left out.

    ``controller`` is one of version 1, or "" for version 2.
    """
    try:
        lines = [line.split(":", 2) for line in OWN_CGROUP.read_text().splitlines()]
    except OSError:
        return
    top = CGROUPS / controller
    for _, controllers, path in lines:
        place = top / path.lstrip("/")
        if controller in controllers.split(","):
            for folder in (each for each in (place, *place.parents) if each.is_relative_to(top)):
                try:
                    yield [int(word) for word in (folder / name).read_text().split() if word != "max"]
                except (OSError, ValueError):
                    continue


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory has run out, the machine's or its device's."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and bool(re.search(NO_MEMORY, str(error)))


def open_files() -> int:
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return MOST_FILES if soft == resource.RLIM_INFINITY else soft


def allow_open_files() -> None:
    """Allow this process as many open files as the system lets it have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


class Threads:
    """Runs the steps of ``replicas`` runs with ``fixed`` threads, or with as many as were fastest when last tried.

    No more are tried than torch has when this is made, of which a worker that shares its machine has a part.
    Two threads halve the time of thirty small runs on two idle cores and multiply it by ten beside another busy
    process. A number that was that slow is not tried again soon: trials cost at most ``TOLERATED`` of the time. No
    result depends on the choice; a batch of one run takes one thread, for the reason in ``core.exact``.
    """

    def __init__(self, replicas: int, fixed: int | None, clock: Callable[[], float] = time.perf_counter):
        most = min(torch.get_num_threads(), usable_cores())
        powers = [2**k for k in range(most.bit_length()) if 2**k < most]
        self.choices = [1] if replicas == 1 else [fixed] if fixed else [*powers, most]
        self.seconds, self.due = dict.fromkeys(self.choices, 0.0), dict.fromkeys(self.choices, 0)
        self.clock = clock

    @contextmanager
    def chosen(self, step: int) -> Iterator[None]:
        """Context of a step; the first steps of each period try those choices one after another that are due."""
        place = step % PERIOD
        trial = place < len(self.choices) and self.due[self.choices[place]] <= step
        number = self.choices[place] if trial else min(self.seconds, key=self.seconds.get)
        torch.set_num_threads(number)
        started = self.clock()
        yield
        if trial:
            self.seconds[number] = self.clock() - started
            lost = self.seconds[number] / min(filter(None, self.seconds.values()), default=1.0) - 1
            self.due[number] = step + int(lost / TOLERATED)  # not before other steps make up for what this one lost
