"""Laws of filters: whole groups or tokens, equal rewards found exactly, the share of tokens that stays."""

from __future__ import annotations

import math
from itertools import product

import pytest
import torch
from axis_choices import bind, inputs, same_bits
from hypothesis import given
from hypothesis import strategies as st
from small_runs import values

from rlexp.config.schema import read
from rlexp.core.errors import ConfigError

REPLICAS, P, G, T = 6, 3, 4, 5


@pytest.mark.holds("S0.14")
@pytest.mark.only("none", "overlong")
def test_filters_keep_what_finished(filter_choice):
    (finished,) = inputs(filter_choice, REPLICAS, P, G, T)
    assert filter_choice(finished)[finished].all()


CONSTANTS = [0.7, 1.1, 0.1, 1 / 3, 1e-8, 1e30]


def test_equal_rewards_are_zero_variance_and_the_next_number_is_not():
    for value, size, dtype in product(CONSTANTS, [2, 8, 10, 32, 33], [torch.float32, torch.float64]):
        rewards = torch.full((2, size), value, dtype=dtype)
        rewards[1, size // 2] = rewards[1, 0].nextafter(torch.tensor(torch.inf, dtype=dtype))
        keep = bind("filter", "zero_variance")(rewards, torch.ones_like(rewards, dtype=torch.bool))
        assert not keep[0].any() and keep[1].all(), (value, size, dtype)


def test_a_deviation_of_zero_would_not_have_found_them():
    """Why zero_variance compares extremes."""
    found = [
        torch.full((size,), value, dtype=torch.float32).std(correction=0).item()
        for value in CONSTANTS
        for size in (10, 32, 33)
    ]
    assert any(found)


@pytest.mark.only("zero_variance", "difficulty")
def test_a_filter_of_groups_keeps_all_of_a_group_or_nothing(filter_choice):
    keep = filter_choice(*inputs(filter_choice, REPLICAS, P, G, T))
    assert torch.equal(keep.all(-1), keep.any(-1))


@pytest.mark.only("zero_variance", "difficulty")
def test_rewards_that_are_not_there_do_not_decide(filter_choice):
    rewards, scored = inputs(filter_choice, REPLICAS, P, G, T)
    assert same_bits(filter_choice(rewards.where(scored, 1e9), scored), filter_choice(rewards, scored))
    assert not filter_choice(rewards, torch.zeros_like(scored)).any()


@given(share=st.sampled_from([0.01, 0.1, 0.2, 0.5, 0.8, 1.0]))
def test_top_entropy_keeps_its_share_and_the_most_uncertain(share):
    chosen = bind("filter", "top_entropy", share=share)
    entropies, mask = inputs(chosen, REPLICAS, P, G, T)
    keep = chosen(entropies, mask)
    assert not (keep & ~mask).any()
    assert keep.sum((-1, -2, -3)).tolist() == [max(1, round(share * n)) for n in mask.sum((-1, -2, -3)).tolist()]
    lowest = entropies.masked_fill(~keep, torch.inf).amin((-1, -2, -3))
    assert (lowest > entropies.masked_fill(keep | ~mask, -torch.inf).amax((-1, -2, -3))).all()
    garbage = entropies.masked_fill(~mask, math.nan)
    assert same_bits(chosen(garbage, mask), keep)
    assert same_bits(chosen(entropies.flip(-3), mask.flip(-3)), keep.flip(-3))


def test_tokens_of_equal_entropy_stay_together():
    mask = torch.ones(2, 3, 4, dtype=torch.bool)
    assert bind("filter", "top_entropy", share=0.1)(torch.full((2, 3, 4), 0.7), mask).all()
    assert not bind("filter", "top_entropy", share=0.1)(torch.full((2, 3, 4), 0.7), ~mask).any()


@pytest.mark.only("shortest", "most_efficient")
def test_a_choice_of_the_best_keeps_its_number_of_those_with_a_reward(filter_choice):
    *given_, scored = inputs(filter_choice, REPLICAS, P, G, T)
    keep = filter_choice.changed(number=2)(*given_, scored)
    assert not (keep & ~scored).any()
    assert torch.equal(keep.sum(-1), scored.sum(-1).clamp(max=2))
    order = given_[0] if filter_choice.name == "shortest" else -given_[0] / given_[1]
    worst = order.masked_fill(~keep, -torch.inf).amax(-1)
    assert (worst <= order.masked_fill(keep | ~scored, torch.inf).amin(-1)).all()


def test_of_equal_lengths_the_first_are_kept():
    lengths = torch.tensor([[3.0, 2.0, 3.0, 3.0]])
    keep = bind("filter", "shortest", number=2)(lengths, torch.ones_like(lengths) > 0)
    assert keep.tolist() == [[True, True, False, False]]


def test_a_group_that_gfpo_would_keep_whole_is_refused():
    for completions, refused in ((4, True), (5, False)):
        found = []
        try:
            read(values("filter=gfpo", f"group_size.completions={completions}"))
        except ConfigError as error:
            found = error.problems
        line = "filter.statistics.number=4: must be below group_size.completions=4"
        assert [each.startswith(line) for each in found] == [True] * refused
