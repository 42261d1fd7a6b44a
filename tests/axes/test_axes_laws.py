"""Laws of all axes: what holds for every choice whatever its formula."""

from __future__ import annotations

import math

import pytest
import torch
from axis_choices import bind, choices, inputs, numbers, same_bits, slopes
from objectives import objective

LEADING = [(), (1,), (3,), (2, 3)]
POISON = [math.inf, -math.inf, math.nan]
GARBAGE = [1e4, math.inf, math.nan]
REPLICAS, P, G, T = 6, 3, 4, 5


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
    if any_choice.axis in ("clip", "kl", "agg", "mismatch"):
        assert same_bits(slopes(any_choice, *broken)[others], slopes(any_choice, *stack)[others])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_dtype_is_preserved(any_choice, dtype):
    output = any_choice(*inputs(any_choice, REPLICAS, P, G, T, dtype=dtype))
    assert output.dtype == (torch.bool if any_choice.axis == "filter" else dtype)


def test_inputs_are_left_as_they_were(any_choice):
    given_, before = inputs(any_choice, REPLICAS, P, G, T), inputs(any_choice, REPLICAS, P, G, T)
    any_choice(*given_)
    assert all(same_bits(x, y) for x, y in zip(given_, before, strict=True))


@pytest.mark.bits
@pytest.mark.slow  # large tensors
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


DEFAULT = {"norm": bind("norm", "center"), "clip": bind("clip", "ppo", low=0.2, high=0.2)}
DEFAULT |= {"kl": bind("kl", "k3"), "agg": bind("agg", "token")}
LOSS = [choice for axis in ("clip", "mismatch", "kl", "agg") for choice in choices(axis)]


@pytest.mark.parametrize("garbage", GARBAGE)
@pytest.mark.parametrize("choice", LOSS, ids=str)
def test_padding_reaches_neither_loss_nor_gradient(choice, garbage):
    assert padding_reaches_nothing(DEFAULT | {choice.axis: choice}, garbage)
