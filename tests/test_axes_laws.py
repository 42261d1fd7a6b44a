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


@pytest.mark.parametrize("garbage", GARBAGE)
def test_padding_reaches_neither_loss_nor_gradient(clip_choice, kl_choice, agg_choice, garbage):
    """1B-17: −inf − −inf is NaN and NaN · 0 is NaN, so a mask that multiplies does not save the loss."""
    chosen = {"norm": bind("norm", "center"), "clip": clip_choice, "kl": kl_choice, "agg": agg_choice}
    clean = numbers(REPLICAS, P, G, T)
    padding = ~clean["mask"]
    dirty = clean | {key: clean[key].masked_fill(padding, garbage) for key in clean if key.endswith("log_probs")}

    def loss_and_slope(batch):
        log_probs = batch["log_probs"].clone().requires_grad_()
        loss = objective(chosen, 0.1, batch | {"log_probs": log_probs})
        return loss.detach(), *torch.autograd.grad(loss.sum(), log_probs)

    for expected, actual in zip(loss_and_slope(clean), loss_and_slope(dirty), strict=True):
        assert same_bits(expected, actual)


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


@given(lengths=st.tuples(st.integers(1, 40), st.integers(1, 40)))
def test_a_longer_completion_is_never_rewarded_for_its_length(shaping_choice, lengths):
    rewards = torch.ones(1, 2, dtype=torch.float64)
    tensor = torch.tensor([sorted(lengths)], dtype=torch.float64)
    shorter, longer = shaping_choice(rewards, tensor, torch.ones(1, 2, dtype=torch.bool)).view(-1)
    assert longer <= shorter <= 1


def test_filters_keep_what_finished(filter_choice):
    rewards, lengths, finished = inputs(filter_choice, REPLICAS, P, G, T)
    assert filter_choice(rewards, lengths, finished)[finished].all()
