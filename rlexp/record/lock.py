"""One writer a folder: a lock that the system takes back when its holder ends, however it ends.

The file ``.lock`` says who holds it: host, process, since when. Its text means nothing without the lock itself, and it
is gone where the holder ended by itself. A file system without locks is said once, and written without.
"""

from __future__ import annotations

import fcntl
import logging
import os
import re
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from errno import ENOLCK, ENOSYS, ENOTSUP
from functools import cache
from pathlib import Path

from rlexp.core.exits import RunFailed

LOG = logging.getLogger(__name__)
LOCK_FILE = ".lock"
WITHOUT_LOCKS = (ENOLCK, ENOSYS, ENOTSUP)
OPENED = os.O_NOFOLLOW | os.O_NONBLOCK  # no other file, and no waiting for one that is a pipe
LONGEST, BETWEEN_TRIES, SECONDS_TO_LOOK = 200, 0.05, 0.3  # who looks whether a lock is held holds it for an instant
NO_LOCK = "its file system fails at locks; mount it with locks, or name one elsewhere (hydra.sweep.dir, hydra.run.dir)"
HOLDER = re.compile(r"([\w.-]+) (\d+) (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\n")

_held: dict[Path, int] = {}  # the folders that this process writes, each with the descriptor of its lock


class Locked(RunFailed):
    """A folder that another process writes."""


class Unlockable(RunFailed):
    """A folder whose file system answers a lock with an error."""


@contextmanager
def locked(folder: Path, seconds: float = SECONDS_TO_LOOK) -> Iterator[None]:
    """Context in which only this process writes to a folder, which is made; nothing new where it does already.

    Locked, which names the holder, if another process does and has not ended after so many seconds. Unlockable.
    """
    place = folder.resolve()
    if place in _held:
        yield
        return
    take(folder, seconds)
    try:
        yield
    finally:
        release(place)


def keep(folder: Path) -> None:
    """Lock a folder until ``released_at_the_end`` ends. Locked if another process writes there."""
    if folder.resolve() not in _held:
        take(folder, SECONDS_TO_LOOK)


@contextmanager
def released_at_the_end() -> Iterator[None]:
    """Context at whose end those locks are released that were taken in it."""
    before = {*_held}
    try:
        yield
    finally:
        for place in {*_held} - before:
            release(place)


def take(folder: Path, seconds: float) -> None:
    """Lock a folder, which is made; Locked if another process holds it all the time. Who waits tries now and then."""
    place, end = folder.resolve(), time.monotonic() + seconds
    place.mkdir(parents=True, exist_ok=True)
    while (descriptor := locked_file(place / LOCK_FILE)) is None:
        if time.monotonic() > end:
            raise Locked(f"{folder} is being written by {holder(place)}: wait until it has ended, or end it")
        time.sleep(BETWEEN_TRIES)
    _held[place] = descriptor
    with suppress(OSError):  # of a full disk, or somebody else's file: the lock holds without its text
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{socket.gethostname()} {os.getpid()} {time.strftime('%F %T')}\n".encode(), 0)


def locked_file(path: Path) -> int | None:
    """Return a descriptor of the file with its lock; None if another process has it, or has removed the file."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | OPENED, 0o666)
    except PermissionError:
        descriptor = os.open(path, os.O_RDONLY | OPENED)  # of another user who shares the folder
    held = False
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in WITHOUT_LOCKS:
                raise
            warn_of_no_locks()
        held = path.stat().st_ino == os.fstat(descriptor).st_ino
    except (BlockingIOError, FileNotFoundError):
        pass
    except OSError as error:
        raise Unlockable(f"{path} cannot be locked ({error.strerror or error}): {NO_LOCK}") from error
    finally:
        if not held:
            os.close(descriptor)
    return descriptor if held else None


@cache
def warn_of_no_locks() -> None:
    LOG.warning("this file system has no locks: start nothing twice in the same folder")


def release(place: Path) -> None:
    """Give a folder back. The file goes first: who has opened it meanwhile sees that it is no longer the one there."""
    descriptor = _held.pop(place)
    with suppress(OSError):
        (place / LOCK_FILE).unlink()
    os.close(descriptor)


def is_held(folder: Path, unsure: bool = False) -> bool:
    """Whether some process writes to a folder, this one included; ``unsure`` where locks do not say."""
    try:
        file = open(folder / LOCK_FILE, "rb", opener=opener)
    except OSError:
        return False
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            return unsure
    return False


def text(folder: Path) -> str:
    try:
        with open(folder / LOCK_FILE, "rb", opener=opener) as file:
            return file.read(LONGEST).decode(errors="replace")
    except OSError:
        return ""


def opener(path: str, flags: int) -> int:
    return os.open(path, flags | OPENED)


def holder(folder: Path) -> str:
    found = HOLDER.fullmatch(text(folder))
    return f"process {found[2]} on {found[1]} since {found[3]}" if found else "another process"
