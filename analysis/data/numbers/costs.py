"""Numbers of runs at equal budgets, and what it cost them to reach a target."""

import numpy as np
import pandas as pd

from rlexp.analysis.data.direction import better_direction
from rlexp.analysis.data.errors import AnalysisError, NothingLeft
from rlexp.analysis.data.load import SweepData
from rlexp.analysis.data.numbers.late import RunValues, late_means, late_rule
from rlexp.analysis.data.numbers.metric_spec import BUDGETS, Budget, Target
from rlexp.analysis.data.read import read_config

UNITS = {"time": "s"}


def cumulative_cost(data: SweepData, kind: str) -> pd.Series:
    """Cumulative cost of a run at each row, in the unit of a budget; NaN where it does not say."""
    column = BUDGETS[kind]
    if column not in data.metrics:
        raise AnalysisError(f"no run logged '{column}', so nothing can be compared at equal {kind}")
    amounts = data.metrics[column].astype(float)
    if kind != "updates":
        return amounts
    updates_per_step = {}
    for name, folder in zip(data.runs["name"], data.runs["folder"], strict=True):
        config = read_config(folder)
        try:
            updates_per_step[name] = float(config["inner_steps"]) * float(config["minibatches"])
        except (KeyError, TypeError, ValueError):
            updates_per_step[name] = np.nan
    return amounts * data.metrics["name"].map(updates_per_step)


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
        most = _amount(float(totals.max()), at.kind) if totals.notna().any() else "not on record"
        raise NothingLeft(f"no completed run spent {_amount(amount, at.kind)}; the most is {most}")
    values = _late_scores(data, rows) if metric is None else late_means(data, metric, rows)
    least = "as much as every completed run spent" if at.amount is None else "as asked"
    remarks = [f"At equal {at.kind}: the rows up to {_amount(amount, at.kind)}, {least}."]
    short = totals.index.difference(enough)
    if len(short):
        more = f" and {len(short) - 10} more" if len(short) > 10 else ""
        remarks.append(f"Left out, as they spent less: {', '.join(short[:10])}{more}.")
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
    counts = never["variant"].value_counts()  # `local 2, hybrid 1`
    listed = ", ".join(f"{data.labels[arm]} {counts[arm]}" for arm in data.variants if arm in counts)
    taken = f"{metric or kind} at {condition}", "taken where this is first so"
    if metric:
        said = f"Left out, as they never reached it (differences are then of the seeds that did): {listed}."
        return RunValues(values, *taken, [said] if listed else [], better_direction(metric, data.score_metric))
    values = pd.concat([values, pd.Series(np.inf, never["name"], dtype=float)])
    said = f"Never reached it, and count as worse than any that did: {listed}."
    return RunValues(values, *taken, [said] if listed else [], "lower", ranked=True)


def _amount(amount: float, kind: str) -> str:
    return f"{amount:,.6g} {UNITS.get(kind, kind)}"
