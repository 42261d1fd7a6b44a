"""The choices of an axis and the defaults of their hyperparameters, as YAML files and ``rlexp.register`` have them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from inspect import Parameter, signature
from typing import Any, NamedTuple

from pydantic import TypeAdapter, ValidationError

from rlexp.config.choices import choices_of, comment_of, text_of, values_of
from rlexp.core.registry import hyperparameters

COMMENT = re.compile(r"^(\w+): *[^#\n]*# *(.+)$", re.MULTILINE)
REQUIRED = Parameter.empty


class Settings(NamedTuple):
    """A choice, the name and the function that it stands for, its hyperparameters, and what its file says of them.

    ``values`` are defaults, ``REQUIRED`` where there is none.
    """

    choice: str
    name: str
    function: Callable
    values: Mapping[str, Any]
    comments: Mapping[str, str] = {}
    about: str = ""

    def of(self, function: Callable) -> Settings:
        """Return the settings of another function with the same hyperparameters, or some of them."""
        return self._replace(function=function, values={key: self.values[key] for key in hyperparameters(function)})


def settings_of(axis: str, functions: Mapping[str, Callable], choice: str) -> Settings:
    """Return a choice of an axis, by the name of its file or else of its function; KeyError if there is neither.

    A function without a file of its name has the defaults of the files that name it, if these are all the same.
    """
    choices = choices_of(axis)
    node = values_of(axis, choice) if choice in choices else {}
    if node.get("name") in functions:
        text, function = text_of(axis, choice), functions[node["name"]]
        comments = dict(COMMENT.findall(text))
        return Settings(choice, node["name"], function, defaults(function, node), comments, comment_of(text))
    function, stated = functions[choice], []
    for values in (values_of(axis, each) for each in choices):
        nodes = [values, *(node for node in values.values() if isinstance(node, dict))]  # as ``loss`` of a filter
        stated += [defaults(function, node) for node in nodes if node.get("name") == choice]
    agreed = stated and all(values == stated[0] for values in stated)
    return Settings(choice, choice, function, stated[0] if agreed else defaults(function, {}))


def names(axis: str, functions: Mapping[str, Callable]) -> list[str]:
    """Return the choices of an axis: those that name a function, and functions."""
    return sorted({*functions, *(name for name in choices_of(axis) if values_of(axis, name).get("name") in functions)})


def defaults(function: Callable, node: Mapping[str, Any]) -> dict[str, Any]:
    """Return the hyperparameters of a function with the values of a node, else with the defaults of its signature."""
    own = signature(function).parameters
    return {name: default(kind, node.get(name, own[name].default)) for name, kind in hyperparameters(function).items()}


def default(kind: Any, value: Any) -> Any:
    """Return a value as its type has it; what a run would take from another key has none, or None where it may."""
    if value is REQUIRED or (isinstance(value, str) and value.startswith("${")):
        try:
            return TypeAdapter(kind).validate_python(None)
        except ValidationError:
            return REQUIRED
    return TypeAdapter(kind).validate_python(value)
