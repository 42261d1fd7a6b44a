"""Random numbers: a function of seed, purpose and step, and of nothing else."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from rlexp.streams import Purpose, generator, uniforms

ADDRESS = st.tuples(st.integers(0, 2**32), st.sampled_from(Purpose), st.integers(0, 2**20))


@given(ADDRESS)
def test_an_address_has_the_same_numbers_every_time(address):
    assert torch.equal(torch.tensor(generator(*address).random(9)), torch.tensor(generator(*address).random(9)))


@given(ADDRESS, ADDRESS)
def test_different_addresses_share_no_number(one, other):
    if one != other:
        assert not set(generator(*one).random(50).tolist()) & set(generator(*other).random(50).tolist())


def test_a_neighbouring_step_does_not_continue_a_stream():
    """A step that takes many numbers must not run into those of the next."""
    every = [set(generator(0, Purpose.SAMPLING, step).random(20000).tolist()) for step in (1, 2, 3)]
    assert not any(left & right for left, right in itertools.combinations(every, 2))


def test_a_replica_has_its_numbers_wherever_it_stands():
    stack = uniforms([4, 9, 2, 9], Purpose.PROMPTS, 7, (3, 5))
    assert stack.shape == (4, 3, 5) and stack.dtype == torch.float32
    for row, seed in zip(stack, [4, 9, 2, 9], strict=True):
        assert torch.equal(row, uniforms([seed], Purpose.PROMPTS, 7, (3, 5))[0])


@pytest.mark.parametrize("change", [dict(step=8), dict(purpose=Purpose.SAMPLING), dict(seeds=[5])])
def test_step_purpose_and_seed_each_change_the_numbers(change):
    settings = dict(seeds=[4], purpose=Purpose.PROMPTS, step=7, shape=(3, 5))
    assert not (uniforms(**settings) == uniforms(**settings | change)).any()


def test_numbers_are_uniform_from_0_to_below_1():
    numbers = uniforms(range(20), Purpose.SAMPLING, 3, (50, 100))
    assert numbers.min() >= 0 and numbers.max() < 1
    assert stats.kstest(numbers.flatten().numpy(), "uniform").pvalue > 0.01
    assert stats.kstest(numbers[:, 0, 0].numpy(), "uniform").pvalue > 0.01
