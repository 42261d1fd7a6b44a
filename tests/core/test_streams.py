"""Random numbers: a function of seed, purpose, step and round, or of seed and tokens, and of nothing else."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from rlexp.core.streams import Purpose, generator, hashed_uniforms, splitmix64, uniforms

ADDRESS = st.tuples(st.integers(0, 2**32), st.sampled_from(Purpose), st.integers(0, 2**20), st.integers(0, 2**10))


@given(ADDRESS)
def test_an_address_has_the_same_numbers_every_time(address):
    assert torch.equal(torch.tensor(generator(*address).random(9)), torch.tensor(generator(*address).random(9)))


@given(ADDRESS, ADDRESS)
def test_different_addresses_share_no_number(one, other):
    if one != other:
        assert not set(generator(*one).random(50).tolist()) & set(generator(*other).random(50).tolist())


def test_a_neighbouring_step_does_not_continue_a_stream():
    """A step, or a round, that takes many numbers must not run into those of the next."""
    places = [(1, 0), (2, 0), (3, 0), (1, 1), (1, 2), (2, 1)]
    every = [set(generator(0, Purpose.SAMPLING, *place).random(20000).tolist()) for place in places]
    assert not any(left & right for left, right in itertools.combinations(every, 2))


def test_a_replica_has_its_numbers_wherever_it_stands():
    stack = uniforms([4, 9, 2, 9], Purpose.PROMPTS, 7, (3, 5))
    assert stack.shape == (4, 3, 5) and stack.dtype == torch.float32
    for row, seed in zip(stack, [4, 9, 2, 9], strict=True):
        assert torch.equal(row, uniforms([seed], Purpose.PROMPTS, 7, (3, 5))[0])


@pytest.mark.parametrize("change", [dict(step=8), dict(purpose=Purpose.SAMPLING), dict(seeds=[5]), dict(round=1)])
def test_step_purpose_seed_and_round_each_change_the_numbers(change):
    settings = dict(seeds=[4], purpose=Purpose.PROMPTS, step=7, shape=(3, 5))
    assert not (uniforms(**settings) == uniforms(**settings | change)).any()


def test_numbers_are_uniform_from_0_to_below_1():
    numbers = uniforms(range(20), Purpose.SAMPLING, 3, (50, 100))
    assert numbers.min() >= 0 and numbers.max() < 1
    assert stats.kstest(numbers.flatten().numpy(), "uniform").pvalue > 0.01
    assert stats.kstest(numbers[:, 0, 0].numpy(), "uniform").pvalue > 0.01


# ---- numbers that belong to tokens

SEEDS = [4, 9, 2**40]


def tokens_of(*rows):
    """One row of tokens a run, all of them present: ``[R, 1, L]``."""
    tokens = torch.tensor(rows).unsqueeze(1)
    return tokens, torch.ones_like(tokens, dtype=torch.bool)


def split_mix(number: int) -> int:
    """Return the finalizer of SplitMix64 after one step of its counter, in Python's unbounded integers."""
    number = (number + 0x9E3779B97F4A7C15) % 2**64
    number = (number ^ number >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    number = (number ^ number >> 27) * 0x94D049BB133111EB % 2**64
    return number ^ number >> 31


def test_the_mixer_is_split_mix():
    """The first two outputs of the published generator for seed 0, and Python's integers for others."""
    assert splitmix64(torch.tensor([0])).item() % 2**64 == 0xE220A8397B1DCDAF
    assert splitmix64(torch.tensor([0x9E3779B97F4A7C15 - 2**64])).item() % 2**64 == 0x6E789E6AA1B965F4
    numbers = torch.randint(-(2**63), 2**63 - 1, (100,), generator=torch.Generator().manual_seed(1))
    assert [x % 2**64 for x in splitmix64(numbers).tolist()] == [split_mix(x % 2**64) for x in numbers.tolist()]


def test_a_hash_is_that_of_plain_integers():
    row = [3, 0, 7, 7]
    (key,) = (int(generator(9, Purpose.VERDICTS).integers(2**63)),)
    total = sum(split_mix((token << 32) + place) for place, token in enumerate(row)) + key
    expected = (split_mix(total % 2**64) >> 40) / 2**24
    assert hashed_uniforms([9], Purpose.VERDICTS, *tokens_of(row)).item() == expected


def test_a_pair_has_its_number_wherever_it_stands_and_whatever_is_behind_it():
    tokens, present = tokens_of([1, 2, 3], [4, 5, 6], [1, 2, 3])
    together = hashed_uniforms(SEEDS, Purpose.VERDICTS, tokens, present)
    for r, seed in enumerate(SEEDS):
        alone = hashed_uniforms([seed], Purpose.VERDICTS, tokens[r : r + 1], present[r : r + 1])
        assert torch.equal(alone[0], together[r])
    padded = torch.cat([tokens, torch.full_like(tokens, 77)], -1)
    assert torch.equal(hashed_uniforms(SEEDS, Purpose.VERDICTS, padded, torch.cat([present, ~present], -1)), together)


def test_seed_purpose_tokens_order_and_end_each_change_the_number():
    tokens, present = tokens_of([1, 2, 3])
    one = hashed_uniforms([4], Purpose.VERDICTS, tokens, present)
    shorter = present.clone()
    shorter[..., -1] = False
    others = [
        hashed_uniforms([5], Purpose.VERDICTS, tokens, present),
        hashed_uniforms([4], Purpose.PERSISTENT_VERDICTS, tokens, present),
        hashed_uniforms([4], Purpose.VERDICTS, *tokens_of([1, 2, 4])),
        hashed_uniforms([4], Purpose.VERDICTS, *tokens_of([2, 1, 3])),
        hashed_uniforms([4], Purpose.VERDICTS, tokens, shorter),
    ]
    assert len({one.item(), *(other.item() for other in others)}) == 6


def test_hashes_of_similar_tokens_are_uniform_and_independent():
    """All rows of four symbols from twelve: neighbours differ in one token by one."""
    rows = torch.tensor(list(itertools.product(range(12), repeat=4)))
    numbers = hashed_uniforms([3], Purpose.VERDICTS, rows[None], torch.ones_like(rows, dtype=torch.bool)[None])[0]
    assert numbers.dtype == torch.float32 and numbers.min() >= 0 and numbers.max() < 1
    assert stats.kstest(numbers.numpy(), "uniform").pvalue > 0.01
    grid = numbers.view(12, 12, 12, 12).double()
    for axis in range(4):
        left, right = grid.narrow(axis, 0, 11).flatten(), grid.narrow(axis, 1, 11).flatten()
        assert abs(stats.pearsonr(left.numpy(), right.numpy()).statistic) < 4 / len(left) ** 0.5
