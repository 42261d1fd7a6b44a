"""Whether a run's files are what it wrote: the checksums of summary.json, config.yaml and jobs.jsonl, and what follows.

Runs of before there were checksums are believed, if their rows are those that their configuration asks for.
"""

import json
import re
import stat
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any

from analysis.data.disk.links import is_foreign

FORMAT = 2  # of a run's folder; 1 says nothing of itself
SUMMARY_SEAL = re.compile(rb',\n  "checksum": "([0-9a-f]{32})"\n}\n\Z')
CONFIG_SEAL = re.compile(rb"# rlexp \S+, checksum ([0-9a-f]{32})\n\Z")
LINE_SEAL = re.compile(rb', "check": "([0-9a-f]{8})"}\Z')
STEP = re.compile(rb'^\{"step": (\d+)[,}]', re.MULTILINE)


def digest(content: bytes, size: int = 16) -> str:
    """The checksum of bytes in hexadecimal digits, two for each of its own bytes."""
    return blake2b(content, digest_size=size).hexdigest()


def content(path: Path) -> bytes:
    """The bytes of a file; none of one that is missing, that cannot be read, or that is a link out of its folder."""
    try:
        return path.read_bytes() if stat.S_ISREG(path.stat().st_mode) and not is_foreign(path) else b""
    except (OSError, ValueError):
        return b""


def summary_damage(path: Path, summary: Mapping[str, Any]) -> str | None:
    """What is wrong with a summary that can be read."""
    raw = content(path)
    seal = SUMMARY_SEAL.search(raw)
    if (seal and digest(raw[: seal.start()]) != seal[1].decode()) or (not seal and "format" in summary):
        return f"{path.name} is damaged"
    return _later(path, summary.get("format", 1))


def is_whole(raw: bytes, config: Any) -> bool:
    """Whether a configuration is as it was written, and of a format that is known."""
    seal = CONFIG_SEAL.search(raw)
    if seal:
        return digest(raw[: seal.start(1)]) == seal[1].decode() and config.get("format") == FORMAT
    return not isinstance(config, dict) or config.get("format", 1) == 1


def run_damage(folder: Path, summary: Mapping[str, Any], config: Mapping[str, Any] | None) -> str | None:
    """Which file of a run that has ended is not what it wrote, and how that shows."""
    files = summary.get("files")
    if isinstance(files, dict):
        return next(
            (f"{name} is not what the run wrote" for name in files if not _holds(folder / name, files[name])), None
        )
    return _row_damage(folder / "metrics.jsonl", config, summary.get("status") == "completed") if config else None


def _holds(path: Path, extent: Any) -> bool:
    raw = content(path)
    return isinstance(extent, dict) and len(raw) == extent.get("bytes") and digest(raw) == extent.get("digest")


def _row_damage(path: Path, config: Mapping[str, Any], ended: bool) -> str | None:
    """What is wrong with rows without a checksum, by the configuration: the first, the last, order, doubles, gaps."""
    try:
        last, often = config["steps"], (config["log_every"], config["eval"]["every"])
        expected = [step for step in range(last + 1) if step == last or any(step % every == 0 for every in often)]
    except (KeyError, TypeError, ZeroDivisionError):
        return None
    steps = [int(step) for step in STEP.findall(content(path))]
    if steps == (expected if ended else expected[: len(steps)]):
        return None
    if len(set(steps)) < len(steps):
        return f"{path.name} has rows twice"
    if steps != sorted(steps):
        return f"{path.name} has rows out of order"
    missing = len({*expected} - {*steps}) if ended else len({step for step in expected if step < steps[-1]} - {*steps})
    return f"{path.name} lacks {missing} of {len(expected)} rows" if missing else f"{path.name} has rows too many"


def _later(path: Path, found: Any) -> str | None:
    known = found in (1, FORMAT)
    return None if known else f"{path.name} has format {found!r}: the rlexp that wrote it reads it, or a later one"


def read_index(path: Path) -> tuple[list[dict[str, Any]], str | None]:
    """The rows of a sweep's index that are as they were written, and what is wrong with the others."""
    lines = [line for line in content(path).split(b"\n") if line.strip()]
    rows = [row for row in map(_index_row, lines) if row is not None]
    damaged = len(lines) - len(rows)
    if not lines:
        return [], f"{path.name} is empty or cannot be read: its runs are found by looking"
    missing = max((row["of"] for row in rows if type(row.get("of")) is int), default=0) - len(lines)
    if damaged:
        return rows, f"{path.name}: {damaged} damaged line{'s' * (damaged > 1)} skipped"
    return rows, f"{path.name} lacks {missing} line{'s' * (missing > 1)}" if missing > 0 else None


def lacks_index(folder: Path) -> bool:
    """Whether a sweep of a launcher that keeps an index has none."""
    return not (folder / "jobs.jsonl").exists() and b"FusedLauncher" in content(folder / "multirun.yaml")


def _index_row(line: bytes) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    seal = LINE_SEAL.search(line)
    if not isinstance(row, dict) or (seal and digest(line[: seal.start()], 4) != seal[1].decode()):
        return None
    return row if seal or "of" not in row else None
