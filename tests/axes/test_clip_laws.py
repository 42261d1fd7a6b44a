"""Laws of policy losses: the policy gradient at ratio 1, who moves whom, and which losses are which others."""

from __future__ import annotations

import math

import pytest
import torch
from axis_choices import CLOSE, bind, inputs, numbers, same_bits, slopes

from rlexp.axes.laws import LAWS, laws_of
from rlexp.core.facts import facts_of

REPLICAS, P, G, T = 6, 3, 4, 5


def check(choice, law, holds):
    """Whether a choice obeys a law must be what its facts say."""
    expected = law in laws_of("clip", choice)
    where = "take it out of `breaks`" if holds else "write it into `breaks`"
    assert holds == expected, (
        f'{choice} {"obeys" if holds else "does not obey"} "{law}" ({LAWS["clip"][law]}): '
        f"{where} of @facts beside `{choice.func.__name__}`"
    )


def clip_tensors(choice, every):
    return [every[name] for name in choice.needs]


def one_advantage_a_completion(**changes):
    """Return tensors whose advantages are the same for all tokens of a completion, as outcome rewards give them."""
    every = numbers(REPLICAS, P, G, T)
    return every | {"advantages": every["advantages"][..., :1].expand_as(every["advantages"])} | changes


def kept_slopes(choice, every):
    """Return the gradient of the sum of the losses of the tokens that count."""
    log_probs = every["log_probs"].clone().requires_grad_()
    losses = choice(*clip_tensors(choice, every | {"log_probs": log_probs})).where(every["mask"], 0.0)
    return torch.autograd.grad(losses.sum(), log_probs)[0]


def test_on_policy_gradient_is_the_policy_gradient(clip_choice):
    """At ρ = 1 every policy loss has slope −A, so that one update per rollout cannot tell them apart."""
    every = one_advantage_a_completion()
    every["old_log_probs"] = every["sampler_log_probs"] = every["log_probs"]
    expected = -every["advantages"].where(every["mask"], 0.0)
    actual = kept_slopes(clip_choice, every)
    check(clip_choice, "policy gradient", torch.allclose(actual, expected, **CLOSE))
    close = torch.isclose(actual, expected, **CLOSE)
    of_tokens = facts_of(clip_choice).unit == "token"
    gated = clip_choice.name == "delightful"
    assert not of_tokens or gated or (close | actual.eq(0)).all(), (
        "some tokens may have no gradient, but none another one"
    )


def test_no_advantage_no_gradient(clip_choice):
    """Whether no completion has one, or every other."""
    every = one_advantage_a_completion()
    without = [torch.ones(G) > 0, torch.arange(G) % 2 == 0]
    actual = [
        kept_slopes(clip_choice, every | {"advantages": every["advantages"].masked_fill(each[:, None], 0.0)})[
            ..., each, :
        ]
        for each in without
    ]
    check(clip_choice, "no advantage", not any(slopes.any() for slopes in actual))


def test_what_is_masked_has_no_gradient_and_gives_none(clip_choice):
    """Other log-probabilities and advantages where nothing counts: the same losses and slopes where it does."""
    every = one_advantage_a_completion()
    mask, other = every["mask"], numbers(REPLICAS, P, G, T, seed=4)
    mixed = {name: every[name].where(mask, other[name]) for name in ("log_probs", "old_log_probs", "uniforms")}
    # the mean advantage of a covariance is over what counts
    mixed["advantages"] = every["advantages"].where(mask, 7.0)
    expected, actual = kept_slopes(clip_choice, every), kept_slopes(clip_choice, every | mixed)
    assert same_bits(actual, expected) and not actual[~mask].any()


def test_completions_do_not_mix(clip_choice):
    """A completion alone has the gradient that it has in its minibatch."""
    every = one_advantage_a_completion()
    whole = kept_slopes(clip_choice, every)
    places = [(slice(None), slice(p, p + 1), slice(g, g + 1)) for p in range(P) for g in range(G)]
    alone = [
        kept_slopes(clip_choice, {name: x[at] if x.dim() > 2 else x for name, x in every.items()}) for at in places
    ]
    same = all(same_bits(slope, whole[at]) for slope, at in zip(alone, places, strict=True))
    check(clip_choice, "alone", same)


def test_ppo_with_far_bounds_is_unclipped():
    tokens = inputs(bind("clip", "unclipped"), REPLICAS, P, G, T)
    far, unclipped = bind("clip", "ppo", low=1.0, high=1e6), bind("clip", "unclipped")
    assert same_bits(far(*tokens), unclipped(*tokens)) and same_bits(slopes(far, *tokens), slopes(unclipped, *tokens))


def test_two_sided_is_dual():
    every = one_advantage_a_completion()
    bounds = dict(low=0.2, high=0.28)
    dual, two_sided = bind("clip", "dual", c=1.4, **bounds), bind("clip", "two_sided", delta=1.4, **bounds)
    for one in (dual, two_sided):
        assert not same_bits(kept_slopes(one, every), kept_slopes(bind("clip", "ppo", **bounds), every))
    torch.testing.assert_close(kept_slopes(dual, every), kept_slopes(two_sided, every), **CLOSE)


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
