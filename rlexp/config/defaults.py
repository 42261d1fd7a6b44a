"""A config from Python: what is given, completed by the values of ``conf/``, without Hydra."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from omegaconf import OmegaConf
from pydantic import BaseModel

from rlexp.config import plugins
from rlexp.config.choices import choices_of, groups, values_of
from rlexp.config.conf_folder import CONF
from rlexp.config.suggest import no_such_choice
from rlexp.core.errors import ConfigError

NODES = ("preset", "study")


def completed(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return all values of a config: those given, over those of its choices, its preset and ``conf/config.yaml``.

    A choice is given by its name, or as a function, which is registered under its name. ConfigError for a choice that
    does not exist.
    """
    given = {key: plain(key, value) for key, value in given.items()}
    chosen = {group: default for group, (default, _) in groups().items()}
    named = {
        key: str(value)  # numbers name choices, too, for group_size
        for key, value in given.items()
        if key in chosen and isinstance(value, str | int) and not isinstance(value, bool)
    }
    recipe = existing_values("preset", named.get("preset", chosen["preset"]))
    overrides = [item for each in recipe.pop("defaults", []) if isinstance(each, dict) for item in each.items()]
    chosen |= {key.removeprefix("override /"): str(choice) for key, choice in overrides} | named
    base = OmegaConf.load(CONF / "config.yaml")
    nodes = {name: existing_values(name, choice) for name, choice in chosen.items() if name not in NODES}
    for node in nodes.values():
        node.pop("defaults", None)
    rest = {key: value for key, value in base.items() if key not in ("defaults", "hydra")}
    whole = OmegaConf.merge(rest, nodes, {"study": None}, recipe)
    for key, value in given.items():
        if key not in named:
            OmegaConf.update(whole, key, value, merge=True, force_add=True)
    return OmegaConf.to_container(whole, resolve=True)


def plain(key: str, value: Any) -> Any:
    """Return a given value as a YAML would have it: a node as a mapping, a function by the name that it has here."""
    if isinstance(value, BaseModel):
        return value.model_dump()
    if isinstance(value, Callable):
        plugins.register(key, value)
        return value.__name__
    return list(value) if isinstance(value, tuple) else value


def existing_values(group: str, choice: str) -> dict[str, Any]:
    """Return what the YAML of a choice says; ConfigError if the group has none of this name."""
    known = choices_of(group)
    if choice not in known:
        raise ConfigError([no_such_choice(group, choice, known)])
    return values_of(group, choice)
