"""Files to plain Python values. Nothing here raises for a damaged file: what is wrong comes back in words.

Only regular files are opened: a pipe would be waited for, a device never ends. Links that lead out of the folder that
was named are neither read nor written. Texts come back without what a terminal or a page would obey. Damage is known by
the checksums in summary.json, config.yaml and jobs.jsonl; runs of before there were checksums are believed, if their
rows are those that their configuration asks for.
"""

import json
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from stat import S_ISREG
from typing import Any

import orjson
import yaml

from rlexp.analysis.data.errors import AnalysisError, printable
from rlexp.runfolder import files
from rlexp.runfolder.files import CONFIG_FILE, METRICS_FILE, Unreadable, begins_with, is_foreign, leads_out
from rlexp.runfolder.files import content as content_of
from rlexp.runfolder.rows import logged_steps, without_clock

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


LARGEST = 1e100  # what is larger is no measurement, and its square no number
SUSPICIOUS = re.compile(r"\\u|[^\x20-\x7e\s]|[\x1c-\x1f]")  # a text without these is printable as it stands


def read_text(path: Path) -> str:
    """The text of a regular file; OSError for anything else, and for a link out of its folder."""
    if not S_ISREG(path.stat().st_mode):
        raise OSError(0, "is no regular file")
    if is_foreign(path):
        raise OSError(0, "is a link out of its folder")
    return path.read_text(encoding="utf-8", errors="replace")


def printable_values(value: Any) -> Any:
    """The value with all of its texts printable, those of keys too."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, list):
        return [printable_values(item) for item in value]
    if isinstance(value, dict):
        return {printable_values(key): printable_values(item) for key, item in value.items()}
    return value


def read_lines(path: Path, containing: Collection[str] = ()) -> tuple[list[dict[str, Any]], str | None]:
    """The objects of a JSON-lines file, and what is wrong with it (a killed process leaves a cut last line).

    With `containing`, only the lines in which one of these texts occurs; the others are not even parsed.
    """
    try:
        text = read_text(path)
    except OSError as error:
        return [], _unreadable(path, error)
    lines = [line for line in text.split("\n") if line.strip()]
    if containing:
        lines = [
            line
            for line in lines
            if any(text in line for text in containing) or not (line.startswith("{") and line.rstrip().endswith("}"))
        ]
    try:
        rows = orjson.loads("[" + ",".join(lines) + "]")  # many times faster than line by line, and stricter
    except (ValueError, RecursionError):
        rows = []
    if len(rows) != len(lines):  # also where two broken lines make one whole object
        rows = []
        for line in lines:
            try:
                rows.append(json.loads(line))
            except (ValueError, RecursionError):
                rows.append(None)
    objects = [row for row in rows if isinstance(row, dict)]
    if SUSPICIOUS.search(text):
        objects = printable_values(objects)
    damaged = len(rows) - len(objects)
    return objects, f"{path.name}: {damaged} damaged line{'s' * (damaged > 1)} skipped" if damaged else None


def _unreadable(path: Path, error: OSError) -> str:
    missing = isinstance(error, FileNotFoundError | NotADirectoryError)
    return f"{path.name} is missing" if missing else f"{path.name}: {error.strerror or error}"


def unclocked_rows(folder: Path) -> list[dict[str, str]]:
    """The rows of a run as text, without the clock: NaN is then equal to NaN."""
    rows = read_lines(folder / METRICS_FILE)[0]
    return [{key: repr(value) for key, value in without_clock(row).items()} for row in rows]


def read_object(path: Path) -> tuple[dict[str, Any], str | None]:
    """The object of a JSON file, and what is wrong with it."""
    try:
        value = printable_values(json.loads(read_text(path)))
    except OSError as error:
        return {}, _unreadable(path, error)
    except (ValueError, RecursionError):
        return {}, f"{path.name} is damaged"
    return (value, None) if isinstance(value, dict) else ({}, f"{path.name} is damaged")


def read_yaml(path: Path) -> Any:
    """The value of a YAML file, its format left out; None if it is missing or damaged."""
    try:
        raw = content(path)
        value = files.plain_yaml(raw) if raw else None
    except (yaml.YAMLError, ValueError, RecursionError):  # a date or a number can be a ValueError
        return None
    known = files.is_known(value.get("format", 1)) if isinstance(value, dict) else True
    if not known or not files.is_whole(raw, files.YAML, value):
        return None
    value = printable_values(value)
    return {key: item for key, item in value.items() if key != "format"} if isinstance(value, dict) else value


def read_config(folder: str | Path) -> dict[str, Any] | None:
    """The configuration of a run; None if it is missing, damaged or no mapping."""
    config = read_yaml(Path(folder) / CONFIG_FILE)
    return config if isinstance(config, dict) else None


def inner(folder: str | Path, *names: str) -> Path:
    """A path in a folder; AnalysisError if a link leads out of there."""
    path = Path(folder, *names)
    if leads_out(path, Path(folder)):
        raise AnalysisError(f"'{path}' leads out of '{folder}': remove the link, or name where to write (--out)")
    return path


@contextmanager
def writing_to(place: Path) -> Iterator[None]:
    """Turn an OSError into an AnalysisError that names where nothing could be written."""
    try:
        yield
    except OSError as error:
        raise AnalysisError(f"cannot write to '{place}': {error.strerror or error}") from error


def write_text(path: Path, text: str) -> Path:
    """Write a file, and its folder where there is none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unlinked(path).write_text(text, encoding="utf-8", errors="replace")
    return path


def unlinked(file: Path) -> Path:
    """The file, no longer as a link to another one, which would be written instead."""
    if file.is_symlink():
        file.unlink()
    return file
