"""What a token weighs, what a masked completion does to the denominator, and which aggregations are which others."""

from __future__ import annotations

import torch
from axis_choices import CLOSE, bind, choices, inputs, numbers
from hypothesis import given
from hypothesis import strategies as st

from rlexp.testing.laws import aggregate, rollout, split_difference

REPLICAS, P, G, T = 6, 3, 4, 5


def test_dr_grpo_of_a_constant_loss_is_the_share_of_its_constant_length():
    losses, mask = inputs(bind("agg", "dr_grpo", length=7), REPLICAS, P, G, T)
    share = mask.double().sum((-1, -2, -3)) / (P * G * 7)
    torch.testing.assert_close(bind("agg", "dr_grpo", length=7)(losses.fill_(2.5), mask), 2.5 * share, **CLOSE)


def test_a_masked_completion_leaves_the_denominator_or_counts_with_a_loss_of_zero():
    every = rollout()
    without = {name: x[..., :-1, :] for name, x in every.items()}
    for choice in choices("agg"):
        sizes = [aggregate(choice, without) * share for share in (1, (G - 1) / G)]
        leaves, stays = (torch.allclose(aggregate(choice, every), size, **CLOSE) for size in sizes)
        assert leaves != stays, choice


def test_one_minibatch_is_the_rollout():
    assert not [choice for choice in choices("agg") if split_difference(choice, 1) > 1e-12]


def test_a_masked_prompt_stays_in_the_mean_over_prompts():
    every, prompt = rollout(), bind("agg", "prompt")
    others = {name: x[:, [0, *range(2, 8)]] for name, x in every.items()}
    torch.testing.assert_close(prompt(*every.values())[0], 7 / 8 * prompt(*others.values())[0], **CLOSE)


def test_token_weighs_every_token_of_the_rollout_the_same_and_bnpo_does_not():
    every = rollout()
    losses = every["losses"].requires_grad_()
    mean_tokens = every["mask"].double().sum((-1, -2, -3)) / 4

    def weights(choice):
        pieces = zip(losses.chunk(4, 1), every["mask"].chunk(4, 1), strict=True)
        total = sum(aggregate(choice, {"losses": a, "mask": b}, mean_tokens=mean_tokens).sum() for a, b in pieces)
        slope = torch.autograd.grad(total, losses)[0]
        return [slope[r][every["mask"][r]] for r in range(REPLICAS)]

    assert all((each == each[0]).all() for each in weights(bind("agg", "token")))
    assert not any((each == each[0]).all() for each in weights(bind("agg", "bnpo")))


@given(length=st.integers(1, T))
def test_with_equal_lengths_all_aggregations_coincide_up_to_the_length(length):
    losses = numbers(REPLICAS, P, G, T)["losses"]
    every = {"losses": losses, "mask": (torch.arange(T) < length).expand_as(losses)}
    token = aggregate(bind("agg", "token"), every)
    for other in (
        *(bind("agg", name) for name in ("bnpo", "sequence", "prompt")),
        bind("agg", "dr_grpo", length=length),
    ):
        torch.testing.assert_close(aggregate(other, every), token, **CLOSE)
    torch.testing.assert_close(aggregate(bind("agg", "sequence_sum"), every), token * length, **CLOSE)
