"""Signed ranks by all flips: equal to scipy's where there are no ties, to a loop where there are."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import rankdata, wilcoxon

from rlexp.speedrun.records import compare, summary

COUNTS = st.lists(st.tuples(*[st.one_of(st.none(), st.integers(1, 6))] * 2), min_size=1, max_size=8)


def p_by_loops(ours, theirs):
    differences = []
    for mine, other in zip(ours, theirs, strict=True):
        if mine != other:
            size = float("inf") if None in (mine, other) else abs(other - mine)
            differences.append((size, 1 if mine is not None and (other is None or mine < other) else -1))
    ranks = rankdata([size for size, _ in differences]) if differences else []
    sums = [sum(s * r for s, r in zip(signs, ranks, strict=True)) for signs in product((-1, 1), repeat=len(ranks))]
    observed = sum(sign * rank for (_, sign), rank in zip(differences, ranks, strict=True))
    return np.mean([abs(each) >= abs(observed) - 1e-9 for each in sums])


@given(COUNTS)
def test_p_is_that_of_all_flips_also_with_ties_and_runs_that_never_arrive(pairs):
    ours, theirs = zip(*pairs, strict=True)
    assert compare(ours, theirs).p == pytest.approx(p_by_loops(ours, theirs))
    assert compare(theirs, ours).p == pytest.approx(compare(ours, theirs).p)
    assert not compare(theirs, ours).beats or not compare(ours, theirs).beats


def test_p_is_that_of_scipy_where_nothing_is_equal():
    ours, theirs = [10, 20, 33, 47, 50, 61, 79, 80, 98, 5], [12, 25, 40, 35, 90, 100, 200, 99, 118, 30]
    found = wilcoxon(np.subtract(theirs, ours), method="exact")
    assert compare(ours, theirs).p == pytest.approx(found.pvalue)


def test_ten_seeds_that_agree_beat_and_seven_do_not():
    assert compare([1] * 10, [2] * 10) == (True, pytest.approx(2 / 1024))
    assert compare([2] * 10, [1] * 10) == (False, pytest.approx(2 / 1024))
    assert compare([1] * 7, [2] * 7) == (False, pytest.approx(2 / 128))
    assert compare([1] * 10, [1] * 10) == (False, 1.0)


def test_p_of_many_seeds_is_exact_too():
    theirs = np.random.default_rng(1).permutation(np.arange(1, 51)) * np.sign(np.arange(50) % 3 - 0.5).astype(int)
    found = wilcoxon(theirs, method="exact")
    assert 0.001 < found.pvalue < 0.5 and compare([0] * 50, theirs.tolist()).p == pytest.approx(found.pvalue)


def test_a_run_that_never_arrives_is_worse_than_all_that_do_and_as_bad_as_another():
    assert compare([None, None], [None, 7]).p == compare([7, None], [None, None]).p == 1.0  # one difference each
    assert compare([1] * 9 + [None], [None] * 9 + [1]).p == compare([1] * 9 + [9], [9] * 9 + [1]).p


def test_the_median_is_that_of_runs_that_may_never_arrive():
    assert summary([3, None, 1]) == ["3", "1", "never", "2/3"]
    assert summary([1000, 2000, 3000, None])[0] == "2,500"
    assert summary([1, 2, None, None])[0] == "never"
