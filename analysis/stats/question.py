"""The question about a sweep, its default from the configuration, and the name of its folder."""

import re
from collections.abc import Sequence
from hashlib import sha256
from typing import NamedTuple

from rlexp.analysis.data.load import SweepData
from rlexp.analysis.data.numbers.metric_spec import Budget, MetricSpec, Target, parse_metric_spec, with_defaults

MAX_NAME = 100  # characters of a folder


class Question(NamedTuple):
    """A question about a sweep. Axes are override keys that vary, or "sweep"."""

    metric: str | None = None
    """Another metric than the stored score, or part of its name."""
    baseline: str | None = None
    """With whom the others are compared; as planned, else the first."""
    where: Sequence[str] = ()
    """Conditions on the runs, each `axis=value,value`."""
    by: Sequence[str] | None = None
    """The axes that make the arms; all but those of `within` and `best_of`. Over the others scores are averaged."""
    within: Sequence[str] | None = None
    """The axes whose values are compared apart, then pooled; the task if it varies."""
    at: Budget | None = None
    """Compare at an equal budget."""
    matched: Target | None = None
    """Compare where a metric is first high enough."""
    best_of: Sequence[str] = ()
    """The axes of a grid, such as the learning rate, of which each arm gets its best point."""
    choose_seeds: Sequence[int] | None = None
    """On which seeds the best point is chosen; the others are reported."""

    @property
    def spec(self) -> MetricSpec:
        """The number of each run."""
        return MetricSpec(self.metric, self.at, self.matched)


def own_question(data: SweepData) -> Question:
    """The question of the configuration: that of the study, if there is one, with the planned baseline."""
    study = data.study
    seeds = study.get("choose_seeds")
    within = [axis for axis in study.get("within") or () if axis in data.axes]  # a study of one start has no strata
    return Question(
        **parse_metric_spec(study)._asdict(),
        baseline=data.planned_baseline,
        within=tuple(within) if within else None,
        best_of=tuple(study.get("best_of") or ()),
        choose_seeds=tuple(seeds) if seeds else None,
    )


def as_planned(question: Question, data: SweepData) -> Question:
    """The question with what the study asks wherever it names nothing itself; its baseline is left open.

    A study's metric is not that of a target's cost, and its grid is not that of other arms.
    """
    own = own_question(data)
    question = question._replace(**with_defaults(question.spec, own.spec)._asdict())
    planned: dict[str, object] = {}
    grid = tuple(axis for axis in own.best_of if axis in data.axes)
    if grid and question.by is None and not question.best_of and data.runs["seed"].nunique() > 1:
        planned |= {"best_of": grid, "choose_seeds": own.choose_seeds}
    strata = tuple(axis for axis in own.within or () if axis in data.axes)
    if strata and question.by is None and question.within is None:
        planned |= {"within": strata}
    unnamed = {key: value for key, value in planned.items() if not getattr(question, key)}
    return question._replace(**unnamed)


def is_own(question: Question, data: SweepData) -> bool:
    """Whether a question is the one of the configuration."""
    return not _differing(question, data)


def question_name(question: Question, data: SweepData, **further: str | None) -> str:
    """A folder's name for a question, as `metric=eval_pass@8`; empty for the one that the configuration asks."""
    parts = {key: value for key, value in further.items() if value} | _differing(question, data)
    for key, value in parts.items():
        if isinstance(value, Budget | Target):
            kind, amount = value
            parts[key] = kind if amount is None else f"{kind}={amount:g}"
        elif not isinstance(value, str):
            parts[key] = "+".join(map(str, value)) or "none"
    text = ",".join(f"{key}={value}" for key, value in parts.items())
    name = re.sub(r"[^\w.=,+@-]+", "_", text)
    return name if len(name) <= MAX_NAME else f"{name[:MAX_NAME]}~{sha256(text.encode()).hexdigest()[:6]}"


def _differing(question: Question, data: SweepData) -> dict[str, object]:
    """The parts of a question that the configuration does not ask."""
    own, given = own_question(data), question._replace(where=tuple(question.where))
    unnamed = {"metric": (own.metric or data.score_metric,)}
    return {
        key: value
        for key, value in given._asdict().items()
        if value not in (Question._field_defaults[key], getattr(own, key), *unnamed.get(key, ()))
    }
