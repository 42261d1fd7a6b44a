"""The files of one run: config.yaml, code.jsonl, metrics.jsonl (the source of truth), samples.jsonl, summary.json."""

from __future__ import annotations

import json
import math
import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
import yaml

from rlexp import __version__
from rlexp.record import provenance

CONFIG_FILE, METRICS_FILE, SUMMARY_FILE = "config.yaml", "metrics.jsonl", "summary.json"
SAMPLES_FILE = "samples.jsonl"


class Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):
    """Quotes text such as 1e3: PyYAML reads it as text, Hydra as a number. libyaml's, if it is there."""


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
    run left in the folder, only the rows up to ``step`` stay, and which code wrote them. Without a summary, a folder is
    a run that has not ended.
    """

    def __init__(self, folder: Path, config: Mapping[str, Any], facts: Mapping[str, Any], step: int = -1):
        """Write the config and open the rows."""
        self.folder, self.facts = Path(folder), dict(facts)
        rows = lines_until(self.folder / METRICS_FILE, step)
        samples = lines_until(self.folder / SAMPLES_FILE, step)
        self.code = provenance.trained_by(self.folder, step, provenance.code())
        (self.folder / SAMPLES_FILE).unlink(missing_ok=True)
        (self.folder / SUMMARY_FILE).unlink(missing_ok=True)
        replace(self.folder / CONFIG_FILE, to_yaml(config))
        replace(self.folder / provenance.CODE_FILE, "".join(dumps(entry) + "\n" for entry in self.code))
        replace(self.folder / METRICS_FILE, "".join(rows))
        if samples:
            replace(self.folder / SAMPLES_FILE, "".join(samples))
        self.earlier_rows = [json.loads(line) for line in rows]
        self._rows = (self.folder / METRICS_FILE).open("a", encoding="utf-8")

    def write_row(self, step: int, metrics: Mapping[str, int | float]) -> None:
        """Append the metrics after ``step`` updates. A float is written as its ``repr``: equal text is equal bits."""
        self._rows.write(dumps({"step": step, **metrics}) + "\n")
        self._rows.flush()

    def write_samples(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Append completions as text, each with its step."""
        with (self.folder / SAMPLES_FILE).open("a", encoding="utf-8") as file:
            file.writelines(dumps(row) + "\n" for row in rows)

    def finish(self, status: str, reason: str | None = None, **summary: Any) -> None:
        """Write the summary, whole or not at all, and close the rows."""
        self._rows.close()
        facts = {"status": status, "reason": reason, **self.facts, **summary, "versions": versions(), "code": self.code}
        replace(self.folder / SUMMARY_FILE, dumps(facts, indent=2) + "\n")


def lines_until(path: Path, step: int) -> list[str]:
    """Return the lines of a file up to those of ``step``, as they stand there; none if there is no file."""
    if step < 0 or not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    return [line for line in lines if line.endswith("\n") and json.loads(line)["step"] <= step]


def score(rows: Sequence[Mapping[str, Any]], metric: str, share: float) -> float | None:
    """Mean of ``metric`` over the last max(1, ⌈share · n⌉) of the n rows that have it, rows before training included.

    None if no row has it, or if one of these values is missing or not finite: a score is never an average over fewer.
    """
    values = [row[metric] for row in rows if metric in row]
    count = max(1, math.ceil(round(share * len(values), 9)))  # 0.07 · 100 is 7.000000000000001, but means 7
    late = values[-count:]
    finite = all(value is not None and math.isfinite(value) for value in late)
    return fmean(late) if late and finite else None


def collapsed(final: float | None, floor: float) -> bool | None:
    """Whether a run ended with a score below the ``floor``; unknown (None) without a score."""
    return None if final is None else final < floor


def dumps(value: Any, indent: int | None = None) -> str:
    """JSON that every reader accepts: numbers that are not finite become null."""
    return json.dumps(finite_or_null(value), indent=indent, allow_nan=False, ensure_ascii=False)


def replace(path: Path, text: str) -> None:
    """Write a file so that a reader, or whoever comes after a kill, finds the old text or the new one, no half."""
    unfinished = path.with_name(path.name + ".tmp")
    unfinished.write_text(text, encoding="utf-8")
    os.replace(unfinished, path)


def versions() -> dict[str, str]:
    """Return the versions that a run's numbers can depend on."""
    return {"rlexp": __version__, "torch": str(torch.__version__), "python": platform.python_version()}


def finite_or_null(value: Any) -> Any:
    """Replace numbers that JSON cannot hold, at any depth."""
    if isinstance(value, Mapping):
        return {key: finite_or_null(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite_or_null(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
