"""The choices of an axis as functions of a module: made when they are first looked up, of what the axis has by then."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from inspect import cleandoc
from keyword import iskeyword
from textwrap import TextWrapper, fill
from types import ModuleType
from typing import Any

import torch
from pydantic import TypeAdapter
from torch import Tensor

from rlexp.axes import axis_of, norm
from rlexp.axes.offered import REMEMBERED
from rlexp.core.memory import Memory
from rlexp.core.registry import Offer
from rlexp.functional.defaults import REQUIRED, Settings, names, settings_of
from rlexp.functional.formula import OPTIONAL, Formula
from rlexp.functional.layouts import axes_of, flat, written

PACKAGE = "rlexp.functional"


class Namespace(ModuleType):
    """The functions of an axis by the names of its choices.

    A choice that remembers something from step to step has two more: ``start(…)`` is what it remembers at first, and
    ``update(…)`` what it remembers after a step.
    """

    def __init__(self, axis: str):
        found = axis_of(axis)
        super().__init__(axis, found.module.__doc__)
        self._axis, self._offered = axis, found.inputs
        self._functions, self._memories = found.functions, found.memories

    @property
    def __all__(self) -> list[str]:
        return [name + "_" * iskeyword(name) for name in names(self._axis, self._functions)]

    def __dir__(self) -> list[str]:
        return self.__all__

    def __getattr__(self, name: str) -> Callable:
        """Make a function; AttributeError if there is no such choice."""
        if name.startswith("__"):
            raise AttributeError(name)
        choice = name.removesuffix("_") if iskeyword(name.removesuffix("_")) else name
        try:
            settings = settings_of(self._axis, self._functions, choice)
        except KeyError:
            known = ", ".join(self.__all__)
            raise AttributeError(f"{self.__name__} has no {name}; there are {known}") from None
        made = function(f"{self.__name__}.{name}", settings, self._offered, self._memories.get(settings.name))
        setattr(self, name, made)
        return made


class ValueTargets(Namespace):
    """What a critic is trained to, ``[..., P, G, T]``, by the ``norm`` that asks for its values."""

    def __init__(self):
        super().__init__("norm")
        self.__name__, self.__doc__ = "value_target", type(self).__doc__
        self._functions, self._memories = norm.TARGETS, {}


def function(name: str, settings: Settings, offered: Mapping[str, Offer], memory: Memory | None) -> Callable:
    """Return a formula as a plain function with its signature and docstring, for ``help`` and editors."""
    formula = Formula(name, settings, {**offered, memory.name: memory.offer} if memory else offered, memory)

    def call(*arguments: Any, **named: Any) -> Any:
        return formula(*arguments, **named)

    call.__wrapped__ = settings.function  # whose source editors show
    if memory:
        formula_of_start = Formula(f"{name}.start", settings.of(memory.start), {})

        def start(**named: Any) -> Tensor:
            return torch.tensor(formula_of_start(**named))

        call.start = presented(start, formula_of_start)
        if memory.update is not settings.function:
            update = settings.of(memory.update)._replace(choice=settings.name)
            call.update = function(f"{name}.update", update, {**REMEMBERED, memory.name: memory.offer}, None)
    return presented(call, formula)


def presented(call: Callable, formula: Formula) -> Callable:
    """Give a function the name, the signature and the docstring of a formula."""
    call.__name__, call.__qualname__, call.__module__ = formula.name.rpartition(".")[2], formula.name, PACKAGE
    call.__signature__, call.__doc__ = formula.signature, document(formula)
    return call


# ---- docstrings, made of those of the axis, of its tensors and of its file in conf/

WIDTH = 100
ENTRY = TextWrapper(WIDTH, initial_indent=" " * 4, subsequent_indent=" " * 8, break_on_hyphens=False)
BOUNDS = {"exclusiveMinimum": "above", "minimum": "at least", "exclusiveMaximum": "below", "maximum": "at most"}
NO_BOUND = 2**31 - 1  # what an int can be anyway
TYPES = {"number": "float", "integer": "int", "null": "None", "array": "list", "string": "str", "boolean": "bool"}
GROUP_IDS = "group_ids: int [B], or a list. Of flat tensors: rows with the same number answer the same prompt."


def document(formula: Formula) -> str:
    """Return the whole docstring of a formula: what it computes and by whom, Args, Returns."""
    settings, arguments = formula.settings, []
    for name in sorted(formula.offered, key=OPTIONAL.__contains__):
        # `keep: bool [..., P, G] or [B], all completions if not given. Completions in the statistics.`
        offer = formula.offered[name]
        number = "a number, or " if axes_of(offer.kind) == () else ""
        beside = ", or one a completion" if name == "advantages" else ""
        otherwise = f", {OPTIONAL[name]} if not given" if name in OPTIONAL else ""
        arguments.append(f"{name}: {number}{shape_of(offer.kind)}{beside}{otherwise}. {sentence(offer.text)}")
    for name, kind in formula.kinds.items():
        # `eps: float above 0, 1e-06 if not given (verl, ROLL; TRL 1e-4).`
        value, comment = settings.values[name], settings.comments.get(name)
        otherwise = "" if value is REQUIRED else f", {value!r} if not given"
        allowed = in_words(TypeAdapter(kind).json_schema())
        arguments.append(f"{name}: {allowed}{otherwise}" + (f" ({comment})." if comment else "."))
    arguments += [GROUP_IDS] if formula.by_row else []

    parts = [cleandoc(settings.function.__doc__ or settings.name)]
    if settings.about and settings.choice != settings.name:
        parts.append(fill(f"Here with the settings of ``{settings.choice}``: {sentence(settings.about)}", WIDTH))
    if arguments:
        parts.append("\n".join(["Args:", *map(ENTRY.fill, arguments)]))
    outside = " and ".join(f"``{name}``" for name in formula.zero_outside)
    returns = shape_of(formula.result) + (f", 0 outside {outside}" if outside else "")
    return "\n\n".join([*parts, "Returns:\n" + ENTRY.fill(f"{returns}.")]) + "\n"


def shape_of(kind: Any) -> str:
    """Return `bool [..., P, G, T] or [B, T]`, or the name of a type that is no tensor."""
    axes = axes_of(kind)
    if axes is None:
        return getattr(kind, "__name__", str(kind))
    whole, rows = written("...", *axes), written(*flat(axes))
    return f"{kind.dtype.__name__.lower()} {whole}" + (f" or {rows}" if rows != written(*axes) else "")


def in_words(schema: Mapping[str, Any]) -> str:
    """Return what a JSON schema allows: `float above 0`, `int at least 0 and at most 1`, `'all' or 'best_worst'`."""
    if "anyOf" in schema:
        return " or ".join(map(in_words, schema["anyOf"]))
    if "enum" in schema:
        return " or ".join(map(repr, schema["enum"]))
    bounds = [f"{word} {schema[key]:g}" for key, word in BOUNDS.items() if schema.get(key, NO_BOUND) < NO_BOUND]
    return f"{TYPES[schema['type']]} {' and '.join(bounds)}".rstrip()


def sentence(text: str) -> str:
    """Return a text as a sentence: a capital if it begins with a word, a full stop."""
    word = re.match(r"[a-z-]+[,:;]?( |$)", text)
    return (text[:1].upper() + text[1:] if word else text).rstrip(".") + "."
