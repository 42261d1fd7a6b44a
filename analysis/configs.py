"""The configurations that runs leave behind, and where those of the variants differ."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from analysis.load import Data
from analysis.read import read_yaml

FREE = ("seed", "logger", "resume", "threads", "study", "baseline", "log_every", "checkpoint_every")  # change no result
ABSENT = "–"


def variant_configs(data: Data) -> dict[str, dict[str, Any]]:
    """The flat configuration (`{"clip.high": 0.28}`) of each variant's first run that left one."""
    found: dict[str, dict[str, Any]] = {}
    for folder, variant in zip(data.runs["folder"], data.runs["variant"], strict=True):
        if variant not in found:
            config = read_yaml(Path(folder) / "config.yaml")
            if isinstance(config, dict):
                found[variant] = dict(flat(config))
    return found


def flat(tree: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """`{"a": {"b": 1}}` → `("a.b", 1)`."""
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{path}{key}.")
        else:
            yield f"{path}{key}", value


def differing(configs: Mapping[str, Mapping[str, Any]]) -> dict[str, list[str]]:
    """Per key that differs between variants and can change a result, the value of each variant as text."""
    keys = dict.fromkeys(key for config in configs.values() for key in config if key.split(".")[0] not in FREE)
    rows = {key: [_shown(config.get(key, ABSENT)) for config in configs.values()] for key in keys}
    return {key: row for key, row in rows.items() if len(set(row)) > 1}


def common(configs: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """What all variants share."""
    first = next(iter(configs.values()), {})
    apart = differing(configs)
    return {key: _shown(value) for key, value in first.items() if key not in apart and key != "seed"}


def _shown(value: Any) -> str:
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
