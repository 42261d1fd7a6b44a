"""Corrections that leave whole completions out: what stays is as it was, and what is left out was far away."""

from __future__ import annotations

import pytest
import torch
from axis_choices import CLOSE, bind, numbers, same_bits

SHAPE = REPLICAS, P, G, T = 3, 3, 4, 5
NEAR = {"low": 0.8, "high": 1.25}


def corrected(choice, every):
    return choice(*(every[name] for name in choice.needs))


def means(every, of_token):
    """Mean over the tokens that count of a function of log κ, ``[R P G 1]``."""
    log_ratio = every["old_log_probs"] - every["sampler_log_probs"]
    mask = every["mask"]
    return of_token(log_ratio).where(mask, 0.0).sum(-1, keepdim=True) / mask.sum(-1, keepdim=True)


def test_a_rejection_leaves_losses_as_they_are_or_nothing_of_them():
    every = numbers(*SHAPE)
    for choice, keep in (
        (bind("mismatch", "geometric_reject", **NEAR), means(every, lambda x: x).exp().sub(1.025).abs() <= 0.225),
        (bind("mismatch", "divergence_reject", high=0.1), means(every, lambda x: x.exp() - 1 - x) <= 0.1),
    ):
        assert keep.any() and not keep.all()
        assert same_bits(corrected(choice, every), every["losses"].where(keep, 0.0))


def test_two_corrections_at_once_are_one_after_the_other():
    every = numbers(*SHAPE)
    first = corrected(bind("mismatch", "token_truncate", low=0.0, high=1.1), every)
    second = corrected(bind("mismatch", "geometric_reject", **NEAR), every | {"losses": first})
    both = corrected(bind("mismatch", "truncate_and_reject", most=1.1, **NEAR), every)
    assert same_bits(both, second) and both.any() and not torch.equal(both, first)


def test_a_completion_of_one_token_is_masked_by_that_token():
    every = numbers(REPLICAS, P, G, 1)
    pair = (corrected(bind("mismatch", f"{level}_mask", **NEAR), every) for level in ("token", "geometric"))
    torch.testing.assert_close(*pair, **CLOSE)


@pytest.mark.parametrize("length", [1, 4, 64])
def test_no_length_is_more_suspect_to_a_geometric_mean(length):
    """Every token 10 % off: the product is far away after a few tokens, the mean never is."""
    old = torch.zeros(1, 1, 1, length).double()
    given = old + 1, old, old - 0.1, old == 0
    assert bind("mismatch", "geometric_reject", **NEAR)(*given).all()
    assert bind("mismatch", "sequence_mask", **NEAR)(*given).any() == (length < 3)


def test_errors_of_both_signs_cancel_in_the_ratio_and_not_in_the_divergence():
    signs = torch.tensor([0.5, -0.5, 0.5, -0.5]).double().view(1, 1, 1, 4)
    old = torch.zeros_like(signs)
    given = old + 1, old, signs, old == 0
    assert bind("mismatch", "geometric_reject", low=0.99, high=1.01)(*given).all()
    assert not bind("mismatch", "divergence_reject", high=0.1)(*given).any()
