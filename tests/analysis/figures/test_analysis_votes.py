"""The accuracy of a vote among a run's own completions."""

import numpy as np
import pytest
from report_fixtures import CASES, figure_inputs, write_report_sweep

from rlexp.analysis.stats import curves


def test_a_vote_is_the_most_common_answer_of_all_choices_of_completions():
    answers, correct = ["a", "b", "b", "c"], [True, False, False, True]
    assert curves.vote_accuracy(answers, correct, 1) == 0.5
    pairs = [0.5, 0.5, 1.0, 0.0, 0.5, 0.5]  # ab ab ac bb bc bc
    assert curves.vote_accuracy(answers, correct, 2) == pytest.approx(np.mean(pairs))
    assert curves.vote_accuracy(answers, correct, 4) == 0.0


def test_votes_are_those_of_the_last_step_and_a_mean_over_prompts(tmp_path):
    found = figure_inputs(write_report_sweep(tmp_path / "sweep", CASES["3 variants"], 3))
    kept = ("xa", "xa", "xb", "yb", "yb", "ya")
    rows = [{"step": 40, "prompt": p, "completion": c, "correct": c == "a"} for p, c in kept]
    found = found._replace(samples={name: [{"step": 0, "prompt": "x"}, *rows] for name in found.samples})
    line = curves.voting_curves(found.data, found.comparison, found.samples)["norm=global"]
    assert line.steps.tolist() == [1, 2, 3]
    np.testing.assert_allclose(line.iqm, [0.5, 0.5, 0.5])
    rows[-1]["correct"] = True
    rows[-1]["completion"] = rows[-2]["completion"] = "a"  # now right in both prompts
    rows[-2]["correct"] = True
    line = curves.voting_curves(found.data, found.comparison, found.samples)["norm=global"]
    np.testing.assert_allclose(line.iqm, [2 / 3, 2 / 3, 1.0])
