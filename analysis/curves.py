"""Learning curves as numbers: per variant the pointwise IQM over its completed runs, with a bootstrap band."""

from typing import NamedTuple

import numpy as np

from analysis.comparison import MIN_SEEDS, Comparison
from analysis.load import Data
from analysis.statistics import iqm, iqm_interval

RESAMPLES = 500


class Curve(NamedTuple):
    """One variant's metric over steps; each field `[steps]`. The band is NaN where fewer than MIN_SEEDS runs count."""

    steps: np.ndarray
    iqm: np.ndarray
    low: np.ndarray
    high: np.ndarray


def learning_curves(data: Data, comparison: Comparison) -> dict[str, Curve]:
    """A curve for each variant that has any value of the comparison's metric, in the table's order."""
    metric = comparison.metric
    if metric not in data.metrics:
        return {}
    completed = data.runs.loc[data.runs["status"] == "completed", "name"]
    rows = data.metrics[["name", "variant", "step", metric]].dropna()
    groups = dict(list(rows[rows["name"].isin(completed)].groupby("variant")))
    return {variant: _curve(groups[variant], metric) for variant in comparison.table.index if variant in groups}


def _curve(rows, metric: str) -> Curve:
    runs = rows.pivot(index="step", columns="name", values=metric).sort_index()
    values = runs.to_numpy()
    low, high = iqm_interval(values, resamples=RESAMPLES)
    few = (~np.isnan(values)).sum(-1) < MIN_SEEDS
    return Curve(runs.index.to_numpy(), iqm(values), np.where(few, np.nan, low), np.where(few, np.nan, high))
