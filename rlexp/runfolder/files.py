"""The files that runs and sweeps leave behind: their bytes, their checksums, and their values where they are whole.

"Cannot be read" is told from "is not there". Each checksum stands within the file that it is of, so that whoever knows
nothing of it reads the file as before: the last key of the JSON, a comment at the end of the YAML, the comment of the
zip archive that torch writes. Files of format 1 have none.

    summary.json    {…, "format": 2, …, "checksum": "…"}
    jobs.jsonl      {…, "of": 30, "check": "…"} a line, so do those of code.jsonl
    config.yaml     format: 2 … # rlexp 0.1.0, checksum …
    *.pt            the archive's comment: rlexp checksum …
"""

from __future__ import annotations

import json
import os
import re
import stat
import zipfile
from collections.abc import Callable, Mapping
from hashlib import blake2b
from io import BytesIO
from pathlib import Path
from typing import Any

import yaml

from rlexp import __version__
from rlexp.core.exits import RunFailed, printable

FORMAT = 2  # of a run's folder; 1 says nothing of itself
CONFIG_FILE, METRICS_FILE, SAMPLES_FILE, SUMMARY_FILE = "config.yaml", "metrics.jsonl", "samples.jsonl", "summary.json"
CODE_FILE = "code.jsonl"
INDEX_FILE, MULTIRUN_FILE = "jobs.jsonl", "multirun.yaml"  # of a sweep
ELIMINATED = "eliminated"  # status in the index of a job that a race left out
SEARCH_FILE = "optuna.db"  # of a sweep whose arms were searched for
RUNGS_FILE = "rungs.json"  # of a sweep whose arms are what successive halving left
NEVER_WRITTEN = "wandb"  # what is in that folder of a run; its library makes a new one for each run
NEVER_WAITING = getattr(os, "O_NONBLOCK", 0)
LARGEST_CONFIG = 2**20
BY_HAND = "changed by hand it is read without the lines `format` and `checksum`"
Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

# The end of a file, or of a line; the checksum is of what stands before the empty group.
JSON = re.compile(rb'(?P<body>),\n  "checksum": "(?P<digest>[0-9a-f]{32})"\n}\n\Z')
LINE = re.compile(rb'(?P<body>), "check": "(?P<digest>[0-9a-f]{8})"}\Z')
YAML = re.compile(rb"# rlexp (?P<version>\S+), checksum (?P<body>)(?P<digest>[0-9a-f]{32})\n\Z")
ZIP = re.compile(rb"rlexp checksum [0-9a-f]{32}\Z")
END_OF_ZIP = b"PK\x05\x06"

Extent = Mapping[str, int | str]  # bytes, digest: of a file's beginning


class Damaged(RunFailed):
    """A file, at ``path``, that does not hold what was written to it."""

    def __init__(self, path: Path, what: str = "is damaged"):
        super().__init__(printable(f"{path} {what}"))
        self.path = path


class Unreadable(RunFailed):
    """A file that is there and that the system does not let us read: it may be whole."""


class OtherFormat(RunFailed):
    """A file that is whole, and of a version that this one cannot read."""


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


def digest(content: bytes, size: int = 16) -> str:
    """Return the checksum of bytes in hexadecimal digits, two for each of its own bytes."""
    return blake2b(content, digest_size=size).hexdigest()


def begins_with(raw: bytes, extent: object, whole: bool = False) -> bool:
    """Whether bytes begin with what was written (and end there, if that was the ``whole``).

    No bytes do where the extent is none, as a damaged file may have it.
    """
    if not isinstance(extent, Mapping) or type(extent.get("bytes")) is not int or extent["bytes"] < 0:
        return False
    size = extent["bytes"]
    return (len(raw) == size or (len(raw) > size and not whole)) and digest(raw[:size]) == extent.get("digest")


def is_intact(raw: bytes, kind: re.Pattern[bytes]) -> bool | None:
    """Whether bytes are as they were written, by their checksum; None where they have none."""
    found = kind.search(raw)
    return found and digest(raw[: found.start("body")], len(found["digest"]) // 2) == found["digest"].decode()


def is_whole(raw: bytes, kind: re.Pattern[bytes], value: Any) -> bool:
    """Whether the bytes of a value are as they were written: only those of format 1 lack a checksum."""
    intact = is_intact(raw, kind)
    return (not isinstance(value, Mapping) or value.get("format", 1) == 1) if intact is None else intact


def is_known(found: object) -> bool:
    return found in (1, FORMAT)


def json_with_checksum(text: str) -> bytes:
    """Return the text of a JSON object, indented by two, with a checksum as its last key."""
    body = text.encode().removesuffix(b"\n}\n")
    return body + f',\n  "checksum": "{digest(body)}"\n}}\n'.encode()


def yaml_with_checksum(text: str) -> bytes:
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


def read_json(path: Path) -> dict[str, Any] | None:
    """Read a JSON object; None if there is none. Damaged, Unreadable, OtherFormat."""
    return read_mapping(path, JSON, json.loads, "is damaged")


def read_yaml(path: Path) -> dict[str, Any] | None:
    """Read a YAML mapping, its format left out; None if there is none. Errors are those of ``read_json``."""
    value = read_mapping(path, YAML, plain_yaml, f"is damaged: it is not as it was written ({BY_HAND})")
    return value and {key: item for key, item in value.items() if key != "format"}


def read_mapping(
    path: Path, kind: re.Pattern[bytes], parse: Callable[[bytes], Any], changed: str
) -> dict[str, Any] | None:
    """Return the mapping that a file holds; ``changed`` is what Damaged says where a checksum is wrong."""
    raw = content(path)
    if raw is None:
        return None
    if is_intact(raw, kind) is False:
        raise Damaged(path, changed)
    try:
        value = parse(raw)
    except (ValueError, RecursionError, yaml.YAMLError):
        value = None
    if not isinstance(value, dict) or not is_whole(raw, kind, value):
        raise Damaged(path)
    if not is_known(found := value.get("format", 1)):
        written = YAML.search(raw)
        version = written["version"].decode() if written else (value.get("versions") or {}).get("rlexp")
        release = f"rlexp {version}" if version else "a later rlexp"
        here = f"rlexp {__version__} reads 1 and {FORMAT}"
        raise OtherFormat(f"{path} has format {found!r}, and {here}: {release} reads it")
    return value


def read_lines(path: Path) -> list[dict[str, Any]] | None:
    """Read lines that have checksums, without these; None if there is no file. Damaged, Unreadable."""
    raw = content(path)
    if raw is None:
        return None
    rows = [row_of(line) for line in raw.splitlines()]
    if not rows or any(row is None or row.get("of", len(rows)) != len(rows) for row in rows):
        raise Damaged(path)
    return [{key: value for key, value in row.items() if key not in ("of", "check")} for row in rows]


def plain_yaml(raw: bytes) -> Any:
    """Return the value of YAML of a sensible size without anchors, of which a few lines can mean gigabytes."""
    text = raw.decode("utf-8")
    if len(raw) > LARGEST_CONFIG or any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, Loader)):
        raise ValueError
    return yaml.load(text, Loader)


class Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):
    """Quotes text such as 1e3: PyYAML reads it as text, Hydra as a number. libyaml's, if it is there. No anchors."""

    def ignore_aliases(self, data: Any) -> bool:
        """Write what occurs twice twice: a config with anchors is not read again."""
        return True


def represent_text(dumper: Dumper, text: str) -> yaml.ScalarNode:
    """Return text as a node that no reader takes for a number."""
    try:
        float(text)
    except ValueError:
        return dumper.represent_scalar("tag:yaml.org,2002:str", text)
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="'")


Dumper.add_representer(str, represent_text)


def to_yaml(config: dict | list) -> str:
    """Return a config, or a part of one, as YAML that PyYAML and Hydra read alike."""
    return yaml.dump(config, Dumper=Dumper, sort_keys=False, allow_unicode=True)


def leads_out(path: Path, folder: Path) -> bool:
    """Whether a path, by its links or its name, is of something outside of the folder: it is not read or written."""
    return not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))


def link_out(folder: Path) -> Path | None:
    """Return a link in a folder, at any depth, that leads out of it; None if there is none."""
    for place, folders, files in os.walk(folder):
        for path in (Path(place, name) for name in (*folders, *files)):
            if path.is_symlink() and leads_out(path, folder):
                return path
        folders[:] = [name for name in folders if name != NEVER_WRITTEN]
    return None


def is_foreign(file: Path) -> bool:
    """Whether a file is a link to one that lies outside of the folder that it is in."""
    return os.path.islink(file) and leads_out(file, file.parent)
