"""The files that runs and sweeps leave behind, and their bytes: "cannot be read" is told from "is not there"."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path

from rlexp.core.exits import RunFailed, printable

FORMAT = 2  # of a run's folder; 1 says nothing of itself
CONFIG_FILE, METRICS_FILE, SAMPLES_FILE, SUMMARY_FILE = "config.yaml", "metrics.jsonl", "samples.jsonl", "summary.json"
CODE_FILE = "code.jsonl"
INDEX_FILE, MULTIRUN_FILE = "jobs.jsonl", "multirun.yaml"  # of a sweep
NEVER_WAITING = getattr(os, "O_NONBLOCK", 0)

Extent = Mapping[str, int | str]  # bytes, digest: of a file's beginning


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


def begins_with(raw: bytes, extent: object, whole: bool = False) -> bool:
    """Whether bytes begin with what was written (and end there, if that was the ``whole``).

    No bytes do where the extent is none, as a damaged file may have it.
    """
    if not isinstance(extent, Mapping) or type(extent.get("bytes")) is not int or extent["bytes"] < 0:
        return False
    size = extent["bytes"]
    return (len(raw) == size or (len(raw) > size and not whole)) and digest(raw[:size]) == extent.get("digest")
