"""A folder that is made once, whole or not at all, however many processes want it at the same time."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from errno import EEXIST, ENOLCK, ENOSYS, ENOTEMPTY, ENOTSUP
from pathlib import Path

WITHOUT_LOCKS = (ENOLCK, ENOSYS, ENOTSUP)


def made_once(place: Path, make: Callable[[Path], None]) -> Path:
    """Return ``place``, which ``make`` has filled: now, or for an earlier caller.

    It is filled under another name beside it and renamed at the end. Others who want it meanwhile wait, and where the
    file system has no locks the first to end wins. OSError where it cannot be written.
    """
    if filled(place):
        return place
    place.parent.mkdir(parents=True, exist_ok=True)
    with alone(place.with_name(f".{place.name}.lock")) as sure:
        if filled(place):
            return place
        for left in place.parent.glob(f".{place.name}-*") if sure else ():  # of a process that was killed
            shutil.rmtree(left, ignore_errors=True)
        draft = Path(tempfile.mkdtemp(prefix=f".{place.name}-", dir=place.parent))
        try:
            make(draft)
            settle(draft)
            os.rename(draft, place)
        except OSError as error:
            if error.errno not in (EEXIST, ENOTEMPTY) or not filled(place):
                raise
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    return place


def filled(place: Path) -> bool:
    """Whether there is a folder with something in it."""
    return place.is_dir() and any(place.iterdir())


def settle(folder: Path) -> None:
    """Give a new folder and its files the rights that new ones have here, and wait until the disk has the files."""
    mask = os.umask(0o022)  # it can only be read by setting it
    os.umask(mask)
    folder.chmod(0o777 & ~mask)
    for file in filter(Path.is_file, folder.rglob("*")):
        file.chmod(0o666 & ~mask)  # safetensors writes for the owner alone
        descriptor = os.open(file, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextmanager
def alone(path: Path) -> Iterator[bool]:
    """Context that one process at a time is in; False where that cannot be had. The system ends it with the process."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        sure = locked(descriptor)
        with suppress(FileNotFoundError):
            if not sure or os.path.samestat(path.stat(), os.fstat(descriptor)):
                break
        os.close(descriptor)  # its last holder has removed the file while we waited
    try:
        yield sure
    finally:
        with suppress(OSError):
            path.unlink()
        os.close(descriptor)


def locked(descriptor: int) -> bool:
    """Wait for the lock of a file and take it; False where the file system has no locks."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    except OSError as error:
        if error.errno not in WITHOUT_LOCKS:
            raise
        return False
    return True
