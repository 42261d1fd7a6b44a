"""Variants in their order, from what a user types back to a variant, and as arms within strata."""

import math
from collections.abc import Iterable, Mapping, Sequence

from rlexp.analysis.data.errors import AnalysisError
from rlexp.runfolder.variants import DEFAULT, number, parse_override, split_overrides, varying_keys

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
