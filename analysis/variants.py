"""Names of variants: from overrides to short labels, and from what a user types back to a variant."""

import re
from collections.abc import Iterable, Mapping

from analysis.read import AnalysisError

DEFAULT = "default"
_COMMA_OUTSIDE_BRACKETS = re.compile(r",(?![^\[\]{}()]*[\]})])")


def split(variant: str) -> list[str]:
    """The overrides in a variant's name: `"norm=local,task.sizes=[1,2]"` → two."""
    return [] if variant == DEFAULT else pieces(variant)


def pieces(text: str) -> list[str]:
    """The text cut at its commas, but for those in brackets."""
    return [part for part in _COMMA_OUTSIDE_BRACKETS.split(text) if part]


def key_value(override: str) -> tuple[str, str]:
    """Key and value of one Hydra override, without the `+`, `++` or `~` in front."""
    key, _, value = override.lstrip("+~").partition("=")
    return key, value


def without_seed(overrides: Iterable[str]) -> list[str]:
    """The overrides that make the variant: all but the seed."""
    return [override for override in overrides if key_value(override)[0] != "seed"]


def varying_keys(overrides: Mapping[str, list[str]]) -> list[str]:
    """Override keys that have not the same value in every variant, in order of appearance."""
    choices = [dict(map(key_value, parts)) for parts in overrides.values()]
    keys = dict.fromkeys(key for choice in choices for key in choice)
    return [key for key in keys if len({choice.get(key) for choice in choices}) > 1]


def short_labels(overrides: Mapping[str, list[str]]) -> tuple[str, dict[str, str]]:
    """Column header and a label per variant: only what varies; the value alone if one key varies."""
    keys = varying_keys(overrides)
    choices = {variant: dict(map(key_value, parts)) for variant, parts in overrides.items()}
    if len(keys) == 1:
        labels = {variant: choice.get(keys[0]) or DEFAULT for variant, choice in choices.items()}
    else:
        labels = {variant: _join(choice, keys) or variant for variant, choice in choices.items()}
    if len(set(labels.values())) < len(labels):
        labels = {variant: variant for variant in overrides}
    return (keys[0] if len(keys) == 1 else "variant"), labels


def _join(choice: Mapping[str, str], keys: list[str]) -> str:
    return ",".join(f"{key}={choice[key]}" for key in keys if key in choice)


def resolve(name: str, labels: Mapping[str, str]) -> str:
    """The variant that a user means: its name, its label, or some of its overrides if only one variant has them."""
    if name in labels:
        return name
    by_label = [variant for variant, label in labels.items() if label == name]
    wanted = set(split(name))
    matches = by_label or [variant for variant in labels if wanted and wanted <= set(split(variant))]
    if len(matches) == 1:
        return matches[0]
    what = "fits several variants" if matches else "is not a variant"
    raise AnalysisError(f"'{name}' {what}; choose one of: {'  '.join(labels)}")


def known(name: str, labels: Mapping[str, str]) -> bool:
    """Whether `resolve` finds a variant."""
    try:
        resolve(name, labels)
    except AnalysisError:
        return False
    return True
