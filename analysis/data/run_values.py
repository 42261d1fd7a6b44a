"""One number per run: its stored score, another metric's late mean, either at equal budgets, a cost, a fit, a rate."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from rlexp.analysis.data import metric_spec
from rlexp.analysis.data.errors import AnalysisError, NothingLeft
from rlexp.analysis.data.load import SweepData
from rlexp.analysis.data.metric_spec import OF_WHOLE_RUNS, Budget, Direction, MetricSpec, Target
from rlexp.analysis.data.read import read_config
from rlexp.runfolder.rows import late_count

IDENTITY = ("name", "variant", "seed", "step")


class RunValues(NamedTuple):
    """A number per run."""

    values: pd.Series
    """Indexed by the runs' names; NaN, or no row, where a run has none."""
    metric: str
    aggregation: str
    """Its computation from a run's rows, in words."""
    remarks: Sequence[str] = ()
    """Further notes for the reader."""
    better: Direction = None
    """The better end of the metric; None where neither is."""
    ranked: bool = False
    """Whether a number may be infinite, as the cost of what a run never reaches: differences are then ranked."""
    statuses: Sequence[str] = ("completed",)
    """The statuses of runs that have a number."""
    is_score: bool = False
    """Whether they are the scores in the runs' summaries, which have a floor."""


def resolve_metric(data: SweepData, name: str) -> str:
    """The metric that a name means: itself; the score's metric if the name is part of it; else the only one it fits.

    So `accuracy` is `eval/greedy_accuracy` where that is the score.
    """
    names = [column for column in data.metrics.columns if column not in IDENTITY]
    if name in names or name in OF_WHOLE_RUNS:
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


def late_rule(data: SweepData) -> str:
    return data.origin.rule if data.origin else f"mean over the last {100 * data.score_share:g} % of its evaluations"


def late_means(data: SweepData, metric: str, rows: pd.DataFrame | None = None) -> pd.Series:
    """Mean per run over the last ⌈share · n⌉ (at least 1) of the n rows where the metric is present, as scores are."""
    metric = resolve_metric(data, metric)
    rows = data.metrics if rows is None else rows
    present = rows[["name", metric]].dropna()
    groups = present.groupby("name", sort=False)[metric]
    counts = {name: late_count(n, data.score_share) for name, n in groups.size().items()}
    late = groups.cumcount(ascending=False) < present["name"].map(counts).astype(float)  # of no row: not text
    return present[late].groupby("name")[metric].mean()


def cumulative_cost(data: SweepData, kind: str) -> pd.Series:
    """Cumulative cost of a run at each row, in the unit of a budget; NaN where it does not say."""
    column = metric_spec.BUDGETS[kind]
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
    if metric:
        values = late_means(data, metric, rows)
    else:  # of the metric that each run is scored by
        metrics = data.runs.dropna(subset=["score_metric"]).groupby("score_metric", sort=False)["name"]
        parts = [late_means(data, each, rows[rows["name"].isin(names)]) for each, names in metrics]
        values = pd.concat(parts) if parts else pd.Series(dtype=float)
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
    direction = data.better(str(metric or data.score_metric)) if metric or data.origin else "higher"
    return RunValues(values, metric or data.score_metric or "score", late_rule(data), remarks, direction)


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
        return RunValues(values, *taken, [said] if listed else [], data.better(metric))
    values = pd.concat([values, pd.Series(np.inf, never["name"], dtype=float)])
    said = f"Never reached it, and count as worse than any that did: {listed}."
    return RunValues(values, *taken, [said] if listed else [], "lower", ranked=True)


def _amount(amount: float, kind: str) -> str:
    return f"{amount:,.6g} {'s' if kind == 'time' else kind}"


Array = np.ndarray

FEWEST = 6  # evaluations: twice as many as the curve has parameters
FEWEST_DONE = 2 / 3  # of the rise, by the last evaluation: beyond that an asymptote is a guess
LEAST_RISE = 3.0  # standard deviations of the residuals
GRID, ROUNDS = 61, 3
FASTEST = 0.2  # of the first distance between evaluations: a half-life below it looks like a jump
REASONS = ("too few evaluations", "no rise", "too far from its asymptote")


class Fit(NamedTuple):
    """A curve, or why there is none."""

    start: float = np.nan
    asymptote: float = np.nan
    half: float = np.nan
    """Steps until half of the rise is done; NaN if it was by the second evaluation."""
    missing: str = ""
    """One of `REASONS`, if start, asymptote and half are not known."""


def saturation(steps: Array, values: Array, sign: int = 0) -> Fit:
    """The saturating curve through `values [n]` at `steps [n]`: where it ends, and how fast it gets there.

        y(t) = start + (asymptote − start) · (1 − exp(−t / τ))

    Half of the rise is done after τ · ln 2 steps. For each τ of a grid start and asymptote are those of least squares;
    the best τ is then refined between its neighbours (variable projection: Golub and Pereyra 1973).

    sign: whether it must rise (1) or fall (-1) to be one; 0 for either.
    """
    known = np.isfinite(values)
    steps, values = np.asarray(steps, dtype=float)[known], np.asarray(values, dtype=float)[known]
    if values.size < FEWEST:
        return Fit(missing=REASONS[0])
    span, gap = steps[-1] - steps[0], np.diff(steps).min()
    times = steps - steps[0]
    slowest, fastest = 10 * span, FASTEST * gap / np.log(2)
    low, high = fastest, slowest
    for _ in range(ROUNDS):  # each time closer around the best
        taus = np.geomspace(low, high, GRID)
        best = int(_lines(times, values, taus)[2].argmin())
        low, high = taus[max(best - 1, 0)], taus[min(best + 1, GRID - 1)]
    tau = float(taus[best])
    start, rise, error = (float(each[0]) for each in _lines(times, values, np.array([tau])))
    done = 1 - np.exp(-span / tau)
    if abs(rise) * done <= LEAST_RISE * error or (sign and np.sign(rise) != sign):
        return Fit(missing=REASONS[1])
    if done < FEWEST_DONE:
        return Fit(missing=REASONS[2])
    jumped = tau <= fastest * 1.001
    return Fit(start, start + rise, np.nan if jumped else tau * np.log(2))


def _lines(times: Array, values: Array, taus: Array) -> tuple[Array, Array, Array]:
    """Start, rise and the residuals' standard deviation, of least squares at each τ `[m]`."""
    done = -np.expm1(-times / taus[:, None])
    centered = done - done.mean(-1, keepdims=True)
    spread = (centered**2).sum(-1)
    rise = np.divide(centered @ values, spread, out=np.zeros_like(spread), where=spread > 0)
    start = values.mean() - rise * done.mean(-1)
    residuals = values - start[:, None] - rise[:, None] * done
    return start, rise, np.sqrt((residuals**2).sum(-1) / (values.size - 3))


ENDED = ("completed", "failed", "diverged")


def fitted_values(data: SweepData, metric: str) -> RunValues:
    """Asymptote or speed of each completed run's curve; NaN, and a remark, where the curve does not tell.

    Speed is −log₂ of the steps to half of the rise: a difference of 1 is twice as fast, from wherever one starts.
    """
    named = data.study.get("metric")  # the study's metric, or that of the score
    fitted = resolve_metric(data, data.score_metric or "score" if named in (None, *OF_WHOLE_RUNS) else str(named))
    better = data.better(fitted)
    completed = data.runs.loc[data.runs["status"] == "completed", "name"]
    rows = data.metrics.loc[data.metrics["name"].isin(completed), ["name", "step", fitted]].dropna()
    curves = {name: group.sort_values("step") for name, group in rows.groupby("name", sort=False)}
    fits = {}
    for name in completed:
        curve = curves.get(name, rows.iloc[:0])
        sign = metric_spec.direction_sign(better) if better else 0
        fits[name] = saturation(curve["step"].to_numpy(), curve[fitted].to_numpy(), sign)
    if metric == metric_spec.ASYMPTOTE:
        numbers, how = {name: fit.asymptote for name, fit in fits.items()}, "where the curve ends"
    else:
        numbers = {name: -np.log2(fit.half) for name, fit in fits.items()}
        how, better = "−log₂ of the steps to half of its rise (a difference of 1 is twice as fast)", "higher"
    values = pd.Series(numbers, dtype=float)
    if not values.notna().any():
        raise NothingLeft(f"no curve of {fitted} can be fitted{_reasons(fits, values)}")
    remarks = []
    if missing := int(values.isna().sum()):
        remarks.append(f"Left out of {metric}: {missing} of {len(values)} runs{_reasons(fits, values)}.")
    how = f"{how}, of a saturating exponential through the run's {fitted}"
    return RunValues(values, metric, how, remarks, better)


def _reasons(fits: dict[str, Fit], values: pd.Series) -> str:
    """`: 3 no rise, 1 too few evaluations`; of a fit without a speed, that it had risen at once."""
    counts = Counter(fits[name].missing or "risen by the second evaluation" for name in values.index[values.isna()])
    return f": {', '.join(f'{count} {reason}' for reason, count in counts.items())}" if counts else ""


def rate_values(data: SweepData, metric: str) -> RunValues:
    """1 for a run that collapsed (or diverged), 0 for one that did not. A run that diverged counts, and has collapsed.

    Collapsed is what a summary calls so: below the floor of its score. Of a run that failed otherwise neither is known.
    """
    ended = data.runs[data.runs["status"].isin(ENDED)]
    diverged = (ended["status"] == "diverged").astype(float).where(ended["status"] != "failed")
    collapsed = ended["collapsed"].astype("Float64").astype(float).where(diverged != 1.0, 1.0)
    numbers = diverged if metric == "diverged" else collapsed
    values = pd.Series(numbers.to_numpy(dtype=float), ended["name"])
    if not values.notna().any():
        raise NothingLeft(f"no run says whether it {metric}")
    remarks = []
    if unknown := int(values.isna().sum()):
        why = "as they failed otherwise or do not say"
        remarks.append(f"Left out of {metric}, {why}: {unknown} of {len(values)} runs.")
    how = f"1 for a run that {metric}, 0 for one that did not"
    return RunValues(values, metric, how, remarks, "lower", statuses=ENDED)


def values_per_run(
    data: SweepData, metric: str | None = None, at: Budget | None = None, matched: Target | None = None
) -> RunValues:
    """The number of each run. Without any choice it is the score in its summary.

    metric: the mean over the same last share of the rows where it is present as scores have; or of `OF_WHOLE_RUNS`.
    at: the same, of the rows up to an equal budget. With `matched` and no metric: what the target costs, in this unit.
    matched: the metric in the row where the target is first met.
    A budget that no completed run spent, or a target that none met: NothingLeft.
    """
    metric = resolve_metric(data, metric) if metric else None
    if problem := metric_spec.contradiction(MetricSpec(metric, at, matched)):
        raise AnalysisError(problem)
    if metric in metric_spec.CURVES:
        return fitted_values(data, metric)
    if metric in metric_spec.RATES:
        return rate_values(data, metric)
    if matched:
        return values_at_target(data, metric, at, matched._replace(metric=resolve_metric(data, matched.metric)))
    if at:
        return values_at_budget(data, metric, at)
    if metric and metric != data.score_metric:
        return RunValues(late_means(data, metric), metric, late_rule(data), better=data.better(metric))
    scores = data.runs.set_index("name")["score"]
    better = data.better(str(data.score_metric)) if data.origin else "higher"  # a score has a floor
    return RunValues(scores, data.score_metric or "score", late_rule(data), better=better, is_score=True)
