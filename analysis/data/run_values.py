"""One number per run: its stored score, another metric's late mean, either of them at an equal budget, or a cost."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from analysis.data.direction import Direction, better_direction
from analysis.data.errors import AnalysisError, NothingLeft
from analysis.data.load import SweepData
from analysis.data.read import read_yaml

IDENTITY = ("name", "variant", "seed", "step")
BUDGETS = {
    "steps": "step",
    "updates": "step",
    "rollouts": "progress/completions",
    "tokens": "progress/tokens",
    "verdicts": "progress/verdicts",
    "time": "time/total",
}
UNITS = {"time": "s"}


class RunValues(NamedTuple):
    """A number per run."""

    values: pd.Series
    """Indexed by the runs' names; NaN, or no row, where a run has none."""
    metric: str
    aggregation: str
    """How it was computed from a run's rows."""
    remarks: Sequence[str] = ()
    """What else a reader must know."""
    better: Direction = None
    """Which end of the metric is better; None where neither is."""


class Budget(NamedTuple):
    """`--at tokens=5000`; without an amount, as much as every completed run spent."""

    kind: str
    amount: float | None = None


class Target(NamedTuple):
    """`--matched accuracy=0.9`: the first evaluation at which the metric is at least this high."""

    metric: str
    value: float


def logged_metrics(data: SweepData) -> list[str]:
    """The metrics that some run logged."""
    return [column for column in data.metrics.columns if column not in IDENTITY]


def resolve_metric(data: SweepData, name: str) -> str:
    """The metric that a name means: itself; the score's metric if the name is part of it; else the only one it fits.

    So `accuracy` is `eval/greedy_accuracy` where that is the score.
    """
    names = logged_metrics(data)
    if name in names:
        return name
    by_last_part = [metric for metric in names if metric.rsplit("/", 1)[-1] == name]
    containing = [metric for metric in names if name in metric]
    of_score = [metric for metric in containing if metric == data.score_metric]
    for candidates in (of_score, by_last_part, containing):
        if len(candidates) == 1:
            return candidates[0]
    if containing:
        raise AnalysisError(f"'{name}' fits several metrics; choose one of: {'  '.join(containing)}")
    raise AnalysisError(f"no run logged '{name}'; choose one of: {'  '.join(names) or 'none'}")


def values_per_run(
    data: SweepData, metric: str | None = None, at: Budget | None = None, matched: Target | None = None
) -> RunValues:
    """The number of each run. Without any choice it is the score in its summary.

    metric: the mean over the same last share of the rows where it is present as scores have.
    at: the same, of the rows up to an equal budget. With `matched` and no metric: what the target costs, in this unit.
    matched: the metric in the row where the target is first met.
    A budget that no completed run spent, or a target that none met: NothingLeft.
    """
    metric = resolve_metric(data, metric) if metric else None
    if matched and metric and at:
        raise AnalysisError(f"a target is matched for {metric} or for its cost in {at.kind}, not for both")
    if matched:
        return values_at_target(data, metric, at, matched._replace(metric=resolve_metric(data, matched.metric)))
    if at:
        return values_at_budget(data, metric, at)
    if metric and metric != data.score_metric:
        return RunValues(late_means(data, metric), metric, _late_rule(data), better=better_direction(metric))
    scores = data.runs.set_index("name")["score"]
    return RunValues(scores, data.score_metric or "score", _late_rule(data), better="higher")


def _late_rule(data: SweepData) -> str:
    return f"mean over the last {100 * data.score_share:g} % of its evaluations"


def late_means(data: SweepData, metric: str, rows: pd.DataFrame | None = None) -> pd.Series:
    """Mean per run over the last ⌈share · n⌉ (at least 1) of the n rows where the metric is present, as scores are."""
    metric = resolve_metric(data, metric)
    rows = data.metrics if rows is None else rows
    present = rows[["name", metric]].dropna()
    groups = present.groupby("name", sort=False)[metric]
    from_the_end = groups.cumcount(ascending=False)
    count = np.ceil((data.score_share * groups.transform("size")).round(9)).clip(lower=1)  # 0.07 · 100 > 7 in floats
    late = from_the_end < count
    return present[late].groupby("name")[metric].mean()


def cumulative_cost(data: SweepData, kind: str) -> pd.Series:
    """What each row's run had spent by then, in the unit of a budget; NaN where it does not say."""
    column = BUDGETS[kind]
    if column not in data.metrics:
        raise AnalysisError(f"no run logged '{column}', so nothing can be compared at equal {kind}")
    amounts = data.metrics[column].astype(float)
    return amounts * data.metrics["name"].map(_updates_a_step(data)) if kind == "updates" else amounts


def _updates_a_step(data: SweepData) -> dict[str, float]:
    """Optimizer updates in a training step: inner_steps · minibatches of the run's configuration."""
    updates = {}
    for name, folder in zip(data.runs["name"], data.runs["folder"], strict=True):
        config = read_yaml(Path(folder) / "config.yaml")
        config = config if isinstance(config, dict) else {}
        try:
            updates[name] = float(config["inner_steps"]) * float(config["minibatches"])
        except (KeyError, TypeError, ValueError):
            updates[name] = np.nan
    return updates


def values_at_budget(data: SweepData, metric: str | None, at: Budget) -> RunValues:
    """Late means of the rows up to an equal budget; a run that never spent it has no number."""
    amounts = cumulative_cost(data, at.kind)
    totals = amounts.groupby(data.metrics["name"]).max()
    completed = data.runs.loc[data.runs["status"] == "completed", "name"]
    totals = totals.reindex(completed)
    if at.amount is None and not totals.notna().any():
        raise AnalysisError(f"no completed run says what it spent in {at.kind}")
    amount = float(totals.min()) if at.amount is None else at.amount
    rows = data.metrics[(amounts <= amount).to_numpy()]
    enough = totals.index[totals >= amount]
    if at.amount is not None and not len(enough):
        raise NothingLeft(f"no completed run spent {_amount(amount, at.kind)}; the most is {_most(totals, at.kind)}")
    values = _late_scores(data, rows) if metric is None else late_means(data, metric, rows)
    least = "as much as every completed run spent" if at.amount is None else "as asked"
    remarks = [f"At equal {at.kind}: the rows up to {_amount(amount, at.kind)}, {least}."]
    short = totals.index.difference(enough)
    if len(short):
        remarks.append(f"Left out, as they spent less: {_listed(short)}.")
    if at.kind == "time":
        remarks.append("Runs that trained as one batch share one clock: their times do not tell the arms apart.")
    values = values[values.index.isin(enough)]
    if not values.notna().any():
        measured = metric or data.score_metric or "its score"
        raise NothingLeft(f"no run had logged {measured} by the time it had spent {_amount(amount, at.kind)}")
    direction = better_direction(metric, data.score_metric) if metric else "higher"
    return RunValues(values, metric or data.score_metric or "score", _late_rule(data), remarks, direction)


def _late_scores(data: SweepData, rows: pd.DataFrame) -> pd.Series:
    """Late means of the metric that each run is scored by."""
    metrics = data.runs.dropna(subset=["score_metric"]).groupby("score_metric", sort=False)["name"]
    parts = [late_means(data, metric, rows[rows["name"].isin(names)]) for metric, names in metrics]
    return pd.concat(parts) if parts else pd.Series(dtype=float)


def values_at_target(data: SweepData, metric: str | None, at: Budget | None, target: Target) -> RunValues:
    """The metric, or what was spent, in the first row whose target metric is high enough."""
    rows = data.metrics[["name", target.metric]].copy()
    kind = at.kind if at else "steps"
    rows["value"] = cumulative_cost(data, kind) if metric is None else data.metrics[metric]
    met = rows[rows[target.metric] >= target.value].drop_duplicates("name")
    values = met.set_index("name")["value"]
    completed = data.runs.loc[data.runs["status"] == "completed"]
    never = completed.loc[~completed["name"].isin(values.index), "variant"].value_counts()
    condition = f"{target.metric} ≥ {target.value:g}"
    if not completed["name"].isin(values.dropna().index).any():
        highest = rows.loc[rows["name"].isin(completed["name"]), target.metric].max()
        reached = f"the highest is {highest:.3g}" if np.isfinite(highest) else "none has logged it"
        raise NothingLeft(f"no completed run reaches {condition}; {reached}")
    remarks = []
    if len(never):
        listed = ", ".join(f"{data.labels[arm]} {never[arm]}" for arm in data.variants if arm in never)
        remarks.append(f"Left out, as they never reached it (differences are then of the seeds that did): {listed}.")
    direction = better_direction(metric, data.score_metric) if metric else "lower"  # a cost
    return RunValues(values, f"{metric or kind} at {condition}", "taken where this is first so", remarks, direction)


def _amount(amount: float, kind: str) -> str:
    return f"{amount:,.6g} {UNITS.get(kind, kind)}"


def _most(totals: pd.Series, kind: str) -> str:
    return _amount(float(totals.max()), kind) if totals.notna().any() else "not on record"


def _listed(names: pd.Index) -> str:
    return ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")
