"""The choices of an axis as functions of a module: made when they are first looked up, of what the axis has by then."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from keyword import iskeyword
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from rlexp.axes import axis_of, norm
from rlexp.axes.offered import REMEMBERED
from rlexp.core.memory import Memory
from rlexp.core.registry import Offer
from rlexp.functional.defaults import Settings, names, settings_of
from rlexp.functional.documents import document
from rlexp.functional.formula import OPTIONAL, Formula

PACKAGE = "rlexp.functional"


class Namespace(ModuleType):
    """The functions of an axis by the names of its choices.

    A choice that remembers something from step to step has two more: ``start(…)`` is what it remembers at first, and
    ``update(…)`` what it remembers after a step.
    """

    def __init__(
        self,
        name: str,
        axis: str,
        functions: Mapping[str, Callable],
        offered: Mapping[str, Offer],
        memories: Mapping[str, Memory],
    ):
        super().__init__(name, axis_of(axis).module.__doc__)
        self._axis, self._functions, self._offered, self._memories = axis, functions, offered, memories

    @property
    def __all__(self) -> list[str]:
        """The names of its functions."""
        return [name + "_" * iskeyword(name) for name in names(self._axis, self._functions)]

    def __dir__(self) -> list[str]:
        """Return the names of its functions."""
        return self.__all__

    def __getattr__(self, name: str) -> Callable:
        """Make a function; AttributeError if there is no such choice."""
        if name.startswith("__"):
            raise AttributeError(name)
        if name not in self.__all__:
            raise AttributeError(f"{self.__name__} has no {name}; there are {', '.join(self.__all__)}")
        choice = name.removesuffix("_") if iskeyword(name.removesuffix("_")) else name
        settings = settings_of(self._axis, self._functions, choice)
        made = function(f"{self.__name__}.{name}", settings, self._offered, self._memories.get(settings.name))
        setattr(self, name, made)
        return made


def function(name: str, settings: Settings, offered: Mapping[str, Offer], memory: Memory | None) -> Callable:
    """Return a formula as a plain function with its signature and docstring, for ``help`` and editors."""
    known = {**offered, memory.name: memory.offer} if memory else offered
    formula = Formula(name, settings, known, memory)

    def call(*arguments: Any, **named: Any) -> Any:
        return formula(*arguments, **named)

    call.__name__, call.__qualname__, call.__module__ = name.rpartition(".")[2], name, PACKAGE
    call.__wrapped__ = settings.function  # whose source editors show
    call.__signature__, call.__doc__ = formula.signature, document(formula, OPTIONAL)
    if memory:
        call.start = start_of(f"{name}.start", settings.of(memory.start), memory)
        if memory.update is not settings.function:
            update = settings.of(memory.update)._replace(choice=settings.name)
            call.update = function(f"{name}.update", update, {**REMEMBERED, memory.name: memory.offer}, None)
    return call


def start_of(name: str, settings: Settings, memory: Memory) -> Callable:
    """Return what a choice remembers before the first step, as a function of its hyperparameters."""
    formula = Formula(name, settings, {})

    def start(**named: Any) -> Tensor:
        return torch.tensor(formula(**named))

    start.__qualname__, start.__module__ = name, PACKAGE
    start.__signature__, start.__doc__ = formula.signature, document(formula, OPTIONAL)
    return start


def of_axis(axis: str) -> Namespace:
    """Return the functions of an axis."""
    found = axis_of(axis)
    return Namespace(axis, axis, found.functions, found.inputs, found.memories)


def of_targets() -> Namespace:
    """Return what a critic is trained to, by the norm that asks for its values."""
    namespace = Namespace("value_target", "norm", norm.TARGETS, norm.INPUTS, {})
    namespace.__doc__ = "What a critic is trained to, ``[..., P, G, T]``, by the ``norm`` that asks for its values."
    return namespace
