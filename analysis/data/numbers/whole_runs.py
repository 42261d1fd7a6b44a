"""Numbers of whole runs: where a learning curve ends and how fast it gets there, and whether a run went wrong."""

from collections import Counter

import numpy as np
import pandas as pd

from rlexp.analysis.data.direction import better_direction, direction_sign
from rlexp.analysis.data.errors import NothingLeft
from rlexp.analysis.data.load import SweepData
from rlexp.analysis.data.numbers.curve_fits import Fit, saturation
from rlexp.analysis.data.numbers.late import RunValues, resolve_metric
from rlexp.analysis.data.numbers.metric_spec import ASYMPTOTE, OF_WHOLE_RUNS

ENDED = ("completed", "failed", "diverged")


def curve_metric(data: SweepData) -> str:
    """The metric whose curve is fitted: the study's, or that of the score."""
    named = data.study.get("metric")
    return resolve_metric(data, data.score_metric or "score" if named in (None, *OF_WHOLE_RUNS) else str(named))


def fitted_values(data: SweepData, metric: str) -> RunValues:
    """Asymptote or speed of each completed run's curve; NaN, and a remark, where the curve does not tell.

    Speed is −log₂ of the steps to half of the rise: a difference of 1 is twice as fast, from wherever one starts.
    """
    fitted = curve_metric(data)
    better = better_direction(fitted, data.score_metric)
    completed = data.runs.loc[data.runs["status"] == "completed", "name"]
    rows = data.metrics.loc[data.metrics["name"].isin(completed), ["name", "step", fitted]].dropna()
    curves = {name: group.sort_values("step") for name, group in rows.groupby("name", sort=False)}
    fits = {}
    for name in completed:
        curve = curves.get(name, rows.iloc[:0])
        sign = direction_sign(better) if better else 0
        fits[name] = saturation(curve["step"].to_numpy(), curve[fitted].to_numpy(), sign)
    if metric == ASYMPTOTE:
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
