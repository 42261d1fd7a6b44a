"""Designs of ablations: their arms, contrasts against least squares and definitions, and what a fraction mixes."""

from itertools import combinations, permutations

import numpy as np
import pytest

from rlexp.analysis.data.errors import AnalysisError
from rlexp.analysis.stats.designs import arms_of, contrasts_of, factorial_design

ROUNDING = 1e-12  # of sums of some hundred numbers near 1


def value_of(arms, rng):
    return {arm: rng.normal() for arm in arms}


def contrast(design, arms, k, kind, parts, order=None):
    return next(each for each in contrasts_of(design, arms, k, order) if (each.kind, each.parts) == (kind, parts))


def test_one_at_a_time_and_a_ladder():
    f = frozenset
    assert arms_of("add-one", 2) == [f(), f({0}), f({1})]
    assert arms_of("leave-one-out", 2) == [f(), f({0, 1}), f({1}), f({0})]
    assert arms_of("ladder", 3, [2, 0, 1]) == [f(), f({2}), f({0, 2}), f({0, 1, 2})]
    with pytest.raises(AnalysisError, match="no such design; there are add-one, leave-one-out, ladder, factorial"):
        arms_of("all", 2)


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_a_full_factorial_gives_the_coefficients_of_least_squares(k):
    """Of a model with all main effects and two-way products of 0/1 indicators centered at one half."""
    arms = arms_of("factorial", k)
    assert len(arms) == 2**k == len({*arms})
    values = np.random.default_rng(k).normal(size=len(arms))
    columns = np.array([[part in arm for part in range(k)] for arm in arms]) - 0.5
    pairs = list(combinations(range(k), 2))
    design = np.column_stack([np.ones(len(arms)), columns, *(columns[:, a] * columns[:, b] for a, b in pairs)])
    expected = np.linalg.lstsq(design, values, rcond=None)[0]
    for part in range(k):
        found = contrast("factorial", arms, k, "main effect", (part,)).weights @ values
        assert found == pytest.approx(expected[1 + part], abs=ROUNDING)
    for place, pair in enumerate(pairs):
        found = contrast("factorial", arms, k, "interaction", pair).weights @ values
        assert found == pytest.approx(expected[1 + k + place], abs=ROUNDING)


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_shapley_values_are_means_over_all_orders_and_add_up(k):
    arms = arms_of("factorial", k)
    value = value_of(arms, np.random.default_rng(k))
    values = np.array([value[arm] for arm in arms])
    found = [contrast("factorial", arms, k, "Shapley value", (part,)).weights @ values for part in range(k)]
    for part in range(k):
        gains = [
            value[frozenset(order[: order.index(part) + 1])] - value[frozenset(order[: order.index(part)])]
            for order in permutations(range(k))
        ]
        assert found[part] == pytest.approx(np.mean(gains), abs=ROUNDING)
    assert sum(found) == pytest.approx(value[frozenset(range(k))] - value[frozenset()], abs=ROUNDING)


def test_a_game_whose_shapley_values_are_in_textbooks():
    """The glove game: two left gloves and one right one; the right one is worth 2/3, each left one 1/6."""
    arms = arms_of("factorial", 3)
    values = np.array([float(2 in arm and len(arm) > 1) for arm in arms])
    found = [contrast("factorial", arms, 3, "Shapley value", (part,)).weights @ values for part in range(3)]
    assert found == pytest.approx([1 / 6, 1 / 6, 2 / 3])


def test_single_arms_that_are_also_in_a_factorial_are_found_there():
    arms = arms_of("factorial", 3)
    values = np.random.default_rng(0).normal(size=len(arms))
    value = dict(zip(arms, values, strict=True))
    every = frozenset(range(3))
    for part in range(3):
        alone = contrast("add-one", arms, 3, "added first", (part,)).weights @ values
        last = contrast("leave-one-out", arms, 3, "removed last", (part,)).weights @ values
        assert alone == value[frozenset({part})] - value[frozenset()]
        assert last == value[every] - value[every - {part}]
    steps = contrasts_of("ladder", arms, 3, [1, 2, 0])
    assert [each.parts for each in steps] == [(1,), (2,), (0,)]
    assert sum(each.weights @ values for each in steps) == pytest.approx(value[every] - value[frozenset()])


# Montgomery, Design and Analysis of Experiments, table 8.14: the highest resolution of 2^(k-p) fractions of 64 runs
@pytest.mark.parametrize(("k", "resolution"), [(7, 7), (8, 5), (9, 4), (10, 4), (11, 4)])
def test_fractions_have_the_resolution_of_the_tables(k, resolution):
    design = factorial_design(k)
    assert len({*design.arms}) == 64 and design.resolution == resolution
    assert frozenset(range(k)) in design.arms
    signs = np.array([[1 if part in arm else -1 for part in range(k)] for arm in design.arms])
    assert (signs.sum(0) == 0).all() and (signs.T @ signs == 64 * np.eye(k)).all(), "balanced and orthogonal"
    for word in design.words:
        assert len({*signs[:, sorted(word)].prod(1)}) == 1, "the product of a word is constant"
    assert len(design.words) == 2 ** (k - 6) - 1


def test_aliases_are_effects_with_the_same_column():
    k = 9
    design = factorial_design(k)
    signs = np.array([[1 if part in arm else -1 for part in range(k)] for arm in design.arms])
    for pair in combinations(range(k), 2):
        column = signs[:, list(pair)].prod(1)
        same = {
            frozenset(other)
            for other in combinations(range(k), 2)
            if other != pair and abs(column @ signs[:, list(other)].prod(1)) == 64
        }
        assert {*design.aliases(pair)} == same
    assert not any(design.aliases([part]) for part in range(k)), "of resolution IV"


def test_a_fraction_has_main_effects_without_bias_of_additive_parts_and_no_shapley_values():
    k, rng = 8, np.random.default_rng(1)
    arms, worth = arms_of("factorial", k), rng.normal(size=k)
    values = np.array([3.0 + sum(worth[part] for part in arm) for arm in arms])
    found = contrasts_of("factorial", arms, k)
    assert {each.kind for each in found} == {"main effect", "interaction"}
    mains = [each.weights @ values for each in found if each.kind == "main effect"]
    assert mains == pytest.approx(worth, abs=1e-10)
    assert max(abs(each.weights @ values) for each in found if each.kind == "interaction") < 1e-10
    assert all(abs(each.weights.sum()) < ROUNDING for each in found)


@pytest.mark.parametrize("k", [0, 13])
def test_too_few_and_too_many_parts(k):
    with pytest.raises(AnalysisError, match=f"{k} parts: a factorial takes 1 to 12"):
        factorial_design(k)
