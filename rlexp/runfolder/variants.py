"""Names of variants and runs: overrides joined by commas, and the labels that say what tells them apart."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

DEFAULT = "default"
LONGEST = 80  # name of a folder
SEEDS = ("start.seed", "seed")  # keys that say whose luck a run has, and make no variant
NOT_IN_NAMES = re.compile(r"[^\w=.,+~@\[\]{}-]+")
COMMA_OUTSIDE_BRACKETS = re.compile(r",(?![^\[\]{}()]*[\]})])")
# Keys that change nothing that a run computes: a sweep can be continued with other threads or another logger, and with
# `resume=failed`, in the folders that it has.
IN_TURNS = ("until_decided", "until_width", "until_best")  # keys that say when a sweep adds no more seeds
WITHOUT_EFFECT = {"logger", "threads", "resume", "checkpoint_every", "baseline", *IN_TURNS}


def split_overrides(variant: str) -> list[str]:
    """The overrides in a variant's name: `"norm=local,task.sizes=[1,2]"` → two."""
    return [] if variant == DEFAULT else split_commas(variant)


def split_commas(text: str) -> list[str]:
    """The text cut at its commas, but for those in brackets."""
    return [part for part in COMMA_OUTSIDE_BRACKETS.split(text) if part]


def parse_override(override: str) -> tuple[str, str]:
    """Key and value of one Hydra override, without the `+`, `++` or `~` in front."""
    key, _, value = override.lstrip("+~").partition("=")
    return key, value


def key_of(override: str) -> str:
    """`+norm.eps=1` → `norm.eps`."""
    return parse_override(override)[0]


def result_overrides(overrides: Iterable[str]) -> list[str]:
    """The overrides that results depend on."""
    return [override for override in overrides if key_of(override).partition(".")[0] not in WITHOUT_EFFECT]


def without_seed(overrides: Iterable[str]) -> list[str]:
    """The overrides that make the variant: all but the seeds of the start and of the run."""
    return [override for override in overrides if key_of(override) not in SEEDS]


def variant_name(overrides: Iterable[str]) -> str:
    """The overrides that results depend on, without seeds, joined by commas; `default` if there are none."""
    return ",".join(without_seed(result_overrides(overrides))) or DEFAULT


def run_name(overrides: Sequence[str]) -> str:
    """A folder's name for the run with these overrides, seeds last: `norm=local,start.seed=1,seed=3`."""
    seed = sorted((each for each in overrides if key_of(each) in SEEDS), key=lambda each: SEEDS.index(key_of(each)))
    parts = (without_seed(result_overrides(overrides)), seed)
    return ",".join(folder_name(",".join(part)) for part in parts if part) or DEFAULT


def unit_name(point: Sequence[str], unit: int, starts: bool) -> str:
    """The name of a point's run with a seed; where starts are the units, that of all its runs from one start."""
    return run_name([*point, f"{SEEDS[0] if starts else SEEDS[1]}={unit}"])


def folder_name(text: str) -> str:
    """`text` if it can be a folder's name, else what of it can be, and a hash: different texts stay different."""
    safe = NOT_IN_NAMES.sub("_", text)
    if safe == text and len(text) <= LONGEST:
        return text
    return f"{safe[:LONGEST]}~{sha256(text.encode()).hexdigest()[:8]}"


def varying_keys(overrides: Mapping[str, list[str]]) -> list[str]:
    """Override keys that have not the same value in every variant, in order of appearance."""
    choices = [dict(map(parse_override, parts)) for parts in overrides.values()]
    keys = dict.fromkeys(key for choice in choices for key in choice)
    return [key for key in keys if len({choice.get(key) for choice in choices}) > 1]


def short_labels(overrides: Mapping[str, list[str]]) -> tuple[str, dict[str, str]]:
    """Column header and a label per variant: what varies; a name alone if one key varies, a number with its key."""
    keys = varying_keys(overrides)
    choices = {variant: dict(map(parse_override, parts)) for variant, parts in overrides.items()}
    if len(keys) == 1 and not any(needs_key(choice.get(keys[0], DEFAULT)) for choice in choices.values()):
        labels = {variant: choice.get(keys[0]) or DEFAULT for variant, choice in choices.items()}
    else:
        varying = {each: [f"{key}={choice[key]}" for key in keys if key in choice] for each, choice in choices.items()}
        labels = {variant: ",".join(parts) or variant for variant, parts in varying.items()}
    if len(set(labels.values())) < len(labels):
        labels = {variant: variant for variant in overrides}
    return (keys[0] if len(keys) == 1 else "variant"), labels


def needs_key(value: str) -> bool:
    """Whether a value says nothing without its key: `4`, `true`, `[1,8]`."""
    return number(value) is not None or value.lower() in ("true", "false", "null") or value.startswith(("[", "{"))


def number(text: str) -> float | None:
    """The number that a text is: 1e-3 is 0.001; None for any other text."""
    try:
        return float(text.strip("'\""))
    except ValueError:
        return None


def flatten(tree: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """`{"a": {"b": 1}}` → `("a.b", 1)`."""
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from flatten(value, f"{path}{key}.")
        else:
            yield f"{path}{key}", value
