"""Configurations of runs: where they differ, where they are equal, and changes to a study."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlexp.analysis.data.read import read_config, read_text, read_yaml
from rlexp.runfolder.files import CONFIG_FILE, MULTIRUN_FILE
from rlexp.runfolder.variants import DEFAULT, WITHOUT_EFFECT, flatten, parse_override

if TYPE_CHECKING:
    import pandas as pd

CHANGES_NO_RESULT = WITHOUT_EFFECT | {"seed", "study", "log_every"}
ABSENT = "–"
MAX_NAMED = 3  # variants named one by one
NOT_A_CHANGE = ("study", "logger", "resume", "threads", "checkpoint_every")  # a study stays what was written down


def as_text(value: Any) -> str:
    """A value as one writes it in YAML."""
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def variant_configs(runs: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """The flat configuration (`{"clip.high": 0.28}`) of each variant's first run that left one."""
    configs: dict[str, dict[str, Any]] = {}
    for folder, variant in zip(runs["folder"], runs["variant"], strict=True):
        if variant not in configs:
            config = read_config(folder)
            if config is not None:
                configs[variant] = dict(flatten(config))
    return configs


def differing_settings(configs: Mapping[str, Mapping[str, Any]]) -> dict[str, list[str]]:
    """Per key that differs between variants and can change a result, the value of each variant as text."""
    keys = dict.fromkeys(
        key for config in configs.values() for key in config if key.split(".")[0] not in CHANGES_NO_RESULT
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
    settings = {str(key): as_text(value) for key, value in flatten(read_config(folder) or {})}
    return settings | {key.removesuffix(".name"): value for key, value in settings.items() if key.endswith(".name")}


def equal_variants(folders: Mapping[tuple[str, str], str]) -> tuple[dict[tuple[str, str], str], list[str]]:
    """Give variants with equal configurations one name; return the name of each, and remarks.

    folders: (sweep, variant) → folder of one of its runs. Variants with equal configurations have one name: the first,
    but `default` only if there is no other. A configuration that is missing is equal to none.
    """
    settings = {
        place: {key: value for key, value in run_settings(folder).items() if key.split(".")[0] not in CHANGES_NO_RESULT}
        for place, folder in folders.items()
    }
    names: dict[tuple, list[str]] = {}
    for place, values in settings.items():
        if values:
            names.setdefault(tuple(sorted(values.items())), []).append(place[1])
    chosen = {key: next((name for name in given if name != DEFAULT), DEFAULT) for key, given in names.items()}
    new = {place: chosen.get(tuple(sorted(values.items())), place[1]) for place, values in settings.items()}
    merged = dict.fromkeys((place[1], name) for place, name in new.items() if place[1] != name)
    texts = [f"{name} and {other}" for other, name in merged]
    more = f"; and {len(texts) - MAX_NAMED} more pairs" if len(texts) > MAX_NAMED else ""
    merges = f"One arm each, as their configurations are equal: {'; '.join(texts[:MAX_NAMED])}{more}."
    return new, [*([merges] if texts else []), *_unlike_namesakes(settings)]


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
    """Overrides on the command line that changed a study, as `["steps=20"]`; None if the command is not on record."""
    record = read_yaml(folder / MULTIRUN_FILE)
    try:
        overrides = record["hydra"]["overrides"]
        return changes([*map(str, overrides["task"]), *map(str, overrides["hydra"])])
    except (KeyError, TypeError):
        return None


def study_text(folder: str | Path) -> str | None:
    """The study as a run's config.yaml has it, word for word; None if there is none."""
    try:
        text = read_text(Path(folder) / CONFIG_FILE)
    except OSError:
        return None
    found = re.search(r"^study:.*\n(?:[ -].*\n?)*", text, re.MULTILINE)
    return found.group() if found else None


def changes(overrides: Sequence[str]) -> list[str]:
    """The overrides that make a study another one than was written down: all but those that change no result."""
    changed = []
    for override in overrides:
        key = parse_override(override)[0]
        top = key.split(".")[0].split("/")[0]
        if key.startswith(("study.", "hydra.sweeper")) or top not in (*NOT_A_CHANGE, "hydra"):
            changed.append(override)
    return changed
