"""The training step: against plain PyTorch, one run at a time, and the laws that every step obeys."""

from __future__ import annotations

import copy
import math
from dataclasses import replace

import pytest
import torch
from axis_choices import bind, choices
from plain_step import Recipe
from step_fixtures import CLOSE, MIXED, MODELS, RECIPES, ROUNDING, Still, float64, runs, seen, trained  # noqa: F401
from toy_state import GROUP, PROMPTS, TOTAL, Conversation, Toy, make_state, plain, unstacked, variant

from rlexp.core.streams import Purpose, uniforms
from rlexp.loop import state as state_module
from rlexp.loop import step
from rlexp.loop.step import train_step

STEPS = 2


def parameters(policy):
    return [parameter.detach().clone() for parameter in policy.parameters()]


def random_inputs(state, replica, at):
    """Prompts without padding, and the random numbers of the sampling."""
    seed, task = [state.seeds[replica]], state.task
    prompts = task.prompts(uniforms(seed, Purpose.PROMPTS, at, (PROMPTS, task.draws)), held_out=False)[0]
    noise = uniforms(seed, Purpose.SAMPLING, at, (PROMPTS, GROUP, task.cap)).double()[0]
    return [[token for token in prompt if token != task.pad] for prompt in prompts.tolist()], noise


@pytest.mark.holds("S0.16", "S1.21")
@pytest.mark.parametrize(
    ("name", "task"),
    [
        ("default", Toy()),
        *((name, Toy(unjudged=2)) for name in RECIPES),
        *((name, Conversation(unjudged=2)) for name in RECIPES),
        *((name, Conversation(train_on_environment=True)) for name in ("mixed", "to_go_penalised")),
    ],
    ids=str,
)
def test_a_step_is_that_of_plain_pytorch(float64, name, task):
    recipe = RECIPES[name]
    both = runs(recipe, task=task, temperatures=(1.7, 0.6))
    singles = [plain(both, replica, recipe) for replica in (0, 1)]
    for at in range(1, STEPS + 1):
        row = train_step(both, at, True)
        for replica, single in enumerate(singles):
            expected = single.step(*random_inputs(both, replica, at))
            assert {key: row[key][replica].item() for key in expected} == pytest.approx(
                expected, rel=CLOSE["rtol"], abs=CLOSE["atol"]
            )
    for replica, single in enumerate(singles):
        torch.testing.assert_close(unstacked(both.policy, replica), dict(single.policy.state_dict()), **CLOSE)


def test_the_comparison_reaches_clipped_cut_off_ended_and_unjudged_completions(float64, seen):
    both = runs(RECIPES["inner_steps"], task=Toy(unjudged=2), temperatures=(1.7, 0.6))
    row = train_step(both, 1, True)
    part, _ = seen[0]
    assert (row["clip/low"] > 0).any() and (row["clip/high"] > 0).any()
    assert (row["length/truncated"] > 0).all() and (row["length/truncated"] < 1).all()
    assert part.rewards.isnan().any() and (part.prompts == Toy.pad).any()


@pytest.mark.holds("S3.15")
def test_ratios_are_against_the_policy_that_sampled_through_all_inner_steps(float64, seen):
    both = runs(Recipe(inner_steps=3))
    sampler = copy.deepcopy(both.policy)
    train_step(both, 1, False)
    for part, _ in seen:
        with torch.no_grad():
            log_probs = sampler.log_probs(part.prompts, part.completions, both.temperature).log_probs
        torch.testing.assert_close(part.old_log_probs, log_probs.where(part.mask, 0.0), **CLOSE)
    drift = [((now - part.old_log_probs).exp() - 1).where(part.mask, 0.0).abs().max() for part, now in seen]
    assert drift[0] < ROUNDING
    assert drift[1] > 1e-3 and drift[2] > drift[1]


@pytest.mark.parametrize("clip", [bind("clip", "ppo", low=0.2, high=0.2), bind("clip", "naive")], ids=str)
def test_the_first_update_follows_the_plain_policy_gradient(float64, seen, clip):
    """−Σ A ∇ log π / number of tokens, whatever the clip."""
    both = make_state([(replace(variant(Recipe()), clip=clip), 2)], [0, 1], adam=Still)
    row = train_step(both, 1, True)
    part, _ = seen[0]
    assert (row["ratio/min"] - 1).abs().max() < ROUNDING and (row["ratio/max"] - 1).abs().max() < ROUNDING
    log_probs = both.policy.log_probs(part.prompts, part.completions, both.temperature).log_probs
    weighed = (part.advantages * log_probs * part.mask).sum((1, 2, 3)) / part.mask.sum((1, 2, 3))
    expected = torch.autograd.grad(-weighed.sum(), list(both.policy.parameters()))
    torch.testing.assert_close(both.optimizer.seen, list(expected), **CLOSE)


@pytest.mark.parametrize("agg", ["token", "sequence"])
@pytest.mark.parametrize("model", MODELS)
def test_tokens_that_do_not_count_change_nothing(seen, agg, model):
    """Padding and completions left out of the loss: other tokens and numbers there, the same gradient bit by bit."""
    recipe = Recipe(kl_in_loss=0.3, entropy_bonus=0.2, drop_from_loss=True, agg=agg)
    both = runs(recipe, adam=Still, dtype=torch.float32, temperatures=(1.7, 0.6), **MODELS[model])
    row = train_step(both, 1, True)
    gradients, (part, _) = both.optimizer.seen, seen[0]
    assert (part.mask.any(-1) != part.mask[..., 0].any()).any() and not part.mask.all()
    other = part._replace(
        completions=(part.completions + 1).remainder(6).where(~part.mask, part.completions),
        old_log_probs=part.old_log_probs.masked_fill(~part.mask, math.nan),
        ref_log_probs=part.ref_log_probs.masked_fill(~part.mask, 1e4),
    )
    again = step.update(both, both.policy, other, {"mean_tokens": part.mask.float().sum((1, 2, 3))}, True)
    assert all(torch.equal(a, b) for a, b in zip(gradients, both.optimizer.seen, strict=True))
    assert all(torch.equal(value, row[name]) for name, value in again.items())


@pytest.mark.holds("S3.17")
def test_minibatches_hold_whole_groups_and_all_prompts(seen):
    both = runs(Recipe(minibatches=2, inner_steps=2))
    train_step(both, 1, False)
    parts = [part for part, _ in seen]
    assert all(part.advantages.shape == (2, PROMPTS // 2, GROUP, Toy.cap) for part in parts)
    assert torch.equal(parts[0].prompts, parts[2].prompts) and not torch.equal(parts[0].prompts, parts[1].prompts)
    expected = train_step(runs(Recipe()), 1, True)
    deviations = torch.cat([parts[0].advantages, parts[1].advantages], 1)[..., 0].flatten(1).std(-1)
    torch.testing.assert_close(deviations.float(), expected["advantage/std"])


def summed(monkeypatch, agg, parts):
    """Return the sum of the gradients of a pass in ``parts`` minibatches, the weights kept as they are."""
    both = make_state([(replace(variant(MIXED), agg=agg), 2)], [0, 1], adam=Still, minibatches=parts)
    gradients = []
    optimizer = both.optimizer
    monkeypatch.setattr(optimizer, "step", lambda tensors: (Still.step(optimizer), gradients.append(optimizer.seen))[0])
    train_step(both, 1, False)
    assert len(gradients) == parts
    return [sum(each) for each in zip(*gradients, strict=True)]


@pytest.mark.parametrize("choice", choices("agg"), ids=str)
def test_how_a_rollout_is_split_changes_only_gradients_whose_divisor_is_of_the_minibatch(float64, monkeypatch, choice):
    """Policy loss, penalty and bonus, with completions left out of the loss."""
    whole, split = (summed(monkeypatch, choice, parts) for parts in (1, 4))
    same = all((a - b / 4).abs().max() < 1e-12 for a, b in zip(whole, split, strict=True))
    assert same == (choice.name not in ("bnpo", "delta_l"))


def test_updates_know_the_share_of_the_run_that_is_done_and_their_random_numbers():
    given = []

    def loss(log_probs, old_log_probs, advantages, mask, progress, uniforms):
        given.append((progress, uniforms))
        return -advantages * log_probs

    both = make_state([(replace(variant(Recipe()), clip=loss), 2)], [3, 5], inner_steps=2, minibatches=2)
    train_step(both, 1, False)
    train_step(both, 2, False)
    assert [progress.tolist() for progress, _ in given] == [pytest.approx([done / TOTAL] * 2) for done in range(8)]
    for update, (_, drawn) in enumerate(given):
        expected = uniforms([3, 5], Purpose.LOSS, update, (PROMPTS // 2, GROUP, Toy.cap))
        assert torch.equal(drawn, expected)


def test_random_numbers_are_drawn_only_if_a_loss_asks_for_them(monkeypatch):
    drawn = []

    def spy(*address):
        drawn.append(address[1])
        return uniforms(*address)

    monkeypatch.setattr(state_module, "uniforms", spy)
    train_step(runs(Recipe()), 1, False)
    assert set(drawn) == {Purpose.PROMPTS, Purpose.SAMPLING}


@pytest.mark.parametrize(
    ("penalty", "metric", "sign"), [("entropy_bonus", "policy/entropy", 1), ("kl_in_loss", "kl/ref_exact", -1)]
)
def test_without_advantages_the_bonus_raises_entropy_and_the_penalty_lowers_divergence(penalty, metric, sign):
    silent = replace(variant(Recipe(**{penalty: 1.0})), norm=lambda rewards, keep: torch.zeros_like(rewards))
    course = trained(make_state([(silent, 2)], [0, 1]), steps=4)[metric]
    assert (sign * course[-1] > sign * course[0]).all()


def test_the_parts_of_the_loss_sum_to_the_total():
    row = train_step(runs(MIXED), 1, True)
    parts = [row[f"loss/{name}"] for name in ("policy", "kl", "entropy")]
    assert all(part.all() for part in parts)
    torch.testing.assert_close(sum(parts), row["loss/total"], **CLOSE)


@pytest.mark.holds("E31")
def test_the_reference_stays_where_it_is():
    both = runs(MIXED)
    before, started = parameters(both.reference), parameters(both.policy)
    trained(both)
    assert all(torch.equal(a, b) for a, b in zip(before, both.reference.parameters(), strict=True))
    assert not any(torch.equal(a, b) for a, b in zip(started, both.policy.parameters(), strict=True))
    assert all(parameter.grad is None for parameter in both.reference.parameters())


COUNTS = {"tokens", "completions", "verdicts"}


@pytest.mark.parametrize("name", ["default", "kl_in_reward", "mixed"])
def test_measuring_changes_no_bit(name):
    measured, blind = runs(RECIPES[name]), runs(RECIPES[name])
    for at in range(1, STEPS + 1):
        row = train_step(measured, at, True)
        assert set(train_step(blind, at, False)) == COUNTS
    assert all(torch.equal(a, b) for a, b in zip(parameters(measured.policy), parameters(blind.policy), strict=True))
    assert len(row) > len(COUNTS)


def test_tokens_are_those_sampled_filtered_ones_included(seen):
    both = runs(Recipe(drop_from_loss=True), temperatures=(1.7, 0.6))
    row = train_step(both, 1, True)
    torch.testing.assert_close(row["tokens"] / (PROMPTS * GROUP), row["length/mean"], **CLOSE)
    assert (seen[0][0].mask.sum((1, 2, 3)) < row["tokens"]).all()
