"""Names of variants: from overrides to short labels, and from what a user types back to a variant."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence

from analysis.data.errors import AnalysisError

DEFAULT, TASK = "default", "task"
_COMMA_OUTSIDE_BRACKETS = re.compile(r",(?![^\[\]{}()]*[\]})])")


def split_overrides(variant: str) -> list[str]:
    """The overrides in a variant's name: `"norm=local,task.sizes=[1,2]"` → two."""
    return [] if variant == DEFAULT else split_commas(variant)


def split_commas(text: str) -> list[str]:
    """The text cut at its commas, but for those in brackets."""
    return [part for part in _COMMA_OUTSIDE_BRACKETS.split(text) if part]


def parse_override(override: str) -> tuple[str, str]:
    """Key and value of one Hydra override, without the `+`, `++` or `~` in front."""
    key, _, value = override.lstrip("+~").partition("=")
    return key, value


def without_seed(overrides: Iterable[str]) -> list[str]:
    """The overrides that make the variant: all but the seed."""
    return [override for override in overrides if parse_override(override)[0] != "seed"]


def varying_keys(overrides: Mapping[str, list[str]]) -> list[str]:
    """Override keys that have not the same value in every variant, in order of appearance."""
    choices = [dict(map(parse_override, parts)) for parts in overrides.values()]
    keys = dict.fromkeys(key for choice in choices for key in choice)
    return [key for key in keys if len({choice.get(key) for choice in choices}) > 1]


def short_labels(overrides: Mapping[str, list[str]]) -> tuple[str, dict[str, str]]:
    """Column header and a label per variant: what varies; a name alone if one key varies, a number with its key."""
    keys = varying_keys(overrides)
    choices = {variant: dict(map(parse_override, parts)) for variant, parts in overrides.items()}
    if len(keys) == 1 and not any(_needs_key(choice.get(keys[0], DEFAULT)) for choice in choices.values()):
        labels = {variant: choice.get(keys[0]) or DEFAULT for variant, choice in choices.items()}
    else:
        labels = {variant: _join(choice, keys) or variant for variant, choice in choices.items()}
    if len(set(labels.values())) < len(labels):
        labels = {variant: variant for variant in overrides}
    return (keys[0] if len(keys) == 1 else "variant"), labels


def _needs_key(value: str) -> bool:
    """Whether a value says nothing without its key: `4`, `true`, `[1,8]`."""
    return number(value) is not None or value.lower() in ("true", "false", "null") or value.startswith(("[", "{"))


def number(text: str) -> float | None:
    """The number that a text is: 1e-3 is 0.001; None for any other text."""
    try:
        return float(text.strip("'\""))
    except ValueError:
        return None


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


def _join(choice: Mapping[str, str], keys: list[str]) -> str:
    return ",".join(f"{key}={choice[key]}" for key in keys if key in choice)


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
    """Whether `resolve` finds a variant."""
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
    """What a study calls an arm: with the values of its stratum where there are several."""
    return ",".join(part for part in (arm, stratum) if part and (part != DEFAULT or not stratum))
