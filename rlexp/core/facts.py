"""What is to be known of a choice beside its formula, declared beside its function: ``@facts(compares="group")``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeVar

from rlexp.core.errors import format_value

Function = TypeVar("Function", bound=Callable)
# Lines about a choice in a config, given its key (as ``filter.loss``), its node and the whole config; mostly none.
Check = Callable[[str, Any, Any], Iterator[str]]


class Curves(NamedTuple):
    """The figure of a policy loss: the weight of its gradient over the ratio.

    ``note`` says what the figure leaves open; ``lines`` has a label and the progress of the run for each line.
    """

    note: str = ""
    lines: Mapping[str, float] = {"": 0.0}


def never(node: Any) -> int:
    """Nobody is asked."""
    return 0


@dataclass(frozen=True)
class Facts:
    """Facts about a choice.

    ``neutral``: it leaves what it is given as it is. ``compares``: a completion is compared with the others of its
    group or batch (alone it would have advantage 0), or tokens with those of the batch. ``laws`` and ``breaks``: which
    laws of its axis it obeys beside those of all, and which of these it breaks. ``unit``: what the source of a policy
    loss weighs equally, and what an aggregation does. ``idle_on_policy``: what a policy loss adds to −A log π does
    nothing as long as every ratio is 1; not so where it adds nothing, or acts at any ratio. ``draws``: the figure of a
    policy loss. ``measures``: metrics of an update that only runs with this choice have, each a function of what the
    loss may ask for, and of its knobs, to a number a replica. ``bounds``: the smallest and the largest reward of a
    judge (None: those of the task); ``calls``: how often it is asked about a completion, given its node. ``problems``
    are lines about what cannot be, ``remarks`` about what is seldom meant.
    """

    neutral: bool = False
    compares: Literal["", "group", "batch", "tokens"] = ""
    laws: tuple[str, ...] = ()
    breaks: tuple[str, ...] = ()
    unit: Literal["token", "completion"] = "token"
    idle_on_policy: bool = True
    draws: Curves = Curves()
    measures: Mapping[str, Callable] = field(default_factory=dict)
    bounds: tuple[float, float] | None = None
    calls: Callable[[Any], int] = never
    problems: tuple[Check, ...] = ()
    remarks: tuple[Check, ...] = ()


def facts(**declared: Any) -> Callable[[Function], Function]:
    """Attach facts to a function, which stays what it is."""

    def attach(function: Function) -> Function:
        function.facts = Facts(**declared)
        return function

    return attach


def facts_of(function: Callable) -> Facts:
    """Return the facts that are declared beside a function, bound to its knobs or not."""
    return getattr(getattr(function, "func", function), "facts", Facts())


def ordered(smaller: str, larger: str) -> Check:
    """Return the check that one knob is at most another."""

    def disordered(key: str, node: Any, config: Any) -> Iterator[str]:
        first, second = getattr(node, smaller), getattr(node, larger)
        if first > second:
            yield f"{key}.{smaller}={format_value(first)}: must be at most {key}.{larger}={format_value(second)}"

    return disordered
