"""Detect damaged files of a run by the checksums in summary.json, config.yaml and jobs.jsonl.

Runs of before there were checksums are believed, if their rows are those that their configuration asks for.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlexp.runfolder import files
from rlexp.runfolder.files import METRICS_FILE, Unreadable, begins_with, is_foreign
from rlexp.runfolder.files import content as content_of
from rlexp.runfolder.rows import logged_steps

STEP = re.compile(rb'^\{"step": (\d+)[,}]', re.MULTILINE)


def content(path: Path) -> bytes:
    """The bytes of a file; none of one that is missing, that cannot be read, or that is a link out of its folder."""
    try:
        return b"" if is_foreign(path) else content_of(path) or b""
    except (Unreadable, ValueError):
        return b""


def summary_damage(path: Path, summary: Mapping[str, Any]) -> str | None:
    """Describe the damage of a summary that can be read; None if there is none."""
    if not files.is_whole(content(path), files.JSON, summary):
        return f"{path.name} is damaged"
    found = summary.get("format", 1)
    later = f"{path.name} has format {found!r}: the rlexp that wrote it reads it, or a later one"
    return None if files.is_known(found) else later


def is_whole(raw: bytes, config: Any) -> bool:
    """Whether a configuration is as it was written, and of a format that is known."""
    known = files.is_known(config.get("format", 1)) if isinstance(config, dict) else True
    return known and files.is_whole(raw, files.YAML, config)


def run_damage(folder: Path, summary: Mapping[str, Any], config: Mapping[str, Any] | None) -> str | None:
    """Name the first damaged file of a run that has ended, and its damage; None if there is none."""
    written = summary.get("files")
    if isinstance(written, dict):
        changed = (name for name in written if not begins_with(content(folder / name), written[name], whole=True))
        return next((f"{name} is not what the run wrote" for name in changed), None)
    return _row_damage(folder / METRICS_FILE, config, summary.get("status") == "completed") if config else None


def _row_damage(path: Path, config: Mapping[str, Any], ended: bool) -> str | None:
    """Compare the steps of rows without a checksum with those of the configuration: order, doubles, gaps."""
    try:
        expected = logged_steps(config, config["steps"])
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


def read_index(path: Path) -> tuple[list[dict[str, Any]], str | None]:
    """The rows of a sweep's index that are as they were written, and what is wrong with the others."""
    lines = [line for line in content(path).split(b"\n") if line.strip()]
    rows = [row for row in map(files.row_of, lines) if row is not None]
    damaged = len(lines) - len(rows)
    if not lines:
        return [], f"{path.name} is empty or cannot be read: its runs are found by looking"
    missing = max((row["of"] for row in rows if type(row.get("of")) is int), default=0) - len(lines)
    if damaged:
        return rows, f"{path.name}: {damaged} damaged line{'s' * (damaged > 1)} skipped"
    return rows, f"{path.name} lacks {missing} line{'s' * (missing > 1)}" if missing > 0 else None
