"""From a study's expectations to claims: one for each stratum that an expectation leaves open.

Costs nothing to import: a sweep is checked by it before its first run.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from analysis.data.errors import AnalysisError
from analysis.data.numbers.asked import Asked, asked_by, completed, contradiction
from analysis.data.variants import DEFAULT, is_variant, parse_override, resolve_variant, split_overrides

TESTED = ("higher", "lower", "equal")  # that a p is asked for
LEVELS = ("below", "above")


class Place(NamedTuple):
    """An arm in a stratum; "" if there is one stratum."""

    arm: str
    stratum: str


class Claim(NamedTuple):
    """An expectation in one stratum."""

    expectation: Mapping[str, Any]
    asked: Asked
    """Which number of each run."""
    places: tuple[Place, ...]
    """Of the variant, of what it is compared with, and of the two whose difference is taken from theirs."""
    names: tuple[str, ...]
    """What the places are called, with their stratum."""

    @property
    def direction(self) -> str:
        """`higher`, …"""
        return str(self.expectation["direction"])

    @property
    def stratum(self) -> str:
        """The stratum of all places; "" if there is one stratum, or if they are in different ones."""
        strata = {place.stratum for place in self.places}
        return strata.pop() if len(strata) == 1 else ""

    @property
    def tested(self) -> object:
        """What names its test: the same whichever variant is first, and of whatever is the same difference."""
        first, *others = self.places
        sides = ((first, *others[2:]), tuple(others[:2])) if len(others) == 3 else ((first,), tuple(others))
        return self.asked, frozenset(map(frozenset, sides))


class Study(NamedTuple):
    """What claims are made of: a study as it was written, and what a sweep has."""

    written: Mapping[str, Any]
    labels: Mapping[str, str]
    """Of the arms."""
    strata: Sequence[str]
    score_metric: str | None = None

    @property
    def own(self) -> Asked:
        """What is asked of all runs."""
        return self.plain(completed(asked_by(self.written), Asked()))

    def plain(self, asked: Asked) -> Asked:
        """What is asked, without the name of the metric where that is the score's."""
        is_score = asked.metric == self.score_metric and not asked.matched
        return asked._replace(metric=None) if is_score else asked

    def asked(self, expectation: Mapping[str, Any]) -> Asked:
        """What an expectation asks; AnalysisError if it contradicts itself.

        Without a metric a target is matched for the study's; for its cost, if it is itself a target of that metric, if
        a budget says in which unit, or if the study asks for a cost.
        """
        own, asked = asked_by(self.written), asked_by(expectation)
        metric = own.metric or ("" if own.matched else self.score_metric or "")
        if asked.matched and not asked.metric and not asked.at and asked.matched.metric not in metric:
            asked = asked._replace(metric=metric or None)
        asked = self.plain(completed(asked, own))
        if problem := contradiction(asked) or contradiction(asked_by(expectation)):
            raise AnalysisError(problem)
        return asked

    def minimum_effect(self, expectation: Mapping[str, Any]) -> float:
        """An expectation's own, else the study's, else 0; in the unit of whatever number the expectation is of."""
        both = expectation.get("minimum_effect"), self.written.get("minimum_effect")
        return float(next((each for each in both if each is not None), 0.0))

    def claims(self, expectation: Mapping[str, Any]) -> list[Claim]:
        """One claim for each stratum that the expectation's names leave open; AnalysisError for what means nothing.

        What one of the names leaves open is as in the first of them that says it.
        """
        asked = self.asked(expectation)
        names = list(names_of(expectation, self.written.get("baseline")))
        parts = [self._divided(name) for name in names]
        said: dict[str, str] = {}
        for _, own in parts:
            said = own | said
        claims = []
        for stratum in self.strata:
            values = overrides_of(stratum)
            if said.items() <= values.items():
                places = tuple(self._place(rest, values | own) for rest, own in parts)
                texts = tuple(_named(name, values, own) for name, (_, own) in zip(names, parts, strict=True))
                claims.append(Claim(expectation, asked, places, texts))
        if expectation["direction"] == "identical" and any(len({p.stratum for p in c.places}) > 1 for c in claims):
            raise AnalysisError("runs of two strata are not the same")
        if not claims:
            raise AnalysisError(f"no stratum has {_joined(said)}; there are {'  '.join(self.strata)}")
        return claims

    def all_claims(self) -> Iterator[Claim]:
        """The claims of all expectations that mean something."""
        for expectation in self.written.get("expect") or []:
            try:
                yield from self.claims(expectation)
            except INVALID:
                continue

    def names_arm(self, name: str) -> bool:
        """Whether a name means an arm, in a stratum that there is if it says one."""
        rest, own = self._divided(name)
        known = any(own.items() <= overrides_of(stratum).items() for stratum in self.strata)
        return known and is_variant(rest, self.labels)

    def arm_of(self, name: str) -> str | None:
        """The arm that a name means, in whichever stratum; None if it means none."""
        rest, _ = self._divided(name)
        return resolve_variant(rest, self.labels) if is_variant(rest, self.labels) else None

    def _divided(self, name: str) -> tuple[str, dict[str, str]]:
        """The part of a name that means an arm, and what it says of the stratum."""
        axes = overrides_of(self.strata[0])
        parts = split_overrides(name)
        own = {axis: value for axis, value in map(parse_override, parts) if axis in axes}
        rest = [part for part in parts if parse_override(part)[0] not in axes]
        return ",".join(rest) or DEFAULT, own

    def _place(self, rest: str, values: Mapping[str, str]) -> Place:
        stratum = _joined(values)
        if stratum not in self.strata:
            raise AnalysisError(f"'{stratum}' is no stratum; choose one of: {'  '.join(self.strata)}")
        return Place(resolve_variant(rest, self.labels), stratum)


INVALID = (AnalysisError, KeyError, TypeError, ValueError, AttributeError)


def names_of(expectation: Mapping[str, Any], baseline: str | None) -> Iterator[str]:
    """The variant, what it is compared with, and the two of another difference."""
    yield str(expectation["variant"])
    if expectation["direction"] not in LEVELS:
        yield str(expectation.get("versus") or given(baseline))
        if less := expectation.get("less"):
            yield from (str(less["variant"]), str(less["versus"]))


def given(baseline: str | None) -> str:
    """The baseline; AnalysisError if there is none."""
    if baseline is None:
        raise AnalysisError("it names no variant to compare with, and there is no baseline")
    return baseline


def further_tests(study: Study, baseline: str | None) -> dict[object, Claim]:
    """A claim for each test that is not one of the tables: of an arm and the baseline, by what is asked of all runs."""
    tests = {claim.tested: claim for claim in study.all_claims() if claim.direction in TESTED}
    table = {
        table_test(study.own, Place(arm, stratum), Place(baseline, stratum))
        for stratum in study.strata
        for arm in study.labels
        if baseline is not None
    }
    return {test: claim for test, claim in tests.items() if test not in table}


def table_test(asked: Asked, *places: Place) -> object:
    """What names the test of two arms of a table."""
    return Claim({}, asked, places, ()).tested


def overrides_of(stratum: str) -> dict[str, str]:
    """`start.accuracy=0.2,task=sort` by its axes."""
    return dict(map(parse_override, split_overrides(stratum)))


def _named(name: str, values: Mapping[str, str], own: Mapping[str, str]) -> str:
    """A name as it was written, and the stratum as far as it does not say it."""
    missing = {axis: value for axis, value in values.items() if axis not in own}
    return ",".join(part for part in (name if name != DEFAULT or not missing else "", _joined(missing)) if part)


def _joined(values: Mapping[str, str]) -> str:
    return ",".join(f"{axis}={value}" for axis, value in values.items())
