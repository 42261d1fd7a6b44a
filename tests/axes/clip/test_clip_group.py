"""Losses of a whole group: where they are at rest, how far their gradients go, and whose they are at ratio 1."""

from __future__ import annotations

import math

import pytest
import torch
from axis_choices import CLOSE, bind, numbers
from small_runs import values

from rlexp.config.checks import remarks
from rlexp.config.schema import read
from rlexp.core.errors import ConfigError

REPLICAS, P, G, T = 2, 3, 4, 5
SEQUENCE = bind("agg", "sequence")
FLOWRL = bind("clip", "flowrl", beta=3.0, most=1.5)
GVPO, TPO, REAL = bind("clip", "gvpo", beta=0.1), bind("clip", "tpo", eta=1.0), bind("clip", "real", tau=0.5)


def groups(**changes):
    """Every completion counts; advantages are those of completions, off-policy."""
    every = numbers(REPLICAS, P, G, T)
    advantages = every["advantages"][..., :1].expand_as(every["advantages"])
    return every | {"keep": torch.ones(REPLICAS, P, G) > 0, "advantages": advantages} | changes


def loss_and_slopes(loss, every):
    """The mean over groups, ``[R]``, and its slope in the log-probability of each completion, times the groups."""
    log_probs = every["log_probs"].clone().requires_grad_()
    total = SEQUENCE(loss(*((every | {"log_probs": log_probs})[name] for name in loss.needs)), every["mask"])
    (slopes,) = torch.autograd.grad(total.sum(), log_probs)
    first = slopes[..., 0]  # a sum over tokens has the same slope in each that counts, and the first always does
    torch.testing.assert_close(slopes, first[..., None].expand_as(slopes).where(every["mask"], 0.0), **CLOSE)
    return total.detach(), P * first


def moved_by(every, scores):
    """Log-probabilities whose Σ_t log ρ are these scores, ``[R P G]``."""
    lengths = every["mask"].sum(-1, keepdim=True)
    return every["old_log_probs"] + scores.unsqueeze(-1) / lengths


def test_gvpo_is_at_rest_where_implicit_rewards_are_the_rewards_up_to_a_constant():
    every = groups()
    scores = every["advantages"][..., 0] / 0.1 + torch.arange(P).double()[:, None]
    loss, slopes = loss_and_slopes(GVPO, every | {"log_probs": moved_by(every, scores)})
    torch.testing.assert_close(loss, torch.zeros_like(loss), **CLOSE)
    torch.testing.assert_close(slopes, torch.zeros_like(slopes), **CLOSE)


def test_at_the_old_policy_gvpo_is_a_policy_gradient():
    """−beta/(n − 1) · (r − mean) for each completion."""
    every = groups()
    _, slopes = loss_and_slopes(GVPO, every | {"log_probs": every["old_log_probs"]})
    rewards = every["advantages"][..., 0]
    torch.testing.assert_close(slopes, -0.1 / (G - 1) * (rewards - rewards.mean(-1, keepdim=True)), **CLOSE)


def moved_from_reference(every, means):
    """Log-probabilities whose mean_t log π − log π_ref are these, ``[R P G]``."""
    return every["ref_log_probs"] + means.unsqueeze(-1)


def test_flowrl_is_at_rest_where_mean_log_ratios_to_the_reference_are_rewards_up_to_a_constant():
    every = groups()
    means = 3.0 * every["advantages"][..., 0] + torch.arange(P).double()[:, None]
    loss, slopes = loss_and_slopes(FLOWRL, every | {"log_probs": moved_from_reference(every, means)})
    torch.testing.assert_close(loss, torch.zeros_like(loss), **CLOSE)
    torch.testing.assert_close(slopes, torch.zeros_like(slopes), **CLOSE)


def test_flowrl_weighs_a_completion_by_its_ratio_up_to_a_bound():
    """Twice the weight, the residual and 1 / tokens is the slope; the ratios are those of whole completions."""
    every = groups()
    residuals = (every["log_probs"] - every["ref_log_probs"]).where(every["mask"], 0.0).sum(-1)
    residuals = residuals / every["mask"].sum(-1) - 3.0 * every["advantages"][..., 0]
    ratios = (every["log_probs"] - every["old_log_probs"]).where(every["mask"], 0.0).sum(-1).exp()
    weights = ratios.clamp(max=1.5)
    assert (ratios > 1.5).any() and (ratios < 1.5).any()
    log_z = -(weights * residuals).sum(-1, keepdim=True) / weights.sum(-1, keepdim=True)
    loss, slopes = loss_and_slopes(FLOWRL, every)
    torch.testing.assert_close(loss, (weights * (log_z + residuals).square()).mean((-1, -2)), **CLOSE)
    torch.testing.assert_close(slopes, 2 * weights * (log_z + residuals) / every["mask"].sum(-1) / G, **CLOSE)


def test_a_log_z_that_is_trained_by_the_loss_of_flowrl_ends_at_that_of_the_group():
    """A number for each prompt that has gone down the loss: the same loss, and the same gradient of the policy."""
    every = groups()
    log_probs = every["log_probs"].clone().requires_grad_()
    numbers = torch.zeros(REPLICAS, P, 1).double().requires_grad_()
    lengths = every["mask"].sum(-1)

    def trained():
        means = (log_probs - every["ref_log_probs"]).where(every["mask"], 0.0).sum(-1) / lengths
        weights = (log_probs.detach() - every["old_log_probs"]).where(every["mask"], 0.0).sum(-1).exp().clamp(max=1.5)
        return (weights * (numbers + means - 3.0 * every["advantages"][..., 0]).square()).mean((-1, -2))

    for _ in range(200):
        (slopes,) = torch.autograd.grad(trained().sum(), numbers)
        numbers.data -= slopes
    wanted, theirs = trained(), torch.autograd.grad(trained().sum(), log_probs)[0]
    loss, slopes = loss_and_slopes(FLOWRL, every)
    torch.testing.assert_close(loss, wanted.detach(), **CLOSE)
    torch.testing.assert_close(slopes, P * theirs[..., 0], **CLOSE)


def test_flowrl_of_all_completions_finds_the_policy_that_matches_rewards():
    """Of one token each, sampled by the policy itself: π ∝ π_ref · exp(beta · A)."""
    reference = torch.linspace(-1, 1, 6).double().log_softmax(-1)
    rewards, mask = torch.tensor([0.1, 0.9, 0.0, 0.5, 0.0, 0.3]).double(), torch.ones(1, 6, 1, dtype=torch.bool)
    logits = reference.clone().requires_grad_()
    optimizer = torch.optim.LBFGS([logits], max_iter=200, tolerance_grad=1e-12, tolerance_change=1e-14)

    def loss():
        optimizer.zero_grad()
        now = logits.log_softmax(-1).view(1, 6, 1)
        given = {"log_probs": now, "old_log_probs": now.detach(), "ref_log_probs": reference.view(1, 6, 1)}
        given |= {"advantages": rewards.view(1, 6, 1), "mask": mask, "keep": mask[..., 0]}
        given["log_ratio_bound"] = torch.tensor(20.0).double()
        found = SEQUENCE(FLOWRL(*(given[name] for name in FLOWRL.needs)), mask)
        found.backward()
        return found

    optimizer.step(loss)
    wanted = (reference + 3.0 * rewards).log_softmax(-1)
    torch.testing.assert_close(logits.detach().log_softmax(-1), wanted, rtol=0, atol=1e-5)


@pytest.mark.parametrize("loss", [GVPO, TPO, FLOWRL], ids=str)
def test_a_baseline_of_the_group_changes_nothing(loss):
    every = groups()
    shifted = every["advantages"] + torch.arange(P).double()[:, None, None]
    for before, after in zip(
        loss_and_slopes(loss, every), loss_and_slopes(loss, every | {"advantages": shifted}), strict=True
    ):
        torch.testing.assert_close(after, before, **CLOSE)


def test_the_slope_of_tpo_is_the_policy_less_the_target_and_is_zero_there():
    every = groups()
    old = every["old_log_probs"].where(every["mask"], 0.0).sum(-1)
    now = every["log_probs"].where(every["mask"], 0.0).sum(-1)
    target = (old + every["advantages"][..., 0]).softmax(-1)
    torch.testing.assert_close(loss_and_slopes(TPO, every)[1], now.softmax(-1) - target, **CLOSE)
    loss, slopes = loss_and_slopes(TPO, every | {"log_probs": moved_by(every, every["advantages"][..., 0] + 3.0)})
    torch.testing.assert_close(slopes, torch.zeros_like(slopes), **CLOSE)
    torch.testing.assert_close(loss, -(target * target.log()).sum(-1).mean(-1), **CLOSE)


def test_real_at_the_old_policy_is_two_logarithms_and_no_weight_exceeds_that_of_its_temperature():
    """One right and three wrong: log 2 + log 4; the slope in s of a completion of class n is ∓1/τ · 1/(1 + n)."""
    signs = torch.tensor([1.0, -1.0, -1.0, -1.0]).double()
    every = groups(advantages=signs[:, None].expand(REPLICAS, P, G, T))
    lengths = every["mask"].sum(-1)
    loss, slopes = loss_and_slopes(REAL, every | {"log_probs": every["old_log_probs"]})
    torch.testing.assert_close(loss, torch.full_like(loss, math.log(2) + math.log(4)), **CLOSE)
    weights = torch.tensor([-1.0, 0.5, 0.5, 0.5]).double().expand(REPLICAS, P, G)
    torch.testing.assert_close(slopes * lengths, weights, **CLOSE)
    far = moved_by(every, -signs * lengths * 100)
    weights = (loss_and_slopes(REAL, every | {"log_probs": far})[1] * lengths).abs()
    assert weights.max() <= 2 + CLOSE["atol"] and weights.max() > 1.99


@pytest.mark.parametrize("advantage", [1.0, 0.0, -1.0])
def test_real_has_nothing_to_tell_apart_where_all_are_right_or_all_wrong(advantage):
    every = groups()
    loss, slopes = loss_and_slopes(REAL, every | {"advantages": torch.full_like(every["advantages"], advantage)})
    assert not loss.any() and not slopes.any()


@pytest.mark.parametrize("loss", [GVPO, TPO, REAL, FLOWRL], ids=str)
def test_a_group_is_the_completions_that_count(loss):
    """Without a fourth completion, and with one that is outside the statistics or has no token in the loss."""
    every = groups()
    three = {name: x[:, :, :3] if x.dim() > 2 else x for name, x in every.items()}
    wanted, slopes = loss_and_slopes(loss, three)
    if loss is FLOWRL:  # a mean over all completions, those without a loss included, as in its source
        wanted, slopes = wanted * 3 / G, slopes * 3 / G
    last = torch.arange(G) == 3
    for left_out in ({"keep": every["keep"] & ~last}, {"mask": every["mask"] & ~last[:, None]}):
        found, theirs = loss_and_slopes(loss, every | left_out)
        torch.testing.assert_close(found, wanted, **CLOSE)
        torch.testing.assert_close(theirs[:, :, :3], slopes, **CLOSE)
        assert not theirs[:, :, 3].any()


@pytest.mark.parametrize("name", ["gvpo", "tpo", "real"])
def test_a_group_of_one_is_refused_and_other_means_are_remarked_upon(name):
    with pytest.raises(ConfigError) as error:
        read(values(f"clip={name}", "agg=sequence", "group_size.completions=1", "norm=none"))
    assert [line.partition(":")[0] for line in error.value.problems] == [f"clip={name}"]
    notes = [*remarks(read(values(f"clip={name}", "mismatch=token_truncate", "sampler=bf16")))]
    assert [note.partition(":")[0] for note in notes] == [
        f"clip={name} agg=token",
        f"clip={name} mismatch=token_truncate",
    ]


def test_flowrl_of_a_group_of_one_is_refused():
    """There log Z explains all of it."""
    with pytest.raises(ConfigError) as error:
        read(values("clip=flowrl", "agg=sequence", "group_size.completions=1", "norm=none"))
    assert [line.partition(":")[0] for line in error.value.problems] == ["clip=flowrl"]
    assert not [*remarks(read(values("preset=flowrl", "mismatch=token_truncate", "sampler=bf16")))]
