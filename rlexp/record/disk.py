"""The files of one run: config.yaml, code.jsonl, metrics.jsonl (the source of truth), samples.jsonl, summary.json.

They are written so that nothing is lost, and read so that nothing lies: drafts, rows, states of tensors.
"""

from __future__ import annotations

import json
import math
import os
import platform
from collections.abc import Callable, Mapping, Sequence
from errno import EDQUOT, EFBIG, EMFILE, ENFILE, ENOSPC, EROFS
from hashlib import blake2b
from io import BytesIO
from pathlib import Path
from secrets import token_hex
from typing import Any

import torch

from rlexp import __version__
from rlexp.core.errors import ConfigError
from rlexp.core.exits import RunFailed
from rlexp.record.provenance import MEANT, SINCE, code_of, identity, trained_by
from rlexp.runfolder import files
from rlexp.runfolder.rows import step_in

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
        elif kept and (files.content(path) or b"").startswith(kept):
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
    def extent(self) -> files.Extent:
        return {"bytes": self.size, "digest": self._hash.hexdigest()}


def matches(path: Path, extent: object, whole: bool = False) -> bool:
    """Whether a file begins with what was written (and ends there, if that was the ``whole``); Unreadable."""
    return files.begins_with(files.content(path) or b"", extent, whole)


def serialize(state: Mapping[str, Any]) -> bytes:
    """Return a state of tensors and numbers as bytes that ``torch.load`` reads, with their checksum."""
    buffer = BytesIO()
    torch.save(dict(state), buffer)
    return files.archive_with_checksum(buffer.getvalue())


def read_state(path: Path) -> dict[str, Any] | None:
    """Read a state; None if there is none. Damaged, or Unreadable. No code of the file is executed."""
    raw = files.content(path)
    if raw is None:
        return None
    try:
        return torch.load(BytesIO(files.archive_of(raw)), weights_only=True)
    except Exception:  # a damaged file makes the unpickler raise anything, a KeyError for one
        raise files.Damaged(path) from None


def unwritable(error: Exception, path: Path) -> RunFailed:
    """Return what ends a run that cannot write a file: its name and what to do. A RunFailed stays as it is."""
    if isinstance(error, RunFailed):
        return error
    if not path.parent.is_dir():
        return RunFailed(f"{path.parent} was removed while the run was writing there; start it again")
    number = getattr(error, "errno", None) or ENOSPC  # torch's own writer does not say
    reason = getattr(error, "strerror", None) or "no space left on device?"
    return RunFailed(f"{path} cannot be written ({reason}): {REMEDIES.get(number, GOES_ON)}")


class Recorder:
    """Writes what a run leaves behind. Each row is on its way to the disk before ``write_row`` returns.

    ``config`` is the complete resolved config; ``facts`` (name, variant, seed, …) open the summary. Of what an earlier
    run left in the folder, only the rows up to ``step`` stay (``extents``, where these are known), and which code wrote
    them. Without a summary, a folder is a run that has not ended.
    """

    def __init__(
        self,
        folder: Path,
        config: Mapping[str, Any],
        facts: Mapping[str, Any],
        step: int = -1,
        extents: Mapping[str, files.Extent] | None = None,
    ):
        self.folder, self.facts, self.identity = Path(folder), dict(facts), identity(config)
        rows = rows_up_to(self.folder / files.METRICS_FILE, step, extents)
        samples = rows_up_to(self.folder / files.SAMPLES_FILE, step, extents)
        self.code, self.notes = trained_by(self.folder, step, code_of(config))
        remove_drafts(self.folder)
        (self.folder / files.SUMMARY_FILE).unlink(missing_ok=True)
        self.config = files.yaml_with_checksum(files.to_yaml({"format": files.FORMAT, **config}))
        rewrite(self.folder / files.CONFIG_FILE, self.config)
        lines = [files.line_with_checksum(each, len(self.code)) for each in self.code]
        rewrite(self.folder / files.CODE_FILE, "".join(lines).encode())
        self._unsynced = [self.folder / files.CONFIG_FILE, self.folder / files.CODE_FILE]
        self.metrics = Rows(self.folder / files.METRICS_FILE, rows)
        self.samples = Rows(self.folder / files.SAMPLES_FILE, samples, always=False)
        self.earlier_rows = [json.loads(line) for line in rows.splitlines()]

    def write_row(self, step: int, metrics: Mapping[str, int | float]) -> None:
        """Append the metrics after ``step`` updates. A float is written as its ``repr``: equal text is equal bits."""
        self.metrics.append(dump_json({"step": step, **metrics}) + "\n")

    def write_samples(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self.samples.append("".join(dump_json(row) + "\n" for row in rows))

    def sync(self) -> None:
        """Wait until the disk has what a checkpoint relies on."""
        for path in self._unsynced:
            sync(path)
        self._unsynced = []
        self.metrics.sync()
        self.samples.sync()

    def extents(self) -> dict[str, files.Extent]:
        return {rows.path.name: rows.extent for rows in (self.metrics, self.samples)}

    def finish(self, status: str, reason: str | None = None, **summary: Any) -> None:
        """Write the summary, whole or not at all, with what the other files hold."""
        extents = self.extents() | {files.CONFIG_FILE: {"bytes": len(self.config), "digest": files.digest(self.config)}}
        versions = {"rlexp": __version__, "torch": str(torch.__version__), "python": platform.python_version()}
        facts = {"status": status, "reason": reason, **self.facts, **summary, "versions": versions, "code": self.code}
        facts |= {"format": files.FORMAT, "identity": self.identity, "files": extents}
        replace(self.folder / files.SUMMARY_FILE, files.json_with_checksum(dump_json(facts, indent=2) + "\n"))


def saved_config(path: Path) -> dict[str, Any]:
    """Read a config.yaml as plain values, its format left out; ConfigError if there is none, or none that is whole."""
    try:
        values = files.read_yaml(path)
    except RunFailed as error:
        raise ConfigError([str(error)]) from None
    if values is None:
        raise ConfigError([f"{path.parent} is not the folder of a run: it has no {path.name}"])
    values = MEANT | values
    for key, choices in SINCE.items():
        group, _, name = key.partition(".")
        node = values.get(group)
        if isinstance(node, dict) and (choices is None or node.get("name") in choices):
            values[group] = {name: None} | node
    return values


def rewrite(path: Path, wanted: bytes) -> None:
    if files.content(path) != wanted:
        replace_unsynced(path, wanted)


def rows_up_to(path: Path, step: int, extents: Mapping[str, files.Extent] | None) -> bytes:
    """Return what a file held after ``step`` steps: as much as is known, else its lines up to those of that step."""
    there = (files.content(path) or b"") if step >= 0 else b""
    if extents is not None and path.name in extents:
        return there[: extents[path.name]["bytes"]]
    kept = b""
    for line in there.splitlines(keepends=True):
        number = step_in(line)
        if number is None or number > step:
            break
        kept += line
    return kept


def collapsed(final: float | None, floor: float) -> bool | None:
    """Whether a run ended with a score below the ``floor``; unknown (None) without a score."""
    return None if final is None else final < floor


def dump_json(value: Any, indent: int | None = None) -> str:
    """JSON that every reader accepts: numbers that are not finite become null."""
    return json.dumps(finite_or_null(value), indent=indent, allow_nan=False, ensure_ascii=False)


def finite_or_null(value: Any) -> Any:
    """Replace numbers that JSON cannot hold, at any depth."""
    if isinstance(value, Mapping):
        return {key: finite_or_null(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite_or_null(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
