"""Checksums within the files that they are of: texts in JSON and YAML, and files of tensors.

A sealed file is read as before by whoever knows nothing of the seal: it is the last key of the JSON, a comment at the
end of the YAML, the comment of the zip archive that torch writes. Files of before there were seals are read too.

    summary.json    {…, "format": 2, …, "checksum": "…"}
    jobs.jsonl      {…, "of": 30, "check": "…"} a line, so do those of code.jsonl
    config.yaml     format: 2 … # rlexp 0.1.0, checksum …
    *.pt            the archive's comment: rlexp checksum …
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import torch
import yaml

from rlexp import __version__
from rlexp.core.exits import RunFailed
from rlexp.record.disk.durable import Damaged, content, digest

FORMAT = 2  # of a run's folder; 1 says nothing of itself
JSON_SEAL = re.compile(rb',\n  "checksum": "([0-9a-f]{32})"\n}\n\Z')
LINE_SEAL = re.compile(rb', "check": "([0-9a-f]{8})"}\Z')
YAML_SEAL = re.compile(rb"# rlexp (\S+), checksum ([0-9a-f]{32})\n\Z")
ZIP_SEAL = re.compile(rb"rlexp checksum ([0-9a-f]{32})\Z")
LARGEST_CONFIG = 2**20
BY_HAND = "changed by hand it is read without the lines `format` and `checksum`"
END_OF_ZIP = b"PK\x05\x06"


class OtherFormat(RunFailed):
    """A file that is whole, and of a version that this one cannot read."""


def sealed_json(text: str) -> bytes:
    """Return the text of a JSON object, indented by two, with a checksum as its last key."""
    body = text.encode().removesuffix(b"\n}\n")
    return body + f',\n  "checksum": "{digest(body)}"\n}}\n'.encode()


def read_json(path: Path) -> dict[str, Any] | None:
    """Read a sealed JSON object; None if there is none. Damaged, Unreadable, OtherFormat."""
    raw = content(path)
    if raw is None:
        return None
    seal = JSON_SEAL.search(raw)
    if seal and digest(raw[: seal.start()]) != seal[1].decode():
        raise Damaged(path)
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict) or (not seal and value.get("format", 1) != 1):
        raise Damaged(path)
    refuse_later(path, value.get("format", 1), str((value.get("versions") or {}).get("rlexp", "")))
    return value


def sealed_line(row: Mapping[str, Any], of: int) -> str:
    """Return one of so many lines, with a checksum as its last key."""
    body = json.dumps({**row, "of": of}, ensure_ascii=False).removesuffix("}")
    return f'{body}, "check": "{digest(body.encode(), 4)}"}}\n'


def read_sealed_lines(path: Path) -> list[dict[str, Any]] | None:
    """Read sealed lines without what seals them; None if there is no file. Damaged, Unreadable."""
    raw = content(path)
    if raw is None:
        return None
    lines = raw.splitlines()
    rows = [line_in(line, len(lines)) for line in lines]
    if not rows or None in rows:
        raise Damaged(path)
    return [{key: value for key, value in row.items() if key not in ("of", "check")} for row in rows]


def line_in(line: bytes, of: int) -> dict[str, Any] | None:
    """Return the object of one of so many lines; None if it is another than was written, or there were others."""
    seal = LINE_SEAL.search(line)
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(row, dict):
        return None
    whole = digest(line[: seal.start()], 4) == seal[1].decode() and row.get("of") == of if seal else "of" not in row
    return row if whole else None


def sealed_yaml(text: str) -> bytes:
    """Return YAML with its checksum as a comment."""
    body = f"{text}# rlexp {__version__}, checksum ".encode()
    return body + f"{digest(body)}\n".encode()


def read_yaml(path: Path) -> dict[str, Any] | None:
    """Read a sealed YAML mapping, its format left out; None if there is none. Errors are those of ``read_json``."""
    raw = content(path)
    if raw is None:
        return None
    seal = YAML_SEAL.search(raw)
    if seal and digest(raw[: seal.start(2)]) != seal[2].decode():
        raise Damaged(path, f"is damaged: it is not as it was written ({BY_HAND})")
    try:
        value = plain_yaml(raw)
    except (ValueError, RecursionError, yaml.YAMLError):
        value = None
    if not isinstance(value, dict) or (not seal and value.get("format", 1) != 1):
        raise Damaged(path)
    refuse_later(path, value.pop("format", 1), seal[1].decode() if seal else "")
    return value


def plain_yaml(raw: bytes) -> Any:
    """Return the value of YAML of a sensible size without anchors, of which a few lines can mean gigabytes."""
    text = raw.decode("utf-8")
    if len(raw) > LARGEST_CONFIG or any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, Loader)):
        raise ValueError
    return yaml.load(text, Loader)


Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def refuse_later(path: Path, found: Any, version: str) -> None:
    """OtherFormat if the format of a file is one that this version does not know."""
    if found in (1, FORMAT):
        return
    release = f"rlexp {version}" if version else "a later rlexp"
    here = f"rlexp {__version__} reads 1 and {FORMAT}"
    raise OtherFormat(f"{path} has format {found!r}, and {here}: {release} reads it")


def packed(state: Mapping[str, Any]) -> bytes:
    """Return a state of tensors and numbers as a sealed file that ``torch.load`` reads."""
    buffer = BytesIO()
    torch.save(dict(state), buffer)
    archive = buffer.getvalue()
    comment = f"rlexp checksum {digest(archive)}".encode()
    return archive[:-2] + len(comment).to_bytes(2, "little") + comment


def read_state(path: Path) -> dict[str, Any] | None:
    """Read a state; None if there is none. Damaged, or Unreadable. No code of the file is executed."""
    raw = content(path)
    if raw is None:
        return None
    try:
        return torch.load(BytesIO(archive_in(raw)), weights_only=True)
    except Exception:  # a damaged file makes the unpickler raise anything, a KeyError for one
        raise Damaged(path) from None


def archive_in(raw: bytes) -> bytes:
    """Return what was sealed; ValueError if it is something else by now. Older files have zip's own checksums only."""
    comment = raw[-len("rlexp checksum ") - 32 :]
    if seal := ZIP_SEAL.match(comment):
        archive = raw[: -len(comment) - 2] + bytes(2)
        if raw[-len(comment) - 2 : -len(comment)] == len(comment).to_bytes(2, "little"):
            if digest(archive) == seal[1].decode():
                return archive
        raise ValueError
    if raw[-22:-18] != END_OF_ZIP or zipfile.ZipFile(BytesIO(raw)).testzip():
        raise ValueError
    return raw
