"""Sensitivity and effective dimensionality against loops, and what they must hold."""

from itertools import combinations

import numpy as np
import pytest

from rlexp.analysis.data.errors import AnalysisError
from rlexp.analysis.stats.rates import RESAMPLES
from rlexp.analysis.stats.sensitivity import effective_dimensionality, normalize_scores, sensitivity


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(11)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: normalize_scores(np.ones((2, 2, 2))), "must be"),
        (lambda: normalize_scores(np.ones((2, 2, 2, 2))), "task 0"),
        (lambda: sensitivity(np.ones((1, 2, 3))), "two tasks"),
        (lambda: sensitivity(np.full((2, 2, 3), np.nan)), "none is left"),
        (lambda: effective_dimensionality(np.ones(3)), "hyperparameter"),
        (lambda: effective_dimensionality(np.full((2, 2), np.nan)), "no setting"),
        (lambda: effective_dimensionality(-np.ones((2, 2))), "above 0"),
    ],
)
def test_bad_scores_end_in_a_line(call, said):
    with pytest.raises(AnalysisError, match=said):
        call()


def test_normalized_scores_have_their_percentiles_at_0_and_1(rng):
    scores = rng.normal(size=(3, 2, 5, 4)) * np.array([1, 100])[:, None, None]
    scores[0, 0, 0, 0] = np.nan
    found = normalize_scores(scores)
    np.testing.assert_allclose(np.nanpercentile(found, [5, 95], axis=(0, 2, 3)), [[0, 0], [1, 1]], atol=1e-12)


def test_sensitivity_without_scatter_is_the_formula():
    """Two tasks with best settings 0 and 2; setting 1 is best over both: (1 + .9)/2 − (.8 + .7)/2."""
    means = np.array([[1.0, 0.8, 0.1], [0.2, 0.7, 0.9]])
    found = sensitivity(np.repeat(means[..., None], 3, axis=-1))
    assert found.performance == pytest.approx(0.95) and found.sensitivity == pytest.approx(0.2)
    assert (found.setting, found.task_settings) == (1, (0, 2)) and found.low == pytest.approx(0.2)
    means[0, 1] = np.nan  # no setting for all tasks, but still one for each
    left = sensitivity(np.repeat(means[..., None], 3, axis=-1))
    assert left.setting == 0 and left.sensitivity == pytest.approx(0.95 - 0.6)


def test_sensitivity_is_that_of_a_loop(rng):
    means = np.array([[0.5, 0.45, 0.47], [0.45, 0.47, 0.5], [0.5, 0.5, 0.48]])
    scores = means[..., None] + 0.1 * rng.normal(size=(3, 3, 6))
    found, means, luck = sensitivity(scores), scores.mean(-1), []
    for _ in range(10_000):
        drawn = np.stack([task[:, rng.integers(6, size=6)].mean(1) for task in scores])
        own, one = drawn.argmax(1), int(drawn.mean(0).argmax())
        tuned = drawn.max(1).mean() - means[range(3), own].mean()
        luck.append([tuned, drawn.mean(0).max() - means[:, one].mean()])
    (tuned, single), left = np.mean(luck, 0), 3 * np.std(luck, 0) * np.sqrt(1 / 10_000 + 1 / RESAMPLES)
    plain = means.max(1).mean() - means.mean(0).max()
    assert found.performance == pytest.approx(means.max(1).mean() - tuned, abs=left[0])
    assert found.sensitivity == pytest.approx(plain - tuned + single, abs=left.sum()) and single > 2 * left.sum()


def test_sensitivity_is_near_0_where_no_setting_matters():
    """Plain Φ is .038 here, of scores that scatter by .1; what is left after the optimism is at most half of it."""
    rng = np.random.default_rng(4)
    found, plain, holds = [], [], []
    for _ in range(60):
        scores = rng.normal(0.5, 0.1, size=(4, 7, 10))
        each = sensitivity(scores)
        found.append(each.sensitivity)
        plain.append(scores.mean(-1).max(-1).mean() - scores.mean(-1).mean(0).max())
        holds.append(each.low == 0)
    assert np.mean(found) < np.mean(plain) / 2 and np.mean(holds) > 0.9


def test_effective_dimensionality_against_a_loop(rng):
    scores = rng.uniform(size=(3, 2, 3, 2))
    found = effective_dimensionality(scores, share=0.9)
    default = max(np.ndindex(2, 3, 2), key=lambda place: scores[(slice(None), *place)].mean())
    for k in range(4):
        best = -np.inf
        for tuned in combinations(range(3), k):
            allowed = [p for p in np.ndindex(2, 3, 2) if all(p[a] == default[a] for a in range(3) if a not in tuned)]
            best = max(best, np.mean([max(task[place] for place in allowed) for task in scores]))
        assert found.scores[k] == pytest.approx(best)
    assert found.needed == next(k for k in range(4) if found.scores[k] >= 0.9 * found.scores[3])
    assert [len(each) for each in found.tuned] == [0, 1, 2, 3]


def test_only_the_hyperparameter_that_matters_needs_tuning():
    own = np.array([[1.0, 0.2, 0.2], [0.2, 0.3, 1.0]])
    found = effective_dimensionality(np.repeat(own[:, None, :], 2, axis=1))
    assert found.needed == 1 and found.tuned[1] == (1,)
    assert effective_dimensionality(np.ones((2, 3, 4))).needed == 0
