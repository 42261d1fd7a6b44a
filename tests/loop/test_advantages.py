"""From rewards to advantages, and what is offered on the way: shaping, penalty, filters, norm, in that order."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from axis_choices import bind, numbers
from plain_step import Recipe
from step_fixtures import CLOSE, ROUNDING, Still, float64, runs, seen  # noqa: F401 (fixtures)
from toy_state import GROUP, Toy, make_state, plain, variant

from rlexp.core.masked import at_last_token, per_token
from rlexp.loop.requested import tensors_of_rollout
from rlexp.loop.rollout import Rollout
from rlexp.loop.sampling import sample_groups
from rlexp.loop.step import compute_advantages, train_step

UNIT = {"kl_factor": torch.ones(2, dtype=torch.float64), "prompt_numbers": torch.zeros(2, 3, dtype=torch.long)}


def made_up(shape=(2, 3, 4, 5)):
    """A rollout of random numbers."""
    random = torch.Generator().manual_seed(3)
    lengths = torch.randint(1, shape[-1] + 1, shape[:-1], generator=random)
    mask = torch.arange(shape[-1]) < lengths.unsqueeze(-1)
    old, ref = (-torch.rand(shape, generator=random).where(mask, 0.0) for _ in range(2))
    tokens = torch.zeros(shape, dtype=torch.long)
    return (
        Rollout(tokens[..., 0, :], tokens, old, mask, lengths < shape[-1], old),
        ref,
        torch.rand(shape[:-1], generator=random),
    )


def test_the_penalty_in_the_reward_enters_before_the_norm(float64):
    """Equal rewards: the advantages are those of −coef · Σ_t (log π − log π_ref) alone, normalised."""
    rollout, ref, _ = made_up()
    recipe = Recipe(kl_in_reward=0.3)
    part = compute_advantages(variant(recipe), rollout, torch.ones(2, 3, 4), UNIT | {"ref_log_probs": ref})
    penalties = ((rollout.old_log_probs - ref) * rollout.mask).sum(-1)
    deviations = penalties - penalties.mean(-1, keepdim=True)
    expected = -0.3 * deviations / (0.3 * penalties.std(-1, keepdim=True) + recipe.eps)
    torch.testing.assert_close(part.advantages, expected.unsqueeze(-1).expand(2, 3, 4, 5), **CLOSE)
    torch.testing.assert_close(part.rewards, 1 - 0.3 * penalties, **CLOSE)


def test_rewards_are_offered_whole_and_in_parts_that_add_up(float64):
    """Shaping, then the penalty: rewards = outcomes − Σ_t token_penalties = rewards of the task + adjustments."""
    rollout, ref, rewards = made_up()
    rewards[0, 1, 2] = math.nan
    offered = {}

    def listen(rewards, outcomes, adjustments, token_penalties, keep):
        offered.update(rewards=rewards, outcomes=outcomes, adjustments=adjustments, penalties=token_penalties)
        return rewards

    shaped = replace(variant(Recipe(kl_in_reward=0.3)), norm=listen, shaping=lambda rewards: rewards - 0.25)
    part = compute_advantages(shaped, rollout, rewards, UNIT | {"ref_log_probs": ref})
    there = ~rewards.isnan()
    torch.testing.assert_close(offered["outcomes"][there], rewards[there] - 0.25, **CLOSE)
    expected = 0.3 * (rollout.old_log_probs - ref).where(rollout.mask, 0.0)
    torch.testing.assert_close(offered["penalties"], expected, **CLOSE)
    torch.testing.assert_close(offered["rewards"][there], (rewards - 0.25 - expected.sum(-1))[there], **CLOSE)
    torch.testing.assert_close(offered["adjustments"][there], (-0.25 - expected.sum(-1))[there], **CLOSE)
    assert all(offered[name][~there].eq(0).all() for name in ("rewards", "outcomes", "adjustments"))
    assert part.rewards.isnan().equal(~there) and not part.advantages[~there].any()


def test_no_norm_counts_the_penalty_twice(norm_choice):
    """It takes the reward whole, or its parts."""
    whole, parts, due = {"rewards"}, {"outcomes", "token_penalties"}, {"token_rewards"}
    taken = (whole | parts | due) & set(norm_choice.needs)
    assert taken in (whole, parts, due) or norm_choice.name in ("gdpo", "pass_at_k", "w_reinforce")


def test_completions_without_a_reward_have_no_advantage_and_enter_no_statistics(float64, norm_choice):
    rollout, ref, rewards = made_up()
    missing = torch.zeros_like(rewards, dtype=torch.bool)
    missing[:, :, 1], missing[0, 2] = True, True
    unknown = {*rollout._fields, "token_rewards"}  # the task pays completions
    extra = {name: made for name, made in numbers(*rollout.mask.shape).items() if name not in unknown}
    chosen = replace(variant(Recipe()), norm=norm_choice)
    part = compute_advantages(chosen, rollout, rewards.masked_fill(missing, math.nan), extra | {"ref_log_probs": ref})
    alike = (
        extra | rollout._asdict() | {"token_penalties": torch.zeros_like(ref), "lengths": rollout.mask.double().sum(-1)}
    )
    filled = rewards.masked_fill(missing, 1e6)
    alike |= {"rewards": filled, "outcomes": filled, "adjustments": torch.zeros_like(rewards), "keep": ~missing}
    alike["token_rewards"] = at_last_token(filled, rollout.mask)
    expected = norm_choice(*(alike[name] for name in norm_choice.needs))
    assert not part.advantages[missing].any()
    assert torch.equal(part.advantages[~missing], per_token(expected, ref).expand_as(ref)[~missing])
    assert torch.equal(part.mask, rollout.mask)


@pytest.mark.holds("S4.8")
def test_rewards_are_shaped_before_the_penalty_is_taken_off_and_filtered_after(float64):
    """Statistics of 3r − 1 − coef · KL, which filter and norm are given; the penalty is not scaled."""
    rollout, ref, rewards = made_up()
    rewards[0, 0] = 0.7
    asked = []

    def everything(rewards, scored):
        asked.append(rewards)
        return scored

    chosen = replace(
        variant(Recipe(kl_in_reward=0.3)),
        shaping=bind("shaping", "affine", a=3.0, b=-1.0),
        filter_statistics=everything,
        filter_loss=bind("filter", "zero_variance"),
        norm=bind("norm", "center"),
    )
    part = compute_advantages(chosen, rollout, rewards, UNIT | {"ref_log_probs": ref})
    expected = 3 * rewards - 1 - 0.3 * ((rollout.old_log_probs - ref) * rollout.mask).sum(-1)
    torch.testing.assert_close(part.rewards, expected, **CLOSE)
    centered = (expected - expected.mean(-1, keepdim=True)).unsqueeze(-1).expand_as(ref)
    torch.testing.assert_close(part.advantages, centered, **CLOSE)
    assert torch.equal(asked[0], part.rewards)
    assert torch.equal(part.mask, rollout.mask), "the penalty makes the rewards of the first group differ"
    without = replace(chosen, kl_in_reward=0.0)
    kept = compute_advantages(without, rollout, rewards, UNIT | {"ref_log_probs": ref}).mask
    assert (
        not kept[0, 0].any() and torch.equal(kept[0, 1:], rollout.mask[0, 1:]) and torch.equal(kept[1], rollout.mask[1])
    )


def test_a_filter_of_tokens_leaves_the_rest_of_a_completion_in_the_loss(seen):
    chosen = replace(variant(Recipe()), filter_loss=bind("filter", "top_entropy", share=0.5))
    both = make_state([(chosen, 2)], [0, 1], adam=Still, temperatures=(1.7, 0.6))
    row = train_step(both, 1, True)
    part, _ = seen[0]
    every, mask = (
        both.policy.distributions(part.prompts, part.completions, both.temperature).detach(),
        sample_groups(both, 1).rollout.mask,
    )
    entropies = torch.distributions.Categorical(logits=every).entropy()
    for replica in range(2):
        ranked = entropies[replica][mask[replica]].sort(descending=True).values
        threshold = ranked[round(len(ranked) / 2) - 1] - ROUNDING
        assert torch.equal(part.mask[replica], mask[replica] & (entropies[replica] >= threshold))
    torch.testing.assert_close(row["filter/tokens"].double(), part.mask.sum((1, 2, 3)) / row["tokens"].double())
    assert (part.mask.any(-1) & (part.mask != mask).any(-1)).any()


def test_persistent_luck_belongs_to_the_pair_and_the_other_is_drawn_anew():
    names = ("flips", "flips_persistent")
    chosen = [bind("shaping", name, low=0.0, high=1.0, false_positives=0.5, false_negatives=0.5) for name in names]
    runs = make_state([(replace(variant(Recipe()), shaping=each), 2) for each in chosen], [0, 1, 0, 1])
    groups = sample_groups(runs, 1)
    rollout = groups.rollout
    first, again, later = (made(runs, at, groups) for at in (1, 1, 2))
    assert set(first) == {"drawn", "hashed"} and all(torch.equal(first[name], again[name]) for name in first)
    assert torch.equal(first["hashed"], later["hashed"]) and not (first["drawn"] == later["drawn"]).any()
    assert not (first["hashed"][0] == first["hashed"][1]).any()
    for name, luck in first.items():
        assert luck.shape == rollout.finished.shape and torch.equal(luck[:2], luck[2:]), f"{name}: paired by seed"
    moved = rollout._replace(
        completions=rollout.completions.flip(1), prompts=rollout.prompts.flip(1), mask=rollout.mask.flip(1)
    )
    assert torch.equal(made(runs, 2, groups._replace(rollout=moved))["hashed"].flip(1), first["hashed"])
    elsewhere = rollout._replace(prompts=(rollout.prompts + 1) % 4)
    assert not (made(runs, 2, groups._replace(rollout=elsewhere))["hashed"] == first["hashed"]).any()
    padding = rollout._replace(completions=rollout.completions.where(rollout.mask, 3))
    assert torch.equal(made(runs, 2, groups._replace(rollout=padding))["hashed"], first["hashed"])


ASKED = {"greedy_rewards", "sum_pi_squared", "components", "weights", "correct"}


def asking(**options):
    """Return a state of two variants, of which the second takes all that is made on request, and what it was given."""
    given = {}

    def listen(rewards, keep, greedy_rewards, sum_pi_squared, components, weights, correct):
        given.update({name: value for name, value in locals().items() if name in ASKED})
        return rewards

    plain = variant(Recipe())
    return make_state([(plain, 1), (replace(plain, norm=listen), 1)], [0, 1], **options), given


def test_what_a_norm_asks_for_is_made(float64, seen):
    """The second run's own: nothing of the first, whose norm takes none of it."""
    both, given = asking(task=Toy(unjudged=2), temperatures=(1.7, 0.6), adam=Still)
    train_step(both, 1, False)
    part, task = seen[0][0], both.task
    prompts = [[token for token in prompt if token != task.pad] for prompt in part.prompts[1].tolist()]
    single = plain(both, 1, Recipe())
    for p, prompt in enumerate(prompts):
        tokens, shares = [], []
        while len(tokens) < task.cap and tokens[-1:] != [task.end]:
            tokens.append(int(single.log_probs(single.policy, prompt, tokens)[-1].argmax()))
        judged = task.judge(prompt, tokens)
        assert given["greedy_rewards"][0, p, 0].item() == pytest.approx(0.0 if math.isnan(judged) else judged)
        for g in range(GROUP):
            answer = part.completions[1, p, g][part.mask[1, p, g]].tolist()
            shares = single.log_probs(single.policy, prompt, answer)[:-1].exp().square().sum(-1)
            torch.testing.assert_close(given["sum_pi_squared"][0, p, g, : len(answer)], shares.detach(), **CLOSE)
            assert given["correct"][0, p, g] == (answer[0] == 0)
    scores = task.score(part.prompts[1:], part.completions[1:], part.mask[1:], None)
    assert given["weights"].tolist() == [[0.7, 0.5]]
    torch.testing.assert_close(given["components"], torch.stack(list(scores.components.values()), -1), equal_nan=True)


def test_nothing_is_made_that_no_variant_asks_for():
    """A greedy completion and another forward pass are not free."""
    both, (other, _) = runs(Recipe()), asking()
    assert not made(both, 1, sample_groups(both, 1))
    assert set(made(other, 1, sample_groups(other, 1))) == ASKED


def made(state, at, groups):
    """What is made for the variants' functions beyond the rollout, but for the reference's log-probabilities."""
    tensors = tensors_of_rollout(state, at, groups, None)
    return {
        name: values
        for name, values in tensors.items()
        if name not in {*state.memory, "ref_log_probs", "prompt_numbers"}
    }
