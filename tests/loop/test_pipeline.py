"""Groups in flight: who drew which token, in which order they are used, what is dropped, and what stays as it was."""

from __future__ import annotations

import copy
import math
from dataclasses import replace

import pytest
import torch
from plain_step import Recipe
from toy_state import GROUP, PROMPTS, Conversation, Toy, make_state, variant

from rlexp.loop.data import Fresh
from rlexp.loop.pipeline import Pipeline
from rlexp.loop.rollout import response_mask
from rlexp.loop.step import train_step

SEEDS = [0, 1, 2]
# Rounding of one forward pass in float32: a token is decoded with other tokens beside it than it is read with.
ROUNDING = dict(rtol=1e-5, atol=1e-5)


class Endless(Toy):
    """Answers have no end, so that when a group is complete does not depend on what is drawn."""

    end = -1


def state_with(data, task, **more):
    blocks = [(variant(Recipe()), len(SEEDS))]
    state = make_state(blocks, SEEDS, task=task, dtype=torch.float32, data=data, minibatches=1, **more)
    return replace(state, buffer=data.empty(state))


def walk(state, steps):
    """Train; return for each step what it trained on, and the policies before each step."""
    found, policies = [], []
    for step in range(1, steps + 1):
        policies.append(copy.deepcopy(state.policy))
        found.append(state.data.gather(state, step))
        train_step(state, step, measure=False)
    return found, policies


@pytest.mark.parametrize("task", [Toy(), Conversation(), Endless()], ids=["toy", "conversation", "endless"])
def test_one_rollout_that_is_sampled_at_once_is_fresh_to_the_bit(task):
    whole = Pipeline(rollouts=1, tokens=task.cap, max_age=None)
    states = [state_with(data, task, inner_steps=2) for data in (Fresh(), whole)]
    for step in range(1, 4):
        fresh, piped = (train_step(state, step, measure=True) for state in states)
        assert set(piped) - set(fresh) == {f"data/{name}" for name in OF_DATA}
        assert all(torch.equal(fresh[name].nan_to_num(), piped[name].nan_to_num()) for name in fresh)
        assert (piped["data/age_max"] == 0).all() and (piped["data/ess_tokens"] > 0.999999).all()
    weights = [list(state.policy.parameters()) for state in states]
    assert all(torch.equal(a, b) for a, b in zip(*weights, strict=True))


OF_DATA = ("age", "age_max", "drift", "ess_tokens", "ess_completions")


@pytest.mark.parametrize("task", [Toy(), Conversation()], ids=["toy", "conversation"])
def test_each_token_has_the_log_probability_of_the_policy_that_drew_it(task):
    found, policies = walk(state_with(Pipeline(rollouts=3, tokens=1, max_age=None), task), 8)
    mixed = 0
    for step, groups in enumerate(found, 1):
        rollout, ages = groups.rollout, groups.ages.long()
        ones = torch.ones(len(SEEDS))
        every = [
            each.log_probs(rollout.prompts, rollout.completions, ones).log_probs.detach() for each in policies[:step]
        ]
        by_age = torch.stack(every[::-1])
        mask = response_mask(task, rollout.prompts, rollout.completions, rollout.mask)
        drawn = by_age.gather(0, ages.unsqueeze(0))[0]
        torch.testing.assert_close(rollout.old_log_probs[mask], drawn[mask], **ROUNDING)
        if hasattr(task, "environment"):
            written = task.environment(rollout.prompts, rollout.completions)
            there = (written >= 0) & rollout.mask
            assert rollout.completions[there].equal(written[there])
        old, new = ages.masked_fill(~rollout.mask, -1).amax(-1), ages.masked_fill(~rollout.mask, 99).amin(-1)
        mixed += (old > new).sum().item()
    assert mixed > 10, "completions have tokens of several policies"


def simulated(rollouts, tokens, max_age, cap, steps):
    """Yield of each step the steps in which the tokens of its groups were drawn, how many were dropped, and rounds."""
    places, number = [None] * (rollouts * PROMPTS), 0
    for step in range(1, steps + 1):
        dropped = rounds = 0
        for place, group in enumerate(places):
            if max_age is not None and group and step - group["tokens"][0] > max_age:
                places[place], dropped = None, dropped + 1
        while rounds == 0 or sum(len(group["tokens"]) == cap for group in places) < PROMPTS:
            for place, group in enumerate(places):
                if group is None:
                    places[place], number = {"number": number, "tokens": []}, number + 1
                grown = places[place]["tokens"]
                grown += [step] * min(tokens, cap - len(grown))
            rounds += 1
        complete = [group for group in places if len(group["tokens"]) == cap]
        used = sorted(complete, key=lambda group: group["number"])[:PROMPTS]
        places = [None if group in used else group for group in places]
        yield [group["tokens"] for group in used], dropped, rounds


@pytest.mark.parametrize(
    ("rollouts", "tokens", "max_age"),
    [(1, 2, None), (2, 1, None), (3, 2, None), (3, 5, None), (4, 1, 2), (3, 5, 1), (2, 1, 0)],
)
def test_groups_are_used_in_the_order_in_which_they_were_begun(rollouts, tokens, max_age):
    """Against lists; over many steps the first tokens are as old as Little's law says, where none are dropped."""
    steps = 12
    found, _ = walk(state_with(Pipeline(rollouts=rollouts, tokens=tokens, max_age=max_age), Endless()), steps)
    expected = simulated(rollouts, tokens, max_age, Endless.cap, steps)
    first = []
    for step, (groups, (drawn, dropped, rounds)) in enumerate(zip(found, expected, strict=True), 1):
        ages = step - torch.tensor(drawn, dtype=torch.float32)
        assert (groups.ages == ages.view(1, PROMPTS, 1, -1)).all()
        assert (groups.rounds == rounds).all()
        assert groups.dropped is None if max_age is None else (groups.dropped == dropped).all()
        first += ages[:, 0].tolist() if step > rollouts else []
    if max_age is None:
        assert sum(first) / len(first) == pytest.approx(rollouts - 1, abs=0.3)


def test_what_is_too_old_is_dropped_and_counted_and_no_group_comes_twice():
    found, _ = walk(state_with(Pipeline(rollouts=4, tokens=1, max_age=2), Toy()), 12)
    assert max(groups.ages.max().item() for groups in found) <= 2
    assert sum(groups.dropped.sum().item() for groups in found) > 0
    for replica in range(len(SEEDS)):
        sampled = sum(groups.sampled[replica].item() for groups in found)
        gone = sum(groups.dropped[replica].item() for groups in found)
        left = found[-1].stored.number[replica]
        assert sampled == gone + len(found) * PROMPTS + (left >= 0).sum().item()


def test_tokens_are_counted_once():
    """What was drawn is what was used, is in flight, or was dropped: here nothing is."""
    found, _ = walk(state_with(Pipeline(rollouts=2, tokens=2, max_age=None), Toy()), 6)
    drawn = sum(groups.tokens for groups in found)
    used = sum(groups.rollout.mask.flatten(1).sum(-1) for groups in found)
    flight = found[-1].stored
    there = (flight.written(Toy())[0] & (flight.number >= 0)[..., None, None]).flatten(1).sum(-1)
    assert drawn.equal(used + there)
    assert found[0].rollout.completions.shape == (len(SEEDS), PROMPTS, GROUP, Toy.cap)


def test_looking_at_a_step_changes_nothing():
    state = state_with(Pipeline(rollouts=2, tokens=2, max_age=None), Toy())
    train_step(state, 1, measure=False)
    first, second = (state.data.gather(state, 2) for _ in range(2))
    assert all(a.equal(b) for a, b in zip(first.rollout, second.rollout, strict=True))


def test_ages_drift_and_effective_sizes_are_those_of_loops():
    state = state_with(Pipeline(rollouts=3, tokens=1, max_age=None), Toy(), inner_steps=3)
    for step in range(1, 6):
        before, groups = copy.deepcopy(state.policy), state.data.gather(state, step)
        row = train_step(state, step, measure=True)
    rollout, ages = groups.rollout, groups.ages
    now = before.log_probs(rollout.prompts, rollout.completions, torch.ones(len(SEEDS))).log_probs.detach()
    for r in range(len(SEEDS)):
        weights, products, means = [], [], []
        for p in range(PROMPTS):
            for g in range(GROUP):
                there = rollout.mask[r, p, g]
                log = (now - rollout.sampler_log_probs)[r, p, g][there].double()
                weights += log.exp().tolist()
                products.append(log.sum().exp().item())
                means.append(ages[r, p, g][there].mean().item())
        drift = sum(w - 1 - math.log(w) for w in weights) / len(weights)
        expected = {"drift": drift, "ess_tokens": share(weights), "ess_completions": share(products)}
        expected |= {"age": 3 * sum(means) / len(means), "age_max": ages[r].max().item()}
        found = {name: row[f"data/{name}"][r].item() for name in OF_DATA}
        assert found == pytest.approx(expected, rel=1e-3, abs=1e-6)  # float32; a drift is a difference of near ones
    assert max(weights) > 1.001, "the policy has moved"


def share(weights):
    return sum(weights) ** 2 / sum(w * w for w in weights) / len(weights)
