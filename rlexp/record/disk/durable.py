"""Bytes to the disk and back: replaced whole or not at all, synced, and "cannot be read" told from "is not there"."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import blake2b
from pathlib import Path
from secrets import token_hex

from rlexp.core.exits import RunFailed, printable

AT_ONCE = 32  # files that are synced side by side: a disk takes them together, one by one each waits for the last
DRAFT = ".tmp"
NEVER_FOLLOWED = getattr(os, "O_NOFOLLOW", 0)
NEVER_WAITING = getattr(os, "O_NONBLOCK", 0)


class Damaged(RunFailed):
    """A file, at ``path``, that does not hold what was written to it."""

    def __init__(self, path: Path, what: str = "is damaged"):
        super().__init__(printable(f"{path} {what}"))
        self.path = path


class Unreadable(RunFailed):
    """A file that is there and that the system does not let us read: it may be whole."""


def digest(content: bytes, size: int = 16) -> str:
    """Return the checksum of bytes in hexadecimal digits, two for each of its own bytes."""
    return blake2b(content, digest_size=size).hexdigest()


def content(path: Path) -> bytes | None:
    """Return the bytes of a file, None if there is none; Unreadable for what is there and cannot be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | NEVER_WAITING)
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise Unreadable(f"{path} is no file; move it away")
            return file.read()
    except (FileNotFoundError, NotADirectoryError, ValueError):  # the last for a name with a null byte
        return None
    except OSError as error:
        raise Unreadable(f"{path} cannot be read: {error.strerror or error}; mend that, then start again") from error


def replace(path: Path, text: str | bytes) -> None:
    """Write a file so that a reader, or whoever comes after a kill, finds the old content or the new one, no half."""
    put(write_draft(path, text, os.fsync), path)


def replace_unsynced(path: Path, text: str | bytes) -> None:
    """Do the same without waiting for the disk: after a power cut the file may be damaged."""
    put(write_draft(path, text, lambda descriptor: None), path)


def put(draft: Path, path: Path) -> None:
    """Put a draft in its place; nothing of it stays if that fails."""
    try:
        os.replace(draft, path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def write_draft(path: Path, text: str | bytes, sync: Callable[[int], None] = os.fsync) -> Path:
    """Write what is to replace a file beside it, under a name of its own; nothing of it stays if that fails."""
    draft = path.with_name(f"{path.name}.{os.getpid()}-{token_hex(4)}{DRAFT}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | NEVER_FOLLOWED, 0o666)
    try:
        with open(descriptor, "wb") as file:
            file.write(text.encode() if isinstance(text, str) else text)
            file.flush()
            sync(descriptor)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    return draft


def sync(path: Path) -> None:
    """Wait until the disk has a file."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_drafts(folder: Path) -> None:
    """Remove what writers that were killed left of their drafts; only for who alone writes to the folder."""
    for draft in folder.glob(f"*{DRAFT}"):
        if draft.is_symlink() or draft.is_file():
            draft.unlink(missing_ok=True)


def side_by_side(actions: Sequence[Callable[[], None]]) -> list[Exception | None]:
    """Do what waits for the disk in threads; return what went wrong with each."""
    if not actions:
        return []
    with ThreadPoolExecutor(min(AT_ONCE, len(actions))) as threads:
        return list(threads.map(failure_of, actions))


def failure_of(action: Callable[[], None]) -> Exception | None:
    """Do it; return what went wrong."""
    try:
        action()
    except Exception as error:
        return error
    return None
