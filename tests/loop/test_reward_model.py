"""Reward models: the loss and its slope, what pairs they are trained on, what they are worth, the same bits."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from axis_choices import bind
from plain_step import Recipe
from pydantic import TypeAdapter
from toy_state import Toy, make_state, variant

from rlexp.core.registry import schema
from rlexp.loop.metrics import agreement
from rlexp.loop.reward_model import (
    ROUNDS,
    BradleyTerry,
    Pairs,
    label_scores,
    make_judges,
    pair_losses,
    read,
    refresh_judges,
    room_for_pairs,
    sample_pairs,
    train_judges,
)
from rlexp.loop.rewards import score
from rlexp.loop.rollout import Rollout
from rlexp.loop.sampling import sample_groups
from rlexp.loop.state import Network
from rlexp.loop.step import train_step
from rlexp.models import MODELS
from rlexp.models.scalar import values

TRAINING = dict(
    members=1, network=None, pairs=48, weights={"height": 0.7, "ones": 0.5}, length_bonus=0.0, smallest_gap=0.0,
    largest_gap=None, flips=0.0, updates=60, batch=16, lr=0.02, refresh=0, refresh_pairs=16, refresh_updates=5,
    worst_of=1,
)  # fmt: skip
STEPS = 6
EXACT = dict(rtol=1e-12, atol=1e-12)


def training(**changes):
    return BradleyTerry(**TRAINING | changes)


def judged(seeds=(0, 1), reward="learned", task=None, **changes):
    """A state of a learned judge, not trained yet."""
    settings, task = training(**changes), task or Toy()
    members = settings.members
    own = {"k": 1.0} if reward == "ensemble_bound" else {}
    owner = replace(variant(Recipe()), reward=bind("reward", reward, **own), verdicts=members)
    state = make_state([(owner, len(seeds))], list(seeds), task=task, dtype=torch.float32)
    sizes = TypeAdapter(schema(MODELS)).validate_python({"name": "gru", "hidden": 6, "layers": 1})
    judges = make_judges(settings, sizes, task, list(seeds))
    networks = state.networks | {name: Network(judge) for name, judge in judges.items()}
    memory = state.memory | room_for_pairs(settings, task, len(seeds), STEPS)
    return replace(state, networks=networks, memory=memory, judging=settings)


def pairs_of(state, wanted=48, step=0, member=0, **changes):
    settings = replace(state.judging, **changes)
    return sample_pairs(state, settings, wanted, step, member)


def gold_of(pairs: Pairs, task, labelling):
    """What a labeller thinks of pairs, as written ones."""
    nothing = torch.zeros(pairs.mask.shape)
    rollout = Rollout(pairs.prompts, pairs.completions, nothing, pairs.mask, pairs.mask[..., 0], nothing)
    return label_scores(task, rollout, labelling)


# ---- the loss


@pytest.mark.holds("S4.7")
def test_s4_7_the_loss_of_a_pair_is_that_of_bradley_and_terry():
    """−log σ(r_w − r_l): log 2 where the model does not know, and its slope σ(r_l − r_w)."""
    rewards = torch.tensor([[0.3, 0.3], [2.0, 0.5], [-1.0, 4.0]], dtype=torch.float64, requires_grad=True)
    expected = [-math.log(1 / (1 + math.exp(worse - better))) for better, worse in rewards.tolist()]
    losses = pair_losses(rewards)
    np.testing.assert_allclose(losses.detach().numpy(), expected, **EXACT)
    assert losses[0].item() == pytest.approx(0.693147, abs=5e-7)
    (slopes,) = torch.autograd.grad(losses.sum(), rewards)
    chances = [1 / (1 + math.exp(better - worse)) for better, worse in rewards.tolist()]
    np.testing.assert_allclose(slopes.numpy(), [[-c, c] for c in chances], **EXACT)


def test_a_judge_reads_the_number_after_the_last_token():
    state = judged()
    judge, pairs = state.judges[0], pairs_of(state)
    numbers = values(judge.network, pairs.prompts, pairs.completions)
    found = read(judge, pairs)
    for r, n, k in [(0, 0, 0), (1, 5, 1), (1, 47, 0)]:
        assert found[r, n, k] == numbers[r, n, k, int(pairs.mask[r, n, k].sum())]
    beyond = pairs._replace(completions=pairs.completions.where(pairs.mask, 1))
    assert torch.equal(read(judge, beyond), found), "what stands behind the end is not read"


# ---- the pairs


@pytest.mark.parametrize("gaps", [(0.0, None), (0.2, None), (0.0, 0.2)], ids=["all", "clear", "close"])
def test_the_better_one_comes_first_and_gaps_are_those_asked_for(gaps):
    state = judged()
    pairs = pairs_of(state, smallest_gap=gaps[0], largest_gap=gaps[1])
    assert pairs.valid.all() and pairs.prompts.shape[:2] == (2, 48)
    gold = gold_of(pairs, state.task, state.judging)
    gap = gold[..., 0] - gold[..., 1]
    assert (gap > gaps[0]).all() and (gap <= (gaps[1] or math.inf)).all()


def test_a_labeller_prefers_what_it_is_told_and_errs_at_its_rate():
    state = judged()
    longer = pairs_of(state, length_bonus=100.0).mask.sum(-1)
    assert (longer[..., 0] >= longer[..., 1]).all()
    other = {"weights": {"height": 0.0, "ones": 1.0}}
    gold = gold_of(pairs_of(state, **other), state.task, replace(state.judging, **other))
    assert (gold[..., 0] > gold[..., 1]).all()
    right, turned = (pairs_of(state, wanted=400, flips=flips) for flips in (0.0, 0.25))
    same = (right.completions == turned.completions).flatten(2).all(-1)
    assert same.float().mean().item() == pytest.approx(0.75, abs=0.08)  # 3.7 deviations of 800 labels
    assert torch.equal(right.prompts, turned.prompts)


def test_too_few_pairs_end_a_run_with_its_number():
    problems = train_judges(judged(smallest_gap=5.0, updates=1))
    assert problems[0] == (
        "reward.model: 0 pairs of the start policy differ as wanted, reward.model.pairs=48; take fewer, other gaps or "
        "another start"
    )


def test_rounds_go_on_until_every_run_has_its_pairs():
    """With gaps that few candidates have: a run takes the same pairs whoever its neighbours are."""
    both, alone = judged(), judged([1])
    ours, theirs = (pairs_of(state, smallest_gap=0.5) for state in (both, alone))
    assert ours.valid.all() and all(torch.equal(a[1:], b) for a, b in zip(ours, theirs, strict=True))
    assert ROUNDS > 1


# ---- the models


@pytest.mark.holds("E40")
@pytest.mark.slow
def test_a_model_learns_the_order_and_its_numbers_are_standardised():
    state = judged(pairs=400, updates=300)
    held_out = pairs_of(state, wanted=200, step=99)
    gold = gold_of(held_out, state.task, state.judging)
    before = agreement(read(state.judges[0], held_out), gold)
    assert train_judges(state) == ["", ""]
    after = agreement(read(state.judges[0], held_out), gold)
    assert (after > 0.85).all() and (before < 0.75).all()
    known = read(state.judges[0], pairs_of(state, wanted=400)).flatten(1)
    torch.testing.assert_close(known.mean(1), torch.zeros(2), rtol=0, atol=1e-5)
    torch.testing.assert_close(known.std(1, correction=0), torch.ones(2), rtol=1e-4, atol=0)


@pytest.mark.slow
def test_turned_labels_turn_the_model():
    right, turned = (judged(pairs=400, updates=300, flips=flips) for flips in (0.0, 1.0))
    for state in (right, turned):
        train_judges(state)
    pairs = pairs_of(right, wanted=200, step=99)
    gold = gold_of(pairs, right.task, right.judging)
    assert (agreement(read(right.judges[0], pairs), gold) > 0.7).all()
    assert (agreement(read(turned.judges[0], pairs), gold) < 0.3).all()


@pytest.mark.holds("S4.14")
@pytest.mark.parametrize(
    ("reward", "one"),
    [
        ("learned", lambda said: said[0]),
        ("ensemble_mean", lambda said: np.mean(said)),
        ("ensemble_minimum", min),
        ("ensemble_bound", lambda said: np.mean(said) - np.std(said, ddof=1)),
    ],
)
def test_s4_14_what_the_models_say_is_the_reward(reward, one):
    state = judged(reward=reward, members=1 if reward == "learned" else 3, updates=5)
    train_judges(state)
    rollout = sample_groups(state, 1).rollout
    said = torch.stack([judge(rollout.prompts, rollout.completions, rollout.mask) for judge in state.judges], -1)
    total = score(state, rollout, 1).total
    assert not any(torch.equal(said[..., 0], said[..., n]) for n in range(1, len(state.judges)))
    assert total[1, 2, 3].item() == pytest.approx(one(said[1, 2, 3].tolist()), rel=1e-5, abs=1e-6)


# ---- again during training


def weights(state):
    return [parameter.detach().clone() for judge in state.judges for parameter in judge.parameters()]


@pytest.mark.slow
def test_a_judge_is_trained_again_at_its_steps_only():
    state = judged(refresh=2)
    train_judges(state)
    changed = []
    for step in range(1, STEPS + 1):
        before = weights(state)
        train_step(state, step, False)
        changed.append(not all(torch.equal(a, b) for a, b in zip(before, weights(state), strict=True)))
    assert changed == [False, True] * 3
    assert state.memory["pairs_valid"].sum(-1).tolist() == [[48 + 3 * 16]] * 2
    fixed = judged()
    train_judges(fixed)
    assert not any(name.startswith("pairs_") for name in fixed.memory)


def test_every_model_has_pairs_of_its_own():
    state = judged(reward="ensemble_mean", members=2, updates=1, refresh=3)
    train_judges(state)
    first, second = state.memory["pairs_completions"][:, :, :48].unbind(1)
    assert not (first == second).flatten(2).all(-1).any(1).all() and (first != second).any()


@pytest.mark.slow
def test_of_more_candidates_those_are_kept_that_the_model_is_most_wrong_about():
    state = judged(refresh=1, worst_of=4, pairs=200, updates=200, refresh_updates=1)
    train_judges(state)
    judge = state.judges[0]
    pairs = pairs_of(state, wanted=4 * 16, step=1)
    margins = read(judge, pairs)[..., 0] - read(judge, pairs)[..., 1]
    refresh_judges(state, 1)
    kept = Pairs(*(state.memory[f"pairs_{name}"][:, 0, 200:216] for name in Pairs._fields))
    for r in range(2):
        worst = margins[r].argsort(stable=True)[:16]
        assert torch.equal(kept.completions[r], pairs.completions[r, worst]) and (margins[r, worst] < 0).any()


@pytest.mark.bits
@pytest.mark.parametrize("changes", [{}, {"refresh": 2, "worst_of": 2}, {"members": 2, "flips": 0.2}], ids=str)
@pytest.mark.slow
def test_a_judge_has_the_same_bits_alone_and_beside_others(changes):
    reward = "ensemble_mean" if "members" in changes else "learned"
    both, alone = judged([0, 1, 2], reward, **changes), judged([1], reward, **changes)
    for state in (both, alone):
        train_judges(state)
        for step in (1, 2):
            train_step(state, step, False)
    assert all(torch.equal(a[1:2], b) for a, b in zip(weights(both), weights(alone), strict=True))
    assert all(torch.equal(both.memory[name][1:2], values) for name, values in alone.memory.items())
    rollout = sample_groups(alone, 1).rollout
    assert torch.equal(score(alone, rollout, 3).total[0], score(both, sample_groups(both, 1).rollout, 3).total[1])
