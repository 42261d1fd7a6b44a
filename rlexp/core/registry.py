"""A name and its hyperparameters to a bound function; the signature of the function is the schema of its YAML.

What an axis function takes by position are tensors, asked for by name from those that the training step offers; what it
takes by keyword only are its hyperparameters.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass
from functools import cache, partial
from types import ModuleType
from typing import Annotated, Literal, Union, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, create_model

from rlexp.core.offers import Offer, check_requests


class StrictModel(BaseModel):
    """A config node: no unknown keys, no silent conversions, no changes after it was read."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def hyperparameters(function: Callable) -> dict[str, object]:
    """Return the keyword-only parameters of a function or class and their annotated types."""
    typed = function.__init__ if inspect.isclass(function) and not is_dataclass(function) else function
    hints = get_type_hints(typed, include_extras=True)
    parameters = [p for p in inspect.signature(function).parameters.values() if p.kind is p.KEYWORD_ONLY]
    for parameter in parameters:
        if parameter.name not in hints and parameter.default in (None, parameter.empty):
            hyperparameter = f"the hyperparameter `{parameter.name}` of `{function.__name__}` in {function.__module__}"
            raise TypeError(f"{hyperparameter} has no type; rlexp/core/numbers.py has some, as Positive")
    return {p.name: hints.get(p.name, type(p.default)) for p in parameters}


def required_inputs(function: Callable) -> tuple[str, ...]:
    """Return the names of the tensors that an axis function, bound or not, takes by position."""
    return parameters_by_position(getattr(function, "func", function))


@cache
def parameters_by_position(function: Callable) -> tuple[str, ...]:
    """Return the names of the parameters that can be given by position."""
    parameters = inspect.signature(function).parameters.values()
    return tuple(p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD)


def by_name(*functions: Callable) -> dict[str, Callable]:
    """Return choices by their names: those of their functions, without the `_` that tells one from a name of Python."""
    return {function.__name__.rstrip("_"): function for function in functions}


def join_families(families: Sequence[ModuleType], table: str) -> dict:
    """Return one table of an axis that is a folder, as ``FUNCTIONS``, of those of its files that have it."""
    return {name: entry for family in families for name, entry in getattr(family, table, {}).items()}


def call_with(function: Callable, offered: Mapping[str, object]) -> object:
    """Call a function with the tensors that it needs, of those that are offered by name."""
    return function(**{name: offered[name] for name in required_inputs(function)})


def schema(
    functions: Mapping[str, Callable],
    offered: Mapping[str, Offer] | None = None,
    axis: str = "",
    memories: Mapping[str, Mapping[str, Offer]] | None = None,
    **extra: object,
) -> object:
    """Return the type of an axis: one of its choices, told apart by ``name``; ``extra`` fields belong to each.

    TypeError if a function asks for what is not ``offered`` to the axis, nor to that choice as one of its ``memories``
    (see ``memory.offers``), or for something of another type. Without a table nothing is checked: so it is for what
    is no axis, as tasks and models.
    """
    for name, function in functions.items() if offered is not None else ():
        check_requests(f"{axis}={name}", function, {**offered, **(memories or {}).get(name, {})})
    choices = [choice_type(name, function, tuple(extra.items())) for name, function in functions.items()]
    return choices[0] if len(choices) == 1 else Annotated[Union[tuple(choices)], Field(discriminator="name")]


@cache
def choice_type(name: str, function: Callable, extra: tuple[tuple[str, object], ...]) -> type[StrictModel]:
    """Return the type of a choice: its name and its hyperparameters, all required, as defaults live in YAML.

    It is made once: configs that were read before another choice was registered stay of the same types.
    """
    fields = {key: (kind, ...) for key, kind in (hyperparameters(function) | dict(extra)).items()}
    return create_model(name, __base__=StrictModel, name=(Literal[name], ...), **fields)


def bind_choice(functions: Mapping[str, Callable], settings: BaseModel) -> Callable:
    """Bind the function that ``settings.name`` names to those of the settings that are its hyperparameters."""
    return bind_hyperparameters(functions[settings.name], settings)


def bind_hyperparameters(function: Callable, settings: BaseModel) -> Callable:
    """Give a function those of the settings that are its hyperparameters."""
    return partial(
        function, **{hyperparameter: getattr(settings, hyperparameter) for hyperparameter in hyperparameters(function)}
    )
