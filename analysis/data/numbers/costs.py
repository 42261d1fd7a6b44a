"""Numbers of runs at equal budgets, and what it cost them to reach a target."""

from pathlib import Path

import numpy as np
import pandas as pd

from analysis.data.direction import better_direction
from analysis.data.errors import AnalysisError, NothingLeft
from analysis.data.load import SweepData
from analysis.data.numbers.asked import BUDGETS, Budget, Target
from analysis.data.numbers.late import RunValues, late_means, late_rule
from analysis.data.read import read_yaml

UNITS = {"time": "s"}


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
    return RunValues(values, metric or data.score_metric or "score", late_rule(data), remarks, direction)


def _late_scores(data: SweepData, rows: pd.DataFrame) -> pd.Series:
    """Late means of the metric that each run is scored by."""
    metrics = data.runs.dropna(subset=["score_metric"]).groupby("score_metric", sort=False)["name"]
    parts = [late_means(data, metric, rows[rows["name"].isin(names)]) for metric, names in metrics]
    return pd.concat(parts) if parts else pd.Series(dtype=float)


def values_at_target(data: SweepData, metric: str | None, at: Budget | None, target: Target) -> RunValues:
    """The metric, or what was spent, in the first row whose target metric is high enough.

    What a completed run never reaches costs it infinitely much; a metric is of the runs that reach the target.
    """
    rows = data.metrics[["name", target.metric]].copy()
    kind = at.kind if at else "steps"
    rows["value"] = cumulative_cost(data, kind) if metric is None else data.metrics[metric]
    met = rows[rows[target.metric] >= target.value].drop_duplicates("name")
    values = met.set_index("name")["value"]
    completed = data.runs.loc[data.runs["status"] == "completed"]
    measured = completed["name"].isin(rows.loc[rows[target.metric].notna(), "name"])
    never = completed[measured & ~completed["name"].isin(values.index)]
    condition = f"{target.metric} ≥ {target.value:g}"
    if not completed["name"].isin(values.dropna().index).any():
        highest = rows.loc[rows["name"].isin(completed["name"]), target.metric].max()
        reached = f"the highest is {highest:.3g}" if np.isfinite(highest) else "none has logged it"
        raise NothingLeft(f"no completed run reaches {condition}; {reached}")
    listed = _by_arm(data, never)
    taken = f"{metric or kind} at {condition}", "taken where this is first so"
    if metric:
        said = f"Left out, as they never reached it (differences are then of the seeds that did): {listed}."
        return RunValues(values, *taken, [said] if listed else [], better_direction(metric, data.score_metric))
    values = pd.concat([values, pd.Series(np.inf, never["name"], dtype=float)])
    said = f"Never reached it, and count as worse than any that did: {listed}."
    return RunValues(values, *taken, [said] if listed else [], "lower", ranked=True)


def _by_arm(data: SweepData, runs: pd.DataFrame) -> str:
    """`local 2, hybrid 1`: how many of the runs each arm has."""
    counts = runs["variant"].value_counts()
    return ", ".join(f"{data.labels[arm]} {counts[arm]}" for arm in data.variants if arm in counts)


def _amount(amount: float, kind: str) -> str:
    return f"{amount:,.6g} {UNITS.get(kind, kind)}"


def _most(totals: pd.Series, kind: str) -> str:
    return _amount(float(totals.max()), kind) if totals.notna().any() else "not on record"


def _listed(names: pd.Index) -> str:
    return ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")
