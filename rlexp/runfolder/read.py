"""The texts of a run's folder as values: whole and of a known format, or an error that says why not."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from rlexp import __version__
from rlexp.core.exits import RunFailed
from rlexp.runfolder import checksums
from rlexp.runfolder.files import FORMAT, Damaged, content

LARGEST_CONFIG = 2**20
BY_HAND = "changed by hand it is read without the lines `format` and `checksum`"
Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class OtherFormat(RunFailed):
    """A file that is whole, and of a version that this one cannot read."""


def read_json(path: Path) -> dict[str, Any] | None:
    """Read a JSON object; None if there is none. Damaged, Unreadable, OtherFormat."""
    raw = content(path)
    if raw is None:
        return None
    value = whole_value(path, raw, checksums.JSON, json.loads, "is damaged")
    refuse_later(path, value.get("format", 1), str((value.get("versions") or {}).get("rlexp", "")))
    return value


def read_yaml(path: Path) -> dict[str, Any] | None:
    """Read a YAML mapping, its format left out; None if there is none. Errors are those of ``read_json``."""
    raw = content(path)
    if raw is None:
        return None
    value = whole_value(path, raw, checksums.YAML, plain_yaml, f"is damaged: it is not as it was written ({BY_HAND})")
    written = checksums.YAML.search(raw)
    refuse_later(path, value.pop("format", 1), written["version"].decode() if written else "")
    return value


def whole_value(
    path: Path, raw: bytes, kind: re.Pattern[bytes], parse: Callable[[bytes], Any], changed: str
) -> dict[str, Any]:
    """Return the mapping that bytes are; Damaged, with what is said where a checksum is wrong."""
    if checksums.is_intact(raw, kind) is False:
        raise Damaged(path, changed)
    try:
        value = parse(raw)
    except (ValueError, RecursionError, yaml.YAMLError):
        value = None
    if not isinstance(value, dict) or not checksums.is_whole(raw, kind, value):
        raise Damaged(path)
    return value


def plain_yaml(raw: bytes) -> Any:
    """Return the value of YAML of a sensible size without anchors, of which a few lines can mean gigabytes."""
    text = raw.decode("utf-8")
    if len(raw) > LARGEST_CONFIG or any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, Loader)):
        raise ValueError
    return yaml.load(text, Loader)


def refuse_later(path: Path, found: Any, version: str) -> None:
    """OtherFormat if the format of a file is one that this version does not know."""
    if not checksums.is_known(found):
        release = f"rlexp {version}" if version else "a later rlexp"
        here = f"rlexp {__version__} reads 1 and {FORMAT}"
        raise OtherFormat(f"{path} has format {found!r}, and {here}: {release} reads it")


def read_lines(path: Path) -> list[dict[str, Any]] | None:
    """Read lines that have checksums, without these; None if there is no file. Damaged, Unreadable."""
    raw = content(path)
    if raw is None:
        return None
    rows = [checksums.row_of(line) for line in raw.splitlines()]
    if not rows or any(row is None or row.get("of", len(rows)) != len(rows) for row in rows):
        raise Damaged(path)
    return [{key: value for key, value in row.items() if key not in ("of", "check")} for row in rows]
