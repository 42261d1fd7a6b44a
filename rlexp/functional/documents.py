"""The docstring of a function, made of those of the axis, of its tensors and of its file in ``conf/``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from inspect import cleandoc
from textwrap import fill
from typing import Any

from pydantic import TypeAdapter

from rlexp.core.registry import Offer, hyperparameters
from rlexp.functional.defaults import REQUIRED, Settings
from rlexp.functional.layouts import axes_of, flat, written

WIDTH = 100
BOUNDS = {"exclusiveMinimum": "above", "minimum": "at least", "exclusiveMaximum": "below", "maximum": "at most"}
NO_BOUND = 2**31 - 1  # what an int can be anyway
TYPES = {"number": "float", "integer": "int", "null": "None", "array": "list", "string": "str", "boolean": "bool"}
GROUP_IDS = "group_ids: int [B], or a list. Of flat tensors: rows with the same number answer the same prompt."


def document(formula: Any, optional: Mapping[str, str]) -> str:
    """Return the whole docstring of a formula: what it computes and by whom, Args, Returns."""
    settings = formula.settings
    parts = [cleandoc(settings.function.__doc__ or settings.name)]
    if settings.about and settings.choice != settings.name:
        parts.append(fill(f"Here with the settings of ``{settings.choice}``: {sentence(settings.about)}", WIDTH))
    tensors = sorted(formula.offered, key=lambda name: name in optional)
    arguments = [describe_tensor(name, formula.offered[name], optional.get(name)) for name in tensors]
    arguments += [*describe_hyperparameters(settings), *([GROUP_IDS] if formula.by_row else [])]
    parts += ["\n".join(["Args:", *map(indented, arguments)])] if arguments else []
    return "\n\n".join([*parts, "Returns:\n" + indented(f"{shape_of(formula.result)}{left_out(formula)}.")]) + "\n"


def indented(text: str) -> str:
    """Return an entry of a list, its further lines further in."""
    return fill(text, WIDTH, initial_indent=" " * 4, subsequent_indent=" " * 8, break_on_hyphens=False)


def left_out(formula: Any) -> str:
    """Return what results are where nothing counts."""
    outside = [f"``{name}``" for name in formula.zero_outside]
    return f", 0 outside {' and '.join(outside)}" if outside else ""


def describe_tensor(name: str, offer: Offer, otherwise: str | None) -> str:
    """Return `keep: bool [..., P, G] or [B], all completions if not given. Completions in the statistics.`"""
    default = f", {otherwise} if not given" if otherwise else ""
    number = "a number, or " if axes_of(offer.kind) == () else ""
    beside = ", or one a completion" if name == "advantages" else ""
    return f"{name}: {number}{shape_of(offer.kind)}{beside}{default}. {sentence(offer.text)}"


def describe_hyperparameters(settings: Settings) -> Iterator[str]:
    """Yield `eps: float above 0, 1e-06 if not given (verl, ROLL; TRL 1e-4).` for each hyperparameter."""
    for name, kind in hyperparameters(settings.function).items():
        value, comment = settings.values[name], settings.comments.get(name)
        default = "" if value is REQUIRED else f", {value!r} if not given"
        yield f"{name}: {range_of(kind)}{default}" + (f" ({comment})." if comment else ".")


def shape_of(kind: Any) -> str:
    """Return `bool [..., P, G, T] or [B, T]`, or the name of a type that is no tensor."""
    axes = axes_of(kind)
    if axes is None:
        return getattr(kind, "__name__", str(kind))
    whole, rows = written("...", *axes), written(*flat(axes))
    return f"{kind.dtype.__name__.lower()} {whole}" + (f" or {rows}" if rows != written(*axes) else "")


def range_of(kind: Any) -> str:
    """Return `float above 0`, `int at least 0 and at most 1`, `'all' or 'best_worst'`."""
    return describe_schema(TypeAdapter(kind).json_schema())


def describe_schema(schema: Mapping[str, Any]) -> str:
    """Return what a JSON schema allows, in words."""
    if "anyOf" in schema:
        return " or ".join(map(describe_schema, schema["anyOf"]))
    if "enum" in schema:
        return " or ".join(map(repr, schema["enum"]))
    bounds = [f"{word} {schema[key]:g}" for key, word in BOUNDS.items() if schema.get(key, NO_BOUND) < NO_BOUND]
    return f"{TYPES[schema['type']]} {' and '.join(bounds)}".rstrip()


def sentence(text: str) -> str:
    """Return a text as a sentence: a capital if it begins with a word, a full stop."""
    word = re.match(r"[a-z-]+[,:;]?( |$)", text)
    return (text[:1].upper() + text[1:] if word else text).rstrip(".") + "."
