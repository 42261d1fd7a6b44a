"""Files to plain Python values. Nothing here raises for a damaged file: what is wrong comes back in words."""

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

import orjson

from analysis.data.seals import content, is_whole


def read_lines(path: Path, containing: Collection[str] = ()) -> tuple[list[dict[str, Any]], str | None]:
    """The objects of a JSON-lines file, and what is wrong with it (a killed process leaves a cut last line).

    With `containing`, only the lines in which one of these texts occurs; the others are not even parsed.
    """
    try:
        lines = [line for line in path.read_text(encoding="utf-8", errors="replace").split("\n") if line.strip()]
    except OSError as error:
        return [], _unreadable(path, error)
    if containing:
        lines = [line for line in lines if _contains_any(line, containing) or not _looks_whole(line)]
    try:
        rows = orjson.loads("[" + ",".join(lines) + "]")  # many times faster than line by line, and stricter
    except (ValueError, RecursionError):
        rows = []
    if len(rows) != len(lines):  # also where two broken lines make one whole object
        rows = [_parse(line) for line in lines]
    objects = [row for row in rows if isinstance(row, dict)]
    damaged = len(rows) - len(objects)
    return objects, f"{path.name}: {damaged} damaged line{'s' * (damaged > 1)} skipped" if damaged else None


def _contains_any(line: str, texts: Collection[str]) -> bool:
    return any(text in line for text in texts)


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
        value = json.loads(path.read_text(encoding="utf-8", errors="replace"))
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
    except (yaml.YAMLError, RecursionError):
        return None
    if not is_whole(raw, value):
        return None
    return {key: item for key, item in value.items() if key != "format"} if isinstance(value, dict) else value
