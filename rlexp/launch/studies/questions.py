"""Which numbers of its runs a study asks for, and whether they will have them; known before the first run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rlexp.config.checks import evaluated_metrics
from rlexp.config.schema import Config
from rlexp.config.study import Expectation, Study

EVALUATED = ("eval/", "curve/")  # how the metrics begin of which all are known beforehand


def question_problems(key: str, asking: Study | Expectation) -> Iterator[str]:
    """Say what a study, or an expectation, asks for that is no number of a run."""
    from rlexp.analysis.data.errors import AnalysisError
    from rlexp.analysis.data.numbers.metric_spec import (
        MetricSpec,
        contradiction,
        parse_budget,
        parse_option,
        parse_target,
    )

    try:
        at = parse_option(f"{key}.at=", getattr(asking, "at", None), parse_budget)
        matched = parse_option(f"{key}.matched=", getattr(asking, "matched", None), parse_target)
    except AnalysisError as error:
        yield str(error)
        return
    if problem := contradiction(MetricSpec(getattr(asking, "metric", None), at, matched)):
        yield f"{key}: {problem}"


def named_problems(key: str, asking: Study | Expectation, configs: Iterable[Config]) -> Iterator[str]:
    """Say which metric, to compare or to match, some run of these configs will not log, where that can be known.

    Metrics of evaluations are known, and what is computed from them. Any other name must be written in full, as
    policy/entropy. A part of the name of an evaluated metric will do, but for what a study compares.
    """
    from rlexp.analysis.data.numbers.metric_spec import OF_WHOLE_RUNS

    metric, matched = (getattr(asking, name, None) for name in ("metric", "matched"))
    target = matched and matched.rpartition("=")[0]
    for named, name in (("metric", metric), ("matched", target)):
        whole = isinstance(asking, Study) and named == "metric"
        for config in configs if name else ():
            evaluated = [*evaluated_metrics(config), *OF_WHOLE_RUNS]
            if name not in evaluated and (whole or not may_be_logged(name, evaluated)):
                yield f"{key}.{named}={name}: is not evaluated; there are {', '.join(evaluated)}"
                break


def may_be_logged(name: str, evaluated: Sequence[str]) -> bool:
    """Whether a name is part of a metric that is evaluated, or of the kind of which that cannot be known."""
    return any(name in metric for metric in evaluated) or "/" in name and not name.startswith(EVALUATED)
