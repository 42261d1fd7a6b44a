"""What ``rlexp explain --json`` prints: axes with their choices, formulas and hyperparameters, and keys, as objects."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

from rlexp.config.choices import (
    active_functions,
    choices_of,
    choices_with,
    claims,
    comment_of,
    groups,
    keys,
    text_of,
    values_of,
)


class Subject(NamedTuple):
    """One thing that a name means."""

    kind: Literal["axis", "choice", "claim", "key", "hyperparameter", "word"]
    """Of a `word`, which other tools use for an axis, `axis` is its name here."""
    axis: str
    name: str = ""
    """Of the choice, the claim, or the key; of a hyperparameter the key below its axis; of a word the word."""


def as_json(subjects: Iterable[Subject]) -> dict[str, Any]:
    """Return what names mean, by ``explain.schema.json``; an axis has the choices that were asked for."""
    axes: dict[str, dict[str, Any]] = {}
    asked: dict[str, dict[str, Any]] = {}
    for kind, axis, name in subjects:
        if kind == "key":
            asked[name] = {"name": name, "text": keys()[name].text, "default": keys()[name].default}
            continue
        group = groups()[axis]
        found = axes.setdefault(axis, {"name": axis, "text": group.text, "default": group.default, "choices": {}})
        if kind == "axis":
            named = choices_of(axis)
        elif kind == "hyperparameter":
            named = choices_with(axis, name)
        elif kind == "claim":
            named = claims()[name]
        else:
            named = [name] if kind == "choice" else []  # of a word nothing but the axis
        found["choices"] |= {each: choice(axis, each) for each in named}
    return {
        "axes": [axis | {"choices": list(axis["choices"].values())} for axis in axes.values()],
        "keys": list(asked.values()),
    }


def choice(group: str, name: str) -> dict[str, Any]:
    """Return a choice: what its file says, the docstring of each of its functions, and all that it sets."""
    parts = active_functions(group, name)
    return {
        "override": f"{group}={name}",
        "text": comment_of(text_of(group, name)),
        "functions": [
            {"key": f"{group}.{place}".rstrip("."), "name": node["name"], "text": text}
            for place, (node, text) in parts.items()
        ],
        "values": values_of(group, name),
    }
