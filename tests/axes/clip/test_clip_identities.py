"""Which policy losses are which others, and what single ones are made for."""

from __future__ import annotations

import math

import pytest
import torch
from axis_choices import CLOSE, bind, choices, inputs, same_bits, slopes

from rlexp.testing.laws import kept_slopes, one_advantage_a_completion

REPLICAS, P, G, T = 6, 3, 4, 5


def clip_tensors(choice, every):
    return [every[name] for name in choice.needs]


def test_a_token_has_the_policy_gradient_or_none_at_the_old_policy():
    """But for those that weigh completions as wholes, and for the gate of ``delightful``."""
    every = one_advantage_a_completion()
    every["old_log_probs"] = every["sampler_log_probs"] = every["log_probs"]
    expected = -every["advantages"].where(every["mask"], 0.0)
    for choice in choices("clip"):
        if choice.facts.unit == "token" and choice.name != "delightful":
            actual = kept_slopes(choice, every)
            assert (torch.isclose(actual, expected, **CLOSE) | actual.eq(0)).all(), choice


@pytest.mark.holds("S1.23")
def test_ppo_with_far_bounds_is_unclipped():
    tokens = inputs(bind("clip", "unclipped"), REPLICAS, P, G, T)
    far, unclipped = bind("clip", "ppo", low=1.0, high=1e6), bind("clip", "unclipped")
    assert same_bits(far(*tokens), unclipped(*tokens)) and same_bits(slopes(far, *tokens), slopes(unclipped, *tokens))


def test_wapo_is_ppo_of_winners_without_a_lower_bound():
    every = one_advantage_a_completion()
    wapo, ppo = bind("clip", "wapo", high=0.2), bind("clip", "ppo", low=1.0, high=0.2)
    winners = every["advantages"] > 0
    expected = kept_slopes(ppo, every).where(winners, 0.0)
    assert torch.equal(kept_slopes(wapo, every), expected)
    values = wapo(*clip_tensors(wapo, every))
    torch.testing.assert_close(values, ppo(*clip_tensors(ppo, every)).where(winners, 0.0), **CLOSE)
    assert expected.any() and winners.any() and not winners.all()


def test_mu_grpo_is_ppo_up_to_the_veto():
    """Of winners everywhere; of losers up to the first token out of the bounds, which itself is as in ``ppo``."""
    every, bounds = one_advantage_a_completion(), dict(low=0.2, high=0.2)
    ratio = (every["log_probs"] - every["old_log_probs"]).exp()
    out = every["mask"] & ((ratio < 0.8) | (ratio > 1.2))
    behind = torch.zeros_like(out)
    for t in range(1, T):
        behind[..., t] = out[..., :t].any(-1)
    vetoed = behind & (every["advantages"] < 0)
    ppo, found = (kept_slopes(bind("clip", name, **bounds), every) for name in ("ppo", "mu_grpo"))
    assert torch.equal(found, ppo.masked_fill(vetoed, 0.0))
    assert (ppo != found).any() and (found[out & (every["advantages"] < 0)] != 0).any()


@pytest.mark.parametrize(
    ("ratios", "weights"),
    [
        ([1.0, 0.4, 1.0, 1.0], [1, 0, 0, 0]),  # clipped, and a trigger
        ([1.0, 3.0, 1.0, 1.0], [1, 3, 0, 0]),  # not clipped, and a trigger
        ([1.0, 0.6, 1.9, 1.0], [1, 0.6, 1.9, 1]),
    ],
)
def test_mu_grpo_by_hand(ratios, weights):
    old = torch.full((1, 1, 1, 4), -2.0).double()
    given = {"old_log_probs": old, "log_probs": old + torch.tensor(ratios).double().log()}
    given |= {"mask": torch.ones(1, 1, 1, 4) > 0, "log_ratio_bound": torch.tensor([20.0]).double()}
    loss = bind("clip", "mu_grpo", low=0.5, high=1.0)
    for advantage, expected in ((-1.0, weights), (1.0, [min(r, 2.0) if r <= 2 else 0 for r in ratios])):
        given["advantages"] = torch.full_like(old, advantage)
        slopes_of = slopes(loss, *(given[name] for name in loss.needs))
        torch.testing.assert_close(slopes_of.flatten(), -advantage * torch.tensor(expected).double(), **CLOSE)


def test_two_sided_is_dual():
    every = one_advantage_a_completion()
    bounds = dict(low=0.2, high=0.28)
    dual, two_sided = bind("clip", "dual", c=1.4, **bounds), bind("clip", "two_sided", delta=1.4, **bounds)
    for one in (dual, two_sided):
        assert not same_bits(kept_slopes(one, every), kept_slopes(bind("clip", "ppo", **bounds), every))
    torch.testing.assert_close(kept_slopes(dual, every), kept_slopes(two_sided, every), **CLOSE)


@pytest.mark.holds("S1.26")
def test_a_schedule_ends_where_it_says():
    every = one_advantage_a_completion()
    schedule = bind("clip", "scheduled", low=0.2, high=0.4, high_final=0.1)
    for progress, high in {0.0: 0.4, 0.5: 0.25, 1.0: 0.1}.items():
        at = every | {"progress": torch.full_like(every["progress"], progress)}
        actual, expected = kept_slopes(schedule, at), kept_slopes(bind("clip", "ppo", low=0.2, high=high), at)
        torch.testing.assert_close(actual, expected, **CLOSE)


def test_cispo_keeps_the_gradient_that_ppo_clips():
    every = one_advantage_a_completion()
    ratio = (every["log_probs"] - every["old_log_probs"]).exp()
    cispo = bind("clip", "cispo", lower=0.0, upper=1.2)
    expected = (-ratio.clamp(max=1.2) * every["advantages"]).where(every["mask"], 0.0)
    torch.testing.assert_close(kept_slopes(cispo, every), expected, **CLOSE)
    absolute = bind("clip", "cispo", lower=0.0, upper=0.2)  # TRL's epsilon_high left unset: every weight is 0.2
    torch.testing.assert_close(
        kept_slopes(absolute, every | {"old_log_probs": every["log_probs"]}),
        (-0.2 * every["advantages"]).where(every["mask"], 0.0),
        **CLOSE,
    )


def test_gspo_token_is_gspo_where_a_completion_has_one_advantage():
    """Equal values everywhere; equal gradients of the sum over a completion's tokens."""
    every, bounds = one_advantage_a_completion(), dict(low=0.1, high=0.1)
    gspo, token = bind("clip", "gspo", **bounds), bind("clip", "gspo_token", **bounds)
    torch.testing.assert_close(gspo(*clip_tensors(gspo, every)), token(*clip_tensors(token, every)), **CLOSE)
    torch.testing.assert_close(kept_slopes(gspo, every), kept_slopes(token, every), **CLOSE)
    assert kept_slopes(gspo, every).any() and not kept_slopes(gspo, every)[every["mask"]].all()


def test_sapo_gate_is_one_at_the_old_policy_and_falls_on_both_sides():
    """The gradient over that of −ρA: 4 σ(1 − σ), largest at ρ = 1."""
    sapo, far = bind("clip", "sapo", tau_positive=1.0, tau_negative=2.0), torch.linspace(-2, 1, 31).double()
    log_probs = far.view(1, 1, -1) - 2.5
    tensors = [log_probs, torch.full_like(log_probs, -2.5), torch.ones_like(log_probs), log_probs < 0]
    gate = slopes(sapo, *tensors) / slopes(bind("clip", "unclipped"), *tensors)
    assert gate.argmax() == 20 and gate[0, 0, 20].item() == pytest.approx(1)
    assert (gate[0, 0, :21].diff() > 0).all() and (gate[0, 0, 20:].diff() < 0).all()


def test_the_delightful_gate_is_a_half_for_certain_tokens_and_parts_rare_successes_from_rare_failures():
    """The weight of the gradient over surprisal, whatever the ratio: up from ½ for A > 0, down from ½ for A < 0."""
    choice, log_probs = bind("clip", "delightful", eta=0.5), torch.linspace(-5, 0, 21).double().view(1, 1, -1)
    ones, counted = torch.ones_like(log_probs), log_probs < 1
    success, failure = (
        -slopes(choice, log_probs, old, sign * ones, counted) * sign
        for sign, old in ((1, log_probs), (-1, log_probs - 1))
    )
    assert success[0, 0, -1].item() == failure[0, 0, -1].item() == 0.5
    assert (success.diff() < 0).all() and (failure.diff() > 0).all()
    torch.testing.assert_close(success + failure, ones, **CLOSE)
    assert success[0, 0, 0].item() == pytest.approx(1 / (1 + math.exp(-10)))


def test_opsm_drops_whole_completions_that_are_unlikely_now_and_bad():
    every = one_advantage_a_completion()
    drift = (every["old_log_probs"] - every["log_probs"]).where(every["mask"], 0.0).sum(-1) / every["mask"].sum(-1)
    dropped = (drift > 0.1) & (every["advantages"][..., 0] < 0)
    ppo = bind("clip", "ppo", low=0.2, high=0.2)
    expected = kept_slopes(ppo, every).where(~dropped.unsqueeze(-1), 0.0)
    assert dropped.any() and not dropped.all()
    assert same_bits(kept_slopes(bind("clip", "opsm", low=0.2, high=0.2, delta=0.1), every), expected)


@pytest.mark.parametrize("share", [1e-9, 0.3])
def test_a_covariance_loss_treats_at_least_one_token_apart_and_the_share_of_them(share):
    every = one_advantage_a_completion()
    mask = every["mask"]
    k = (share * mask.sum((-1, -2, -3))).floor().clamp(min=1)
    kl_cov, unclipped = bind("clip", "kl_cov", share=share, coef=0.5), bind("clip", "unclipped")
    apart = kl_cov(*clip_tensors(kl_cov, every)) != unclipped(*clip_tensors(unclipped, every))
    assert torch.equal(apart.sum((-1, -2, -3)), k)
    clip_cov = bind("clip", "clip_cov", low=9.0, high=9.0, share=share, lb=-99.0, ub=99.0)
    dropped = (kept_slopes(clip_cov, every) == 0) & mask
    assert torch.equal(dropped.sum((-1, -2, -3)), k)


def test_luspo_is_gspo_times_the_length():
    """TRL: the mean over completions of length · loss of the completion."""
    every = one_advantage_a_completion()
    gspo = bind("clip", "gspo", low=0.1, high=0.1)
    losses = gspo(*clip_tensors(gspo, every))
    lengths = every["mask"].double().sum(-1)
    expected = (losses[..., 0] * lengths).mean((-1, -2))
    torch.testing.assert_close(bind("agg", "sequence_sum")(losses, every["mask"]), expected, **CLOSE)
