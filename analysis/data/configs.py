"""What runs were set to: configurations, where they differ and where they are equal, what was changed of a study."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis.data.read import read_text, read_yaml
from analysis.data.variants import DEFAULT, parse_override

if TYPE_CHECKING:
    import pandas as pd

# change no result
WITHOUT_EFFECT = (
    "seed",
    "logger",
    "resume",
    "threads",
    "study",
    "baseline",
    "until_decided",
    "log_every",
    "checkpoint_every",
)
ABSENT = "–"
MAX_NAMED = 3  # variants named one by one
NOT_A_CHANGE = ("study", "logger", "resume", "threads", "checkpoint_every")  # a study stays what was written down


def flatten(tree: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """`{"a": {"b": 1}}` → `("a.b", 1)`."""
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from flatten(value, f"{path}{key}.")
        else:
            yield f"{path}{key}", value


def as_text(value: Any) -> str:
    """A value as one writes it in YAML."""
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def variant_configs(runs: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """The flat configuration (`{"clip.high": 0.28}`) of each variant's first run that left one."""
    configs: dict[str, dict[str, Any]] = {}
    for folder, variant in zip(runs["folder"], runs["variant"], strict=True):
        if variant not in configs:
            config = read_yaml(Path(folder) / "config.yaml")
            if isinstance(config, dict):
                configs[variant] = dict(flatten(config))
    return configs


def differing_settings(configs: Mapping[str, Mapping[str, Any]]) -> dict[str, list[str]]:
    """Per key that differs between variants and can change a result, the value of each variant as text."""
    keys = dict.fromkeys(
        key for config in configs.values() for key in config if key.split(".")[0] not in WITHOUT_EFFECT
    )
    rows = {key: [as_text(config.get(key, ABSENT)) for config in configs.values()] for key in keys}
    return {key: row for key, row in rows.items() if len(set(row)) > 1}


def common_settings(configs: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """The keys with the same value in all variants, but for the seed."""
    first = next(iter(configs.values()), {})
    different = differing_settings(configs)
    return {key: as_text(value) for key, value in first.items() if key not in different and key != "seed"}


def run_settings(folder: str | Path) -> dict[str, str]:
    """A run's configuration, flat, as text, empty if it left none: `{"clip.high": "0.28", "clip": "higher", …}`.

    What has a `name` is a choice, and has that name as its value too.
    """
    config = read_yaml(Path(folder) / "config.yaml")
    settings = {str(key): as_text(value) for key, value in flatten(config)} if isinstance(config, dict) else {}
    return settings | {key.removesuffix(".name"): value for key, value in settings.items() if key.endswith(".name")}


def result_settings(folder: str | Path) -> dict[str, str]:
    """The part of a run's configuration that its results depend on, but for the seed."""
    return {key: value for key, value in run_settings(folder).items() if key.split(".")[0] not in WITHOUT_EFFECT}


def equal_variants(folders: Mapping[tuple[str, str], str]) -> tuple[dict[tuple[str, str], str], list[str]]:
    """Under which name each variant of a sweep is compared, and what there is to say of it.

    folders: (sweep, variant) → folder of one of its runs. Variants with equal configurations have one name: the first,
    but `default` only if there is no other. A configuration that is missing is equal to none.
    """
    settings = {place: result_settings(folder) for place, folder in folders.items()}
    names: dict[tuple, list[str]] = {}
    for place, values in settings.items():
        if values:
            names.setdefault(tuple(sorted(values.items())), []).append(place[1])
    chosen = {key: next((name for name in given if name != DEFAULT), DEFAULT) for key, given in names.items()}
    new = {place: chosen.get(tuple(sorted(values.items())), place[1]) for place, values in settings.items()}
    merged = dict.fromkeys((place[1], name) for place, name in new.items() if place[1] != name)
    texts = [f"{name} and {other}" for other, name in merged]
    more = f"; and {len(texts) - MAX_NAMED} more pairs" if len(texts) > MAX_NAMED else ""
    remarks = (
        [f"One arm each, as their configurations are equal: {'; '.join(texts[:MAX_NAMED])}{more}."] if texts else []
    )
    return new, remarks + list(_unlike_namesakes(settings))


def _unlike_namesakes(settings: Mapping[tuple[str, str], Mapping[str, str]]) -> Iterator[str]:
    """Variants that have one name in two sweeps, but not one configuration."""
    first: dict[str, tuple[str, Mapping[str, str]]] = {}
    for (sweep, variant), values in settings.items():
        other, theirs = first.setdefault(variant, (sweep, values))
        keys = [key for key in {**theirs, **values} if theirs.get(key) != values.get(key)] if values and theirs else []
        if keys:
            here, there = values.get(keys[0], "absent"), theirs.get(keys[0], "absent")
            more = f", and {len(keys) - 1} more" if len(keys) > 1 else ""
            yield f"{variant} is not the same in {sweep} and {other}: {keys[0]} is {here}, there {there}{more}."


def study_changes(folder: Path) -> list[str] | None:
    """What the command line of a study changed of it, as `["steps=20"]`; None if the command is not on record."""
    record = read_yaml(folder / "multirun.yaml")
    try:
        overrides = record["hydra"]["overrides"]
        return changes([*map(str, overrides["task"]), *map(str, overrides["hydra"])])
    except (KeyError, TypeError):
        return None


def study_text(folder: str | Path) -> str | None:
    """The study as a run's config.yaml has it, word for word; None if there is none."""
    try:
        text = read_text(Path(folder) / "config.yaml")
    except OSError:
        return None
    found = re.search(r"^study:.*\n(?:[ -].*\n?)*", text, re.MULTILINE)
    return found.group() if found else None


def changes(overrides: list[str]) -> list[str]:
    """The overrides that make a study another one than was written down: all but those that change no result."""
    return [override for override in overrides if _is_change(parse_override(override)[0])]


def _is_change(key: str) -> bool:
    own = key.startswith(("study.", "hydra.sweeper"))
    return own or key.split(".")[0].split("/")[0] not in (*NOT_A_CHANGE, "hydra")
