"""What a folder says about the run that would be written there: new, finished, failed, or to be continued.

Configs are plain values here (``Config.model_dump(mode="json")``).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from rlexp.core.exits import RunFailed
from rlexp.record.files import CONFIG_FILE, METRICS_FILE, SUMMARY_FILE
from rlexp.record.naming import WITHOUT_EFFECT

FAILED = ("failed", "diverged")


def refusal(config: Mapping[str, Any], folder: Path) -> str | None:
    """Say why the run must not be written to ``folder``, which holds another one or one that is not to be resumed."""
    if not (folder / METRICS_FILE).exists():
        return None
    if config["resume"] == "never":
        return f"{folder} holds a run already; choose another hydra.sweep.dir (hydra.run.dir for a single run)"
    other = next(differences(config, folder), None)
    return other and f"{folder} holds a run with another config ({other}); choose another folder or that config"


def differences(config: Mapping[str, Any], folder: Path) -> Iterator[str]:
    """Name what differs between a config and that of the run in the folder, as far as results depend on it."""
    try:
        saved = yaml.safe_load((folder / CONFIG_FILE).read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError):
        yield f"its {CONFIG_FILE} cannot be read"
        return
    here, there = (dict(leaves(with_effect(tree))) for tree in (config, saved))
    for key in sorted(here.keys() | there.keys()):
        if here.get(key) != there.get(key):
            yield f"{key}: {there.get(key)} there, {here.get(key)} here"


def with_effect(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a config that results depend on."""
    return {key: value for key, value in config.items() if key not in WITHOUT_EFFECT | {"study"}}


def leaves(tree: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """`{"a": {"b": 1}}` → `("a.b", 1)`."""
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from leaves(value, f"{path}{key}.")
        else:
            yield f"{path}{key}", value


def outcome(folder: Path, resume: str) -> float | Exception | None:
    """Return the score or the failure of a run that has ended; None if it is to be trained, or trained on."""
    summary = summary_in(folder)
    if summary.get("status") == "completed":
        return summary["score"]
    if summary.get("status") in FAILED and resume != "failed":
        return RunFailed(f"{summary['reason']} (resume=failed trains it again)")
    return None


def restarts(folder: Path) -> bool:
    """Whether the run in the folder diverged and therefore begins again, from nothing."""
    return summary_in(folder).get("status") == "diverged"


def summary_in(folder: Path) -> dict[str, Any]:
    """Return the summary in a folder; empty if there is none that is whole."""
    try:
        return json.loads((folder / SUMMARY_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
