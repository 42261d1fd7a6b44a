"""Which number of a run is asked for, as text and as a value. Costs nothing to import."""

from collections.abc import Callable, Mapping
from math import isfinite, nan
from typing import Any, NamedTuple

from analysis.data.errors import AnalysisError

BUDGETS = {
    "steps": "step",
    "updates": "step",
    "rollouts": "progress/completions",
    "tokens": "progress/tokens",
    "verdicts": "progress/verdicts",
    "time": "time/total",
}
ASYMPTOTE, SPEED = "curve/asymptote", "curve/speed"
CURVES = (ASYMPTOTE, SPEED)
RATES = ("collapsed", "diverged")
OF_WHOLE_RUNS = (*CURVES, *RATES)
"""Metrics that no row has: they are computed from a run's whole curve, or are said by its summary."""


class Budget(NamedTuple):
    """`--at tokens=5000`; without an amount, as much as every completed run spent."""

    kind: str
    amount: float | None = None


class Target(NamedTuple):
    """`--matched accuracy=0.9`: the first evaluation at which the metric is at least this high."""

    metric: str
    value: float


class Asked(NamedTuple):
    """The number of a run: of which metric (its score's, or a cost), at which equal budget, where what is matched."""

    metric: str | None = None
    at: Budget | None = None
    matched: Target | None = None


def budget_of(text: str | None) -> Budget | None:
    """The budget that a text names, as `rollouts` or `tokens=5000`; AnalysisError if it names none."""
    if text is None:
        return None
    kind, equals, amount = text.partition("=")
    if kind not in BUDGETS:
        raise AnalysisError(f"'{kind}' is no budget; choose one of: {'  '.join(BUDGETS)}")
    return Budget(kind, _number(amount) if equals else None)


def target_of(text: str | None) -> Target | None:
    """The target that a text names, as `accuracy=0.9`; AnalysisError if it names none."""
    if text is None:
        return None
    metric, _, value = text.rpartition("=")
    if not metric:
        raise AnalysisError("expected a metric and a value, as accuracy=0.9")
    return Target(metric, _number(value))


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = nan
    if not isfinite(value):
        raise AnalysisError(f"'{text}' is no number")
    return value


def option(name: str, text: str | None, read: Callable[[str | None], Any]) -> Any:
    """What an option or a key means, by `budget_of` or `target_of`; the AnalysisError then names it."""
    try:
        return read(text)
    except AnalysisError as error:
        raise AnalysisError(f"{name}{text}: {error}") from None


def asked_by(written: Mapping[str, Any]) -> Asked:
    """What the keys `metric`, `at` and `matched` of a study, or of an expectation, ask for."""
    at, matched = (None if written.get(key) is None else str(written[key]) for key in ("at", "matched"))
    return Asked(written.get("metric"), option("at=", at, budget_of), option("matched=", matched, target_of))


def completed(asked: Asked, own: Asked) -> Asked:
    """What is asked, with what a study asks wherever nothing else is said.

    Where only a target is named its cost is meant, and not the study's metric there. Metrics of whole runs have neither
    a budget nor a target, and a metric at a target has no budget.
    """
    metric = asked.metric or (None if asked.matched else own.metric)
    if metric in OF_WHOLE_RUNS:
        return asked._replace(metric=metric)
    matched = asked.matched or own.matched
    at = asked.at or (None if metric and matched else own.at)
    return Asked(metric, at, matched)


def contradiction(asked: Asked) -> str:
    """Why there is no such number; empty if there is."""
    if asked.metric in OF_WHOLE_RUNS and (asked.at or asked.matched):
        return f"{asked.metric} is of a whole run: it has no budget and no target"
    if asked.matched and asked.matched.metric in OF_WHOLE_RUNS:
        return f"{asked.matched.metric} is of a whole run: nothing is first so high"
    if asked.matched and asked.metric and asked.at:
        return f"a target is matched for {asked.metric} or for its cost in {asked.at.kind}, not for both"
    return ""
