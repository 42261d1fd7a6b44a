"""The number of a run that is asked for, as text and as a value, and its better end. Costs nothing to import."""

from collections.abc import Callable, Mapping
from math import isfinite, nan
from typing import Any, Literal, NamedTuple

from rlexp.analysis.data.errors import AnalysisError

Direction = Literal["higher", "lower"] | None

HIGHER = (
    "eval/greedy_accuracy",
    "eval/sampled_accuracy",
    "eval/hinted_accuracy",
    "eval/pass@",
    "eval/reward",
    "reward/mean",
    "reward/shaped",
)
HIGHER += ("eval/exact/accuracy", "eval/exact/pass@", "eval/exact/reward", "eval/exact/gold")
LOWER = ("kl/ref_", "mismatch/kl", "eval/corpus_loss", "time/")


def better_direction(metric: str, score_metric: str | None = None) -> Direction:
    """Higher for the metric of a score, as a score has a floor; by the beginning of the name for others, or unknown.

    Unknown are what describes a policy without judging it: entropy, lengths, gradients, clipping, equal rewards.
    """
    if metric == score_metric or metric.startswith(HIGHER):
        return "higher"
    return "lower" if metric.startswith(LOWER) else None


def direction_sign(direction: Direction) -> int:
    """The factor by which the largest number becomes the best; 1 where nothing is known."""
    return -1 if direction == "lower" else 1


def direction_note(direction: Direction) -> str:
    """` (higher is better)`, or nothing."""
    return f" ({direction} is better)" if direction else ""


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


class MetricSpec(NamedTuple):
    """The number of a run: of which metric (its score's, or a cost), at which equal budget, where what is matched."""

    metric: str | None = None
    at: Budget | None = None
    matched: Target | None = None


def parse_budget(text: str) -> Budget:
    """The budget that a text names, as `rollouts` or `tokens=5000`; AnalysisError if it names none."""
    kind, equals, amount = text.partition("=")
    if kind not in BUDGETS:
        raise AnalysisError(f"'{kind}' is no budget; choose one of: {'  '.join(BUDGETS)}")
    return Budget(kind, _number(amount) if equals else None)


def parse_target(text: str) -> Target:
    """The target that a text names, as `accuracy=0.9`; AnalysisError if it names none."""
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


def parse_option(name: str, text: str | None, parse: Callable[[str], Any]) -> Any:
    """The value of an option or a key, by `parse_budget` or `parse_target`; the AnalysisError then names it."""
    try:
        return None if text is None else parse(text)
    except AnalysisError as error:
        raise AnalysisError(f"{name}{text}: {error}") from None


def parse_metric_spec(written: Mapping[str, Any]) -> MetricSpec:
    """Parse the keys `metric`, `at` and `matched` of a study or of an expectation."""
    at, matched = (None if written.get(key) is None else str(written[key]) for key in ("at", "matched"))
    budget, target = parse_option("at=", at, parse_budget), parse_option("matched=", matched, parse_target)
    return MetricSpec(written.get("metric"), budget, target)


def with_defaults(spec: MetricSpec, own: MetricSpec) -> MetricSpec:
    """The number asked for, with what a study asks wherever nothing else is said.

    Where only a target is named its cost is meant, and not the study's metric there. Metrics of whole runs have neither
    a budget nor a target, and a metric at a target has no budget.
    """
    metric = spec.metric or (None if spec.matched else own.metric)
    if metric in OF_WHOLE_RUNS:
        return spec._replace(metric=metric)
    matched = spec.matched or own.matched
    at = spec.at or (None if metric and matched else own.at)
    return MetricSpec(metric, at, matched)


def contradiction(spec: MetricSpec) -> str:
    """Explain why there is no such number; empty if there is."""
    if spec.metric in OF_WHOLE_RUNS and (spec.at or spec.matched):
        return f"{spec.metric} is of a whole run: it has no budget and no target"
    if spec.matched and spec.matched.metric in OF_WHOLE_RUNS:
        return f"{spec.matched.metric} is of a whole run: nothing is first so high"
    if spec.matched and spec.metric and spec.at:
        return f"a target is matched for {spec.metric} or for its cost in {spec.at.kind}, not for both"
    return ""
