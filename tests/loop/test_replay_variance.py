"""Stored groups in the place of those without variance: against a heap and draws one by one, and whole steps."""

from __future__ import annotations

import heapq
import statistics
import warnings
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from itertools import permutations

import pytest
import torch
from plain_step import Recipe
from toy_state import Toy, make_state, variant

from rlexp.loop.data import gather_groups, prefill_buffer
from rlexp.loop.replay_variance import ReplayVariance, Stored, best, replacements, variation
from rlexp.loop.sampling import sample_groups
from rlexp.loop.step import train_step

NAN, STEPS, SEEDS = float("nan"), 7, [0, 1, 2]


def state_with(data):
    runs = [(variant(Recipe()), len(SEEDS))], SEEDS
    state = make_state(*runs, task=Toy(unjudged=3), dtype=torch.float32, data=data, minibatches=1)
    state = replace(state, buffer=state.data.empty(state))
    return state, prefill_buffer(state)


def named(rollout, run, p):
    """A group as something that can be looked up."""
    return tuple(value for each in rollout for value in each[run, p].flatten().tolist())


def score_of(rewards):
    """TRL: Σ |A| · std, A = (r − mean) / (std + 1e-4), of the rewards that there are."""
    rewards = [reward for reward in rewards if reward == reward]
    if len(set(rewards)) < 2:
        return 0.0
    mean, deviation = statistics.fmean(rewards), statistics.stdev(rewards)
    return sum(abs((reward - mean) / (deviation + 1e-4)) * deviation for reward in rewards)


def test_scores_are_those_of_trl():
    groups = [
        [0, 0, 1, 1],
        [0, 0, 0, 1],
        [0.7] * 4,
        [0.1, 0.5, NAN, 0.9],
        [NAN] * 4,
        [0.3, NAN, NAN, NAN],
        [1, 0, 1, 1],
    ]
    found = variation(torch.tensor([groups], dtype=torch.float64))[0].tolist()
    assert found == pytest.approx([score_of(group) for group in groups], rel=1e-12)
    assert found[2] == found[4] == found[5] == 0


def stored(scores, names):
    """Groups that are known by their step."""
    scores, names = torch.tensor([scores]), torch.tensor([names])
    shape = (*scores.shape, 1, 1)
    nothing = torch.zeros(shape), torch.zeros(shape, dtype=torch.bool), torch.zeros(shape[:-1], dtype=torch.bool)
    tokens, mask, finished = nothing
    return Stored(scores, names, torch.zeros(shape[:-1]).long(), tokens.long(), tokens, mask, finished, tokens)


class Heap:
    """TRL's ``ReplayBuffer.add`` from its description: the lowest of a full heap gives way to a higher score."""

    def __init__(self, size):
        self.size, self.heap = size, []

    def add(self, scores, data):
        for pair in zip(scores, data, strict=True):
            if len(self.heap) < self.size:
                heapq.heappush(self.heap, pair)
            elif pair[0] > self.heap[0][0]:
                heapq.heapreplace(self.heap, pair)


def buffers(size):
    yield Heap(size)
    with warnings.catch_warnings(), suppress(ImportError):  # releases from 1.16 have none
        warnings.simplefilter("ignore")
        module = import_module("trl.experimental.grpo_with_replay_buffer.grpo_with_replay_buffer_trainer")
        yield module.ReplayBuffer(size)


def test_what_is_kept_is_what_the_heap_of_trl_keeps():
    random = torch.Generator().manual_seed(0)
    for size in (1, 3, 8):
        for theirs in buffers(size):
            kept, number = stored([0.0] * size, [0] * size), 0
            for _ in range(6):
                scores = torch.rand(4, generator=random).tolist()
                scores[number % 4] = 0.0
                names = [number := number + 1 for _ in scores]
                kept = best(stored(scores, names), kept)
                varied = [pair for pair in zip(scores, names, strict=True) if pair[0] > 0]
                theirs.add(*zip(*varied, strict=True))
                held = kept.scores[0] > 0
                assert sorted(kept.steps[0, held].tolist()) == sorted(name for _, name in theirs.heap)
                assert kept.scores[0].diff().le(0).all()


def test_of_equal_scores_the_newer_group_is_kept():
    kept = best(stored([1.0, 2.0, 1.0], [4, 5, 6]), stored([2.0, 1.0, 1.0], [1, 2, 3]))
    assert kept.steps[0].tolist() == [5, 1, 4]


def law_of(weights, number):
    """Chances of drawing places one after another, in proportion to their weights, none twice."""
    chances = {}
    for order in permutations(range(len(weights)), number):
        left, chance = sum(weights), 1.0
        for place in order:
            chance, left = chance * weights[place] / left if left else 0.0, left - weights[place]
        chances[order] = chance
    return {order: chance for order, chance in chances.items() if chance}


def test_stored_groups_are_drawn_in_proportion_to_their_scores_and_none_twice():
    """All pairs of a grid of random numbers: shares are right up to the grid."""
    weights, size = [4.0, 3.0, 1.0, 0.0], 80
    grid = (torch.arange(size) + 0.5) / size
    uniforms = torch.cartesian_prod(grid, grid)
    uniforms = torch.cat([uniforms, torch.zeros(len(uniforms), 1)], 1)
    missing = torch.tensor([True, False, True]).expand(len(uniforms), -1)
    places, replaced = replacements(torch.tensor(weights).expand(len(uniforms), -1), missing, uniforms)
    assert torch.equal(replaced, missing)
    found = Counter(map(tuple, places[:, [0, 2]].tolist()))
    wanted = law_of(weights, 2)
    assert found.keys() == wanted.keys()
    for order, chance in wanted.items():
        assert found[order] / len(uniforms) == pytest.approx(chance, abs=2 / size)


def test_with_fewer_than_are_needed_groups_come_again_and_with_none_nothing_does():
    missing, uniforms = torch.ones(2, 3, dtype=torch.bool), torch.tensor([[0.1, 0.2, 0.99]]).expand(2, -1)
    places, replaced = replacements(torch.tensor([[1.0, 1.0, 0.0], [0.0, 0.0, 0.0]]), missing, uniforms)
    assert replaced.tolist() == [[True] * 3, [False] * 3] and places[0].tolist() == [0, 0, 1]
    assert places.max() < 3


def test_a_step_trains_on_stored_groups_in_the_place_of_those_without_variance():
    state, filled = state_with(ReplayVariance(capacity=3))
    assert not any(each.any() for each in filled.values()), "nothing is sampled before the first step"
    known, replayed = [{} for _ in state.seeds], 0
    for step in range(1, STEPS + 1):
        groups = gather_groups(state, step)
        fresh = sample_groups(state, step)
        varies = variation(fresh.rewards.total) > 0
        assert groups.sampled.equal(fresh.sampled) and groups.tokens.equal(fresh.tokens)
        for run in range(len(state.seeds)):
            known[run] |= {named(fresh.rollout, run, p): step for p in varies[run].nonzero().flatten().tolist()}
            for p, varied in enumerate(varies[run].tolist()):
                name, age = named(groups.rollout, run, p), groups.ages[run, p].unique().item()
                if varied or not groups.replayed[run]:
                    assert age == 0 and name == named(fresh.rollout, run, p)
                else:
                    assert step - age == known[run][name]
                    replayed += 1
        assert variation(groups.rewards.total).gt(0).all(-1).equal(groups.stored.scores.gt(0).any(-1))
        assert groups.replayed.equal((~varies & groups.stored.scores.gt(0).any(-1, keepdim=True)).sum(-1))
        train_step(state, step, measure=False)
        assert all(held.equal(new) for held, new in zip(state.buffer, groups.stored, strict=True))
    assert replayed > 3
