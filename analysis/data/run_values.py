"""One number per run: its stored score, another metric's late mean, either at equal budgets, a cost, a fit, a rate."""

from rlexp.analysis.data.direction import better_direction
from rlexp.analysis.data.errors import AnalysisError
from rlexp.analysis.data.load import SweepData
from rlexp.analysis.data.numbers.costs import values_at_budget, values_at_target
from rlexp.analysis.data.numbers.late import RunValues, late_means, late_rule, logged_metrics, resolve_metric
from rlexp.analysis.data.numbers.metric_spec import BUDGETS, CURVES, RATES, Budget, MetricSpec, Target, contradiction
from rlexp.analysis.data.numbers.whole_runs import fitted_values, rate_values

__all__ = ["BUDGETS", "Budget", "RunValues", "Target", "late_means", "logged_metrics", "resolve_metric"]
__all__ += ["values_per_run"]


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
    if problem := contradiction(MetricSpec(metric, at, matched)):
        raise AnalysisError(problem)
    if metric in CURVES:
        return fitted_values(data, metric)
    if metric in RATES:
        return rate_values(data, metric)
    if matched:
        return values_at_target(data, metric, at, matched._replace(metric=resolve_metric(data, matched.metric)))
    if at:
        return values_at_budget(data, metric, at)
    if metric and metric != data.score_metric:
        return RunValues(late_means(data, metric), metric, late_rule(data), better=better_direction(metric))
    scores = data.runs.set_index("name")["score"]
    return RunValues(scores, data.score_metric or "score", late_rule(data), better="higher", is_score=True)
