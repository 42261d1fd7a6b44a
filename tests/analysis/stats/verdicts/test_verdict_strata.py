"""An expectation that names no stratum is judged in each; one that names some of the axes in each of the others."""

import numpy as np
import pytest
from study_sweeps import answered, study_sweep

from rlexp.analysis.data.errors import AnalysisError
from rlexp.analysis.stats.hypotheses import Side, StudySpec, further_tests

HIGHER = {"variant": "norm=b", "direction": "higher"}
NOISE = 0.01 * np.linspace(-1, 1, 9)


def two_starts(folder, expect, effects=(0.3, -0.3), **study):
    """A study over two norms within two starts, in which b is better and worse."""
    scores = {}
    for start, effect in zip(("0.2", "0.6"), effects, strict=True):
        scores[f"norm=a,start.accuracy={start}"] = 0.5 + NOISE
        scores[f"norm=b,start.accuracy={start}"] = 0.5 + effect - NOISE
    return answered(study_sweep(folder, scores, expect, within=["start.accuracy"], **study))


def test_one_verdict_in_each_stratum(tmp_path):
    first, second = two_starts(tmp_path, [HIGHER]).verdicts
    assert (first.verdict, second.verdict) == ("reproduced", "reversed")
    assert first.claim == "norm=b,start.accuracy=0.2 higher than norm=a,start.accuracy=0.2, by at least 0.05"
    assert (first.stratum, second.stratum) == ("start.accuracy=0.2", "start.accuracy=0.6")
    assert (first.variant, first.versus) == ("norm=b,start.accuracy=0.2", "norm=a,start.accuracy=0.2")


def test_a_number_of_its_own_is_that_of_each_stratum(tmp_path):
    first, second = two_starts(tmp_path, [HIGHER | {"metric": "eval/reward"}]).verdicts
    assert (first.verdict, second.verdict) == ("reproduced", "reversed")
    assert first.estimate == pytest.approx(0.6, abs=0.05) and second.estimate == pytest.approx(-0.6, abs=0.05)


def test_what_one_name_leaves_open_is_as_the_other_says(tmp_path):
    named = HIGHER | {"variant": "norm=b,start.accuracy=0.6"}
    level = {"variant": "norm=b", "direction": "above", "value": 0.5}
    other = {"variant": "norm=b", "versus": "start.accuracy=0.2,norm=a", "direction": "higher"}
    found = two_starts(tmp_path, [named, level, other]).verdicts
    assert [(each.stratum[-3:], each.verdict) for each in found] == [
        ("0.6", "reversed"),
        ("0.2", "reproduced"),
        ("0.6", "not reproduced"),
        ("0.2", "reproduced"),
    ]


def test_a_claim_may_be_of_two_strata(tmp_path):
    across = {"variant": "norm=a,start.accuracy=0.2", "versus": "norm=a,start.accuracy=0.6", "direction": "equal"}
    (found,) = two_starts(tmp_path, [across]).verdicts
    assert (found.verdict, found.stratum, found.estimate) == ("reproduced", "", 0.0)


def test_expanded_claims_are_one_family_with_the_tables(tmp_path):
    """Two differences of the tables; the claim in both strata is the same two; one more pair is a third."""
    assert two_starts(tmp_path / "x", [HIGHER]).comparisons[0].family == 2
    across = {"variant": "norm=a,start.accuracy=0.2", "versus": "norm=a,start.accuracy=0.6", "direction": "equal"}
    assert two_starts(tmp_path / "y", [HIGHER, across]).comparisons[0].family == 3


STRATA = ["start=0,cap=1", "start=0,cap=2", "start=1,cap=1", "start=1,cap=2"]
STUDY = StudySpec({"baseline": "norm=a"}, {"norm=a": "a", "norm=b": "b", "default": "default"}, STRATA)


@pytest.mark.parametrize(
    ("name", "strata"),
    [
        ("norm=b", STRATA),
        ("b", STRATA),
        ("norm=b,cap=2", [STRATA[1], STRATA[3]]),
        ("cap=2,norm=b,start=1", [STRATA[3]]),
        ("start=0", STRATA[:2]),
        ("default", STRATA),
    ],
)
def test_a_partial_name_is_expanded_over_the_rest(name, strata):
    hypotheses = STUDY.hypotheses({"variant": name, "direction": "higher"})
    assert [each.stratum for each in hypotheses] == strata
    arm = "norm=b" if "b" in name else "default"
    assert {each.sides[0].arm for each in hypotheses} == {arm}
    assert {each.sides[1] for each in hypotheses} == {Side("norm=a", stratum) for stratum in strata}
    assert STUDY.names_arm(name)


@pytest.mark.parametrize("name", ["norm=c", "norm=b,cap=3", "norm=b,cpa=2", "nrm=b,start=0"])
def test_a_typo_is_no_arm(name):
    assert not STUDY.names_arm(name)
    with pytest.raises(AnalysisError):
        STUDY.hypotheses({"variant": name, "direction": "higher"})


def test_the_first_name_that_says_it_decides_for_those_that_do_not():
    less = {"variant": "norm=b", "versus": "norm=a,cap=2"}
    expectation = {"variant": "norm=b,start=1,cap=1", "versus": "norm=a,start=0", "direction": "higher", "less": less}
    (hypothesis,) = STUDY.hypotheses(expectation)
    assert [side.stratum for side in hypothesis.sides] == [STRATA[2], STRATA[0], STRATA[2], STRATA[3]]
    names = ["norm=b,start=1,cap=1", "norm=a,start=0,cap=1", "norm=b,start=1,cap=1", "norm=a,cap=2,start=1"]
    assert list(hypothesis.names) == names


def test_the_same_test_is_counted_once_whichever_variant_is_first():
    def tests(*expect, baseline="norm=a"):
        written = {"baseline": "norm=a", "expect": list(expect)}
        return len(further_tests(STUDY._replace(written=written, strata=[""]), baseline))

    c = {"variant": "norm=b", "versus": "default", "direction": "higher"}
    turned = {"variant": "default", "versus": "norm=b", "direction": "equal"}
    assert tests(HIGHER) == 0 and tests(HIGHER, baseline=None) == 1
    assert tests(HIGHER, c, turned) == 1
    assert tests(HIGHER | {"at": "tokens"}, HIGHER) == 1
    pair, turned_pair = (
        {"less": {"variant": x, "versus": y}} for x, y in [("default", "norm=a"), ("norm=a", "norm=b")]
    )
    assert tests(HIGHER | pair, HIGHER) == 1 and tests(HIGHER | pair, c | pair) == 2
    by_columns = {"variant": "default", "versus": "norm=a", "direction": "lower"}
    assert tests(HIGHER | pair, by_columns | {"less": {"variant": "norm=b", "versus": "norm=a"}}) == 1
    assert tests(HIGHER | turned_pair) == 0  # twice the difference of the table, so the same p
