"""Everything that can be wrong with what was typed, as one line each: the key as typed, then what is allowed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from hydra.errors import CompactHydraException
from pydantic import ValidationError

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
    "list_type": "must be a list, as [1,2]",
    "dict_type": "must be a set of keys",
    "model_type": "must be a set of keys",
    "model_attributes_type": "must be a set of keys",
    "literal_error": "must be {expected}",
    "union_tag_invalid": "must be one of {expected_tags}",
    "union_tag_not_found": "has no `name`",
}


class ConfigError(CompactHydraException):
    """A config that cannot be run; its text has one line for each problem."""

    def __init__(self, problems: Sequence[str]):
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


def lines(error: ValidationError, values: Mapping[str, Any]) -> list[str]:
    """Describe each problem that pydantic found in ``values``."""
    problems = [(path_in(values, detail["loc"]), detail) for detail in error.errors(include_url=False)]
    absent = {path for path, detail in problems if detail["type"] == "missing"}
    unknown = {path for path, detail in problems if detail["type"] == "extra_forbidden"}
    return [describe(path, detail, neighbours(path, values, absent, unknown)) for path, detail in problems]


def path_in(values: Mapping[str, Any], loc: Sequence[str | int]) -> tuple[str | int, ...]:
    """Drop what pydantic adds to a path: the name of the choice of a union, which is not a key of ``values``."""
    path, node = [], values
    for step in loc:
        if isinstance(node, Mapping) and step not in node and node.get("name") == step:
            continue
        path.append(step)
        node = inside(node, step)
    return tuple(path)


def inside(node: Any, step: str | int) -> Any:
    """Return what ``node`` holds at ``step``, None if nothing."""
    try:
        return node[step]
    except (KeyError, IndexError, TypeError):
        return None


def neighbours(path: tuple, values: Mapping[str, Any], absent: set[tuple], unknown: set[tuple]) -> list[str]:
    """Return the keys that are valid where ``path`` ends: all are required, so each is present or reported absent."""
    node: Any = values
    for step in path[:-1]:
        node = inside(node, step)
    present = [(*path[:-1], key) for key in node] if isinstance(node, Mapping) else []
    valid = [each for each in present if each not in unknown] + [each for each in absent if each[:-1] == path[:-1]]
    return [str(each[-1]) for each in valid]


def describe(path: tuple, detail: Mapping[str, Any], valid: Sequence[str]) -> str:
    """Return one line: the key as typed on the command line, what is allowed."""
    key, kind = dotted(path), detail["type"]
    context = {name: shown(value) for name, value in detail.get("ctx", {}).items()}
    text = TEXTS.get(kind, detail["msg"]).format_map(context)
    if kind == "missing":
        return f"{key}: {text}"
    if kind == "extra_forbidden":
        return f"{typed(key, detail['input'])}: {no_such_key(str(path[-1]), valid)}"
    if kind == "union_tag_invalid":
        return f"{key}.name={context['tag']}: {text}".replace("'", "")
    return f"{typed(key, detail['input'])}: {text}"


def dotted(path: Iterable[str | int]) -> str:
    """`("eval", "ks", 0)` → `eval.ks[0]`."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).lstrip(".")


def no_such_key(key: str, valid: Iterable[str]) -> str:
    """Say that ``key`` does not exist, and what does."""
    valid = sorted(valid)
    close = get_close_matches(key, valid, n=1, cutoff=0.6)
    return f"no such key; did you mean {close[0]}?" if close else f"no such key; there are {', '.join(valid)}"


def typed(key: str, value: Any) -> str:
    """`key=value`, or the key alone if the value is a whole set of keys."""
    return key if isinstance(value, Mapping) else f"{key}={shown(value)}"


def shown(value: Any) -> str:
    """Return a value as one types it on the command line."""
    if isinstance(value, list | tuple):
        return f"[{','.join(map(shown, value))}]"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return f"{value:g}" if isinstance(value, float) and value.is_integer() else str(value)
