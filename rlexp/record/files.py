"""The files of one run: config.yaml, code.jsonl, metrics.jsonl (the source of truth), samples.jsonl, summary.json."""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import yaml

from rlexp import __version__
from rlexp.core.errors import ConfigError
from rlexp.core.exits import RunFailed
from rlexp.record import provenance
from rlexp.record.disk import Rows, remove_drafts, replace, replace_unsynced, sync
from rlexp.record.provenance import MEANT, identity
from rlexp.runfolder.files import (
    CODE_FILE,
    CONFIG_FILE,
    FORMAT,
    METRICS_FILE,
    SAMPLES_FILE,
    SUMMARY_FILE,
    Extent,
    content,
    digest,
    json_with_checksum,
    line_with_checksum,
    read_yaml,
    yaml_with_checksum,
)
from rlexp.runfolder.rows import step_in


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


def to_yaml(config: Mapping[str, Any]) -> str:
    """Return a config as YAML that PyYAML and Hydra read alike."""
    return yaml.dump(dict(config), Dumper=Dumper, sort_keys=False, allow_unicode=True)


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
        extents: Mapping[str, Extent] | None = None,
    ):
        self.folder, self.facts, self.identity = Path(folder), dict(facts), identity(config)
        rows, samples = (rows_up_to(self.folder / name, step, extents) for name in (METRICS_FILE, SAMPLES_FILE))
        code = provenance.code_of(config)
        self.code, self.notes = provenance.trained_by(self.folder, step, code)
        remove_drafts(self.folder)
        (self.folder / SUMMARY_FILE).unlink(missing_ok=True)
        self.config = yaml_with_checksum(to_yaml({"format": FORMAT, **config}))
        rewrite(self.folder / CONFIG_FILE, self.config)
        lines = [line_with_checksum(each, len(self.code)) for each in self.code]
        rewrite(self.folder / CODE_FILE, "".join(lines).encode())
        self._unsynced = [self.folder / CONFIG_FILE, self.folder / CODE_FILE]
        self.metrics = Rows(self.folder / METRICS_FILE, rows)
        self.samples = Rows(self.folder / SAMPLES_FILE, samples, always=False)
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

    def extents(self) -> dict[str, Extent]:
        return {rows.path.name: rows.extent for rows in (self.metrics, self.samples)}

    def finish(self, status: str, reason: str | None = None, **summary: Any) -> None:
        """Write the summary, whole or not at all, with what the other files hold."""
        files = self.extents() | {CONFIG_FILE: {"bytes": len(self.config), "digest": digest(self.config)}}
        versions = {"rlexp": __version__, "torch": str(torch.__version__), "python": platform.python_version()}
        facts = {"status": status, "reason": reason, **self.facts, **summary, "versions": versions, "code": self.code}
        facts |= {"format": FORMAT, "identity": self.identity, "files": files}
        replace(self.folder / SUMMARY_FILE, json_with_checksum(dump_json(facts, indent=2) + "\n"))


def saved_config(path: Path) -> dict[str, Any]:
    """Read a config.yaml as plain values, its format left out; ConfigError if there is none, or none that is whole."""
    try:
        values = read_yaml(path)
    except RunFailed as error:
        raise ConfigError([str(error)]) from None
    if values is None:
        raise ConfigError([f"{path.parent} is not the folder of a run: it has no {path.name}"])
    return MEANT | values


def rewrite(path: Path, wanted: bytes) -> None:
    if content(path) != wanted:
        replace_unsynced(path, wanted)


def rows_up_to(path: Path, step: int, extents: Mapping[str, Extent] | None) -> bytes:
    """Return what a file held after ``step`` steps: as much as is known, else its lines up to those of that step."""
    there = (content(path) or b"") if step >= 0 else b""
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
