"""Everything that can be wrong with what was typed, as one line each: the key as typed, then what is allowed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import reduce
from typing import Any

from pydantic import ValidationError

from rlexp.core.exits import format_value, shortened

TEXTS = {
    "missing": "is missing",
    "greater_than_equal": "must be at least {ge}",
    "greater_than": "must be above {gt}",
    "less_than_equal": "must be at most {le}",
    "less_than": "must be below {lt}",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "finite_number": "must be a finite number",
    "string_type": "must be a text",
    "too_short": "must have at least {min_length} of them",
    "too_long": "must have at most {max_length} of them",
    "list_type": "must be a list, as [1,2]",
    "dict_type": "must be a set of keys",
    "model_type": "must be a set of keys",
    "model_attributes_type": "must be a set of keys",
    "literal_error": "must be {expected}",
    "union_tag_invalid": "must be one of {expected_tags}",
    "union_tag_not_found": "has no {discriminator}",
}


DISCRIMINATORS = ("name", "direction")  # keys whose values tell the choices of a union apart


class ConfigError(Exception):
    """A config that cannot be run; its text has one line for each problem."""

    def __init__(self, problems: Sequence[str]):
        self.problems = tuple(map(shortened, problems))
        super().__init__("\n".join(self.problems))


def problem_lines(error: ValidationError, values: Mapping[str, Any]) -> list[str]:
    """Describe each problem that pydantic found in ``values``."""
    problems = [(path_in(values, detail["loc"]), detail) for detail in error.errors(include_url=False)]
    absent = [path for path, detail in problems if detail["type"] == "missing"]
    unknown = {path for path, detail in problems if detail["type"] == "extra_forbidden"}
    lines = []
    for path, detail in problems:  # keys that are valid beside this one: required, so they are there or reported absent
        node = reduce(value_at, path[:-1], values)
        present = [(*path[:-1], key) for key in node] if isinstance(node, Mapping) else []
        valid = [key for key in present if key not in unknown] + [key for key in absent if key[:-1] == path[:-1]]
        lines.append(describe(path, detail, [str(key[-1]) for key in valid]))
    return lines


def path_in(values: Mapping[str, Any], loc: Sequence[str | int]) -> tuple[str | int, ...]:
    """Drop what pydantic adds to a path: the value that tells the choices of a union apart, which is no key."""
    path, node = [], values
    for step in loc:
        if isinstance(node, Mapping) and step not in node and step in map(node.get, DISCRIMINATORS):
            continue
        path.append(step)
        node = value_at(node, step)
    return tuple(path)


def value_at(node: Any, step: str | int) -> Any:
    """Return what ``node`` holds at ``step``, None if nothing."""
    try:
        return node[step]
    except (KeyError, IndexError, TypeError):
        return None


def describe(path: tuple, detail: Mapping[str, Any], valid: Sequence[str]) -> str:
    """Return one line: the key as typed on the command line, what is allowed; ``valid`` are the keys beside it."""
    key = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).lstrip(".")  # as eval.ks[0]
    kind = detail["type"]
    if kind == "no_such_key":  # of a node that knows its keys itself
        unknown, value, valid = (detail["ctx"][name] for name in ("key", "value", "valid"))
        return f"{format_override(f'{key}.{unknown}', value)}: {no_such_key(unknown, valid)}"
    if kind.startswith(("greater", "less")) and math.isnan(detail["input"]):
        return f"{key}=nan: is not a number"
    context = {name: format_value(value) for name, value in detail.get("ctx", {}).items()}
    text = TEXTS.get(kind, detail["msg"]).format_map(context)
    if kind == "missing":
        return f"{key}: {text}"
    if kind == "extra_forbidden":
        return f"{format_override(key, detail['input'])}: {no_such_key(str(path[-1]), valid)}"
    if kind == "union_tag_invalid":
        return f"{key}.{context['discriminator']}={context['tag']}: {text}".replace("'", "")
    if kind == "int_type" and isinstance(detail["input"], float) and detail["input"].is_integer():
        return f"{key}={detail['input']!r}: {text}, without point or exponent"
    return f"{format_override(key, detail['input'])}: {text}"


def no_such_key(key: str, valid: Iterable[str]) -> str:
    """Say that ``key`` does not exist, and what does."""
    valid = sorted(valid)
    close = closest(key, valid)
    return f"no such key; did you mean {close[0]}?" if close else f"no such key; there are {', '.join(valid)}"


def closest(word: str, known: Iterable[str], cutoff: float = 0.6) -> list[str]:
    """Return the name that a word is nearest to, if any; first one with its letters in another order: gpro, grpo."""
    close = get_close_matches(word, list(known), n=3, cutoff=cutoff)
    return sorted(close, key=lambda name: sorted(name) != sorted(word))[:1]


def format_override(key: str, value: Any) -> str:
    """`key=value`, or the key alone if the value is a whole set of keys."""
    if isinstance(value, Mapping):
        return key
    text = format_value(value)
    return f"{key}={shortened(text, [text])}"
