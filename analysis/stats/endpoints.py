"""Endpoints: the one number of a run's learning curve that a comparison is about, declared before the runs.

    final                                     late mean, as the score has it
    final:completions, final:tokens=5000      mean height of the last tenth before a budget
    auc, auc:completions, auc:tokens=5000     mean height of the curve up to a budget
    cost:eval/greedy_accuracy>=0.8:completions  what the target costs; a run that never arrives counts with the budget
    asymptote, asymptote:sigmoid:tokens       where a fitted curve ends
    speed, speed:sigmoid                      −log₂ of what half of its rise costs
    matched:kl/ref_k3=0.5                     the value where another metric gets there

Budgets are `UNITS`. `endpoint_values` applies an endpoint to every run of a sweep.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from rlexp.analysis.data.errors import AnalysisError, NothingLeft
from rlexp.analysis.data.load import SweepData
from rlexp.analysis.data.metric_spec import OF_WHOLE_RUNS, direction_sign
from rlexp.analysis.data.run_values import RunValues, cumulative_cost, resolve_metric, values_per_run
from rlexp.analysis.stats.curve_fits import FORMS, check_forecast, fit_curve, pool_forecasts
from rlexp.analysis.stats.curve_numbers import Array, area_under_curve, cost_to_target, known, value_at_match

UNITS = {"steps": "steps", "updates": "updates", "completions": "rollouts", "tokens": "tokens"}
UNITS |= {"verdicts": "verdicts", "seconds": "time"}
"""Budgets of an endpoint, and what `--at` calls them."""
KINDS = ("final", "auc", "cost", "asymptote", "speed", "matched")
TO_A_BUDGET = ("final", "auc", "cost")
ALLOWED = (
    "final[:BUDGET]  auc[:BUDGET]  cost:METRIC>=VALUE[:BUDGET]  asymptote[:FORM][:BUDGET]  speed[:FORM][:BUDGET]  "
    f"matched:METRIC=VALUE, with FORM {' or '.join(FORMS)} and BUDGET {', '.join(UNITS)} or tokens=5000"
)
ENDPOINT_HELP = "of a run's curve: auc:completions, cost:METRIC>=VALUE:completions, … (docs/questions.md)"


class Endpoint(NamedTuple):
    """What is compared of a run. `parse_endpoint` reads it, `str` writes it."""

    kind: str = "final"
    """One of `KINDS`."""
    unit: str = "steps"
    """Of the horizontal axis, one of `UNITS`."""
    budget: float | None = None
    """Up to where on it; as far as all completed runs have come unless given."""
    metric: str | None = None
    """Of the target (`cost`), or of what is matched."""
    value: float | None = None
    """How high it has to be (`cost`), or where it is matched."""
    below: bool = False
    """Whether a target is met from above, as `kl<=0.1`."""
    form: str = "exponential"
    """Of the fitted curve, one of `FORMS`."""

    def __str__(self) -> str:
        """As `parse_endpoint` takes it, without what is understood."""
        parts = [self.kind]
        if self.metric is not None:
            sign = "=" if self.kind == "matched" else "<=" if self.below else ">="
            parts.append(f"{self.metric}{sign}{_shortest(self.value)}")
        if self.form != FORMS[0]:
            parts.append(self.form)
        if self.budget is not None:
            parts.append(f"{self.unit}={_shortest(self.budget)}")
        elif self.unit != "steps":
            parts.append(self.unit)
        return ":".join(parts)

    def label(self, metric: str) -> str:
        """In words: `completions to eval/exact/accuracy ≥ 0.5`; of all but costs the metric, as it is."""
        if self.kind != "cost":
            return metric
        return f"{self.unit} to {self.metric} {'≤' if self.below else '≥'} {_shortest(self.value)}"


def parse_endpoint(text: str) -> Endpoint:
    """Read an endpoint as a command line has it; `ALLOWED` is the grammar.

    Raises:
        AnalysisError: it is none, in one line that lists what is allowed.
    """
    kind, *parts = text.strip().split(":")
    asks, takes_form = kind in ("cost", "matched"), kind in ("asymptote", "speed")
    found = Endpoint(kind)
    target = re.fullmatch(r"(.+?)(>=|<=|=)([^<>=]+)", parts[0]) if asks and parts else None
    if target and (target[2] == "=") == (kind == "matched"):
        value = float(pd.to_numeric(target[3], errors="coerce"))
        found = found._replace(metric=target[1], value=value, below=target[2] == "<=")
        parts = parts[1:]
    if takes_form and parts and parts[0] in FORMS:
        found = found._replace(form=parts[0])
        parts = parts[1:]
    if parts and kind != "matched":
        unit, equals, amount = parts[0].partition("=")
        if unit in UNITS and not (equals and takes_form):  # a curve is fitted to all that a run has
            budget = float(pd.to_numeric(amount, errors="coerce")) if equals else None
            found = found._replace(unit=unit, budget=budget)
            parts = parts[1:]
    numbers = [each for each in (found.value, found.budget) if each is not None]
    wrong = kind not in KINDS or parts or (asks and found.metric is None)
    if wrong or not np.isfinite(numbers).all() or (found.budget is not None and found.budget <= 0):
        raise AnalysisError(f"'{text}' is no endpoint; allowed: {ALLOWED}")
    return found


def _shortest(value: float) -> str:
    """The number with all its digits, and no more."""
    return repr(float(value)).removesuffix(".0")


NEVER, SHORT, NOTHING, DOUBTED = "never reached", "spent less than the budget", "no evaluations", "not to be believed"
STATUSES = {"cost": ("completed", "diverged")}
"""Of the runs that have an endpoint; a run that diverged never arrives. All others: completed."""


def endpoint_table(data: SweepData, endpoint: Endpoint, metric: str | None = None) -> pd.DataFrame:
    """The endpoint of each run that can have one.

    Args:
        data: Of a sweep, read with all metrics that are named.
        endpoint: As declared.
        metric: Whose curve it is; that of the score unless named. Costs and matched quantities name their own.

    Returns:
        By the runs' names: variant, seed, value, and a note: why the value is missing, that it is the budget (`never
        reached`, of a cost), or that the fits of this arm foretold the second halves of their curves worse than the
        last value carried forward (`not to be believed`: `pool_forecasts`). attrs: `budget`, in the endpoint's unit,
        where it has one.

    Raises:
        AnalysisError: a metric that no run logged, or that fits several. NothingLeft: no run has come so far.
    """
    runs = data.runs[data.runs["status"].isin(STATUSES.get(endpoint.kind, ("completed",)))].set_index("name")
    table = runs[["variant", "seed"]].copy()
    if endpoint == Endpoint():
        table["value"] = values_per_run(data, metric).values.reindex(table.index).astype(float)
        return table.assign(note=np.where(table["value"].isna(), NOTHING, ""))
    wanted = endpoint.metric if endpoint.kind == "cost" else metric or data.score_metric or "score"
    names = [resolve_metric(data, name) for name in (wanted, *[endpoint.metric] * (endpoint.kind == "matched"))]
    if whole := [name for name in names if name in OF_WHOLE_RUNS]:
        raise AnalysisError(f"{whole[0]} is of a whole run: it has no curve, and so no {endpoint.kind}")
    columns = pd.DataFrame({"x": cumulative_cost(data, UNITS[endpoint.unit]).to_numpy(), "name": data.metrics["name"]})
    columns = columns.assign(**{f"y{place}": data.metrics[name] for place, name in enumerate(names)})
    columns = columns[np.isfinite(columns["x"]) & columns["name"].isin(table.index)]
    groups = {name: group.drop(columns="name").to_numpy(float).T for name, group in columns.groupby("name", sort=False)}
    curves = {name: groups.get(name, np.empty((1 + len(names), 0))) for name in table.index}
    lasts = {name: known(*curves[name][:2])[0] for name in table.index}
    ends = pd.Series({name: x[-1] if x.size else np.nan for name, x in lasts.items()}, dtype=float)
    ends = ends[(runs["status"] == "completed").reindex(ends.index)]
    if not ends.notna().any():
        raise NothingLeft(f"no completed run has logged {names[0]} and its {endpoint.unit}")
    budget = endpoint.budget or float(ends.min())
    if endpoint.kind in TO_A_BUDGET and not (ends >= budget).any():
        raise NothingLeft(f"no completed run has come to {budget:,.6g} {endpoint.unit}; the most is {ends.max():,.6g}")
    measure = _measure(data, endpoint, names, curves, budget)
    completed = (runs["status"] == "completed").to_dict()
    found = {
        name: measure(curve, completed[name]) if lasts[name].size else (np.nan, NOTHING)
        for name, curve in curves.items()
    }
    values, notes = zip(*(found[name] for name in table.index), strict=True)
    table = table.assign(value=np.array(values, dtype=float), note=np.array(notes, dtype=object))
    if endpoint.kind in ("asymptote", "speed"):
        better = data.better(names[0])
        sign = direction_sign(better) if better else 0
        for _, group in table[table["value"].notna()].groupby("variant", sort=False):
            checks = [
                check_forecast(*curves[name], endpoint.form, late=data.score_share, sign=sign) for name in group.index
            ]
            if not pool_forecasts(checks).believed:
                table.loc[group.index, "note"] = DOUBTED
    if endpoint.kind in TO_A_BUDGET:
        table.attrs["budget"] = budget
    return table


Measure = Callable[[Array, bool], tuple[float, str]]


def _measure(
    data: SweepData, endpoint: Endpoint, names: Sequence[str], curves: Mapping[str, Array], budget: float
) -> Measure:
    """How the curve `[2 or 3, n]` of one run becomes its value and note, given whether it completed."""
    share = data.score_share
    better = data.better(names[0])
    sign = direction_sign(better) if better else 0

    def auc(curve: Array, completed: bool) -> tuple[float, str]:
        area = area_under_curve(*curve[:2], budget, start)
        return area, SHORT if np.isnan(area) else ""

    def final(curve: Array, completed: bool) -> tuple[float, str]:
        height = area_under_curve(*curve[:2], budget, (1 - share) * budget)
        return height, SHORT if np.isnan(height) else ""

    def cost(curve: Array, completed: bool) -> tuple[float, str]:
        found = cost_to_target(*curve[:2], endpoint.value, budget, endpoint.below, share)
        if found.arrived:
            return found.cost, ""
        if completed and known(*curve[:2])[0][-1] < budget:
            return np.nan, SHORT
        return budget, NEVER

    def fit(curve: Array, completed: bool) -> tuple[float, str]:
        found = fit_curve(*curve[:2], endpoint.form, sign)
        if found.missing or (endpoint.kind == "speed" and np.isnan(found.half)):
            return np.nan, found.missing or "risen by the second evaluation"
        value = found.asymptote if endpoint.kind == "asymptote" else -np.log2(found.half)
        return value, ""

    def matched(curve: Array, completed: bool) -> tuple[float, str]:
        value = value_at_match(curve[0], curve[2], curve[1], endpoint.value, falling)
        return value, NEVER if np.isnan(value) else ""

    firsts = [known(curve[0], curve[-1]) for curve in curves.values()]
    firsts = [(x[0], y[0]) for x, y in firsts if x.size]
    start, first = max(x for x, _ in firsts), float(np.median([y for _, y in firsts]))
    falling = endpoint.kind == "matched" and first > endpoint.value  # one direction for all runs
    kinds = {"final": final, "auc": auc, "cost": cost, "asymptote": fit, "speed": fit, "matched": matched}
    return kinds[endpoint.kind]


def endpoint_values(data: SweepData, endpoint: Endpoint, metric: str | None = None) -> RunValues:
    """The endpoint of each run by its name, with remarks on who has none, as `compare(run_values=…)` takes it.

    A cost is restricted to the budget, so it is finite and not ranked. Arguments and errors: `endpoint_table`.
    """
    if endpoint == Endpoint():
        return values_per_run(data, metric)
    table = endpoint_table(data, endpoint, metric)
    if not table["value"].notna().any():
        reasons = ", ".join(f"{count} {note}" for note, count in table["note"].value_counts().items())
        raise NothingLeft(f"no run has {endpoint}: {reasons}")
    wanted = endpoint.metric if endpoint.kind == "cost" else metric or data.score_metric or "score"
    of = resolve_metric(data, wanted)
    better = data.better(of)
    if table["note"].eq(NEVER).all():
        raise NothingLeft(f"no run arrives at {endpoint} within {table.attrs['budget']:,.6g} {endpoint.unit}")
    remarks = []
    if "budget" in table.attrs:
        least = "as declared" if endpoint.budget else "as far as every completed run has come"
        remarks.append(f"Up to {table.attrs['budget']:,.6g} {endpoint.unit}, {least}.")
    if endpoint.kind == "cost":
        remarks.append(_arrivals(data, table))
    rest = table[table["note"].ne("") & ~((endpoint.kind == "cost") & table["note"].eq(NEVER))]
    for note, group in rest.groupby("note", sort=True):
        told = "Kept" if note == DOUBTED else "Without a value"
        remarks.append(f"{told} ({note}): {_counted(data, group)}.")
    if endpoint.unit == "seconds":
        remarks.append("Runs that trained as one batch share one clock: their times do not tell the arms apart.")
    match endpoint.kind:
        case "final":
            how = f"mean height of its curve over the last {data.score_share:.0%} of the budget, by trapezoids"
        case "auc":
            how = f"mean height of its curve over {endpoint.unit}, by trapezoids"
        case "cost":
            how = f"{endpoint.unit} where its isotonic regression gets there, at most the budget"
            better = "lower"
        case "matched":
            how = f"where {resolve_metric(data, endpoint.metric)} passes {endpoint.value:g}, interpolated"
        case "asymptote":
            how = f"where the {endpoint.form} through its curve over {endpoint.unit} ends"
        case _:
            how = f"−log₂ of the {endpoint.unit} to half of the rise of the {endpoint.form} through its curve"
            better = "higher"
    statuses = STATUSES.get(endpoint.kind, ("completed",))
    return RunValues(table["value"], _title(endpoint, of), how, remarks, better, statuses=statuses)


def missing_values(data: SweepData, endpoint: Endpoint, metric: str | None = None) -> RunValues:
    """Return an endpoint that no run has, under the name that it has elsewhere."""
    of = resolve_metric(data, metric or data.score_metric or "score")
    return RunValues(pd.Series(dtype=float), _title(endpoint, of), "no run has it", better=data.better(of))


def _title(endpoint: Endpoint, metric: str) -> str:
    return f"{endpoint}" if endpoint.kind == "cost" else f"{metric}, {endpoint}"


def _arrivals(data: SweepData, table: pd.DataFrame) -> str:
    """`Arrived: local 8/10, hybrid 10/10. …`, of the runs that have a cost."""
    known_runs = table[table["value"].notna()]
    arrived = known_runs["note"].ne(NEVER).groupby(known_runs["variant"])
    counts = [f"{data.labels[arm]} {arrived.sum()[arm]}/{arrived.size()[arm]}" for arm in arrived.sum().index]
    ordered = sorted(counts, key=lambda text: list(data.labels.values()).index(text.rsplit(" ", 1)[0]))
    text = f"Arrived: {', '.join(ordered)}."
    if known_runs["note"].eq(NEVER).any():
        text += " The others count with the budget, so differences are smaller than those of the costs."
    return text


def _counted(data: SweepData, group: pd.DataFrame) -> str:
    """`local 2, hybrid 1`, in the order of the arms."""
    counts = group["variant"].value_counts()
    return ", ".join(f"{data.labels[arm]} {counts[arm]}" for arm in data.variants if arm in counts)
