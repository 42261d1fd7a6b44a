"""A name and its knobs to a bound function; the signature of the function is the schema of its YAML.

What an axis function takes by position are tensors, asked for by name from those that the training step offers; what it
takes by keyword only are its knobs.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Annotated, Literal, Union, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, create_model


class Closed(BaseModel):
    """A config node: no unknown keys, no silent conversions, no changes after it was read."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def knobs(function: Callable) -> dict[str, object]:
    """Return the keyword-only parameters of a function or class and their annotated types."""
    hints = get_type_hints(function.__init__ if inspect.isclass(function) else function, include_extras=True)
    parameters = inspect.signature(function).parameters.values()
    return {p.name: hints[p.name] for p in parameters if p.kind is p.KEYWORD_ONLY}


def needs(function: Callable) -> tuple[str, ...]:
    """Return the names of the tensors that an axis function, bound or not, takes by position."""
    return positional(getattr(function, "func", function))


@cache
def positional(function: Callable) -> tuple[str, ...]:
    """Return the names of the parameters that can be given by position."""
    parameters = inspect.signature(function).parameters.values()
    return tuple(p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD)


def ask(function: Callable, offered: Mapping[str, object]) -> object:
    """Call a function with the tensors that it needs, of those that are offered by name."""
    return function(**{name: offered[name] for name in needs(function)})


def node(name: str, fields: Mapping[str, object]) -> type[Closed]:
    """Return the schema of one choice: its name and its knobs, all required (defaults live in YAML)."""
    return create_model(name, __base__=Closed, name=Literal[name], **{key: (kind, ...) for key, kind in fields.items()})


def schema(functions: Mapping[str, Callable], **extra: object) -> object:
    """Return the type of an axis: one of its choices, told apart by ``name``; ``extra`` fields belong to each."""
    choices = [node(name, knobs(function) | extra) for name, function in functions.items()]
    return choices[0] if len(choices) == 1 else Annotated[Union[tuple(choices)], Field(discriminator="name")]


def choose(functions: Mapping[str, Callable], settings: BaseModel) -> Callable:
    """Bind the function that ``settings.name`` names to those of the settings that are its knobs."""
    return bind(functions[settings.name], settings)


def bind(function: Callable, settings: BaseModel) -> Callable:
    """Give a function those of the settings that are its knobs."""
    return partial(function, **{knob: getattr(settings, knob) for knob in knobs(function)})
