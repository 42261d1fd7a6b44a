"""The rule that turns an expectation and an interval into a verdict."""

import json

import numpy as np
import pandas as pd
import pytest
from analysis_fixtures import random_scores, write_run, write_sweep
from rich.console import Console
from study_sweeps import answered, study_sweep

from rlexp.analysis import load
from rlexp.analysis.compare import report
from rlexp.analysis.stats.answer import Question, answer
from rlexp.analysis.stats.significance import holm, sign_flip_p
from rlexp.analysis.stats.verdicts import difference_verdict, level_verdict

NAMES = ["norm=a", "norm=b", "norm=c", "norm=d"]
EVEN = np.linspace(-1, 1, 10)  # of ten seeds around a mean


@pytest.mark.parametrize(
    ("direction", "mean", "spread", "minimum", "verdict"),
    [
        ("higher", 0.2, 0.1, 0.1, "reproduced"),
        ("higher", 0.2, 0.1, 0.22, "underpowered"),
        ("higher", 0.2, 0.1, 0.4, "practically equal"),
        ("higher", 0.2, 1.0, 0.1, "underpowered"),
        ("higher", 0.0, 0.05, 0.1, "practically equal"),
        ("higher", -0.06, 0.27, 0.1, "not reproduced"),
        ("higher", -0.2, 0.1, 0.1, "reversed"),
        ("higher", -0.05, 0.03, 0.1, "practically equal"),
        ("higher", -0.05, 0.03, 0.0, "reversed"),
        ("lower", -0.2, 0.1, 0.1, "reproduced"),
        ("lower", 0.2, 0.1, 0.1, "reversed"),
        ("lower", 0.0, 0.05, 0.1, "practically equal"),
        ("lower", 0.06, 0.27, 0.1, "not reproduced"),
        ("lower", -0.2, 1.0, 0.1, "underpowered"),
        ("equal", 0.0, 0.05, 0.1, "reproduced"),
        ("equal", 0.04, 0.03, 0.1, "reproduced"),
        ("equal", 0.0, 0.3, 0.1, "underpowered"),
        ("equal", 0.2, 0.1, 0.1, "not reproduced"),
        ("equal", -0.2, 0.1, 0.1, "not reproduced"),
        ("equal", 0.08, 0.1, 0.1, "underpowered"),
        ("equal", 0.0, 0.0, 0.1, "reproduced"),
    ],
)
def test_the_rule_for_differences(direction, mean, spread, minimum, verdict):
    differences = mean + spread * EVEN
    assert difference_verdict(direction, differences, minimum, sign_flip_p(differences), 1) == verdict


@pytest.mark.parametrize("direction", ["higher", "lower", "equal"])
@pytest.mark.parametrize("n", [0, 1, 5])
def test_too_few_seeds_for_a_small_p_are_underpowered_whatever_they_say(direction, n):
    differences = np.full(n, 0.5)
    p = sign_flip_p(differences)
    assert {difference_verdict(direction, differences, least, p, 1) for least in (0.1, 9.0)} == {"underpowered"}


def test_differences_that_count_for_more_need_a_smaller_p():
    differences = 0.2 + 0.1 * EVEN[:6]  # p is 2/64
    assert difference_verdict("higher", differences, 0.0, sign_flip_p(differences), 1) == "reproduced"
    assert difference_verdict("equal", differences, 0.5, sign_flip_p(differences), 1) == "reproduced"
    assert difference_verdict("equal", differences, 0.5, 2 * sign_flip_p(differences), 2) == "underpowered"


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
    assert level_verdict(direction, np.array(scores, dtype=float), 5.0) == verdict


def test_an_expectation_is_judged_on_paired_seeds_of_its_own_two_variants(tmp_path):
    shared = np.arange(9.0)
    scores = {"norm=a": shared, "norm=b": shared[:8] + [0.5, 0.5, 0.6, 0.4, 0.5, 0.5, 0.5, 0.5]}
    expect = [
        {"variant": "norm=b", "direction": "higher"},
        {"variant": "norm=a", "versus": "b", "direction": "higher", "minimum_effect": 0.2},
    ]
    first, second = answered(study_sweep(tmp_path, scores, expect)).verdicts
    assert (first.verdict, first.n, first.minimum_effect) == ("reproduced", 8, 0.05)
    assert first.estimate == pytest.approx(0.5) and second.verdict == "reversed"


@pytest.mark.parametrize(
    "expectation",
    [
        {"variant": "norm=nothing", "versus": "norm=a", "direction": "higher"},
        {"variant": "norm=b", "versus": "norm=a", "direction": "up"},
        {"variant": "norm=b", "direction": "higher"},
        {"variant": "norm=b", "direction": "below"},
        "norm=b is best",
    ],
)
def test_a_malformed_expectation_is_not_judged_and_does_not_crash(tmp_path, expectation):
    folder = study_sweep(tmp_path, random_scores(NAMES, 8), [expectation], baseline=None)
    (verdict,) = answered(folder).verdicts
    assert verdict.verdict == "not judged" and verdict.reason


def test_tables_and_verdicts_have_one_p_over_all_their_differences(tmp_path):
    """Three differences of the table and one that only a claim names: Holm over four, the same number in both."""
    expect = [
        {"variant": "norm=b", "versus": "norm=a", "direction": "higher"},
        {"variant": "norm=d", "versus": "norm=c", "direction": "higher"},
        {"variant": "norm=c", "versus": "norm=d", "direction": "lower"},
    ]
    scores = random_scores(NAMES, 7, spread=0.02)
    found = answered(study_sweep(tmp_path, scores, expect))
    table = found.comparisons[0].table
    pairs = [("b", "a"), ("c", "a"), ("d", "a"), ("d", "c")]
    p = [sign_flip_p(np.array(scores[f"norm={x}"]) - scores[f"norm={y}"]) for x, y in pairs]
    expected = holm(np.array(p))
    np.testing.assert_allclose(table["p_holm"].iloc[1:], expected[:3])
    assert [verdict.p_holm for verdict in found.verdicts] == pytest.approx([expected[0], expected[3], expected[3]])
    assert found.comparisons[0].family == 4 and "looking at 4 differences" in " ".join(found.notes)


def test_no_verdict_contradicts_the_table(tmp_path):
    """Seven seeds, an interval beside 0 and p (Holm) above 0.05: not shown in the table, not reproduced as a claim."""
    difference = np.array([0.5, 0.6, 0.4, 0.5, 0.45, 0.55, -0.05])
    noise = 0.3 * np.linspace(-1, 1, 7) ** 3
    scores = {"norm=a": np.zeros(7), "norm=b": difference, "norm=c": noise, "norm=d": -noise, "norm=e": 2 * noise}
    expect = [{"variant": "norm=b", "versus": "norm=a", "direction": "higher"}]
    found = answered(study_sweep(tmp_path, scores, expect))
    row = found.comparisons[0].table.loc["norm=b"]
    assert row["difference_low"] > 0 and row["p_holm"] > 0.05
    assert found.verdicts[0].verdict == "underpowered"
    assert any("The interval and p (Holm) say different things of b (" in note for note in found.notes)


@pytest.mark.parametrize(
    ("overrides", "reason"),
    [
        (["study=x", "steps=20", "seed=1,2"], "it was changed on the command line (steps=20 seed=1,2)"),
        (["study=x", "study.minimum_effect=0"], "it was changed on the command line (study.minimum_effect=0)"),
        (["study=x", "baseline='norm=b'"], "it was changed on the command line (baseline='norm=b')"),
        (None, "the command that started it is not on record"),
    ],
)
def test_a_changed_study_says_so_and_gives_no_verdict(tmp_path, overrides, reason):
    expect = [{"variant": "norm=b", "direction": "higher"}]
    folder = study_sweep(tmp_path, random_scores(NAMES, 8), expect, overrides or ())
    if overrides is None:
        (folder / "multirun.yaml").unlink()
    found = answered(folder)
    assert found.verdicts == [] and found.notes[0].startswith(f"No verdict on study x: {reason}")


def test_what_changes_no_result_leaves_a_study_as_it_was(tmp_path):
    overrides = ["study=x", "logger=none", "threads=2", "logger.mode=online", "resume=failed"]
    expect = [{"variant": "norm=b", "direction": "higher"}]
    assert answered(study_sweep(tmp_path, random_scores(NAMES, 8), expect, overrides)).verdicts


def test_no_verdict_on_other_runs_another_question_or_a_study_that_is_not_done(tmp_path):
    expect = [{"variant": "norm=b", "direction": "higher"}]
    folder = study_sweep(tmp_path / "x", random_scores(NAMES, 8), expect)
    assert "another question" in answered(folder, where=["seed=0,1,2,3,4,5,6"]).no_verdict
    other = write_sweep(tmp_path / "y", random_scores(NAMES, 8), 10)
    assert "runs beside its own" in answer(load([folder, other]), Question()).no_verdict
    summary = folder / "norm=c,seed=0/summary.json"
    summary.write_text(json.dumps(json.loads(summary.read_text()) | {"status": "interrupted"}))
    assert "1 of its 32 runs have not ended" in answered(folder).no_verdict
    write_run(folder, "norm=c,seed=9", "norm=c", 9, 0.5)
    assert "runs beside its own" in answered(folder).no_verdict


def test_a_study_that_tunes_is_judged_at_the_best_points_on_the_other_seeds(tmp_path):
    """The best learning rate by the lower half of the seeds; the upper half, on which it is worse, is judged."""
    low, high = np.full(7, 0.1), np.full(7, 0.9)
    even = 0.01 * np.arange(14)
    scores = {
        "norm=a,lr=1": 0.5 + even,
        "norm=a,lr=2": 0.2 + even,
        "norm=b,lr=1": np.concatenate([low, high]) + even,
        "norm=b,lr=2": np.concatenate([high, low]) + even,
    }
    expect = [{"variant": "norm=b", "direction": "lower"}]
    found = answered(study_sweep(tmp_path, scores, expect, best_of=["lr"]))
    (verdict,) = found.verdicts
    assert (verdict.verdict, verdict.n) == ("reproduced", 7) and verdict.estimate == pytest.approx(-0.4)
    assert list(found.comparisons[0].table.index) == ["norm=a", "norm=b"]


def test_a_study_prints_and_writes_its_verdicts(tmp_path):
    expect = [
        {"variant": "norm=b", "versus": "norm=a", "direction": "higher"},
        {"variant": "norm=a", "direction": "above", "value": 0.9},
    ]
    folder = study_sweep(tmp_path / "x", random_scores(["norm=a", "norm=b"], 8), expect, baseline="norm=b")
    with open(tmp_path / "out.txt", "w") as stream:
        result = report(folder, console=Console(file=stream, width=100))
    text = (tmp_path / "out.txt").read_text()
    assert result.comparison.baseline == "norm=b" and text.count("Exploratory: ") == 1
    assert "\nreproduced: norm=b higher than norm=a, by at least 0.05" in text
    assert "not reproduced: norm=a above 0.9 on every seed" in text
    table = pd.read_csv(folder / "analysis/verdicts.csv")
    assert table["verdict"].tolist() == ["reproduced", "not reproduced"]
    written = (folder / "analysis/verdicts.md").read_text()
    assert "| reproduced |" in written and written.startswith("Exploratory: ")
