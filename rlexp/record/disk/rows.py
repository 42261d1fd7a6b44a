"""A file of lines that grows, whose writer knows what it must hold."""

from __future__ import annotations

import os
from hashlib import blake2b
from pathlib import Path

from rlexp.core.exits import RunFailed
from rlexp.record.disk.durable import replace_unsynced, sync
from rlexp.runfolder.files import Extent, begins_with, content


class Rows:
    """Appends lines to a file that begins with ``kept``, what an earlier run left there.

    The file is opened for each line: a process can have more runs than a system lets it have files. RunFailed if it is
    gone, or is not as it was left.
    """

    def __init__(self, path: Path, kept: bytes = b"", always: bool = True):
        """Put the file at the end of what is kept; without ``always`` there is none until there is a line."""
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
        added, descriptor = text.encode(), self._open()
        try:
            if os.fstat(descriptor).st_size != self.size:
                raise RunFailed(f"{self.path} was changed by another process while the run was writing it")
            write_all(descriptor, added, self.size)
        finally:
            os.close(descriptor)
        self.size += len(added)
        self._hash.update(added)

    def _open(self) -> int:
        """Open the file at its end; one that was there is not made again."""
        new = 0 if self._there else os.O_CREAT | os.O_EXCL
        try:
            descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | new, 0o666)
        except (FileNotFoundError, FileExistsError) as error:
            wrong = "is gone" if isinstance(error, FileNotFoundError) else "was made by another process"
            raise RunFailed(f"{self.path} {wrong}: the run that was writing it has ended") from error
        self._there = True
        return descriptor

    def sync(self) -> None:
        """Wait until the disk has all lines."""
        if self._there:
            sync(self.path)

    @property
    def extent(self) -> Extent:
        """How much was written, and its checksum."""
        return {"bytes": self.size, "digest": self._hash.hexdigest()}


def write_all(descriptor: int, added: bytes, size: int) -> None:
    """Append bytes to a file of so many, or leave it as it was."""
    try:
        while added:
            added = added[os.write(descriptor, added) :]
    except BaseException:
        os.ftruncate(descriptor, size)
        raise


def matches(path: Path, extent: object, whole: bool = False) -> bool:
    """Whether a file begins with what was written (and ends there, if that was the ``whole``); Unreadable."""
    return begins_with(content(path) or b"", extent, whole)
