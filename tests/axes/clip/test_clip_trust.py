"""Policy losses that leave tokens out: which ones, and how few."""

from __future__ import annotations

import pytest
import torch
from axis_choices import CLOSE, bind, inputs, numbers, same_bits, slopes
from small_runs import values

from rlexp.config.schema import read
from rlexp.core.errors import ConfigError

SHAPE = REPLICAS, P, G, T = 4, 3, 4, 5


def m2po_slopes(budget, every):
    loss = bind("clip", "m2po", budget=budget)
    return slopes(loss, *(every[name] for name in loss.needs)).where(every["mask"], 0.0)


def outward_squares(every):
    log_ratio = every["log_probs"] - every["old_log_probs"]
    outward = every["mask"] & (every["advantages"] * log_ratio > 0)
    return log_ratio.square(), outward


@pytest.mark.parametrize("budget", [0.005, 0.01, 0.04])
def test_m2po_keeps_as_many_as_the_budget_allows_and_the_nearest(budget):
    every = numbers(*SHAPE)
    squares, outward = outward_squares(every)
    kept = m2po_slopes(budget, every) != 0
    assert (kept | outward | ~every["mask"]).all()
    for r in range(REPLICAS):
        inside, left_out = squares[r][outward[r] & kept[r]], squares[r][outward[r] & ~kept[r]]
        assert inside.mean() <= budget and inside.max() <= left_out.min()
        assert torch.cat([inside, left_out.min()[None]]).mean() > budget


def test_m2po_between_its_ends():
    """With a budget for all it is unclipped; without any, nothing that has moved as its advantage says is left."""
    every = numbers(*SHAPE)
    _, outward = outward_squares(every)
    unclipped = bind("clip", "unclipped")
    whole = slopes(unclipped, *(every[name] for name in unclipped.needs)).where(every["mask"], 0.0)
    assert same_bits(m2po_slopes(1e9, every), whole)
    assert same_bits(m2po_slopes(0.0, every), whole.where(~outward, 0.0))


@pytest.mark.parametrize("budget", [0.005, 0.01, 0.04])
def test_the_bound_of_m2po_clipped_is_the_widest_whose_capped_mean_is_within_the_budget(budget):
    """Fewer tokens are left than by the paper's rule, which drops what is beyond from the mean."""
    every = numbers(*SHAPE)
    squares, outward = outward_squares(every)
    loss = bind("clip", "m2po_clipped", budget=budget, low=0.0, high=0.0)
    kept = slopes(loss, *(every[name] for name in loss.needs)) != 0
    kept_by_paper = m2po_slopes(budget, every) != 0
    for r in range(REPLICAS):
        ours, capped = squares[r][outward[r] & kept[r]], squares[r][outward[r]]
        assert capped.clamp(max=ours.max()).mean() <= budget
        beyond = squares[r][outward[r] & ~kept[r]].min()
        assert capped.clamp(max=beyond).mean() > budget
    assert (kept_by_paper | ~kept)[outward].all() and kept[outward].sum() < kept_by_paper[outward].sum()


def test_the_least_bounds_of_m2po_clipped_are_those_of_ppo_where_the_budget_is_spent():
    every = numbers(*SHAPE)
    tight, ppo = bind("clip", "m2po_clipped", budget=0.0, low=0.3, high=0.5), bind("clip", "ppo", low=0.3, high=0.5)
    tokens = [every[name] for name in tight.needs]
    torch.testing.assert_close(tight(*tokens), ppo(*tokens), **CLOSE)
    torch.testing.assert_close(slopes(tight, *tokens), slopes(ppo, *tokens), **CLOSE)


def test_ipo_of_prime_rl_looks_at_the_sampler_and_not_at_the_sign():
    every = numbers(*SHAPE)
    far = (every["log_probs"].exp() - every["sampler_log_probs"].exp()).abs() > 0.05
    ipo = bind("clip", "ipo_prime_rl", eps=0.05)
    tokens = [every[name] for name in ipo.needs]
    assert ipo.needs == ("log_probs", "sampler_log_probs", "advantages", "mask", "log_ratio_bound")
    assert far.any() and not far.all()
    assert torch.equal(ipo(*tokens) == 0, far) and torch.equal(slopes(ipo, *tokens) == 0, far)
    tokens[2] = -tokens[2]
    assert torch.equal(ipo(*tokens) == 0, far)
    wide, unclipped = bind("clip", "ipo_prime_rl", eps=1.0), bind("clip", "unclipped")
    torch.testing.assert_close(wide(*inputs(wide, *SHAPE)), unclipped(*inputs(wide, *SHAPE)), **CLOSE)


def test_a_ratio_to_the_sampler_is_not_corrected_once_more():
    with pytest.raises(ConfigError) as error:
        read(values("clip=ipo_prime_rl", "mismatch=token_mask", "sampler=bf16"))
    assert len(error.value.problems) == 1
    assert error.value.problems[0].startswith(
        "clip=ipo_prime_rl mismatch=token_mask: its ratio is to the sampler already"
    )
