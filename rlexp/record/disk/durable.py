"""Bytes to the disk: replaced whole or not at all, and synced."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from secrets import token_hex

AT_ONCE = 32  # files that are synced side by side: a disk takes them together, one by one each waits for the last
DRAFT = ".tmp"
NEVER_FOLLOWED = getattr(os, "O_NOFOLLOW", 0)


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
