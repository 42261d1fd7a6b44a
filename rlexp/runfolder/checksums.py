"""Checksums within the files that they are of: texts in JSON and YAML, and archives of tensors.

Whoever knows nothing of the checksum reads such a file as before: it is the last key of the JSON, a comment at the end
of the YAML, the comment of the zip archive that torch writes. Files of format 1 have none.

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
from typing import Any

from rlexp import __version__
from rlexp.runfolder.files import FORMAT, digest

# The end of a file, or of a line; the checksum is of what stands before the empty group.
JSON = re.compile(rb'(?P<body>),\n  "checksum": "(?P<digest>[0-9a-f]{32})"\n}\n\Z')
LINE = re.compile(rb'(?P<body>), "check": "(?P<digest>[0-9a-f]{8})"}\Z')
YAML = re.compile(rb"# rlexp (?P<version>\S+), checksum (?P<body>)(?P<digest>[0-9a-f]{32})\n\Z")
ZIP = re.compile(rb"rlexp checksum [0-9a-f]{32}\Z")
END_OF_ZIP = b"PK\x05\x06"


def is_intact(raw: bytes, kind: re.Pattern[bytes]) -> bool | None:
    """Whether bytes are as they were written, by their checksum; None where they have none."""
    found = kind.search(raw)
    return found and digest(raw[: found.start("body")], len(found["digest"]) // 2) == found["digest"].decode()


def is_whole(raw: bytes, kind: re.Pattern[bytes], value: Any) -> bool:
    """Whether the bytes of a value are as they were written: only those of format 1 lack a checksum."""
    intact = is_intact(raw, kind)
    return (not isinstance(value, Mapping) or value.get("format", 1) == 1) if intact is None else intact


def json_with_checksum(text: str) -> bytes:
    """Return the text of a JSON object, indented by two, with a checksum as its last key."""
    body = text.encode().removesuffix(b"\n}\n")
    return body + f',\n  "checksum": "{digest(body)}"\n}}\n'.encode()


def yaml_with_checksum(text: str) -> bytes:
    """Return YAML with its checksum as a comment."""
    body = f"{text}# rlexp {__version__}, checksum ".encode()
    return body + f"{digest(body)}\n".encode()


def line_with_checksum(row: Mapping[str, Any], of: int) -> str:
    """Return one of so many lines, with a checksum as its last key."""
    body = json.dumps({**row, "of": of}, ensure_ascii=False).removesuffix("}")
    return f'{body}, "check": "{digest(body.encode(), 4)}"}}\n'


def row_of(line: bytes) -> dict[str, Any] | None:
    """Return the object of a line, its checksum included; None if it is not as it was written."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    intact = is_intact(line, LINE)
    return row if isinstance(row, dict) and ("of" not in row if intact is None else intact) else None


def archive_with_checksum(archive: bytes) -> bytes:
    """Return a zip archive without a comment with its checksum as one."""
    comment = f"rlexp checksum {digest(archive)}".encode()
    return archive[:-2] + len(comment).to_bytes(2, "little") + comment


def archive_of(raw: bytes) -> bytes:
    """Return the archive as it was; ValueError if it is another by now. Older files have zip's own checksums only."""
    comment = raw[-len("rlexp checksum ") - 32 :]
    if ZIP.match(comment):
        archive = raw[: -len(comment) - 2] + bytes(2)
        if archive_with_checksum(archive) == raw:
            return archive
        raise ValueError
    if raw[-22:-18] != END_OF_ZIP or zipfile.ZipFile(BytesIO(raw)).testzip():
        raise ValueError
    return raw


def is_known(found: object) -> bool:
    """Whether this version reads a format."""
    return found in (1, FORMAT)
