"""What a Linux control group, which is what a container is, grants of the machine's processors and memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

ROOT, OWN = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
UNLIMITED = 2**60  # version 1 writes the largest multiple of a page


def cpus() -> float | None:
    """How many processors' time may be used; None if there is no limit."""
    limits = [limit for limit in numbers("", "cpu.max") if len(limit) == 2]
    quotas, periods = numbers("cpu", "cpu.cfs_quota_us"), numbers("cpu", "cpu.cfs_period_us")
    limits += [[quota, period] for (quota,), (period,) in zip(quotas, periods, strict=False) if quota > 0]
    return min((quota / period for quota, period in limits), default=None)


def memory() -> int | None:
    """How many bytes may be used; None if there is no limit."""
    found = [*numbers("", "memory.max"), *numbers("memory", "memory.limit_in_bytes")]
    return min((part[0] for part in found if part and part[0] < UNLIMITED), default=None)


def numbers(controller: str, name: str) -> Iterator[list[int]]:
    """Read a file of the own group and of those that it is in: a line of numbers, in which "max" is left out."""
    for folder in groups(controller):
        try:
            yield [int(word) for word in (folder / name).read_text().split() if word != "max"]
        except (OSError, ValueError):
            continue


def groups(controller: str) -> Iterator[Path]:
    """Folders of the own group and of those above it; ``controller`` is one of version 1, or "" for version 2."""
    try:
        lines = [line.split(":", 2) for line in OWN.read_text().splitlines()]
    except OSError:
        return
    top = ROOT / controller
    for _, controllers, path in lines:
        if controller in controllers.split(","):
            place = top / path.lstrip("/")
            yield from (folder for folder in (place, *place.parents) if folder.is_relative_to(top))
