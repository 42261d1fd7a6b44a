"""Laws of aggregation: what a token weighs, what a masked completion does to the denominator, what a split changes."""

from __future__ import annotations

import pytest
import torch
from axis_choices import CLOSE, bind, inputs, numbers, slopes
from hypothesis import given
from hypothesis import strategies as st

from rlexp.axes.laws import LAWS, laws_of

REPLICAS, P, G, T = 6, 3, 4, 5


def check(choice, law, holds):
    """Whether a choice obeys a law must be what its facts say."""
    verb, where = ("obeys", "`laws`") if holds else ("does not obey", "`breaks`, or take it out of `laws`")
    expected = law in laws_of("agg", choice)
    assert holds == expected, f'{choice} {verb} "{law}" ({LAWS["agg"][law]}): say so in {where} of its @facts'


def equal(actual, expected):
    return torch.allclose(actual, expected, **CLOSE)


def aggregate(choice, every, **changes):
    """Aggregate as a training step does: ``mean_tokens`` is that of the whole rollout unless it is given."""
    whole = {"mean_tokens": every["mask"].to(every["losses"].dtype).sum((-1, -2, -3))}
    return choice(*((whole | every | changes)[name] for name in choice.needs))


def rollout():
    """Losses and mask; the last completion of each group does not count, nor does the second prompt of replica 0."""
    every = numbers(REPLICAS, 8, G, T)
    mask = every["mask"].clone()
    mask[..., -1, :] = False
    mask[0, 1] = False
    return {"losses": every["losses"], "mask": mask}


def test_a_constant_loss_is_its_own_mean(agg_choice):
    every = numbers(REPLICAS, P, G, T)
    full = {"losses": every["losses"].fill_(2.5), "mask": every["mask"]}
    check(agg_choice, "mean", equal(aggregate(agg_choice, full), full["losses"][:, 0, 0, 0]))


def test_dr_grpo_of_a_constant_loss_is_the_share_of_its_constant_length():
    losses, mask = inputs(bind("agg", "dr_grpo", length=7), REPLICAS, P, G, T)
    share = mask.double().sum((-1, -2, -3)) / (P * G * 7)
    torch.testing.assert_close(bind("agg", "dr_grpo", length=7)(losses.fill_(2.5), mask), 2.5 * share, **CLOSE)


def test_masking_equals_slicing_away(agg_choice):
    losses = numbers(REPLICAS, P, G, T)["losses"]
    mask = torch.zeros_like(losses, dtype=torch.bool)
    mask[..., :3, :2] = True
    sliced = losses[..., :3, :2]
    expected = aggregate(agg_choice, {"losses": sliced, "mask": torch.ones_like(sliced).bool()})
    check(agg_choice, "masked leaves", equal(aggregate(agg_choice, {"losses": losses, "mask": mask}), expected))


def test_what_a_masked_completion_does_to_the_denominator(agg_choice):
    """It leaves it, as if it were not there, or it stays, as a completion of loss 0."""
    every = rollout()
    without = {name: x[..., :-1, :] for name, x in every.items()}
    leaves, stays = (equal(aggregate(agg_choice, every), aggregate(agg_choice, without) * x) for x in (1, (G - 1) / G))
    check(agg_choice, "masked leaves", leaves)
    assert leaves != stays, f"{agg_choice}: a masked completion must leave the denominator or count with a loss of 0"


def test_a_masked_prompt_stays_in_the_mean_over_prompts():
    every, prompt = rollout(), bind("agg", "prompt")
    others = {name: x[:, [0, *range(2, 8)]] for name, x in every.items()}
    torch.testing.assert_close(prompt(*every.values())[0], 7 / 8 * prompt(*others.values())[0], **CLOSE)


@pytest.mark.parametrize("parts", [1, 2, 8])
def test_splitting_changes_no_gradient_but_of_those_that_say_so(agg_choice, parts):
    """The mean of the minibatches' losses against the loss of the whole rollout, value and slopes."""
    every = rollout()
    losses = every["losses"].requires_grad_()
    whole = aggregate(agg_choice, every)
    mean_tokens = every["mask"].double().sum((-1, -2, -3)) / parts
    pieces = zip(losses.chunk(parts, 1), every["mask"].chunk(parts, 1), strict=True)
    split = sum(
        aggregate(agg_choice, {"losses": piece, "mask": mask}, mean_tokens=mean_tokens) for piece, mask in pieces
    )
    differences = [split / parts - whole, *torch.autograd.grad((split / parts - whole).sum(), losses)]
    same = all(each.abs().max() < 1e-12 for each in differences)
    assert same if parts == 1 else check(agg_choice, "split", same) is None


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


def test_a_run_without_a_single_kept_token_has_loss_zero(agg_choice):
    every = numbers(P, G, T)
    every["mask"] = torch.zeros_like(every["mask"])
    tensors = [every[name] for name in agg_choice.needs]
    assert agg_choice(*tensors) == 0 and slopes(agg_choice, *tensors).eq(0).all()
