"""What a folder says about the run that a job would write there: new, finished, failed, or to be continued."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from rlexp.config import Config
from rlexp.exits import RunFailed
from rlexp.naming import FREE
from rlexp.recorder import CONFIG_FILE, METRICS_FILE, SUMMARY_FILE

FAILED = ("failed", "diverged")


def refusal(config: Config, folder: Path) -> str | None:
    """Say why the run must not be written to ``folder``, which holds another one or one that is not to be resumed."""
    if not (folder / METRICS_FILE).exists():
        return None
    if config.resume == "never":
        return f"{folder} holds a run already; choose another hydra.sweep.dir (hydra.run.dir for a single run)"
    other = next(differences(config, folder), None)
    return other and f"{folder} holds a run with another config ({other}); choose another folder or that config"


def differences(config: Config, folder: Path) -> Iterator[str]:
    """Name what differs between a config and that of the run in the folder, as far as results depend on it."""
    try:
        there = yaml.safe_load((folder / CONFIG_FILE).read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError):
        yield f"its {CONFIG_FILE} cannot be read"
        return
    here = config.model_dump(mode="json")
    ours, theirs = (
        dict(leaves({k: v for k, v in tree.items() if k not in FREE | {"study"}})) for tree in (here, there)
    )
    for key in sorted(ours.keys() | theirs.keys()):
        if ours.get(key) != theirs.get(key):
            yield f"{key}: {theirs.get(key)} there, {ours.get(key)} here"


def leaves(tree: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """`{"a": {"b": 1}}` → `("a.b", 1)`."""
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from leaves(value, f"{path}{key}.")
        else:
            yield f"{path}{key}", value


def outcome(config: Config, folder: Path) -> float | Exception | None:
    """Return the score or the failure of a run that has ended; None if it is to be trained, or trained on."""
    try:
        summary = json.loads((folder / SUMMARY_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if summary["status"] == "completed":
        return summary["score"]
    if summary["status"] in FAILED and config.resume != "failed":
        return RunFailed(f"{summary['reason']} (resume=failed trains it again)")
    return None


def restarts(folder: Path) -> bool:
    """Whether the run in the folder failed and therefore begins again, from nothing."""
    try:
        return json.loads((folder / SUMMARY_FILE).read_text(encoding="utf-8"))["status"] in FAILED
    except (OSError, ValueError):
        return False
