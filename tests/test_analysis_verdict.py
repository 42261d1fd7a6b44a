"""The rule that turns an expectation and an interval into a verdict."""

import numpy as np
import pandas as pd
import pytest
from analysis_fixtures import random_scores, write_sweep
from rich.console import Console

from analysis.compare import report
from analysis.verdict import judge_difference, judge_level, verdicts

LABELS = {"norm=a": "a", "norm=b": "b"}


@pytest.mark.parametrize(
    ("direction", "mean", "low", "high", "minimum", "verdict"),
    [
        ("higher", 0.2, 0.1, 0.3, 0.1, "reproduced"),
        ("higher", 0.2, 0.1, 0.3, 0.25, "underpowered"),
        ("higher", 0.2, 0.1, 0.3, 0.4, "not reproduced"),
        ("higher", 0.2, -0.1, 0.5, 0.1, "underpowered"),
        ("higher", 0.0, -0.05, 0.05, 0.1, "not reproduced"),
        ("higher", -0.2, -0.3, -0.1, 0.1, "reversed"),
        ("higher", -0.05, -0.08, -0.02, 0.1, "not reproduced"),
        ("lower", -0.2, -0.3, -0.1, 0.1, "reproduced"),
        ("lower", 0.2, 0.1, 0.3, 0.1, "reversed"),
        ("lower", 0.0, -0.05, 0.05, 0.1, "not reproduced"),
        ("lower", -0.2, -0.5, 0.1, 0.1, "underpowered"),
        ("equal", 0.0, -0.05, 0.05, 0.1, "reproduced"),
        ("equal", 0.04, 0.02, 0.06, 0.1, "reproduced"),
        ("equal", 0.0, -0.2, 0.2, 0.1, "underpowered"),
        ("equal", 0.2, 0.1, 0.3, 0.1, "not reproduced"),
        ("equal", -0.2, -0.3, -0.1, 0.1, "not reproduced"),
        ("equal", 0.08, 0.01, 0.15, 0.1, "underpowered"),
        ("equal", 0.0, 0.0, 0.0, 0.0, "reproduced"),
        ("higher", 0.2, np.nan, np.nan, 0.1, "underpowered"),
        ("equal", 0.2, np.nan, np.nan, 0.1, "underpowered"),
    ],
)
def test_the_rule_for_differences(direction, mean, low, high, minimum, verdict):
    assert judge_difference(direction, mean, low, high, minimum) == verdict


@pytest.mark.parametrize(
    ("direction", "scores", "verdict"),
    [
        ("below", [1, 2, 3], "reproduced"),
        ("below", [1, 2, 5], "not reproduced"),
        ("below", [1, 2, np.nan], "underpowered"),
        ("below", [1, 9, np.nan], "not reproduced"),
        ("above", [6, 7], "reproduced"),
        ("above", [5, 7], "not reproduced"),
        ("above", [], "underpowered"),
    ],
)
def test_the_rule_for_levels(direction, scores, verdict):
    assert judge_level(direction, np.array(scores, dtype=float), 5.0) == verdict


def test_an_expectation_is_judged_on_paired_seeds_of_its_own_two_variants():
    shared = np.array([0.0, 1.0, 2.0, 3.0, 4.0])
    scores = pd.DataFrame({"norm=a": shared, "norm=b": shared + [0.5, 0.5, 0.6, 0.4, np.nan]})
    study = {"baseline": "norm=a", "minimum_effect": 0.1, "expect": [{"variant": "norm=b", "direction": "higher"}]}
    (verdict,) = verdicts(study, scores, LABELS)
    assert (verdict.verdict, verdict.n, verdict.minimum_effect) == ("reproduced", 4, 0.1)
    assert verdict.estimate == pytest.approx(0.5)
    study["expect"] = [{"variant": "norm=a", "versus": "b", "direction": "higher", "minimum_effect": 0.2}]
    assert verdicts(study, scores, LABELS)[0].verdict == "reversed"


@pytest.mark.parametrize(
    "expectation",
    [
        {"variant": "norm=c", "versus": "norm=a", "direction": "higher"},
        {"variant": "norm=b", "versus": "norm=a", "direction": "up"},
        {"variant": "norm=b", "direction": "higher"},
        {"variant": "norm=b", "direction": "below"},
        "norm=b is best",
    ],
)
def test_a_malformed_expectation_is_not_judged_and_does_not_crash(expectation):
    scores = pd.DataFrame({"norm=a": [0.0, 1, 2], "norm=b": [1.0, 2, 3]})
    (verdict,) = verdicts({"expect": [expectation]}, scores, LABELS)
    assert verdict.verdict == "not judged" and verdict.reason


def test_a_study_prints_and_writes_its_verdicts(tmp_path):
    folder = write_sweep(tmp_path, random_scores(["norm=a", "norm=b"], 8), steps=10)
    study = """
study:
  name: x
  metric: null
  baseline: norm=b
  minimum_effect: 0.05
  expect:
    - {variant: norm=b, versus: norm=a, direction: higher}
    - {variant: norm=a, direction: above, value: 0.9}
"""
    (folder / "norm=a,seed=0/config.yaml").write_text(study)
    with open(tmp_path / "out.txt", "w") as stream:
        result = report(folder, console=Console(file=stream, width=100))
    text = (tmp_path / "out.txt").read_text()
    assert result.comparison.baseline == "norm=b"
    assert "\nreproduced: norm=b higher than norm=a, by at least 0.05" in text
    assert "not reproduced: norm=a above 0.9 on every seed" in text
    table = pd.read_csv(folder / "analysis/verdicts.csv")
    assert table["verdict"].tolist() == ["reproduced", "not reproduced"]
    assert "| reproduced |" in (folder / "analysis/verdicts.md").read_text()
