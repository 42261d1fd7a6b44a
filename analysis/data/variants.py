"""Variants: their order, from what a user types back to one, arms within strata, configurations, changes to a study."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlexp.analysis.data.errors import AnalysisError
from rlexp.analysis.data.read import read_config, read_text, read_yaml
from rlexp.runfolder.files import CONFIG_FILE, MULTIRUN_FILE
from rlexp.runfolder.variants import (
    DEFAULT,
    SEEDS,
    WITHOUT_EFFECT,
    flatten,
    number,
    parse_override,
    split_overrides,
    varying_keys,
)

if TYPE_CHECKING:
    import pandas as pd


TASK = "task"


def in_order(variants: Iterable[str]) -> list[str]:
    """Variants by their values on the axes, the first axis slowest: numbers by size, names as they first appear.

    Without an axis of numbers the order stays. A variant that does not name such an axis comes after those that do.
    """
    variants = list(dict.fromkeys(variants))
    overrides = {variant: split_overrides(variant) for variant in variants}
    choices = {variant: dict(map(parse_override, parts)) for variant, parts in overrides.items()}
    places, numeric = {}, False
    for key in varying_keys(overrides):
        texts = list(dict.fromkeys(choice[key] for choice in choices.values() if key in choice))
        numbers = {text: number(text) for text in texts}
        if None not in numbers.values():
            numeric, places[key] = True, numbers | {None: math.inf}
        else:
            named = dict.fromkeys(choice.get(key) for choice in choices.values())
            places[key] = {text: place for place, text in enumerate(named)}
    if not numeric:
        return variants
    return sorted(variants, key=lambda variant: [places[key][choices[variant].get(key)] for key in places])


def resolve_variant(name: str, labels: Mapping[str, str]) -> str:
    """The variant that a user means: its name, its label, or some of its overrides if only one variant has them.

    Where one axis varies its value will do, as `4` for `group_size=4`.
    """
    if name in labels:
        return name
    by_label = [variant for variant, label in labels.items() if name in (label, label.partition("=")[2])]
    parts = set(split_overrides(name))
    matches = by_label or [variant for variant in labels if parts and parts <= set(split_overrides(variant))]
    if len(matches) == 1:
        return matches[0]
    what = "fits several variants" if matches else "is not a variant"
    raise AnalysisError(f"'{name}' {what}; choose one of: {'  '.join(labels)}")


def is_variant(name: str, labels: Mapping[str, str]) -> bool:
    """Whether `resolve_variant` finds a variant."""
    try:
        resolve_variant(name, labels)
    except AnalysisError:
        return False
    return True


def arms_and_strata(
    variants: Sequence[str], grid: Sequence[str] = (), within: Sequence[str] | None = None
) -> tuple[list[str], list[str]]:
    """The arms that are compared, and the strata within which, where nothing else is asked; "" if there is one stratum.

    Axes of the `grid` make no arms; `task` makes strata (`within`, unless named) if it varies and is not all that does.
    """
    overrides = {variant: split_overrides(variant) for variant in variants}
    axes = [axis for axis in varying_keys(overrides) if axis not in grid]
    if within is None:
        within = [TASK] if TASK in axes and len(axes) > 1 else []
    choices = [dict(map(parse_override, parts)) for parts in overrides.values()]
    arms = dict.fromkeys(arm_name(choice, [axis for axis in axes if axis not in within]) for choice in choices)
    strata = dict.fromkeys(stratum_name(choice, within) for choice in choices)
    return in_order(arms), list(strata)


def arm_name(choice: Mapping[str, str], axes: Iterable[str]) -> str:
    """The overrides on these axes, joined by commas; `default` where none is named."""
    return ",".join(f"{axis}={choice[axis]}" for axis in axes if choice.get(axis, DEFAULT) != DEFAULT) or DEFAULT


def stratum_name(choice: Mapping[str, str], axes: Iterable[str]) -> str:
    """The value on each of these axes, named or not."""
    return ",".join(f"{axis}={choice.get(axis, DEFAULT)}" for axis in axes)


def variant_in_stratum(arm: str, stratum: str) -> str:
    """The name of an arm in a study: with the values of its stratum where there are several."""
    return ",".join(part for part in (arm, stratum) if part and (part != DEFAULT or not stratum))


CHANGES_NO_RESULT = WITHOUT_EFFECT | {"study", "log_every"}
ABSENT = "–"
MAX_NAMED = 3  # variants named one by one
NOT_A_CHANGE = ("study", "logger", "resume", "threads", "checkpoint_every", "device")  # a study stays what it was


def as_text(value: Any) -> str:
    """A value as one writes it in YAML."""
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def first_of_variants(runs: pd.DataFrame, read: Callable[[str], Any]) -> dict[str, Any]:
    """What `read` finds in the folder of each variant's first run in which it finds something."""
    found: dict[str, Any] = {}
    for folder, variant in zip(runs["folder"], runs["variant"], strict=True):
        if variant not in found and (value := read(folder)) is not None:
            found[variant] = value
    return found


def variant_configs(runs: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """The flat configuration (`{"clip.high": 0.28}`) of each variant."""
    return {variant: dict(flatten(config)) for variant, config in first_of_variants(runs, read_config).items()}


def changes_results(key: str) -> bool:
    """Whether a key of a flat configuration can change a result of its variant."""
    return key.partition(".")[0] not in CHANGES_NO_RESULT and key not in SEEDS


def differing_settings(configs: Mapping[str, Mapping[str, Any]]) -> dict[str, list[str]]:
    """Per key that differs between variants and can change a result, the value of each variant as text."""
    keys = dict.fromkeys(key for config in configs.values() for key in config if changes_results(key))
    rows = {key: [as_text(config.get(key, ABSENT)) for config in configs.values()] for key in keys}
    return {key: row for key, row in rows.items() if len(set(row)) > 1}


def common_settings(configs: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """The keys with the same value in all variants, but for the seed."""
    first = next(iter(configs.values()), {})
    different = differing_settings(configs)
    return {key: as_text(value) for key, value in first.items() if key not in different and key not in SEEDS}


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
        place: {key: value for key, value in run_settings(folder).items() if changes_results(key)}
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
    remarks = (
        [f"One arm each, as their configurations are equal: {'; '.join(texts[:MAX_NAMED])}{more}."] if texts else []
    )

    first: dict[str, tuple[str, Mapping[str, str]]] = {}
    for (sweep, variant), values in settings.items():  # one name in two sweeps, but not one configuration
        other, theirs = first.setdefault(variant, (sweep, values))
        keys = [key for key in {**theirs, **values} if theirs.get(key) != values.get(key)] if values and theirs else []
        if keys:
            here, there = values.get(keys[0], "absent"), theirs.get(keys[0], "absent")
            more = f", and {len(keys) - 1} more" if len(keys) > 1 else ""
            remarks.append(
                f"{variant} is not the same in {sweep} and {other}: {keys[0]} is {here}, there {there}{more}."
            )
    return new, remarks


def sweep_overrides(folder: Path) -> list[str] | None:
    """What was written on the command line of a sweep, as `["steps=20"]`; None if the command is not on record."""
    record = read_yaml(folder / MULTIRUN_FILE)
    try:
        overrides = record["hydra"]["overrides"]
        return [*map(str, overrides["task"]), *map(str, overrides["hydra"])]
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
