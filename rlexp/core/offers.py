"""What a function may ask for by name: a type and a line about it for each name, and the check that it does."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import NamedTuple, get_type_hints

LETTERS = {
    "replica": "R",
    "prompts": "P",
    "group": "G",
    "time": "T",
    "vocabulary": "V",
    "length": "L",
    "components": "K",
    "numbers": "N",
    "places": "T+1",
    "parameters": "N",
    "votes": "M",
    "models": "E",
}


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
