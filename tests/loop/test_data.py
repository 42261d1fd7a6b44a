"""Data of other ages: which rollout a step trains on, who sampled it, and what is kept for later."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch
from plain_step import Recipe
from toy_state import GROUP, PROMPTS, Toy, make_state, variant

from rlexp.loop.data import Offline, Replay, Stale, gather_groups, prefill_buffer
from rlexp.loop.rollout import Rollout
from rlexp.loop.sampling import sample_groups
from rlexp.loop.step import train_step
from rlexp.tasks.sort import Sort

SEEDS, STEPS = [0, 1, 2], 7
# Rounding of one forward pass in float32.
ROUNDING = dict(rtol=1e-5, atol=1e-5)
WEIGHTS = {"exact": 1.0, "graded": 0.0, "lecture": 0.0, "multiset": 0.0, "format": 0.0}
SORT = Sort(alphabet=3, shortest=1, longest=3, cap=4, filler=0, prompt_set=None, weights=WEIGHTS, metric="", floor=0.0)


def state_with(data, task=None):
    state = make_state(
        [(variant(Recipe()), len(SEEDS))], SEEDS, task=task or Toy(), dtype=torch.float32, data=data, minibatches=1
    )
    state = replace(state, buffer=state.data.empty(state))
    return state, prefill_buffer(state)


def walk(state):
    """Train; return for each step what it trained on, and the policy before it."""
    steps = []
    for step in range(1, STEPS + 1):
        steps.append((gather_groups(state, step), copy.deepcopy(state.policy)))
        train_step(state, step, measure=False)
    return steps


def same(one: Rollout, other: Rollout) -> bool:
    return all(a.equal(b) for a, b in zip(one, other, strict=True))


def sampled_by(state, policy, number) -> Rollout:
    """Return the rollout of a number by a policy."""
    networks = state.networks | {"policy": replace(state.networks["policy"], module=policy)}
    return sample_groups(replace(state, networks=networks), number).rollout


@pytest.mark.parametrize("age", [1, 3])
def test_a_stale_step_trains_on_what_the_policy_of_so_many_steps_ago_has_sampled(age):
    state, _ = state_with(Stale(age=age))
    steps = walk(state)
    for step, (groups, _) in enumerate(steps, 1):
        by = steps[max(step - age, 1) - 1][1]
        assert same(groups.rollout, sampled_by(state, by, step))
        assert (groups.ages == min(step - 1, age)).all()
    assert not same(groups.rollout, sampled_by(state, steps[-1][1], STEPS)), "the policy has moved"


def test_old_log_probs_are_those_of_the_policy_that_sampled():
    steps = walk(state_with(Stale(age=3))[0])
    rollout, policy = steps[-1][0].rollout, steps[-1 - 3][1]
    log_probs = policy.log_probs(rollout.prompts, rollout.completions, torch.ones(len(SEEDS))).log_probs
    torch.testing.assert_close(log_probs.where(rollout.mask, 0.0), rollout.old_log_probs, **ROUNDING)


def test_looking_at_a_step_changes_nothing():
    for data in (Stale(age=2), Replay(capacity=2, fresh=0.5), Offline(batches=2, oracle=0)):
        state, _ = state_with(data)
        first, second = (gather_groups(state, 1) for _ in range(2))
        assert same(first.rollout, second.rollout)


def test_offline_batches_come_again_and_nothing_is_sampled():
    state, filled = state_with(Offline(batches=3, oracle=0))
    start = copy.deepcopy(state.policy)
    steps = walk(state)
    for step, (groups, _) in enumerate(steps, 1):
        assert same(groups.rollout, sampled_by(state, start, (step - 1) % 3 + 1))
        assert not groups.tokens.any() and not groups.sampled.any() and groups.stored is None
        assert (groups.ages == step - 1).all()
    assert filled["completions"].tolist() == [3 * PROMPTS * GROUP] * len(SEEDS)
    tokens = sum(groups.rollout.mask.flatten(1).sum(-1) for groups, _ in steps[:3])
    assert filled["tokens"].equal(tokens)


def test_the_first_completions_can_be_right_answers():
    state, _ = state_with(Offline(batches=2, oracle=2), task=SORT)
    rollout = gather_groups(state, 1).rollout
    plain = gather_groups(state_with(Offline(batches=2, oracle=0), task=SORT)[0], 1).rollout
    scores = SORT.score(rollout.prompts, rollout.completions, rollout.mask, rollout.finished)
    assert scores.correct[..., :2].all() and not scores.correct.all()
    for ours, theirs in zip(rollout[1:], plain[1:], strict=True):
        assert ours[:, :, 2:].equal(theirs[:, :, 2:])
    log_probs = state.policy.log_probs(rollout.prompts, rollout.completions, torch.ones(len(SEEDS))).log_probs
    torch.testing.assert_close(log_probs.where(rollout.mask, 0.0), rollout.old_log_probs, **ROUNDING)


def groups_of(rollout: Rollout, replica: int) -> set[tuple]:
    """Every group of a run as something that can be looked up."""
    return {
        (*prompt.tolist(), *completions.flatten().tolist(), *log_probs.flatten().tolist())
        for prompt, completions, log_probs in zip(*(each[replica] for each in rollout[:3]), strict=True)
    }


def test_replayed_groups_are_from_the_last_steps_beside_new_ones():
    capacity = 2
    state, filled = state_with(Replay(capacity=capacity, fresh=0.5))
    new = round(0.5 * PROMPTS)
    part = replace(state, prompts=new)
    assert filled["completions"].tolist() == [capacity * new * GROUP] * len(SEEDS)
    known, mixed = {}, 0
    for number in range(1, capacity + 1):
        known[number] = sample_groups(part, number).rollout
    for step in range(1, STEPS + 1):
        groups = gather_groups(state, step)
        known[step + capacity] = groups.stored
        assert groups.sampled.tolist() == [new] * len(SEEDS) and same(
            groups.stored, sample_groups(part, step + capacity).rollout
        )
        for r in range(len(SEEDS)):
            wanted, ages = groups_of(groups.rollout, r), []
            for number in range(step, step + capacity + 1):
                found = wanted & groups_of(known[number], r)
                ages += [step - max(number - capacity, 1)] * len(found)
                wanted -= found
            assert not wanted and len(ages) == PROMPTS, "every group is a new one or in the buffer, none is there twice"
            assert sorted(groups.ages[r, :, 0, 0].tolist()) == sorted(ages)
            mixed += bool(groups_of(groups.rollout, r) & groups_of(known[step + capacity], r))
        first = Rollout(*(each[:, :new] for each in groups.rollout))
        assert step > 1 or any(groups_of(first, r) != groups_of(groups.stored, r) for r in range(len(SEEDS)))
        train_step(state, step, measure=False)
    assert mixed == STEPS * len(SEEDS)


def test_a_slot_is_a_copy():
    state, _ = state_with(Stale(age=1))
    held = state.data.slot(state, 1)
    before = held.completions.clone()
    state.buffer.completions.fill_(0)
    assert held.completions.equal(before) and held.completions.is_contiguous()


def test_fresh_data_keep_nothing(monkeypatch):
    state = make_state([(variant(Recipe()), 1)], [0], dtype=torch.float32, data=Stale(age=0))
    assert state.data.empty(state) is None and not prefill_buffer(state)["tokens"].any()
    assert "data/age" not in train_step(state, 1, measure=True)
