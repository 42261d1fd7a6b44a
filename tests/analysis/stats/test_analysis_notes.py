"""What is said where numbers beside each other would be taken for a contradiction, or for a result that is none."""

import numpy as np
import pytest
from analysis_fixtures import random_scores, write_sweep

from rlexp.analysis import load
from rlexp.analysis.report.tables import comparison_table, select_columns
from rlexp.analysis.stats.answer import Question, answer
from rlexp.analysis.stats.formatting import format_size
from rlexp.analysis.stats.significance import minimum_detectable_effect


def found(folder, scores):
    return answer(load(write_sweep(folder, scores, 4)), Question())


def test_equal_differences_detect_nothing(tmp_path):
    """Where nothing was learned every difference is 0: what could have been found is not known, and is not 0.000."""
    assert np.isnan(minimum_detectable_effect(0.0, 10))
    result = found(tmp_path, {"norm=a": [0.0] * 8, "norm=b": [0.0] * 8})
    table = comparison_table(result.comparisons[0])
    assert select_columns(table, ["detectable"]).rows[1] == ["–"]
    assert result.notes[0] == "Every run has the same score, 0, so there is nothing to compare."
    assert not any("four times out of five" in note for note in result.notes)


def test_runs_that_all_ended_below_the_floor_are_no_null_result(tmp_path):
    floor = "Every run ended below the floor of its score: nothing was learned, so equal arms say nothing."
    low = {"norm=a": [0.01, 0.02, 0.03], "norm=b": [0.02, 0.01, 0.03]}
    assert floor in found(tmp_path / "a", low).notes
    assert floor not in found(tmp_path / "b", low | {"norm=c": [0.5, 0.6, 0.7]}).notes


@pytest.mark.parametrize(("size", "text"), [(0.0003, "<0.001"), (0.0006, "0.001"), (0.25, "0.250"), (np.nan, "–")])
def test_a_size_above_zero_is_not_shown_as_zero(size, text):
    assert format_size(size, 3) == text


def test_iqm_and_difference_that_rank_otherwise_are_explained(tmp_path):
    """One run of b collapsed: its mean is below that of a, what the IQM leaves out."""
    a = np.linspace(0.80, 0.87, 8)
    scores = {"norm=a": a, "norm=b": np.array([0.05, *(a[1:] + 0.02)]), "norm=c": a - 0.3}
    (note,) = [note for note in found(tmp_path / "x", scores).notes if "opposite order" in note]
    assert note.startswith("IQM and difference put these in opposite order: a and b. The IQM leaves out the lowest")
    same = found(tmp_path / "y", random_scores(["norm=a", "norm=b"], 8, spread=0.001))
    assert not any("opposite order" in note for note in same.notes)


def test_an_interval_beside_zero_and_a_large_p_are_explained(tmp_path):
    rng = np.random.default_rng(0)
    noise = {f"norm={name}": 0.5 + 0.02 * rng.normal(size=7) for name in "abcdefgh"}
    scores = noise | {"norm=b": noise["norm=a"] + np.array([0.05, 0.06, 0.04, 0.05, 0.06, 0.05, -0.01])}
    result = found(tmp_path, scores)
    row = result.comparisons[0].table.loc["norm=b"]
    assert row["difference_low"] > 0 and row["p_holm"] > 0.05
    assert any("say different things of b (" in note and "p (Holm) decides" in note for note in result.notes)


@pytest.mark.parametrize(("seeds", "said"), [(5, True), (7, False)])
def test_seeds_that_cannot_show_anything_are_the_first_note(tmp_path, seeds, said):
    result = found(tmp_path, random_scores(["norm=a", "norm=b", "norm=c"], seeds))
    assert (result.notes[0].startswith("With 5 paired seeds p (Holm) cannot fall below 0.05")) == said


def test_another_number_than_the_score_is_said_to_be_corrected_within_itself(tmp_path):
    folder = write_sweep(tmp_path, random_scores(["norm=a", "norm=b"], 6), 4)
    data = load(folder, metrics={"eval/reward"})
    said = {
        metric: [note for note in answer(data, Question(metric=metric)).notes if "within this metric" in note]
        for metric in (None, data.score_metric, "eval/reward")
    }
    assert said[None] == said[data.score_metric] == [] and len(said["eval/reward"]) == 1
    alone = answer(data, Question(metric="eval/reward", where=["norm=a"])).notes
    assert not any("within this metric" in note for note in alone)
