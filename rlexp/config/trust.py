"""Code that a config names, and the check that it was typed, or trusted.

What is typed may name whatever Python has. What came with a folder is data, be it a run's config.yaml (`--from`) or
YAML files (`--config-dir`, `hydra.searchpath`): code that it names is refused in a line, until the same key is typed or
`--trust` is said.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from rlexp.config.parse import overrides_in, parse_override
from rlexp.core.errors import ConfigError, format_value
from rlexp.runfolder.variants import key_of

OPTION = "--trust"
CODE = {
    "task.reward": "a function to call",
    "backend.accelerate": "a file that says which programs and machines train",
    "logger.mode": "a server that is told what is logged",
}
HARMLESS = {"logger.mode": ("offline", "disabled")}
TARGET = ("_target_", "()")  # what Hydra calls, and what Python's logging does
PARAMS = ("sweeper", "params")
ALLOWED = (("mode",), PARAMS, ("sweeper", "max_batch_size"))  # what a file of a folder may say to Hydra: what is swept
FROM_OUTSIDE = re.compile(r"\$\{.*:", re.DOTALL)  # as ${oc.env:HOME}
PACKAGE = re.compile(r"^[\s#]*@package\b.*hydra", re.MULTILINE)
MAX_SHOWN = 80  # characters of a value in a line
MAX_VALUES = 20_000  # in a file: a few lines of aliases can mean billions


def split_option(arguments: Sequence[str]) -> tuple[list[str], bool]:
    """Return the arguments without `--trust`, and whether it was there."""
    return [argument for argument in arguments if argument != OPTION], OPTION in arguments


def check_config(values: Mapping[str, Any], source: Path, typed: Collection[str] = ()) -> None:
    """ConfigError with the first code that a run's complete config names, unless its key was typed."""
    for path, value in steps(values):
        key = ".".join(path)
        if (path[-1] in TARGET or names_code(key, value)) and key not in typed:
            raise refused(source, key, value, CODE.get(key, "something to call"))


def names_code(key: str, value: Any) -> bool:
    return key in CODE and isinstance(value, str) and value not in HARMLESS.get(key, ())


def check_folders(arguments: Sequence[str], config_dir: str | None = None) -> None:
    """ConfigError with the first code in the YAML files of the folders that arguments take configs from."""
    overrides = overrides_in(arguments)
    folders = [config_dir]
    for override in overrides:  # as [file:///there,here]; packages are as installed as this one
        if key_of(override) == "hydra.searchpath" and (parsed := parse_override(override)):  # else Hydra says so
            value = parsed.value()
            places = map(str, value if isinstance(value, list) else [value])
            folders += [place.removeprefix("file://") for place in places if not place.startswith("pkg://")]
    typed, seen = {key_of(override) for override in overrides}, set()
    for folder in filter(None, folders):
        for place, inner, names in os.walk(folder, followlinks=True):
            seen.add(os.path.realpath(place))
            inner[:] = [name for name in inner if os.path.realpath(Path(place, name)) not in seen]
            for file in (Path(place, name) for name in sorted(names) if name.endswith((".yaml", ".yml"))):
                check_file(file, file.relative_to(folder), typed)


def check_file(file: Path, name: Path, typed: Collection[str]) -> None:
    """ConfigError with the first code that a YAML file names, wherever in a config it would stand."""
    with open(file, encoding="utf-8") as opened:
        text = opened.read()
        opened.seek(0)
        values = yaml.load(opened, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    if name.parts[0] == "hydra" or PACKAGE.search(text):
        raise refused(file, "hydra", None, "settings of Hydra, which start programs")
    if not isinstance(values, dict):
        return
    for path, value in steps({"defaults": values.pop("defaults", None)}):
        words = (*path, value) if isinstance(value, str) else path
        if any(re.search(r"hydra|\$\{|\.\.", word) for word in words):
            raise refused(file, "defaults", value, "other settings of Hydra, or files elsewhere")
    for path, value in steps(values):
        key = ".".join(path)
        if (what := code_in(path, value)) and not any(f".{each}".endswith(f".{key}") for each in typed):
            raise refused(file, key, value, what)


def code_in(path: tuple[str, ...], value: Any) -> str | None:
    """Say what code a key of a file names. Where the file will stand is not known: the last word of a key decides."""
    if path[-1] in TARGET:
        return "something to call"
    if isinstance(value, str) and FROM_OUTSIDE.search(value):
        return "a value from outside of the config"
    if "hydra" in path:
        path = path[path.index("hydra") + 1 :]
        if path[:2] == PARAMS and len(path) > 2:
            key = path[2].lstrip("+~ ")
            return CODE.get(key) or ("settings of Hydra" if "hydra" in key or path[-1] in TARGET else None)
        below = isinstance(value, dict) and any(path == allowed[: len(path)] for allowed in ALLOWED)
        return None if below or path in ALLOWED and path != PARAMS else "settings of Hydra, which start programs"
    return next((what for key, what in CODE.items() if path[-1] == key.split(".")[-1] and names_code(key, value)), None)


def steps(values: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield every key of nested values, as a path, with its value; ConfigError where there are too many."""
    left, count = [(path, values)], 0
    while left:
        above, node = left.pop()
        for key, value in node.items() if isinstance(node, Mapping) else ((None, value) for value in node):
            here = above if key is None else (*above, str(key))
            if (count := count + 1) > MAX_VALUES:
                raise ConfigError([f"{'.'.join(path) or 'a YAML file'}: holds more than {MAX_VALUES} values"])
            if here:
                yield here, value
            if isinstance(value, Mapping | list):
                left.append((here, value))


def refused(source: Path, key: str, value: Any, what: str) -> ConfigError:
    text = format_value(value)
    shown = f"{key}={text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + '…'}" if value is not None else key
    return ConfigError([f"{shown}: {source} names {what}; type {key}=… too, or {OPTION}, if you trust it"])
