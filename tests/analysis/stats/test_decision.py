"""Decision accuracy against loops, its laws, and how often its interval holds."""

from itertools import combinations

import numpy as np
import pytest
from ladders import grids_of, tuned_grids
from scipy.stats import ttest_rel

from rlexp.analysis.stats.decision import agreement_of_orders, all_pairs, arm_ranks, decision_accuracy
from rlexp.analysis.stats.rates import RateGrid, best_contrasts, bootstrap_weights


def looped_draws(grids, stream):
    """The differences of all pairs in draws of the units, each arm at the best rate of the draw."""
    n = grids[0].values.shape[1]
    drawn = np.array([[(weights @ grid.values.T).max() for grid in grids] for weights in bootstrap_weights(n, stream)])
    stretched = drawn.mean(0) + (drawn - drawn.mean(0)) * np.sqrt(n / (n - 1))
    middle = stretched.mean(0)
    pairs = [*combinations(range(len(grids)), 2)]
    weights = np.array([np.eye(len(grids))[i] - np.eye(len(grids))[j] for i, j in pairs])
    values = [found.value for found in best_contrasts(grids, weights)]
    columns = [
        value + (stretched[:, i] - middle[i]) - (stretched[:, j] - middle[j])
        for value, (i, j) in zip(values, pairs, strict=True)
    ]
    return np.array(columns).T


def looped(small, large, streams=(1, 2)):
    """Accuracy, its interval, the same of decided pairs, and abstentions, for arms of one rate."""
    pairs = [*combinations(range(len(small)), 2)]

    def mean(grids, i, j):
        return (grids[i].values[0] - grids[j].values[0]).mean()

    def told(grids, i, j):
        return ttest_rel(grids[i].values[0], grids[j].values[0]).pvalue < 0.05

    right = [float(mean(small, i, j) * mean(large, i, j) > 0) for i, j in pairs]
    both = [told(small, i, j) and told(large, i, j) for i, j in pairs]
    draws = [looped_draws(grids, stream) for grids, stream in zip((small, large), streams, strict=True)]
    shares = [np.mean([float(a * b > 0) for a, b in zip(*rows, strict=True)]) for rows in zip(*draws, strict=True)]
    decided = [each for each, counts in zip(right, both, strict=True) if counts]
    return {
        "accuracy": np.mean(right),
        "low": np.quantile(shares, 0.025),
        "high": np.quantile(shares, 0.975),
        "decided": len(decided),
        "decided_accuracy": np.mean(decided) if decided else np.nan,
        "abstained": tuple(sum(not told(grids, i, j) for i, j in pairs) for grids in (small, large)),
    }


@pytest.mark.parametrize("seed", range(4))
def test_accuracy_is_that_of_loops(seed):
    rng = np.random.default_rng(seed)
    small, large = (grids_of(rng.normal(size=5), n, rng) for n in (6, 9))
    found = decision_accuracy(all_pairs([small], 1), all_pairs([large], 2))._asdict()
    wanted = looped(small, large)
    assert found["abstained"] == wanted.pop("abstained")
    assert {key: found[key] for key in wanted} == pytest.approx(wanted, nan_ok=True, abs=1e-12)
    assert found["pairs"] == 10


def test_draws_of_tuned_arms_choose_the_rate_anew():
    grids = tuned_grids(3, 4, 7, np.random.default_rng(0))
    np.testing.assert_allclose(all_pairs([grids], 3).draws, looped_draws(grids, 3), atol=1e-12)


def test_a_pair_in_draws_is_told_apart_by_the_errors_of_all_units():
    rng = np.random.default_rng(5)
    effects = ([0, 1, 0.5, 2, 1.5], [0, 2, -0.5, 1, 1])
    small, large = (all_pairs([grids_of(each, 8, rng)], stream) for stream, each in enumerate(effects))
    found = decision_accuracy(small, large)
    shares = []
    for one, other in zip(small.draws, large.draws, strict=True):
        counted = [
            float(a * b > 0)
            for a, b, e, f in zip(one, other, small.error, large.error, strict=True)
            if abs(a) > 2.364624 * e and abs(b) > 2.364624 * f  # t of 7 degrees of freedom
        ]
        shares += [np.mean(counted)] if counted else []
    assert (found.decided_low, found.decided_high) == pytest.approx(tuple(np.quantile(shares, [0.025, 0.975])))
    assert found.decided_low < found.decided_high


def test_a_sweep_agrees_with_itself():
    grids = grids_of([0, 0.1, 0.2, 0.2], 10, np.random.default_rng(0))
    grids.append(grids[0])  # an arm that does nothing: both say so
    found = decision_accuracy(all_pairs([grids], 0), all_pairs([grids], 1))
    assert found.accuracy == 1 and found.high == 1
    decided = int((all_pairs([grids]).decided(all_pairs([grids]).difference)).sum())
    assert found.decided == decided and found.abstained == (10 - decided, 10 - decided)


def test_noise_decides_half_of_the_pairs():
    rng = np.random.default_rng(0)
    found = [
        decision_accuracy(*(all_pairs([grids_of(np.zeros(4), 6, rng)], stream) for stream in (1, 2))).accuracy
        for _ in range(300)
    ]
    assert np.mean(found) == pytest.approx(0.5, abs=0.05)  # three standard errors


def test_orders_are_turned_around_with_a_sweep():
    rng = np.random.default_rng(2)
    small, large = (grids_of(rng.normal(size=4), 8, rng) for _ in range(2))
    turned = [RateGrid(grid.rates, -grid.values) for grid in small]
    accuracies = [decision_accuracy(all_pairs([each], 1), all_pairs([large], 2)).accuracy for each in (small, turned)]
    assert sum(accuracies) == pytest.approx(1)


@pytest.mark.parametrize(("first", "second", "says"), [(2, 1, 1), (-1, 3, 0), (0, 0, 1), (0, 1, 0.5), (-1, 0, 0.5)])
def test_ties_count_half_unless_both_are_tied(first, second, says):
    assert agreement_of_orders(np.array(first), np.array(second)) == says


def test_strata_share_their_draws():
    """What is drawn of a seed is drawn of it in all strata: the same numbers give the same draws."""
    grids = grids_of([0, 1, 2], 6, np.random.default_rng(0))
    found = all_pairs([grids, grids], 4)
    np.testing.assert_array_equal(found.draws[:, :3], found.draws[:, 3:])


def test_one_unit_decides_nothing_and_has_no_interval():
    rng = np.random.default_rng(0)
    found = decision_accuracy(*(all_pairs([grids_of([0, 1], 1, rng)], stream) for stream in (1, 2)))
    assert np.isnan(found.low) and found.abstained == (1, 1) and np.isnan(found.decided_accuracy)


def test_ranks_are_those_of_the_values():
    values = np.array([0.3, -1.0, 0.3, 2.0])
    differences = np.array([a - b for a, b in combinations(values, 2)])
    assert arm_ranks(differences, 4).tolist() == [0, -1.5, 0, 1.5]


def test_the_interval_holds_the_accuracy_that_other_units_give():
    """Of 5 arms and 8 units, over true effects of about two standard errors that are alike in both sizes."""
    rng, held = np.random.default_rng(0), []
    for _ in range(150):
        effects = rng.normal(size=5) * 0.7
        other = 0.8 * effects + 0.6 * rng.normal(size=5) * 0.7
        found = decision_accuracy(*(all_pairs([grids_of(e, 8, rng)], s) for s, e in enumerate((effects, other))))
        means = [e + rng.normal(size=(500, 5)) / np.sqrt(2 * 8) for e in (effects, other)]
        signs = [np.array([np.sign(m[:, i] - m[:, j]) for i, j in combinations(range(5), 2)]) for m in means]
        held.append(found.low <= (signs[0] == signs[1]).mean() <= found.high)
    assert 0.9 <= np.mean(held)
