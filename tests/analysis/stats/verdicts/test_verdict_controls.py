"""A control claims nothing; where it does not hold nothing else is judged."""

import pytest
from analysis_fixtures import random_scores
from rich.console import Console
from study_sweeps import answered, study_sweep

from rlexp.analysis.compare import report

HIGHER = {"variant": "norm=b", "direction": "higher"}
EQUAL = {"variant": "norm=c", "direction": "equal", "minimum_effect": 0.5, "control": True}


def study(folder, expect):
    return study_sweep(folder, random_scores(["norm=a", "norm=b", "norm=c"], 8, spread=0.01), expect)


def test_a_control_that_holds_lets_the_others_be_judged(tmp_path):
    control, claim = answered(study(tmp_path, [EQUAL, HIGHER])).verdicts
    assert (control.verdict, control.control, claim.verdict, claim.control) == ("reproduced", True, "reproduced", False)


@pytest.mark.parametrize(
    "control",
    [
        EQUAL | {"minimum_effect": 0.01},
        {"variant": "norm=c", "direction": "below", "value": 0.1, "control": True},
        {"variant": "norm=c", "direction": "identical", "control": True},
        {"variant": "norm=nothing", "direction": "higher", "control": True},
    ],
    ids=lambda control: control["direction"],
)
def test_where_a_control_fails_nothing_else_is_judged(tmp_path, control):
    first, second, third = answered(study(tmp_path, [HIGHER, control, EQUAL])).verdicts
    assert first.verdict == "not judged" and second.verdict in ("not reproduced", "not judged")
    assert first.reason == f"the control '{second.claim}' is {second.verdict}"
    assert third.verdict == "reproduced"  # a control of its own
    assert first.estimate > 0.05  # what came out is still there for programs


def test_a_control_is_called_one(tmp_path):
    folder = study(tmp_path / "x", [EQUAL, HIGHER])
    with open(tmp_path / "out.txt", "w") as stream:
        report(folder, console=Console(file=stream, width=150))
    assert "\nreproduced: control: norm=c equal to norm=a, within ±0.5" in (tmp_path / "out.txt").read_text()
    assert "control: norm=c equal to norm=a" in (folder / "analysis/verdicts.md").read_text()
