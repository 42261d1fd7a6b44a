"""Laws of the axes: what holds for every choice whatever its formula; clip, agg, shaping and filter in particular."""

from __future__ import annotations

import math

import pytest
import torch
from axis_choices import CLOSE, bind, inputs, numbers, objective, same_bits, slopes
from hypothesis import given
from hypothesis import strategies as st

LEADING = [(), (1,), (3,), (2, 3)]
POISON = [math.inf, -math.inf, math.nan]
GARBAGE = [1e4, math.inf, math.nan]
REPLICAS, P, G, T = 6, 3, 4, 5


# ---- every choice of every axis


def test_replicas_do_not_mix(any_choice):
    stack = inputs(any_choice, REPLICAS, P, G, T)
    together = any_choice(*stack)
    assert all(same_bits(together[r], any_choice(*(x[r] for x in stack))) for r in range(REPLICAS))


@pytest.mark.parametrize("leading", LEADING, ids=str)
def test_any_number_of_leading_axes(any_choice, leading):
    stack = inputs(any_choice, REPLICAS, P, G, T)
    count = math.prod(leading)
    output = any_choice(*(x[:count].reshape(leading + x.shape[1:]) for x in stack))
    expected = any_choice(*stack)[:count]
    assert same_bits(output, expected.reshape(leading + expected.shape[1:]))


@pytest.mark.parametrize("poison", POISON)
def test_a_broken_replica_leaves_the_others_bitwise_alone(any_choice, poison):
    stack = inputs(any_choice, REPLICAS, P, G, T)
    broken = [x.clone() for x in stack]
    for x in broken:
        x[1] = poison if x.is_floating_point() else x[1]
    others = torch.arange(REPLICAS) != 1
    assert same_bits(any_choice(*broken)[others], any_choice(*stack)[others])
    if any_choice.axis in ("clip", "kl", "agg"):
        assert same_bits(slopes(any_choice, *broken)[others], slopes(any_choice, *stack)[others])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_dtype_is_preserved(any_choice, dtype):
    output = any_choice(*inputs(any_choice, REPLICAS, P, G, T, dtype=dtype))
    assert output.dtype == (torch.bool if any_choice.axis == "filter" else dtype)


def test_inputs_are_left_as_they_were(any_choice):
    given_, before = inputs(any_choice, REPLICAS, P, G, T), inputs(any_choice, REPLICAS, P, G, T)
    any_choice(*given_)
    assert all(same_bits(x, y) for x, y in zip(given_, before, strict=True))


def test_a_large_run_has_the_same_bits_alone_and_in_a_batch(any_choice):
    """A reduction over several large axes at once would be split between threads when it is alone."""
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        stack = inputs(any_choice, 3, 128, 16, 32, dtype=torch.float32)
        assert same_bits(any_choice(*stack)[1:2], any_choice(*(x[1:2] for x in stack)))
    finally:
        torch.set_num_threads(threads)


# ---- padding


def padding_reaches_nothing(chosen, garbage):
    """1B-17: −inf − −inf is NaN and NaN · 0 is NaN, so a mask that multiplies does not save the loss."""
    clean = numbers(REPLICAS, P, G, T)
    padding = ~clean["mask"]
    dirty = clean | {key: clean[key].masked_fill(padding, garbage) for key in clean if key.endswith("log_probs")}

    def loss_and_slope(batch):
        log_probs = batch["log_probs"].clone().requires_grad_()
        loss = objective(chosen, 0.1, batch | {"log_probs": log_probs})
        return loss.detach(), *torch.autograd.grad(loss.sum(), log_probs)

    return all(same_bits(a, b) for a, b in zip(loss_and_slope(clean), loss_and_slope(dirty), strict=True))


@pytest.mark.parametrize("garbage", GARBAGE)
def test_padding_reaches_neither_loss_nor_gradient(clip_choice, agg_choice, garbage):
    chosen = {"norm": bind("norm", "center"), "clip": clip_choice, "kl": bind("kl", "k3"), "agg": agg_choice}
    assert padding_reaches_nothing(chosen, garbage)


@pytest.mark.parametrize("garbage", GARBAGE)
def test_padding_reaches_no_penalty(kl_choice, garbage):
    clip = bind("clip", "ppo", low=0.2, high=0.2)
    chosen = {"norm": bind("norm", "center"), "clip": clip, "kl": kl_choice, "agg": bind("agg", "token")}
    assert padding_reaches_nothing(chosen, garbage)


def test_a_run_without_a_single_kept_token_has_loss_zero(agg_choice):
    losses, mask = inputs(agg_choice, P, G, T)
    nothing = torch.zeros_like(mask)
    assert agg_choice(losses, nothing) == 0 and slopes(agg_choice, losses, nothing).eq(0).all()


# ---- clip


def test_on_policy_gradient_is_the_policy_gradient(clip_choice):
    """At ρ = 1 every policy loss has slope −A, so that one update per rollout cannot tell them apart."""
    log_probs, _, advantages, mask = inputs(clip_choice, REPLICAS, P, G, T)
    gradient = slopes(clip_choice, log_probs, log_probs, advantages, mask)
    torch.testing.assert_close(gradient.where(mask, 0.0), -advantages.where(mask, 0.0), **CLOSE)


def test_no_advantage_no_gradient(clip_choice):
    log_probs, old_log_probs, advantages, mask = inputs(clip_choice, REPLICAS, P, G, T)
    assert slopes(clip_choice, log_probs, old_log_probs, torch.zeros_like(advantages), mask).eq(0).all()


def test_ppo_with_far_bounds_is_unclipped():
    tokens = inputs(bind("clip", "unclipped"), REPLICAS, P, G, T)
    far, unclipped = bind("clip", "ppo", low=1.0, high=1e6), bind("clip", "unclipped")
    assert same_bits(far(*tokens), unclipped(*tokens)) and same_bits(slopes(far, *tokens), slopes(unclipped, *tokens))


# ---- agg


@pytest.mark.only("token", "sequence")
def test_a_constant_loss_is_its_own_mean(agg_choice):
    losses, mask = inputs(agg_choice, REPLICAS, P, G, T)
    torch.testing.assert_close(agg_choice(losses.fill_(2.5), mask), losses[:, 0, 0, 0], **CLOSE)


def test_dr_grpo_of_a_constant_loss_is_the_share_of_its_constant_length():
    losses, mask = inputs(bind("agg", "dr_grpo", length=7), REPLICAS, P, G, T)
    share = mask.double().sum((-1, -2, -3)) / (P * G * 7)
    torch.testing.assert_close(bind("agg", "dr_grpo", length=7)(losses.fill_(2.5), mask), 2.5 * share, **CLOSE)


@pytest.mark.only("token")
def test_masking_equals_slicing_away(agg_choice):
    losses, _ = inputs(agg_choice, REPLICAS, P, G, T)
    mask = torch.zeros_like(losses, dtype=torch.bool)
    mask[..., :3, :2] = True
    sliced = losses[..., :3, :2]
    torch.testing.assert_close(agg_choice(losses, mask), agg_choice(sliced, torch.ones_like(sliced).bool()), **CLOSE)


@given(length=st.integers(1, T))
def test_with_equal_lengths_all_aggregations_coincide(length):
    losses = numbers(REPLICAS, P, G, T)["losses"]
    mask = (torch.arange(T) < length).expand_as(losses)
    token = bind("agg", "token")(losses, mask)
    torch.testing.assert_close(bind("agg", "sequence")(losses, mask), token, **CLOSE)
    torch.testing.assert_close(bind("agg", "dr_grpo", length=length)(losses, mask), token, **CLOSE)


# ---- shaping and filter


def shaped(choice, rewards, *, lengths=3.0, finished=True, drawn=0.5, hashed=0.5):
    """Shape rewards ``[N]``; numbers stand for all completions. Luck of 0.5 is no noise and no wrong verdict."""
    given_ = {"lengths": lengths, "finished": finished, "drawn": drawn, "hashed": hashed}
    offered = {name: torch.as_tensor(value, dtype=None if name == "finished" else torch.float64).expand(1, len(rewards))
               for name, value in given_.items()}  # fmt: skip
    offered["rewards"] = torch.tensor([rewards], dtype=torch.float64)
    return choice(*(offered[name] for name in choice.needs)).view(-1)


@given(lengths=st.tuples(st.integers(1, 40), st.integers(1, 40)))
def test_a_longer_completion_is_never_rewarded_for_its_length(shaping_choice, lengths):
    shorter, longer = shaped(shaping_choice, [1.0, 1.0], lengths=sorted(lengths))
    assert longer <= shorter <= 1


def test_a_completion_is_shaped_by_itself(shaping_choice):
    """Each completion alone gives the same bits: no shaping looks at a neighbour."""
    every = inputs(shaping_choice, REPLICAS, P, G, T)
    together = shaping_choice(*every)
    for p, g in [(0, 0), (P - 1, G - 2)]:
        one = (slice(None), slice(p, p + 1), slice(g, g + 1))
        assert same_bits(shaping_choice(*(x[one] for x in every)), together[one])


@pytest.mark.parametrize("luck", [0.0, 0.001, 0.999])
@pytest.mark.parametrize("finished", [True, False])
def test_a_completion_without_a_reward_gets_none(shaping_choice, luck, finished):
    output = shaped(shaping_choice, [math.nan], lengths=40.0, finished=finished, drawn=luck, hashed=luck)
    assert output.isnan().all()


@pytest.mark.parametrize("name", ["noise", "noise_persistent"])
def test_noise_is_normal(name):
    """Over a fine grid of uniform numbers: mean 0, deviation std, and 0.135 % beyond three deviations."""
    evenly = ((torch.arange(100_000) + 0.5) / 100_000).double()
    output = shaped(bind("shaping", name, std=0.5), [2.0] * 100_000, drawn=evenly, hashed=evenly)
    assert output.mean().item() == pytest.approx(2, abs=1e-6)
    assert output.std().item() == pytest.approx(0.5, rel=1e-4)  # the grid leaves the outermost tails out
    assert (output > 3.5).double().mean().item() == pytest.approx(0.00135, abs=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_smallest_and_the_largest_number_of_a_stream_give_finite_noise(dtype):
    ends = torch.tensor([[0.0, 1 - 2.0**-24]], dtype=torch.float32)
    assert bind("shaping", "noise", std=1.0)(torch.zeros(1, 2, dtype=dtype), ends).isfinite().all()


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-1.0, 1.0)])
@pytest.mark.parametrize("name", ["flips", "flips_persistent"])
def test_flips_have_their_rates_and_shrink_the_expected_reward(name, low, high):
    """arXiv 2510.00915: E[r'] of right and wrong differ by (1 − ρ0 − ρ1) times what their rewards differ by."""
    evenly = ((torch.arange(1000) + 0.5) / 1000).double()
    flips = bind("shaping", name, low=low, high=high, false_positives=0.1, false_negatives=0.3)
    wrong, right = (shaped(flips, [reward] * 1000, drawn=evenly, hashed=evenly) for reward in (low, high))
    assert (wrong == high).double().mean().item() == pytest.approx(0.1, abs=1e-9)
    assert (right == low).double().mean().item() == pytest.approx(0.3, abs=1e-9)
    assert (right.mean() - wrong.mean()).item() == pytest.approx(0.6 * (high - low), abs=1e-9)


@pytest.mark.parametrize(("a", "b"), [(2.0, -1.0), (-0.5, 3.0)])
def test_affine_rewards_and_the_norms_that_ignore_them(a, b):
    rewards, keep = (numbers(REPLICAS, P, G, T)[name] for name in ("rewards", "keep"))
    other = bind("shaping", "affine", a=a, b=b)(rewards)
    center, local = bind("norm", "center"), bind("norm", "local", eps=1e-12, ddof=1)
    torch.testing.assert_close(center(other, keep), a * center(rewards, keep), **CLOSE)
    torch.testing.assert_close(local(other, keep), math.copysign(1, a) * local(rewards, keep), **CLOSE)


@pytest.mark.only("none", "overlong")
def test_filters_keep_what_finished(filter_choice):
    (finished,) = inputs(filter_choice, REPLICAS, P, G, T)
    assert filter_choice(finished)[finished].all()


CONSTANTS = [0.7, 1.1, 0.1, 1 / 3, 1e-8, 1e30]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("size", [2, 8, 10, 32, 33])
@pytest.mark.parametrize("value", CONSTANTS)
def test_equal_rewards_are_zero_variance_and_the_next_number_is_not(value, size, dtype):
    rewards = torch.full((2, size), value, dtype=dtype)
    rewards[1, size // 2] = rewards[1, 0].nextafter(torch.tensor(torch.inf, dtype=dtype))
    keep = bind("filter", "zero_variance")(rewards, torch.ones_like(rewards, dtype=torch.bool))
    assert not keep[0].any() and keep[1].all()


def test_a_deviation_of_zero_would_not_have_found_them():
    """Why zero_variance compares extremes."""
    found = [
        torch.full((size,), value, dtype=torch.float32).std(correction=0).item()
        for value in CONSTANTS
        for size in (10, 32, 33)
    ]
    assert any(found)


@pytest.mark.only("zero_variance", "difficulty")
def test_a_filter_of_groups_keeps_all_of_a_group_or_nothing(filter_choice):
    keep = filter_choice(*inputs(filter_choice, REPLICAS, P, G, T))
    assert torch.equal(keep.all(-1), keep.any(-1))


@pytest.mark.only("zero_variance", "difficulty")
def test_rewards_that_are_not_there_do_not_decide(filter_choice):
    rewards, scored = inputs(filter_choice, REPLICAS, P, G, T)
    assert same_bits(filter_choice(rewards.where(scored, 1e9), scored), filter_choice(rewards, scored))
    assert not filter_choice(rewards, torch.zeros_like(scored)).any()


@given(share=st.sampled_from([0.01, 0.1, 0.2, 0.5, 0.8, 1.0]))
def test_top_entropy_keeps_its_share_and_the_most_uncertain(share):
    chosen = bind("filter", "top_entropy", share=share)
    entropies, mask = inputs(chosen, REPLICAS, P, G, T)
    keep = chosen(entropies, mask)
    assert not (keep & ~mask).any()
    assert keep.sum((-1, -2, -3)).tolist() == [max(1, round(share * n)) for n in mask.sum((-1, -2, -3)).tolist()]
    lowest = entropies.masked_fill(~keep, torch.inf).amin((-1, -2, -3))
    assert (lowest > entropies.masked_fill(keep | ~mask, -torch.inf).amax((-1, -2, -3))).all()
    garbage = entropies.masked_fill(~mask, math.nan)
    assert same_bits(chosen(garbage, mask), keep)
    assert same_bits(chosen(entropies.flip(-3), mask.flip(-3)), keep.flip(-3))


def test_tokens_of_equal_entropy_stay_together():
    mask = torch.ones(2, 3, 4, dtype=torch.bool)
    assert bind("filter", "top_entropy", share=0.1)(torch.full((2, 3, 4), 0.7), mask).all()
    assert not bind("filter", "top_entropy", share=0.1)(torch.full((2, 3, 4), 0.7), ~mask).any()
