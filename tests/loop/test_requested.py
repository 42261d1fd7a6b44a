"""What one variant asks for is computed for its own runs: the others pay nothing for it."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from axis_choices import bind
from plain_step import Recipe
from toy_state import make_experience, make_state, variant

from rlexp.loop import requested
from rlexp.loop.data import gather_groups
from rlexp.loop.step import train_step

PLAIN = variant(Recipe())
GREEDY = replace(PLAIN, norm=bind("norm", "remax"))
BY_REFERENCE = replace(PLAIN, norm=bind("norm", "a2po", beta=0.5))
SAMPLING = pytest.mark.parametrize("asking", [GREEDY, BY_REFERENCE], ids=["greedy", "by the reference"])
PENALISED = {
    "in the loss": replace(PLAIN, kl=bind("kl", "k3"), kl_in_loss=0.1),
    "in the reward": replace(PLAIN, kl=bind("kl", "k1"), kl_in_reward=0.1),
}


def spied(monkeypatch, name: str) -> list[int]:
    """Return the list of the numbers of replicas that ``requested.<name>`` is called for."""
    sizes, real = [], getattr(requested, name)

    def spy(policy, *others, **more):
        sizes.append(len(next(policy.parameters())))
        return real(policy, *others, **more)

    monkeypatch.setattr(requested, name, spy)
    return sizes


@SAMPLING
def test_completions_for_a_baseline_are_sampled_for_those_that_ask(monkeypatch, asking):
    sizes = spied(monkeypatch, "sample")
    train_step(make_state([(PLAIN, 2), (asking, 1), (PLAIN, 1)], [0, 1, 2, 3]), 1, False)
    assert sizes == [1]


@pytest.mark.parametrize("penalized", PENALISED.values(), ids=PENALISED.keys())
def test_the_reference_reads_for_those_that_ask(monkeypatch, penalized):
    sizes = spied(monkeypatch, "log_probs_of")
    train_step(make_state([(PLAIN, 2), (penalized, 2)], [0, 1, 2, 3]), 1, False)
    assert sizes == [2]


@pytest.mark.holds("S3.9")
def test_without_a_penalty_the_reference_does_not_read(monkeypatch):
    sizes = spied(monkeypatch, "log_probs_of")
    train_step(make_state([(PLAIN, 2)], [0, 1]), 1, False)
    assert sizes == []


def rewards_by_reference(state, step):
    return requested.tensors_of_rollout(state, step, gather_groups(state, step))["reference_rewards"]


def test_rewards_by_the_reference_are_of_its_completions_of_the_prompts():
    """By the same weights they have the policy's mean, from other draws; they move with the reference alone."""
    state, steps = make_state([(BY_REFERENCE, 2)], [0, 1], group=16), range(1, 51)

    def by_reference():
        return torch.stack([rewards_by_reference(state, step) for step in steps])

    def scale(policy, by):
        with torch.no_grad():
            for parameter in policy.parameters():
                parameter.mul_(by)

    with torch.no_grad():
        for theirs, own in zip(state.reference.parameters(), state.policy.parameters(), strict=True):
            theirs.copy_(own)
    before = by_reference()
    assert before.shape == (50, 2, state.prompts, 16) and not before[:, 0].equal(before[:, 1])
    assert before.equal(by_reference()), "addressed by seed and step"
    own = torch.stack([gather_groups(state, step).rewards.total for step in steps]).nan_to_num(0.0)
    assert not own.equal(before), "other completions than those that are trained on"
    error = ((own.var() + before.var()) / own.numel()).sqrt()
    assert (own.mean() - before.mean()).abs() < 4 * error
    scale(state.policy, 3.0)
    assert before.equal(by_reference())
    scale(state.reference, 3.0)
    assert not before.equal(by_reference())


@SAMPLING
def test_what_some_ask_for_is_what_they_get_alone(asking):
    mixed, alone = make_state([(PLAIN, 2), (asking, 2)], [0, 1, 2, 3]), make_state([(asking, 2)], [2, 3])
    ours, theirs = (make_experience(runs, 1, gather_groups(runs, 1)).advantages for runs in (mixed, alone))
    assert ours[2:].any() and ours[2:].equal(theirs) and not theirs[0].equal(theirs[1])
