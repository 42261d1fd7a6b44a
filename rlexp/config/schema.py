"""The schema of a run's config: settings, and for each group the choices there are, read from their signatures.

What is given in Python is completed by the values of ``conf/``, without Hydra.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml
from omegaconf import OmegaConf
from pydantic import BaseModel, ValidationError, create_model, model_validator

from rlexp.axes import AXES
from rlexp.axes.offered import REMEMBERED
from rlexp.config.checks import contradictions
from rlexp.config.choices import (
    CONF,
    GROUPS,
    RECIPES,
    SETTINGS,
    choices_of,
    chosen_facts,
    functions_of,
    groups,
    load_plugins,
    no_such_choice,
    values_of,
)
from rlexp.config.plugins import register
from rlexp.config.settings import Settings, Study
from rlexp.config.trust import check_config
from rlexp.core import memory
from rlexp.core.errors import ConfigError, problem_lines
from rlexp.core.numbers import Size
from rlexp.core.registry import StrictModel, bind_choice, schema
from rlexp.language import TEXT_TASKS
from rlexp.loop.reward_model import TRAININGS
from rlexp.record.disk import saved_config
from rlexp.tasks import TASKS

AS_SAVED = {"complete": True}  # of values that have every key already


def completed(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return all values of a config: those given, over those of its choices, its preset and ``conf/config.yaml``.

    A choice is given by its name, or as a function, which is registered under its name. ConfigError for a choice that
    does not exist.
    """
    given = {key: as_in_yaml(key, value) for key, value in given.items()}
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
    nodes = {name: existing_values(name, choice) for name, choice in chosen.items() if name not in RECIPES}
    for node in nodes.values():
        node.pop("defaults", None)
    rest = {key: value for key, value in base.items() if key not in ("defaults", "hydra")}
    whole = OmegaConf.merge(rest, nodes, {"study": None}, recipe)
    for key, value in given.items():
        if key not in named:
            OmegaConf.update(whole, key, value, merge=True, force_add=True)
    return OmegaConf.to_container(whole, resolve=True)


def as_in_yaml(key: str, value: Any) -> Any:
    """Return a given value as a YAML would have it: a node as a mapping, a function by the name that it has here."""
    if isinstance(value, BaseModel):
        return value.model_dump()
    if isinstance(value, Callable):
        register(key, value)
        return value.__name__
    return list(value) if isinstance(value, tuple) else value


def existing_values(group: str, choice: str) -> dict[str, Any]:
    """Return what the YAML of a choice says; ConfigError if the group has none of this name."""
    known = choices_of(group)
    if choice not in known:
        raise ConfigError([no_such_choice(group, choice, known)])
    return values_of(group, choice)


class GroupSize(StrictModel):
    """Completions a prompt, and prompts a step."""

    completions: Size
    prompts: Size


def settings_of(key: str) -> dict[str, object]:
    """Return the types of the settings that every choice of a group has."""
    return {name: kind for name, (kind, _) in SETTINGS.get(key, {}).items()}


def axis_type(key: str) -> object:
    """Return the type of an axis; TypeError if one of its functions asks for what it is not offered."""
    axis = AXES[key]
    settings = settings_of(key)
    settings |= {"model": schema(TRAININGS) | None} if key == "reward" else {}
    memories = memory.offers(key, axis.memories, REMEMBERED)
    return schema(axis.functions, axis.inputs, key, memories, **settings)


def group_type(group: str) -> object:
    """Return the type of a config group: a choice, or a node of several."""
    if group == "group_size":
        return GroupSize
    axes = {axis.place: key for key, axis in AXES.items() if axis.group == group}
    if "" in axes:
        return axis_type(axes[""])
    if axes:
        places = {place: (axis_type(key), ...) for place, key in axes.items()}
        return create_model(group.title(), __base__=StrictModel, **places)
    return schema(functions_of(group)[""], **settings_of(group))


load_plugins()
NODES = {group: (group_type(group), ...) for group in GROUPS if group not in RECIPES}
Groups = create_model("Groups", __base__=StrictModel, **NODES)


class Config(Settings, Groups):
    """Everything that a run's results depend on: a choice for each group, and the keys of ``Settings``.

    ``Config(norm="global", lr=3e-4)`` fills in what is not given from ``conf/``, without Hydra: choices by name (a
    preset, too), keys below a choice with a dot (``Config(**{"clip.high": 0.28})``) or as a mapping. Raises ConfigError
    with a line for each problem.
    """

    study: Study | None

    @property
    def reward_range(self) -> tuple[float, float]:
        """The smallest and the largest reward of the task, or of who judges in its place."""
        return chosen_facts(self, "reward").bounds or bind_choice(TASKS | TEXT_TASKS, self.task)().reward_range

    @property
    def start_seed(self) -> int:
        """The seed that the weights before the first step belong to: the start's own, the model's, or the run's."""
        own = (self.start.seed, getattr(self.model, "seed", None), self.seed)
        return next(seed for seed in own if seed is not None)

    @model_validator(mode="wrap")
    @classmethod
    def checked(cls, values: Any, handler: Callable[[Any], Any], info: Any) -> Config:
        """Complete the values unless the context says that they are, and say what is wrong with them, a line each."""
        if isinstance(values, Config):
            return values
        values = values if info.context == AS_SAVED else completed(values)
        try:
            config = handler(values)
        except ValidationError as error:
            raise ConfigError(problem_lines(error, values)) from None
        if problems := list(contradictions(config)):
            raise ConfigError(problems)
        return config


def refresh(group: str) -> None:
    """Let the config know a choice of a group that was registered after this module was imported."""
    field = Config.model_fields[group]
    places = {axis.place: key for key, axis in AXES.items() if axis.group == group and axis.place}
    for place, key in places.items():  # the node keeps its class: configs that were made before stay equal to new ones
        field.annotation.model_fields[place].annotation = axis_type(key)
        field.annotation.model_rebuild(force=True)
    if not places:
        field.annotation = group_type(group)
    Config.model_rebuild(force=True)


def read(values: Mapping[str, Any]) -> Config:
    """Check plain values, all keys of them, and return them as a Config; ConfigError with a line for each problem."""
    return Config.model_validate(dict(values), context=AS_SAVED)


def load(path: str | Path, trust: bool = False) -> Config:
    """Read the config.yaml that a run left behind; code that it names only with ``trust``, else ConfigError."""
    values = saved_config(Path(path))
    if not trust:
        check_config(values, Path(path))
    return read(values)


def to_yaml(config: Config) -> str:
    """Return the complete config as YAML that ``load`` reads back."""
    return yaml.safe_dump(config.model_dump(), sort_keys=False, allow_unicode=True)
