"""Laws of advantages, by families of ``norm``."""

from __future__ import annotations

import pytest
import reference_norm
import torch
from axis_choices import CLOSE, bind, choices, judged, story, told
from hypothesis import given, settings
from hypothesis import strategies as st

from rlexp import norm

CONSTANTS = [0.7, 0.1, 5.1, 1.1]  # none of them is a binary fraction
CENTRED = ("center", "local", "hybrid", "hybrid_centered", "rloo", "gpg")
BASELINES = ("opo", "optimal", "quantile", "grpo_passk", "optimal_token", "reinforce_pp_baseline", "gdpo")
IN_GROUP = (*CENTRED, *BASELINES, "batch_mean_group_std", "maxrl")
IN_BATCH = ("global", "center_batch", "reinforce_pp")
# Depend on the level of the rewards of a group beside others (the deviation of ``hybrid`` mixes in their difficulty).
LEVELLED = ("hybrid", "batch_mean_group_std", "maxrl")
SCALED = ("local", "global", "hybrid", "hybrid_centered", "batch_mean_group_std", "quantile", "grpo_passk")
WHITENED = ("reinforce_pp", "reinforce_pp_baseline")
LINEAR = (
    "none",
    "center",
    "center_batch",
    "rloo",
    "gpg",
    "opo",
    "optimal",
    "optimal_token",
    "reinforce",
    "remax",
    "ema",
)

# Eighths up to ±5: shifts by whole numbers and powers of two are exact, so equal rewards stay equal.
EIGHTHS = st.integers(-40, 40).map(lambda n: n / 8)
SOME_PROMPTS, ONE_PROMPT = st.integers(1, 3), st.just(1)
SOME_KEPT, ALL_KEPT = st.booleans(), st.just(True)
FEW = settings(max_examples=15)  # for laws of nearly every norm: what breaks them shows in almost any batch


@st.composite
def batches(draw, prompts=SOME_PROMPTS, kept=SOME_KEPT):
    """Rewards and keep, ``[P G]`` in float64, groups of 2 to 5."""
    shape = draw(prompts), draw(st.integers(2, 5))
    cells = shape[0] * shape[1]
    rewards = draw(st.lists(EIGHTHS, min_size=cells, max_size=cells))
    keep = draw(st.lists(kept, min_size=cells, max_size=cells))
    return torch.tensor(rewards, dtype=torch.float64).view(shape), torch.tensor(keep).view(shape)


@pytest.mark.only(*(name for name in (*IN_GROUP, *IN_BATCH) if name != "maxrl"))
@given(batch=batches(), shift=st.integers(-8, 8))
@FEW
def test_a_shift_of_all_rewards_changes_nothing(norm_choice, batch, shift):
    rewards, keep = batch
    torch.testing.assert_close(judged(norm_choice, rewards + shift, keep), judged(norm_choice, rewards, keep), **CLOSE)


@pytest.mark.only(*(name for name in IN_GROUP if name not in LEVELLED))
@given(batch=batches(), shifts=st.lists(st.integers(-8, 8), min_size=3, max_size=3))
@FEW
def test_a_shift_of_one_group_changes_nothing(norm_choice, batch, shifts):
    """Not so for ``hybrid``, whose deviation mixes the difficulty of prompts into the scale (1B-3)."""
    rewards, keep = batch
    shifted = rewards + torch.tensor(shifts[: len(rewards)], dtype=torch.float64).unsqueeze(-1)
    torch.testing.assert_close(judged(norm_choice, shifted, keep), judged(norm_choice, rewards, keep), **CLOSE)


def permuted(choice, batch, axis, order):
    """Return the advantages of a batch whose prompts (axis 0) or completions (axis 1) come in another order."""
    every = story(*batch)
    size = batch[0].shape[axis]
    moved = {
        name: values.index_select(axis, order) if values.dim() >= 2 and values.shape[axis] == size else values
        for name, values in every.items()
    }
    return told(choice, moved)


@pytest.mark.parametrize("axis", [0, 1], ids=["prompts", "group"])
@given(batch=batches(), data=st.data())
@FEW
def test_a_permutation_permutes_the_advantages(norm_choice, axis, batch, data):
    order = torch.tensor(data.draw(st.permutations(range(batch[0].shape[axis]))))
    expected = judged(norm_choice, *batch).index_select(axis, order)
    torch.testing.assert_close(permuted(norm_choice, batch, axis, order), expected, **CLOSE)


@pytest.mark.only(*SCALED, *WHITENED)
@given(batch=batches(), scale=st.sampled_from([0.25, 3.0, 1000.0]))
@FEW
def test_rewards_and_eps_in_another_unit_change_nothing(norm_choice, batch, scale):
    """z-scores are free of the reward's scale up to eps, which has the unit of a reward."""
    rewards, keep = batch
    scaled = judged(norm_choice.changed(eps=scale * norm_choice.knobs["eps"]), scale * rewards, keep)
    torch.testing.assert_close(scaled, judged(norm_choice, rewards, keep), **CLOSE)


@pytest.mark.only(*LINEAR)
@given(batch=batches(), scale=st.sampled_from([-2.0, 0.25, 1000.0]))
@FEW
def test_unscaled_advantages_are_proportional_to_the_rewards(norm_choice, batch, scale):
    """``remax`` and ``ema`` as far as their baselines are in the same unit."""
    rewards, keep = batch
    every = story(rewards, keep)
    scaled = story(scale * rewards, keep)
    scaled |= {name: scale * every[name] for name in ("greedy_rewards", "reward_average")}
    torch.testing.assert_close(told(norm_choice, scaled), scale * judged(norm_choice, rewards, keep), **CLOSE)


@pytest.mark.only("maxrl")
@given(batch=batches(), scale=st.sampled_from([0.25, 3.0, 1000.0]))
def test_relative_advantages_are_free_of_the_rewards_scale(norm_choice, batch, scale):
    rewards, keep = batch
    torch.testing.assert_close(judged(norm_choice, scale * rewards, keep), judged(norm_choice, rewards, keep), **CLOSE)


@pytest.mark.only(*CENTRED)
@given(batch=batches())
@FEW
def test_kept_advantages_sum_to_zero_in_each_group(norm_choice, batch):
    rewards, keep = batch
    sums = judged(norm_choice, rewards, keep).where(keep, 0.0).sum(-1)
    torch.testing.assert_close(sums, torch.zeros_like(sums), **CLOSE)


@pytest.mark.only("opo")
@given(batch=batches())
def test_weighted_by_length_advantages_sum_to_zero_in_each_group(norm_choice, batch):
    rewards, keep = batch
    sums = (story(rewards, keep)["lengths"] * judged(norm_choice, rewards, keep)).where(keep, 0.0).sum(-1)
    torch.testing.assert_close(sums, torch.zeros_like(sums), **CLOSE)


@pytest.mark.only(*WHITENED)
@given(batch=batches())
def test_over_all_tokens_whitened_advantages_sum_to_zero(norm_choice, batch):
    rewards, keep = batch
    counted = story(rewards, keep)["mask"] & keep.unsqueeze(-1)
    sums = judged(norm_choice, rewards, keep).where(counted, 0.0).sum()
    assert sums.item() == pytest.approx(0.0, abs=CLOSE["atol"])


@pytest.mark.only("global", "center_batch", "gdpo")
@given(batch=batches())
def test_kept_advantages_sum_to_zero_in_the_batch(norm_choice, batch):
    rewards, keep = batch
    assert judged(norm_choice, rewards, keep).where(keep, 0.0).sum().item() == pytest.approx(0.0, abs=CLOSE["atol"])


@pytest.mark.parametrize("constant", CONSTANTS)
@pytest.mark.only(*IN_GROUP, *IN_BATCH)
def test_equal_rewards_give_exactly_zero(norm_choice, constant):
    """1B-2b: in float32 the mean of eight 0.7 is off by one unit in the last place and its deviation is not zero."""
    for size in range(1, 33):
        rewards = torch.full((3, size), constant)
        assert judged(norm_choice, rewards, torch.ones_like(rewards, dtype=torch.bool)).eq(0).all(), f"group of {size}"


@pytest.mark.parametrize("constant", CONSTANTS)
@pytest.mark.only(*(name for name in IN_GROUP if name not in (*WHITENED, "gdpo")))
def test_a_group_of_equal_rewards_is_zero_beside_groups_that_are_not(norm_choice, constant):
    """Up to rounding for those that end with a mean over the batch."""
    for size in range(2, 33):
        rewards = torch.stack([torch.full((size,), constant), torch.arange(size, dtype=torch.float32)])
        advantages = judged(norm_choice, rewards, torch.ones_like(rewards, dtype=torch.bool))
        assert advantages[0].eq(0).all() and advantages[1].ne(0).any(), f"group of {size}"


@pytest.mark.only("local", "hybrid", "hybrid_centered", "quantile", "grpo_passk", "gdpo", "batch_mean_group_std")
def test_differences_far_below_eps_give_next_to_no_advantage(norm_choice):
    """As rounding of a penalty leaves; not so where the distance from another mean is divided by the deviation."""
    rewards = torch.stack([1e-9 * torch.arange(4.0), torch.tensor([0.0, 1.0, 0.0, 1.0])])
    advantages = judged(norm_choice, rewards, torch.ones_like(rewards, dtype=torch.bool))
    assert (advantages[0].abs().max() < 0.01) == (norm_choice.name != "batch_mean_group_std")


@pytest.mark.parametrize("shape", [(3, 1), (1, 1)], ids=["in its group", "in its batch"])
def test_a_completion_alone_has_no_advantage_where_the_norm_compares(norm_choice, shape):
    """The names by which a config is refused, from the functions themselves."""
    comparing = norm.WITHIN_GROUP if shape[0] > 1 else norm.WITHIN_GROUP | norm.WITHIN_BATCH | {"reinforce_pp"}
    silent = True
    for rewards in (torch.arange(1.0, 4.0)[: shape[0]].view(shape), -torch.ones(shape)):
        every = story(rewards, torch.ones(shape, dtype=torch.bool)) | {"mask": torch.ones(*shape, 5, dtype=torch.bool)}
        silent &= bool(told(norm_choice, every).eq(0).all())
    assert silent == (norm_choice.name in comparing)


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
    hybrid, centred = (bind("norm", name, eps=1e-6, ddof=1)(level, keep) for name in ("hybrid", "hybrid_centered"))
    torch.testing.assert_close(hybrid.where(keep, 0.0), centred.where(keep, 0.0), **CLOSE)


@given(batch=batches(), shifts=st.lists(st.integers(-8, 8), min_size=3, max_size=3))
def test_hybrid_centered_is_the_hybrid_of_centred_rewards(batch, shifts):
    rewards, keep = batch
    centred = bind("norm", "center")(rewards, keep)
    expected = bind("norm", "hybrid", eps=1e-6, ddof=1)(centred, keep)
    torch.testing.assert_close(bind("norm", "hybrid_centered", eps=1e-6, ddof=1)(rewards, keep), expected, **CLOSE)


@given(batch=batches(kept=ALL_KEPT))
def test_a_baseline_weighted_alike_is_the_mean(batch):
    """Equal lengths: ``opo`` is ``center``; equal gradients: so is ``optimal``."""
    rewards, keep = batch
    every = story(rewards, keep)
    alike = (
        torch.ones_like(every["mask"]),
        torch.full_like(every["old_log_probs"], -1.0),
        torch.full_like(every["sum_pi_squared"], 0.5),
    )
    center = bind("norm", "center")(rewards, keep)
    torch.testing.assert_close(bind("norm", "opo")(rewards, keep, torch.full_like(rewards, 7.0)), center, **CLOSE)
    torch.testing.assert_close(bind("norm", "optimal")(rewards, keep, *alike), center, **CLOSE)


@given(batch=batches(kept=ALL_KEPT))
def test_without_a_penalty_and_discount_every_token_has_the_outcome(batch):
    """``reinforce`` is ``none``; whitened, what is left is a z-score weighted by length."""
    rewards, keep = batch
    every = story(rewards, keep)
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
    torch.testing.assert_close(judged(bind("norm", "gdpo", eps=1e-6, ddof=1), rewards, keep), expected, **CLOSE)


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


def test_every_norm_obeys_a_law_of_its_family():
    free = {"none", "max", "running", "ema", "remax", "reinforce", "pass_at_k", "w_reinforce"}
    assert {choice.name for choice in choices("norm")} == free | set(IN_GROUP) | set(IN_BATCH)


@pytest.mark.only("optimal", "optimal_token")
def test_where_the_policy_is_certain_the_baseline_is_the_plain_mean(norm_choice):
    """1 − 2π + Σπ² is then rounding, of either sign."""
    rewards = torch.tensor([[0.0, 0.0, 1.0]])
    every = story(rewards, torch.ones(1, 3, dtype=torch.bool)) | {"mask": torch.ones(1, 3, 5, dtype=torch.bool)}
    below = torch.tensor([[[1 - 2e-7], [1 - 1e-7], [1.0]]]).expand(1, 3, 5)
    advantages = told(norm_choice, every | {"old_log_probs": torch.zeros(1, 3, 5), "sum_pi_squared": below})
    torch.testing.assert_close(advantages.view(3, -1)[:, 0], torch.tensor([-1 / 3, -1 / 3, 2 / 3]))


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_pass_at_k_is_the_mean_over_all_sets_of_k(k):
    """Groups of six with 0 to 6 right ones, one completion outside the statistics."""
    correct = (torch.arange(6) < torch.arange(7).unsqueeze(-1)).double()
    keep = (torch.arange(6) != 2).expand(7, 6)
    expected = reference_norm.norm_pass_at_k(correct.numpy(), keep.numpy(), k=k)
    actual = bind("norm", "pass_at_k", k=k)(correct, keep).where(keep, 0.0)
    torch.testing.assert_close(actual, torch.from_numpy(expected), **CLOSE)


def test_grpo_passk_gives_nothing_to_a_tie():
    """peers: verl's lead of the first of two equal rewards over the second is 0."""
    rewards = torch.tensor([[1.0, 0.0, 1.0, 0.0], [1.0, 0.0, 0.5, 0.0], [1.0, 1.0, 1.0, 1.0]])
    advantages = bind("norm", "grpo_passk", eps=1e-6, ddof=1)(rewards, torch.ones_like(rewards, dtype=torch.bool))
    lead = 0.5 / (rewards[1].std() + 1e-6)
    torch.testing.assert_close(advantages, torch.zeros(3, 4).index_put((torch.tensor(1), torch.tensor(0)), lead))
