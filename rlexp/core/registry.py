"""Choices of an axis: what they may ask for by name, their hyperparameters as a schema, and who registered them.

What an axis function takes by position are tensors, asked for by name from those that the training step offers; what it
takes by keyword only are its hyperparameters. Its signature is the schema of its YAML.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, is_dataclass
from functools import cache, partial
from typing import Annotated, Any, Literal, NamedTuple, Union, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, create_model

LETTERS = dict(replica="R", prompts="P", group="G", time="T", vocabulary="V", length="L", components="K", numbers="N")
LETTERS |= dict(places="T+1", parameters="N", votes="M", models="E")


class Offer(NamedTuple):
    """Something that is offered to functions under a name: its type, as an annotation, and what it is, in one line."""

    kind: object
    text: str

    @property
    def shape(self) -> str:
        """The type in short: ``bool [*R P G T]`` for a mask of tokens, ``int`` for a number, ``Tensor`` for any."""
        return short(self.kind)


def short(kind: object) -> str:
    """Return a type as the documentation writes it; axis names of jaxtyping by their letters."""
    if not hasattr(kind, "dim_str"):
        return getattr(kind, "__name__", str(kind))
    axes = ("*" * axis.startswith("*") + LETTERS.get(axis.lstrip("*"), axis) for axis in kind.dim_str.split())
    return f"{kind.dtype.__name__.lower()} [{' '.join(axes)}]"


def check_requests(choice: str, function: Callable, offered: Mapping[str, Offer]) -> None:
    """Raise TypeError unless everything that a function takes by position is offered, and as what it is annotated.

    ``choice`` is what the function is called on the command line, as ``norm=local``.
    """
    hints, axis = get_type_hints(function), choice.partition("=")[0]
    for parameter in inspect.signature(function).parameters.values():
        name = parameter.name
        if parameter.kind is not parameter.POSITIONAL_OR_KEYWORD:
            continue
        if name not in offered:
            names = ", ".join(sorted(offered))
            raise TypeError(f"{choice} asks for `{name}`, which {axis} is not offered; there are {names}")
        kind = hints.get(name)
        untyped = kind is None or getattr(kind, "__name__", "") == "Tensor"  # then it is taken as it is offered
        if not untyped and repr(kind) != repr(offered[name].kind):  # jaxtyping makes types anew each time
            raise TypeError(f"{choice} asks for `{name}` as {short(kind)}, and it is {offered[name].shape}")


class StrictModel(BaseModel):
    """A config node: no unknown keys, no silent conversions, no changes after it was read."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)  # built when first read


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
    parameters = inspect.signature(function).parameters.values()
    return tuple(p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD)


def by_name(*functions: Callable) -> dict[str, Callable]:
    """Return choices by their names: those of their functions, without the `_` that tells one from a name of Python."""
    return {function.__name__.rstrip("_"): function for function in functions}


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
    return partial(function, **{key: getattr(settings, key) for key in hyperparameters(function)})


@dataclass(frozen=True)
class Registration:
    """A choice that is not of this package.

    Attributes:
        group, name: where it belongs, and what it is called there.
        function: what is called.
        values: what its YAML would say; empty where it has one.
        memory: what it remembers from step to step, a ``rlexp.core.memory.Memory``.
        source: its text, where it could be read.
    """

    group: str
    name: str
    function: Callable
    values: Mapping[str, Any]
    memory: Any = None
    source: str = ""

    @property
    def choice(self) -> str:
        """What is typed: ``norm=mad``."""
        return f"{self.group.partition('.')[0]}={self.name}"


REGISTERED: dict[str, dict[str, Registration]] = {}  # by config group (or metric, figure) and name
METRICS: dict[str, Callable] = {}  # of an update: what a policy loss may ask for, to a number a replica


def registered() -> list[Registration]:
    """Return everything that was registered, in order."""
    return [each for group in REGISTERED.values() for each in group.values()]
