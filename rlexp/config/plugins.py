"""Choices from outside the package: ``rlexp.register``, entry points, and folders with YAML files.

    def mad(rewards: PerCompletion, keep: CompletionMask, *, eps: Positive = 1e-6) -> PerCompletion: ...

    rlexp.register("norm", mad)  # then norm=mad is a choice like any other

An installed package registers when it is imported, and names its module in the entry points of ``rlexp.plugins``.
"""

from __future__ import annotations

import inspect
import pickle
import re
import sys
from collections.abc import Callable, Mapping
from functools import cache, partial
from operator import attrgetter
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

import yaml
from hydra.core.config_store import ConfigStore

from rlexp.axes import AXES
from rlexp.config.choices import CONF, FOLDERS, SETTINGS, TABLES, load_plugins
from rlexp.core.errors import ConfigError
from rlexp.core.facts import facts_of
from rlexp.core.registry import REGISTERED, Registration, check_requests, hyperparameters, registered

if TYPE_CHECKING:
    from rlexp.core.memory import Memory

SCHEMA = "rlexp.config.schema"
# What is registered beside the axes and groups, and the table that has it.
BESIDE = {"metric": "rlexp.core.registry:METRICS", "figure": "rlexp.analysis.figures.gallery:OWN"}


def register(
    group: str,
    function: Callable | None = None,
    name: str | None = None,
    *,
    defaults: Mapping[str, Any] | None = None,
    memory: Memory | None = None,
) -> Callable:
    """Make a function (or class) of your own a choice of a config group; ``@rlexp.register("norm")`` does so, too.

    An axis function takes tensors by name and position, of those that its axis is offered (``rlexp explain norm`` lists
    them), and its hyperparameters by keyword, after ``*``. The command line checks types such as
    ``rlexp.core.types.Positive``; a hyperparameter without an annotation has the type of its default.

    Args:
        group: an axis (``norm``, ``clip``, ``filter.loss``, …), ``task``, ``model``, ``start``, ``data``, ``logger``,
            ``metric`` (``function(…) -> [R]`` of what a policy loss may ask for, logged for every update under a name
            with a slash) or ``figure`` (``draw(inputs)`` as those of ``analysis/figures``, titled by its docstring).
        function: what is called; a class for tasks, models, critics and sources of data.
        name: what the choice is called; the function's own name unless given.
        defaults: values of hyperparameters; they replace those of the signature. A file ``<group>/<name>.yaml`` in a
            folder of ``rlexp.add_config_dir`` replaces both.
        memory: what the choice remembers from step to step, a ``rlexp.core.memory.Memory``.

    Returns:
        The function, unchanged.

    Raises:
        ConfigError: in one line, for an unknown group, a name that is taken, a tensor that the axis is not offered, a
            hyperparameter without type or default.
    """
    if function is None:
        return partial(register, group, name=name, defaults=defaults, memory=memory)
    name, table, folder = name or function.__name__, table_of(group), group.partition(".")[0]
    if not re.fullmatch(r"\w+(/\w+)+" if group == "metric" else r"[A-Za-z_]\w*", name):
        example = "advantage/positive" if group == "metric" else "mad"
        raise ConfigError([f"register({group!r}): {name!r} cannot be a name; take one like {example}: name=..."])
    before = REGISTERED.get(folder, {}).get(name)  # it may be defined anew, as in a notebook's cell that ran again
    place_of = attrgetter("__module__", "__qualname__")
    anew = before is not None and place_of(before.function) == place_of(function)
    if name in table and not anew or (CONF / folder / f"{name}.yaml").is_file():
        raise ConfigError([f"{group}={name}: there is one already; take another name: name=..."])
    try:
        values = values_of(group, name, function, defaults or {}) if group not in BESIDE else {}
        check_function(group, name, function, memory)
    except TypeError as error:
        raise ConfigError([str(error)]) from None
    try:
        source = inspect.getsource(function)
    except (OSError, TypeError):  # there is none, as after `python -c`
        source = ""
    enter(Registration(group, name, function, values, memory, source))
    return function


def add_config_dir(folder: str | Path) -> None:
    """Search a folder for ``<group>/<choice>.yaml``, after the files of this package. ConfigError if there is none."""
    path = Path(folder).resolve()
    if not path.is_dir():
        raise ConfigError([f"{folder}: is no folder with YAML files"])
    if path not in FOLDERS:
        FOLDERS.append(path)


def as_bytes() -> bytes:
    """Return what is registered, for another process: by value what is in no module that it could import."""
    if not REGISTERED and not FOLDERS:
        return b""
    import cloudpickle

    return pickle.dumps((sys.path, FOLDERS, cloudpickle.dumps(registered())))


@cache
def from_bytes(content: bytes) -> None:
    """Register what another process had registered; its modules are searched after those that are found here anyway."""
    load_plugins()
    if not content:
        return
    path, folders, choices = pickle.loads(content)
    sys.path += [place for place in path if place not in sys.path]
    FOLDERS.extend(folder for folder in folders if folder not in FOLDERS)
    for registration in pickle.loads(choices):
        enter(registration)


def table_of(group: str) -> dict[str, Callable]:
    """Return the table of functions that a group is made of; ConfigError if nothing can be registered for it."""
    if group in AXES:
        return AXES[group].functions
    first = {name: tables[0] for name, tables in TABLES.items()} | BESIDE
    if group not in first:
        raise ConfigError([f"register({group!r}): no such group; there are {', '.join([*AXES, *first])}"])
    return resolve_name(first[group])


def values_of(group: str, name: str, function: Callable, defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the YAML of a choice would say; ConfigError for a hyperparameter without type or default."""
    try:
        names = hyperparameters(function)
    except TypeError as error:
        raise ConfigError([f"{group}={name}: {error}"]) from None
    if unknown := [key for key in defaults if key not in names]:
        raise ConfigError([f"{group}={name}: no hyperparameter {unknown[0]}; there are {', '.join(names) or 'none'}"])
    folder, _, place = group.partition(".")
    if any((each / folder / f"{name}.yaml").is_file() for each in FOLDERS):
        return {}
    signature = inspect.signature(function).parameters
    values = {key: defaults.get(key, signature[key].default) for key in names}
    for key, value in values.items():
        if value is inspect.Parameter.empty:
            raise ConfigError([f"{group}={name}: {key} has no default; write {key}=... in the signature, or defaults="])
    node = {"name": name, **values} | {key: value for key, (_, value) in SETTINGS.get(group, {}).items()}
    if not place:
        return node
    others = yaml.safe_load((CONF / folder / "none.yaml").read_text(encoding="utf-8"))
    return others | {place: node}


def check_function(group: str, name: str, function: Callable, memory: Memory | None) -> None:
    """Raise TypeError for requests or facts that an axis or metric does not have, or without a memory it lives on."""
    from rlexp.axes.offered import LOSS, REMEMBERED
    from rlexp.core import memory as memories

    if group == "metric":
        check_requests(f"metric={name}", function, LOSS)
    if axis := AXES.get(group):
        own = memories.offers(group, {name: memory}, REMEMBERED)[name] if memory is not None else {}
        check_requests(f"{group}={name}", function, {**axis.inputs, **own})
        facts_of(function, axis.facts)
        if memory is None and axis.memories.keys() >= axis.functions.keys() - REGISTERED.get(axis.group, {}).keys():
            raise TypeError(f"{group}={name}: every {group} remembers something; give memory=Memory(...)")


def enter(registration: Registration) -> None:
    """Put a choice into its tables, let Hydra compose it without a file, and the config, if it is made, allow it."""
    group, name, folder = registration.group, registration.name, registration.group.partition(".")[0]
    table_of(group)[name] = registration.function
    REGISTERED.setdefault(folder, {})[name] = registration
    if registration.memory is not None:
        AXES[group].memories[name] = registration.memory
    if registration.values:
        node = dict(registration.values)
        ConfigStore.instance().store(group=folder, name=name, node=node, provider="rlexp.register")
    if group not in BESIDE and hasattr(sys.modules.get(SCHEMA), "refresh"):
        sys.modules[SCHEMA].refresh(folder)
