"""Which norms are which others, and what single ones are made for."""

from __future__ import annotations

import pytest
import reference_norm_pass_at_k
import torch
from axis_choices import CLOSE, advantages_of, advantages_of_rewards, bind, norm_inputs
from hypothesis import given
from hypothesis import strategies as st
from reward_batches import ALL_KEPT, ONE_PROMPT, batches


@pytest.mark.only("opo")
@given(batch=batches())
def test_weighted_by_length_advantages_sum_to_zero_in_each_group(norm_choice, batch):
    rewards, keep = batch
    sums = (
        (norm_inputs(rewards, keep)["lengths"] * advantages_of_rewards(norm_choice, rewards, keep))
        .where(keep, 0.0)
        .sum(-1)
    )
    torch.testing.assert_close(sums, torch.zeros_like(sums), **CLOSE)


@given(batch=batches(kept=ALL_KEPT))
def test_leave_one_out_is_a_multiple_of_centring(batch):
    rewards, keep = batch
    factor = rewards.shape[-1] / (rewards.shape[-1] - 1)
    torch.testing.assert_close(bind("norm", "rloo")(rewards, keep), factor * bind("norm", "center")(rewards, keep))


@pytest.mark.parametrize("ddof", [0, 1])
@given(batch=batches(prompts=ONE_PROMPT))
def test_with_one_prompt_all_z_scores_coincide(batch, ddof):
    names = ("local", "global", "hybrid", "hybrid_centered", "batch_mean_group_std")
    local, *others = (bind("norm", name, eps=1e-6, ddof=ddof)(*batch) for name in names)
    for other in others:
        torch.testing.assert_close(other, local, **CLOSE)


@given(batch=batches(kept=ALL_KEPT))
def test_hybrid_is_centring_over_one_number_per_batch(batch):
    rewards, keep = batch
    scale = rewards.std() + 1e-6
    hybrid = bind("norm", "hybrid", eps=1e-6, ddof=1)(rewards, keep)
    torch.testing.assert_close(hybrid * scale, bind("norm", "center")(rewards, keep), **CLOSE)


@given(batch=batches())
def test_with_equal_difficulty_the_deviation_of_the_centred_rewards_is_that_of_the_rewards(batch):
    """Groups of equal mean: ``hybrid_centered`` is ``hybrid``."""
    rewards, keep = batch
    level = bind("norm", "center")(rewards, keep).where(keep, 0.0)
    hybrid, centered = (bind("norm", name, eps=1e-6, ddof=1)(level, keep) for name in ("hybrid", "hybrid_centered"))
    torch.testing.assert_close(hybrid.where(keep, 0.0), centered.where(keep, 0.0), **CLOSE)


@given(batch=batches(), shifts=st.lists(st.integers(-8, 8), min_size=3, max_size=3))
def test_hybrid_centered_is_the_hybrid_of_centred_rewards(batch, shifts):
    rewards, keep = batch
    centered = bind("norm", "center")(rewards, keep)
    expected = bind("norm", "hybrid", eps=1e-6, ddof=1)(centered, keep)
    torch.testing.assert_close(bind("norm", "hybrid_centered", eps=1e-6, ddof=1)(rewards, keep), expected, **CLOSE)


@given(batch=batches(kept=ALL_KEPT))
def test_a_baseline_weighted_alike_is_the_mean(batch):
    """Equal lengths: ``opo`` is ``center``; equal gradients: so is ``optimal``."""
    rewards, keep = batch
    every = norm_inputs(rewards, keep)
    alike = (
        torch.ones_like(every["mask"]),
        torch.full_like(every["old_log_probs"], -1.0),
        torch.full_like(every["sum_pi_squared"], 0.5),
    )
    center = bind("norm", "center")(rewards, keep)
    torch.testing.assert_close(bind("norm", "opo")(rewards, keep, torch.full_like(rewards, 7.0)), center, **CLOSE)
    torch.testing.assert_close(bind("norm", "optimal")(rewards, keep, *alike), center, **CLOSE)


@pytest.mark.holds("S3.7")
@given(batch=batches(kept=ALL_KEPT))
def test_without_a_penalty_and_discount_every_token_has_the_outcome(batch):
    """``reinforce`` is ``none``; whitened, what is left is a z-score weighted by length."""
    rewards, keep = batch
    every = norm_inputs(rewards, keep)
    parts = every["outcomes"], every["token_penalties"], every["mask"]
    returns = bind("norm", "reinforce", gamma=1.0)(*parts)
    expected = rewards.unsqueeze(-1).where(every["mask"], 0.0)
    torch.testing.assert_close(returns, expected, **CLOSE)
    full = torch.ones_like(every["mask"])
    whitened = bind("norm", "reinforce_pp", gamma=1.0, eps=1e-6, ddof=0)(*parts[:2], full, keep)
    z_scores = bind("norm", "global", eps=1e-6, ddof=0)(rewards, keep).unsqueeze(-1).expand_as(whitened)
    torch.testing.assert_close(whitened, z_scores, **CLOSE)


def test_a_discount_favours_an_early_reward_and_a_penalty_stays_behind_it():
    """Three tokens, outcome 1, the second costs 0.5: 0.81 − 0.45, 0.9 − 0.5, 1."""
    mask = torch.ones(1, 1, 3, dtype=torch.bool)
    penalties = torch.tensor([[[0.0, 0.5, 0.0]]], dtype=torch.float64)
    returns = bind("norm", "reinforce", gamma=0.9)(torch.ones(1, 1, dtype=torch.float64), penalties, mask)
    torch.testing.assert_close(returns, torch.tensor([[[0.36, 0.4, 1.0]]], dtype=torch.float64), **CLOSE)


@given(batch=batches(kept=ALL_KEPT))
def test_of_one_component_gdpo_is_a_z_score_of_z_scores(batch):
    rewards, keep = batch
    local = bind("norm", "local", eps=1e-6, ddof=1)(rewards, keep)
    expected = bind("norm", "global", eps=1e-6, ddof=1)(local, keep)
    torch.testing.assert_close(
        advantages_of_rewards(bind("norm", "gdpo", eps=1e-6, ddof=1), rewards, keep), expected, **CLOSE
    )


def test_gdpo_tells_apart_what_the_sum_of_rewards_confuses():
    """arXiv 2601.05242: two components, sums 0, 1, 1, 2 in one group and 0, 0, 1, 1 in another."""
    components = torch.tensor([[[0, 0], [0, 1], [1, 0], [1, 1]], [[0, 0], [0, 0], [0, 1], [0, 1]]], dtype=torch.float64)
    keep = torch.ones(2, 4, dtype=torch.bool)
    weights, nothing = torch.ones(2, dtype=torch.float64), torch.zeros(2, 4, dtype=torch.float64)
    gdpo = bind("norm", "gdpo", eps=1e-6, ddof=1)(components, weights, nothing, keep)
    local = bind("norm", "local", eps=1e-6, ddof=1)(components.sum(-1), keep)
    assert local[0, 3] > local[1, 3] and gdpo[0, 3] > 1.5 * gdpo[1, 3]
    torch.testing.assert_close(gdpo[0, 3] / gdpo[1, 3], torch.tensor(2.0).double(), rtol=1e-5, atol=0)


@pytest.mark.parametrize("level", [0.25, 0.4, 0.5, 0.9])
@pytest.mark.parametrize("right", range(1, 8))
def test_a_quantile_baseline_reinforces_where_it_is_hard_and_punishes_where_it_is_easy(level, right):
    rewards = (torch.arange(8) < right).double().view(1, 8)
    advantages = bind("norm", "quantile", level=level, eps=1e-6, ddof=1)(rewards, torch.ones_like(rewards).bool())
    hard = right / 8 <= 1 - level
    assert bool((advantages >= 0).all()) == hard and bool((advantages <= 0).all()) == (not hard)
    assert (advantages != 0).sum() == (right if hard else 8 - right)


@given(batch=batches(kept=ALL_KEPT))
def test_gpg_keeps_the_scale_of_the_groups_that_have_a_gradient(batch):
    """Groups of equal rewards, added or left out: the mean advantage over the batch is the same."""
    rewards, keep = batch
    constant = torch.full_like(rewards, 0.7)
    longer = bind("norm", "gpg")(torch.cat([rewards, constant]), torch.cat([keep, keep]))
    shorter = bind("norm", "gpg")(rewards, keep)
    torch.testing.assert_close(longer[: len(rewards)].abs().mean() / 2, shorter.abs().mean(), **CLOSE)
    assert longer[len(rewards) :].eq(0).all()


def test_with_k_of_one_pass_at_k_is_a_z_score_of_what_is_correct():
    correct = (torch.arange(8) < torch.arange(9).unsqueeze(-1)).double()
    keep = torch.ones_like(correct, dtype=torch.bool)
    expected = bind("norm", "local", eps=1e-12, ddof=0)(correct, keep)
    torch.testing.assert_close(bind("norm", "pass_at_k", k=1)(correct, keep), expected, **CLOSE)


@pytest.mark.holds("S2.4")
@pytest.mark.only("optimal", "optimal_token")
def test_where_the_policy_is_certain_the_baseline_is_the_plain_mean(norm_choice):
    """1 − 2π + Σπ² is then rounding, of either sign."""
    rewards = torch.tensor([[0.0, 0.0, 1.0]])
    every = norm_inputs(rewards, torch.ones(1, 3, dtype=torch.bool)) | {"mask": torch.ones(1, 3, 5, dtype=torch.bool)}
    below = torch.tensor([[[1 - 2e-7], [1 - 1e-7], [1.0]]]).expand(1, 3, 5)
    advantages = advantages_of(norm_choice, every | {"old_log_probs": torch.zeros(1, 3, 5), "sum_pi_squared": below})
    torch.testing.assert_close(advantages.view(3, -1)[:, 0], torch.tensor([-1 / 3, -1 / 3, 2 / 3]))


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_pass_at_k_is_the_mean_over_all_sets_of_k(k):
    """Groups of six with 0 to 6 right ones, one completion outside the statistics."""
    correct = (torch.arange(6) < torch.arange(7).unsqueeze(-1)).double()
    keep = (torch.arange(6) != 2).expand(7, 6)
    expected = reference_norm_pass_at_k.norm_pass_at_k(correct.numpy(), keep.numpy(), k=k)
    actual = bind("norm", "pass_at_k", k=k)(correct, keep).where(keep, 0.0)
    torch.testing.assert_close(actual, torch.from_numpy(expected), **CLOSE)


def test_grpo_passk_gives_nothing_to_a_tie():
    """peers: verl's lead of the first of two equal rewards over the second is 0."""
    rewards = torch.tensor([[1.0, 0.0, 1.0, 0.0], [1.0, 0.0, 0.5, 0.0], [1.0, 1.0, 1.0, 1.0]])
    advantages = bind("norm", "grpo_passk", eps=1e-6, ddof=1)(rewards, torch.ones_like(rewards, dtype=torch.bool))
    lead = 0.5 / (rewards[1].std() + 1e-6)
    torch.testing.assert_close(advantages, torch.zeros(3, 4).index_put((torch.tensor(1), torch.tensor(0)), lead))
