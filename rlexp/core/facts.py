"""What is known of a choice beside its formula, declared beside its function: ``@NormFacts(compares="group")``.

There is one class for each kind of axis; the row of an axis in ``rlexp.axes.AXES`` names the one of its functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeVar

from rlexp.core.exits import format_value

Function = TypeVar("Function", bound=Callable)
# Lines about a choice in a config, given its key (as ``filter.loss``), its node and the whole config; mostly none.
Check = Callable[[str, Any, Any], Iterator[str]]


class Curves(NamedTuple):
    """The figure of a policy loss: the weight of its gradient over the ratio.

    ``note`` says what the figure leaves open; ``lines`` has a label and the progress of the run for each line.
    """

    note: str = ""
    lines: Mapping[str, float] = {"": 0.0}


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Facts about a choice of any axis, and the decorator that attaches them to its function.

    Attributes:
        is_noop: it returns what it is given.
        of_group: it looks at the other completions of a group, on an axis where others look at one completion alone.
        of_turns: it looks at runs of tokens that count, so that tokens between them that do not count part them.
        problems, remarks: lines about what cannot be, and about what is seldom meant; those of our own choices that
            read more than their hyperparameters are in ``rlexp.config.checks``.
    """

    is_noop: bool = False
    of_group: bool = False
    of_turns: bool = False
    problems: tuple[Check, ...] = ()
    remarks: tuple[Check, ...] = ()

    def __call__(self, function: Function) -> Function:
        function.facts = self
        return function


FactsOfKind = TypeVar("FactsOfKind", bound=Facts)


@dataclass(frozen=True, kw_only=True)
class FactsWithLaws(Facts):
    """Facts about a choice of an axis that has laws (``rlexp.axes.laws``).

    Attributes:
        laws: which of them it obeys beside those of all.
        breaks: which of those of all it breaks.
    """

    laws: tuple[str, ...] = ()
    breaks: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class NormFacts(FactsWithLaws):
    """Facts about a norm.

    ``compares``: a completion is compared with the others of its group or batch (alone it would have advantage 0), or
    tokens with those of the batch.
    """

    compares: Literal["", "group", "batch", "tokens"] = ""


@dataclass(frozen=True, kw_only=True)
class LossFacts(FactsWithLaws):
    """Facts about a policy loss.

    Attributes:
        unit: what its source weighs equally.
        idle_on_policy: what it adds to −A log π does nothing as long as every ratio is 1; not so where it adds nothing,
            or acts at any ratio.
        curves: its figure.
        metrics: of an update that only runs with this choice have: each is a function of what the loss may ask for, and
            of its hyperparameters, to a number a replica.
    """

    unit: Literal["token", "completion"] = "token"
    idle_on_policy: bool = True
    curves: Curves = Curves()
    metrics: Mapping[str, Callable] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class AggregationFacts(FactsWithLaws):
    """Facts about an aggregation; ``unit``: what it weighs equally."""

    unit: Literal["token", "completion"] = "token"


@dataclass(frozen=True, kw_only=True)
class ControlFacts(Facts):
    """Facts about a controller of a coefficient; ``metrics``: as those of a policy loss."""

    metrics: Mapping[str, Callable] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class RewardFacts(Facts):
    """Facts about a judge.

    Attributes:
        bounds: the smallest and the largest reward; None: those of the task.
        calls: how often it is asked about a completion, given its settings.
    """

    bounds: tuple[float, float] | None = None
    calls: Callable[[Any], int] = lambda settings: 0


def facts_of(function: Callable, kind: type[FactsOfKind]) -> FactsOfKind:
    """Return the facts that are declared beside a function, bound to its hyperparameters or not.

    TypeError if they are not of the kind that its axis has.
    """
    function = getattr(function, "func", function)
    declared = getattr(function, "facts", None) or kind()
    if type(declared) is not kind:
        raise TypeError(f"@{type(declared).__name__} beside `{function.__name__}`: must be @{kind.__name__}")
    return declared


def ordered(smaller: str, larger: str) -> Check:
    """Return the check that one hyperparameter is at most another."""

    def disordered(key: str, node: Any, config: Any) -> Iterator[str]:
        first, second = getattr(node, smaller), getattr(node, larger)
        if first > second:
            yield f"{key}.{smaller}={format_value(first)}: must be at most {key}.{larger}={format_value(second)}"

    return disordered
