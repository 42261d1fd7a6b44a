"""Cutting and joining along replicas and prompts loses nothing, reorders nothing and never splits a group."""

from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from rlexp.core.blocks import concat, map_variants, minibatches, slice_rows

R, P, G, T = 5, 6, 3, 2


class Pair(NamedTuple):
    tokens: Tensor
    rewards: Tensor


@pytest.fixture
def pair():
    """Numbers that say where they come from."""
    return Pair(torch.arange(R * P * G * T).view(R, P, G, T), torch.arange(R * P * G).view(R, P, G) / 7)


def equal(left, right):
    return type(left) is type(right) and all(torch.equal(a, b) for a, b in zip(left, right, strict=True))


@pytest.mark.parametrize("axis", [0, 1])
def test_cut_takes_rows_of_one_axis_of_every_tensor(pair, axis):
    part = slice_rows(pair, slice(1, 4), axis)
    rows = torch.arange(1, 4)
    assert equal(part, Pair(*(tensor.index_select(axis, rows) for tensor in pair)))
    assert torch.equal(slice_rows(pair.tokens, slice(1, 4), axis), part.tokens)


def test_join_puts_cut_replicas_together_again(pair):
    parts = [slice_rows(pair, slice(first, first + size)) for first, size in [(0, 2), (2, 1), (3, 2)]]
    assert equal(concat(parts), pair)
    assert {name: tensor.tolist() for name, tensor in concat([part._asdict() for part in parts]).items()} == {
        name: tensor.tolist() for name, tensor in pair._asdict().items()
    }


def test_map_variants_gives_each_variant_its_own_replicas_in_order(pair):
    seen = []

    def scaled(factor, rows, tokens):
        seen.append((factor, rows.rewards.shape[0], tokens.shape[0]))
        return Pair(rows.tokens + tokens, factor * rows.rewards)

    result = map_variants(scaled, [(2.0, 1), (3.0, 3), (5.0, 1)], pair, pair.tokens)
    factors = torch.tensor([2.0, 3.0, 3.0, 3.0, 5.0]).view(R, 1, 1)
    assert seen == [(2.0, 1, 1), (3.0, 3, 3), (5.0, 1, 1)]
    assert equal(result, Pair(2 * pair.tokens, factors * pair.rewards))


def test_map_variants_joins_dicts(pair):
    def sums(factor, rows):
        return {"sum": factor * rows.rewards.sum((-1, -2)), "count": torch.full((rows.rewards.shape[0],), factor)}

    result = map_variants(sums, [(1.0, 2), (2.0, 3)], pair)
    factors = torch.tensor([1.0, 1.0, 2.0, 2.0, 2.0])
    torch.testing.assert_close(result["sum"], factors * pair.rewards.flatten(1).sum(-1))
    assert torch.equal(result["count"], factors)


def test_map_variants_keeps_gradients(pair):
    weights = torch.ones(R, requires_grad=True)
    losses = map_variants(lambda factor, rows: {"loss": factor * rows}, [(2.0, 4), (3.0, 1)], weights)
    losses["loss"].sum().backward()
    assert weights.grad.tolist() == [2.0, 2.0, 2.0, 2.0, 3.0]


@pytest.mark.parametrize("parts", [1, 2, 3, 6])
def test_minibatches_are_equal_parts_of_the_prompts_with_whole_groups(pair, parts):
    found = list(minibatches(pair, P, parts))
    assert len(found) == parts
    assert all(part.tokens.shape == (R, P // parts, G, T) for part in found)
    assert equal(Pair(*(torch.cat(column, 1) for column in zip(*found, strict=True))), pair)


def test_dicts_are_cut_and_tensors_joined(pair):
    named = pair._asdict()
    assert all(torch.equal(slice_rows(named, slice(1, 3))[name], tensor[1:3]) for name, tensor in named.items())
    assert torch.equal(map_variants(lambda _, tokens: tokens + 1, [(None, 2), (None, 3)], pair.tokens), pair.tokens + 1)
