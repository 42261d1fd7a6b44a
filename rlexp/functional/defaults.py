"""The choices of an axis, and the defaults of their hyperparameters, as the YAML files of ``conf/`` have them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from inspect import Parameter, signature
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from pydantic import TypeAdapter, ValidationError

from rlexp.config.conf_folder import CONF
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
        return self._replace(
            function=function,
            values={hyperparameter: self.values[hyperparameter] for hyperparameter in hyperparameters(function)},
        )


def settings_of(axis: str, functions: Mapping[str, Callable], choice: str) -> Settings:
    """Return a choice of an axis, by the name of its file or else of its function; KeyError if there is neither.

    A function without a file of its name has the defaults of the files that name it, if these are all the same.
    """
    path = CONF / axis / f"{choice}.yaml"
    node = read(path) if path.is_file() else {}
    if node.get("name") in functions:
        text, function = path.read_text(encoding="utf-8"), functions[node["name"]]
        about = " ".join(line.strip("# ") for line in text.splitlines() if line.startswith("#"))
        return Settings(choice, node["name"], function, defaults(function, node), dict(COMMENT.findall(text)), about)
    function = functions[choice]
    stated = [defaults(function, node) for node in nodes(axis) if node.get("name") == choice]
    agreed = stated and all(values == stated[0] for values in stated)
    return Settings(choice, choice, function, stated[0] if agreed else defaults(function, {}))


def names(axis: str, functions: Mapping[str, Callable]) -> list[str]:
    """Return the choices of an axis: files that name a function, and functions."""
    return sorted({*functions, *(path.stem for path in paths(axis) if read(path).get("name") in functions)})


def paths(axis: str) -> list[Path]:
    """Return the files of an axis."""
    return sorted((CONF / axis).glob("*.yaml"))


def nodes(axis: str) -> Iterator[Mapping[str, Any]]:
    """Yield what the files of an axis say, and the nodes in them, as ``loss`` of a filter."""
    for values in map(read, paths(axis)):
        yield values
        yield from (node for node in values.values() if isinstance(node, dict))


@cache
def read(path: Path) -> Mapping[str, Any]:
    """Return what a file says, over the files that it builds upon."""
    values = yaml.safe_load(path.read_text(encoding="utf-8"))
    bases = [base for base in values.pop("defaults", []) if isinstance(base, str) and base != "_self_"]
    return {key: value for base in bases for key, value in read(path.with_name(f"{base}.yaml")).items()} | values


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
    return TypeAdapter(kind).validate_python(value)  # of `1e-6`, which PyYAML reads as text, a number


def default_bound() -> float:
    """Return the bound of log-ratios that a run has unless told."""
    return read(CONF / "config.yaml")["log_ratio_bound"]
