"""Files to plain Python values. Nothing here raises for a damaged file: what is wrong comes back in words.

Only regular files are opened: a pipe would be waited for, a device never ends. Texts come back without what a terminal
or a page would obey.
"""

import json
import re
from collections.abc import Collection
from pathlib import Path
from stat import S_ISREG
from typing import Any

import orjson

from rlexp.analysis.data.damage import content, is_whole
from rlexp.analysis.data.errors import printable
from rlexp.runfolder.files import CONFIG_FILE, is_foreign

LARGEST = 1e100  # what is larger is no measurement, and its square no number
MOST_NODES = 200_000  # of a YAML, its aliases written out: a few lines of them can make billions
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
        lines = [line for line in lines if any(text in line for text in containing) or not _looks_whole(line)]
    try:
        rows = orjson.loads("[" + ",".join(lines) + "]")  # many times faster than line by line, and stricter
    except (ValueError, RecursionError):
        rows = []
    if len(rows) != len(lines):  # also where two broken lines make one whole object
        rows = [_parse(line) for line in lines]
    objects = [row for row in rows if isinstance(row, dict)]
    if SUSPICIOUS.search(text):
        objects = printable_values(objects)
    damaged = len(rows) - len(objects)
    return objects, f"{path.name}: {damaged} damaged line{'s' * (damaged > 1)} skipped" if damaged else None


def _looks_whole(line: str) -> bool:
    return line.startswith("{") and line.rstrip().endswith("}")


def _unreadable(path: Path, error: OSError) -> str:
    missing = isinstance(error, FileNotFoundError | NotADirectoryError)
    return f"{path.name} is missing" if missing else f"{path.name}: {error.strerror or error}"


def _parse(line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


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
    import yaml  # only needed for a study's question or a folder without an index

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        raw = content(path)
        value = yaml.load(raw.decode("utf-8", errors="replace"), Loader=loader) if raw else None
    except (yaml.YAMLError, ValueError, RecursionError):  # a date or a number can be a ValueError
        return None
    if not is_whole(raw, value) or _nodes(value, {}) > MOST_NODES:
        return None
    value = printable_values(value)
    return {key: item for key, item in value.items() if key != "format"} if isinstance(value, dict) else value


def read_config(folder: str | Path) -> dict[str, Any] | None:
    """The configuration of a run; None if it is missing, damaged or no mapping."""
    config = read_yaml(Path(folder) / CONFIG_FILE)
    return config if isinstance(config, dict) else None


def _nodes(value: Any, known: dict[int, int]) -> int:
    """Count the values with every alias written out; one that holds itself counts as endless."""
    if not isinstance(value, list | dict):
        return 1
    if id(value) not in known:
        known[id(value)] = MOST_NODES + 1  # while it is counted
        items = value.values() if isinstance(value, dict) else value
        known[id(value)] = 1 + sum(_nodes(item, known) for item in items)
    return known[id(value)]
