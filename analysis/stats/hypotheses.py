"""From a study's expectations to hypotheses: one for each stratum that an expectation leaves open.

Costs nothing to import: a sweep is checked by it before its first run.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from rlexp.analysis.data.errors import AnalysisError
from rlexp.analysis.data.metric_spec import MetricSpec, contradiction, parse_metric_spec, with_defaults
from rlexp.analysis.data.variants import is_variant, resolve_variant
from rlexp.runfolder.variants import DEFAULT, parse_override, split_overrides

TESTED = ("higher", "lower", "equal")  # that a p is asked for
LEVELS = ("below", "above")
INVALID = (AnalysisError, KeyError, TypeError, ValueError, AttributeError)


class Side(NamedTuple):
    """One side of a difference: an arm in a stratum; "" if there is one stratum."""

    arm: str
    stratum: str


class Hypothesis(NamedTuple):
    """An expectation in one stratum."""

    expectation: Mapping[str, Any]
    spec: MetricSpec
    """The number of each run that it is about."""
    sides: tuple[Side, ...]
    """The variant, what it is compared with, and the two whose difference is taken from theirs."""
    names: tuple[str, ...]
    """Names of the sides, with their stratum."""

    @property
    def direction(self) -> str:
        """`higher`, …"""
        return str(self.expectation["direction"])

    @property
    def stratum(self) -> str:
        """The stratum of all sides; "" if there is one stratum, or if they are in different ones."""
        strata = {side.stratum for side in self.sides}
        return strata.pop() if len(strata) == 1 else ""


def difference_key(spec: MetricSpec, sides: Sequence[Side]) -> object:
    """Identify a difference: the same key whichever variant is first, and for whatever is the same difference."""
    first, *others = sides
    pairs = ((first, *others[2:]), tuple(others[:2])) if len(others) == 3 else ((first,), tuple(others))
    return spec, frozenset(map(frozenset, pairs))


class StudySpec(NamedTuple):
    """A study as it was written, with the arms and strata of a sweep."""

    written: Mapping[str, Any]
    labels: Mapping[str, str]
    """Of the arms."""
    strata: Sequence[str]
    score_metric: str | None = None

    @property
    def own_spec(self) -> MetricSpec:
        """The number of each run that the tables compare."""
        return self._without_score_metric(with_defaults(parse_metric_spec(self.written), MetricSpec()))

    def _without_score_metric(self, spec: MetricSpec) -> MetricSpec:
        is_score = spec.metric == self.score_metric and not spec.matched
        return spec._replace(metric=None) if is_score else spec

    def spec(self, expectation: Mapping[str, Any]) -> MetricSpec:
        """The number that an expectation is about; AnalysisError if it contradicts itself.

        Without a metric a target is matched for the study's; for its cost, if it is itself a target of that metric, if
        a budget says in which unit, or if the study asks for a cost.
        """
        own, given = parse_metric_spec(self.written), parse_metric_spec(expectation)
        metric = own.metric or ("" if own.matched else self.score_metric or "")
        spec = given
        if spec.matched and not spec.metric and not spec.at and spec.matched.metric not in metric:
            spec = spec._replace(metric=metric or None)
        spec = self._without_score_metric(with_defaults(spec, own))
        if problem := contradiction(spec) or contradiction(given):
            raise AnalysisError(problem)
        return spec

    def minimum_effect(self, expectation: Mapping[str, Any]) -> float:
        """An expectation's own, else the study's, else 0; in the unit of whatever number the expectation is of."""
        both = expectation.get("minimum_effect"), self.written.get("minimum_effect")
        return float(next((each for each in both if each is not None), 0.0))

    def hypotheses(self, expectation: Mapping[str, Any]) -> list[Hypothesis]:
        """One for each stratum that the expectation's names leave open; AnalysisError for what means nothing.

        What one of the names leaves open is as in the first of them that says it.
        """
        spec = self.spec(expectation)
        names = variants_of(expectation, self.written.get("baseline"))
        parts = [self._split(name) for name in names]
        said: dict[str, str] = {}
        for _, own in parts:
            said = own | said
        hypotheses = []
        for stratum in self.strata:
            values = overrides_of(stratum)
            if not said.items() <= values.items():
                continue
            sides = tuple(self._side(arm, values | own) for arm, own in parts)
            texts = []
            for name, (_, own) in zip(names, parts, strict=True):  # as written, and the stratum as far as not said
                missing = _joined({axis: value for axis, value in values.items() if axis not in own})
                written = "" if name == DEFAULT and missing else name
                texts.append(",".join(filter(None, (written, missing))))
            hypotheses.append(Hypothesis(expectation, spec, sides, tuple(texts)))
        several = any(len({side.stratum for side in each.sides}) > 1 for each in hypotheses)
        if several and expectation["direction"] == "identical":
            raise AnalysisError("runs of two strata are not the same")
        if not hypotheses:
            raise AnalysisError(f"no stratum has {_joined(said)}; there are {'  '.join(self.strata)}")
        return hypotheses

    def all_hypotheses(self) -> Iterator[Hypothesis]:
        """Those of all expectations that mean something."""
        for expectation in self.written.get("expect") or []:
            try:
                yield from self.hypotheses(expectation)
            except INVALID:
                continue

    def names_arm(self, name: str) -> bool:
        """Whether a name means an arm, in a stratum that there is if it says one."""
        arm, own = self._split(name)
        known = any(own.items() <= overrides_of(stratum).items() for stratum in self.strata)
        return known and is_variant(arm, self.labels)

    def arm_of(self, name: str) -> str | None:
        """The arm that a name means, in whichever stratum; None if it means none."""
        arm, _ = self._split(name)
        return resolve_variant(arm, self.labels) if is_variant(arm, self.labels) else None

    def _split(self, name: str) -> tuple[str, dict[str, str]]:
        """Split a name into the part that means an arm, and what it says of the stratum."""
        axes = overrides_of(self.strata[0])
        parts = split_overrides(name)
        own = {axis: value for axis, value in map(parse_override, parts) if axis in axes}
        return ",".join(part for part in parts if parse_override(part)[0] not in axes) or DEFAULT, own

    def _side(self, arm: str, values: Mapping[str, str]) -> Side:
        stratum = _joined(values)
        if stratum not in self.strata:
            raise AnalysisError(f"'{stratum}' is no stratum; choose one of: {'  '.join(self.strata)}")
        return Side(resolve_variant(arm, self.labels), stratum)


def variants_of(expectation: Mapping[str, Any], baseline: str | None) -> list[str]:
    """The variant, what it is compared with, and the two of another difference."""
    names = [str(expectation["variant"])]
    if expectation["direction"] not in LEVELS:
        versus = expectation.get("versus") or baseline
        if versus is None:
            raise AnalysisError("it names no variant to compare with, and there is no baseline")
        names.append(str(versus))
        if less := expectation.get("less"):
            names += [str(less["variant"]), str(less["versus"])]
    return names


def further_tests(study: StudySpec, baseline: str | None) -> dict[object, Hypothesis]:
    """The tests that are not in the tables, which compare each arm with the baseline, by their keys."""
    tests = {difference_key(each.spec, each.sides): each for each in study.all_hypotheses() if each.direction in TESTED}
    table = {
        difference_key(study.own_spec, (Side(arm, stratum), Side(baseline, stratum)))
        for stratum in study.strata
        for arm in study.labels
        if baseline is not None
    }
    return {key: hypothesis for key, hypothesis in tests.items() if key not in table}


def overrides_of(stratum: str) -> dict[str, str]:
    """`start.accuracy=0.2,task=sort` by its axes."""
    return dict(map(parse_override, split_overrides(stratum)))


def _joined(values: Mapping[str, str]) -> str:
    return ",".join(f"{axis}={value}" for axis, value in values.items())
