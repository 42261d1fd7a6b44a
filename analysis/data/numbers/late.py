"""Numbers of runs, and the plainest of them: the mean of a metric over a run's last evaluations."""

from collections.abc import Sequence
from typing import NamedTuple

import pandas as pd

from rlexp.analysis.data.direction import Direction
from rlexp.analysis.data.errors import AnalysisError
from rlexp.analysis.data.load import SweepData
from rlexp.analysis.data.numbers.metric_spec import OF_WHOLE_RUNS
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


def logged_metrics(data: SweepData) -> list[str]:
    """The metrics that some run logged."""
    return [column for column in data.metrics.columns if column not in IDENTITY]


def resolve_metric(data: SweepData, name: str) -> str:
    """The metric that a name means: itself; the score's metric if the name is part of it; else the only one it fits.

    So `accuracy` is `eval/greedy_accuracy` where that is the score.
    """
    names = logged_metrics(data)
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
    """Describe `late_means` in words."""
    return f"mean over the last {100 * data.score_share:g} % of its evaluations"


def late_means(data: SweepData, metric: str, rows: pd.DataFrame | None = None) -> pd.Series:
    """Mean per run over the last ⌈share · n⌉ (at least 1) of the n rows where the metric is present, as scores are."""
    metric = resolve_metric(data, metric)
    rows = data.metrics if rows is None else rows
    present = rows[["name", metric]].dropna()
    groups = present.groupby("name", sort=False)[metric]
    counts = {name: late_count(n, data.score_share) for name, n in groups.size().items()}
    late = groups.cumcount(ascending=False) < present["name"].map(counts)
    return present[late].groupby("name")[metric].mean()
