"""What one variant asks for is computed for its own runs: the others pay nothing for it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from axis_choices import bind
from plain_step import Recipe
from toy_state import make_experience, make_state, variant

from rlexp.loop import requested
from rlexp.loop.data import gather_groups
from rlexp.loop.step import train_step

PLAIN = variant(Recipe())
GREEDY = replace(PLAIN, norm=bind("norm", "remax"))
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


def test_greedy_completions_are_sampled_for_those_that_ask(monkeypatch):
    sizes = spied(monkeypatch, "sample")
    train_step(make_state([(PLAIN, 2), (GREEDY, 1), (PLAIN, 1)], [0, 1, 2, 3]), 1, False)
    assert sizes == [1]


@pytest.mark.parametrize("penalized", PENALISED.values(), ids=PENALISED.keys())
def test_the_reference_reads_for_those_that_ask(monkeypatch, penalized):
    sizes = spied(monkeypatch, "log_probs_of")
    train_step(make_state([(PLAIN, 2), (penalized, 2)], [0, 1, 2, 3]), 1, False)
    assert sizes == [2]


def test_without_a_penalty_the_reference_does_not_read(monkeypatch):
    sizes = spied(monkeypatch, "log_probs_of")
    train_step(make_state([(PLAIN, 2)], [0, 1]), 1, False)
    assert sizes == []


def test_what_some_ask_for_is_what_they_get_alone():
    mixed, alone = make_state([(PLAIN, 2), (GREEDY, 2)], [0, 1, 2, 3]), make_state([(GREEDY, 2)], [2, 3])
    ours, theirs = (make_experience(runs, 1, gather_groups(runs, 1)).advantages for runs in (mixed, alone))
    assert ours[2:].any() and ours[2:].equal(theirs) and not theirs[0].equal(theirs[1])
