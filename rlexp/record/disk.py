"""How files are written so that nothing is lost, and read so that nothing lies: drafts, rows, states of tensors."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from errno import EDQUOT, EFBIG, EMFILE, ENFILE, ENOSPC, EROFS
from hashlib import blake2b
from io import BytesIO
from pathlib import Path
from secrets import token_hex
from typing import Any

import torch

from rlexp.core.exits import RunFailed
from rlexp.runfolder.files import Damaged, Extent, archive_of, archive_with_checksum, begins_with, content

DRAFT = ".tmp"
NEVER_FOLLOWED = getattr(os, "O_NOFOLLOW", 0)
GOES_ON = "resume=failed then goes on from the last checkpoint"
REMEDIES = {
    ENOSPC: f"make room on that disk; {GOES_ON}",
    EDQUOT: f"make room in your quota; {GOES_ON}",
    EFBIG: f"allow larger files (ulimit -f); {GOES_ON}",
    EMFILE: f"allow more open files (ulimit -n), or train fewer runs at once; {GOES_ON}",
    ENFILE: f"the system has too many open files; {GOES_ON}",
    EROFS: f"make that file system writable; {GOES_ON}",
}


def replace(path: Path, text: str | bytes) -> None:
    """Write a file so that a reader, or whoever comes after a kill, finds the old content or the new one, no half."""
    put(write_draft(path, text), path)


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


def remove_drafts(folder: Path) -> None:
    """Remove what writers that were killed left of their drafts; only for who alone writes to the folder."""
    for draft in folder.glob(f"*{DRAFT}"):
        if draft.is_symlink() or draft.is_file():
            draft.unlink(missing_ok=True)


def sync(path: Path) -> None:
    with open(path, "rb") as file:
        os.fsync(file.fileno())


class Rows:
    """Appends lines to a file that begins with ``kept``, what an earlier run left there.

    The file is opened for each line: a process can have more runs than a system lets it have files. RunFailed if it is
    gone, or is not as it was left. Without ``always`` there is no file until there is a line.
    """

    def __init__(self, path: Path, kept: bytes = b"", always: bool = True):
        self.path, self.size, self._hash = path, len(kept), blake2b(kept, digest_size=16)
        self._there = bool(kept) or always
        if not self._there:
            path.unlink(missing_ok=True)
        elif kept and (content(path) or b"").startswith(kept):
            os.truncate(path, len(kept))  # not written anew: it is on the disk already
        else:
            replace_unsynced(path, kept)

    def append(self, text: str) -> None:
        """Write lines, all of them or none."""
        added, new = text.encode(), 0 if self._there else os.O_CREAT | os.O_EXCL
        try:
            descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | new, 0o666)
        except (FileNotFoundError, FileExistsError) as error:
            wrong = "is gone" if isinstance(error, FileNotFoundError) else "was made by another process"
            raise RunFailed(f"{self.path} {wrong}: the run that was writing it has ended") from error
        self._there = True
        with open(descriptor, "ab", buffering=0):
            if os.fstat(descriptor).st_size != self.size:
                raise RunFailed(f"{self.path} was changed by another process while the run was writing it")
            try:
                rest = added
                while rest:
                    rest = rest[os.write(descriptor, rest) :]
            except BaseException:
                os.ftruncate(descriptor, self.size)
                raise
        self.size += len(added)
        self._hash.update(added)

    def sync(self) -> None:
        if self._there:
            sync(self.path)

    @property
    def extent(self) -> Extent:
        return {"bytes": self.size, "digest": self._hash.hexdigest()}


def matches(path: Path, extent: object, whole: bool = False) -> bool:
    """Whether a file begins with what was written (and ends there, if that was the ``whole``); Unreadable."""
    return begins_with(content(path) or b"", extent, whole)


def serialize(state: Mapping[str, Any]) -> bytes:
    """Return a state of tensors and numbers as bytes that ``torch.load`` reads, with their checksum."""
    buffer = BytesIO()
    torch.save(dict(state), buffer)
    return archive_with_checksum(buffer.getvalue())


def read_state(path: Path) -> dict[str, Any] | None:
    """Read a state; None if there is none. Damaged, or Unreadable. No code of the file is executed."""
    raw = content(path)
    if raw is None:
        return None
    try:
        return torch.load(BytesIO(archive_of(raw)), weights_only=True)
    except Exception:  # a damaged file makes the unpickler raise anything, a KeyError for one
        raise Damaged(path) from None


def unwritable(error: Exception, path: Path) -> RunFailed:
    """Return what ends a run that cannot write a file: its name and what to do. A RunFailed stays as it is."""
    if isinstance(error, RunFailed):
        return error
    if not path.parent.is_dir():
        return RunFailed(f"{path.parent} was removed while the run was writing there; start it again")
    number = getattr(error, "errno", None) or ENOSPC  # torch's own writer does not say
    reason = getattr(error, "strerror", None) or "no space left on device?"
    return RunFailed(f"{path} cannot be written ({reason}): {REMEDIES.get(number, GOES_ON)}")
