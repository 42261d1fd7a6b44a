"""Which numbers of its runs a study asks for, and whether they will have them; known before the first run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rlexp.config.checks import evaluated_metrics
from rlexp.config.schema import Config

EVALUATED = ("eval/", "curve/")  # how the metrics begin of which all are known beforehand


def question_problems(key: str, asking: Any) -> Iterator[str]:
    """Say what a study, or an expectation, asks for that is no number of a run.

    asking: whatever has some of ``metric``, ``at`` and ``matched``.
    """
    from analysis.data.errors import AnalysisError
    from analysis.data.numbers.asked import Asked, budget_of, contradiction, option, target_of

    try:
        at = option(f"{key}.at=", getattr(asking, "at", None), budget_of)
        matched = option(f"{key}.matched=", getattr(asking, "matched", None), target_of)
    except AnalysisError as error:
        yield str(error)
        return
    if problem := contradiction(Asked(getattr(asking, "metric", None), at, matched)):
        yield f"{key}: {problem}"


def metric_problems(key: str, metric: str, config: Config, evaluated_only: bool = False) -> Iterator[str]:
    """Say that a run of this config will not log a metric, where that can be known.

    It can be of evaluations and of what is computed from them; any other name must be written in full, as
    policy/entropy. A part of the name of an evaluated metric will do in a claim.
    """
    from analysis.data.numbers.asked import OF_WHOLE_RUNS

    evaluated = evaluated_metrics(config)
    partly = not evaluated_only and any(metric in name for name in evaluated)
    elsewhere = not evaluated_only and "/" in metric and not metric.startswith(EVALUATED)
    if metric not in (*evaluated, *OF_WHOLE_RUNS) and not partly and not elsewhere:
        yield f"{key}={metric}: is not evaluated; there are {', '.join([*evaluated, *OF_WHOLE_RUNS])}"
