"""Metrics of an update: which tokens the policy loss no longer moves, against the rules of the losses themselves."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from axis_choices import bind, numbers
from metric_checks import CLOSE, G, P, R, T, V, average, check, counted, float64, present, random_numbers  # noqa: F401
from plain_step import Recipe
from toy_state import variant

from rlexp.loop import metrics

pytestmark = pytest.mark.usefixtures("float64")
LOW, HIGH = 0.1, 0.3
SIDES, CLIPPED = ("low", "high"), ("log_probs", "old_log_probs", "advantages")


def clipped_by_rule(every, replica):
    """Shares of tokens that PPO's rule stops: A < 0 below 1 − LOW, A > 0 above 1 + HIGH."""
    new, old, advantages, mask = (every[name][replica] for name in ("log_probs", "old_log_probs", "advantages", "mask"))
    pairs = list(zip(counted((new - old).exp(), mask), counted(advantages, mask), strict=True))
    low = sum(ratio < 1 - LOW and advantage < 0 for ratio, advantage in pairs)
    high = sum(ratio > 1 + HIGH and advantage > 0 for ratio, advantage in pairs)
    return low / len(pairs), high / len(pairs)


def clip_inputs():
    every = numbers(R, P, G, T)
    every["advantages"][:, 0] = 0.0
    every["log_probs"] = every["log_probs"].masked_fill(~every["mask"], 1e4)
    return every


def test_clipped_shares_are_those_of_the_rule_of_ppo():
    every = clip_inputs()
    row = metrics.clip_metrics(bind("clip", "ppo", low=LOW, high=HIGH), every)
    check(
        row,
        {
            "clip/low": lambda r: clipped_by_rule(every, r)[0],
            "clip/high": lambda r: clipped_by_rule(every, r)[1],
        },
    )
    assert (row["clip/low"] > 0.05).all() and (row["clip/high"] > 0.05).all()


def dual_rule(ratio, old, advantage):
    return advantage < 0 and ratio < 1 - LOW, ratio > (1 + HIGH if advantage > 0 else 1.5)


def tv_rule(ratio, old, advantage):
    moved = (ratio - 1) * math.exp(old)
    return advantage < 0 and moved < -LOW, advantage > 0 and moved > HIGH


def shares_by(rule, every, r):
    """Shares of tokens that a rule stops below and above a ratio of 1."""
    new, old, advantages = (counted(every[name][r], every["mask"][r]) for name in CLIPPED)
    sides = [rule(math.exp(n - o), o, a) for n, o, a in zip(new, old, advantages, strict=True) if a != 0]
    return [sum(side) / len(new) for side in zip(*sides, strict=True)]


@pytest.mark.parametrize(
    ("choice", "rule"),
    [
        (bind("clip", "dual", low=LOW, high=HIGH, c=1.5), dual_rule),
        (bind("clip", "dppo_tv", low=LOW, high=HIGH, upper=9.0), tv_rule),
    ],
    ids=["dual", "dppo_tv"],
)
def test_clipped_shares_are_those_of_other_rules(choice, rule):
    every = clip_inputs()
    row = metrics.clip_metrics(choice, every)
    check(row, {f"clip/{side}": lambda r, at=at: shares_by(rule, every, r)[at] for at, side in enumerate(SIDES)})
    assert all((row[f"clip/{side}"] > 0).any() for side in SIDES)


@pytest.mark.parametrize("name", ["gspo", "gspo_token"])
def test_a_completion_that_is_stopped_counts_on_the_side_of_its_own_ratio(name):
    """Not of its tokens' ratios, some of which are on the other side."""
    every = clip_inputs()
    every["advantages"] = every["advantages"][..., :1].expand_as(every["advantages"])

    def shares(r):
        low = high = 0
        for new, old, advantages, mask in zip(
            *(every[key][r].flatten(0, 1) for key in ("log_probs", "old_log_probs", "advantages", "mask")), strict=True
        ):
            ratio = math.exp(average(counted(new - old, mask)))
            low += mask.sum().item() * bool(ratio < 1 - LOW and advantages[0] < 0)
            high += mask.sum().item() * bool(ratio > 1 + HIGH and advantages[0] > 0)
        return low / every["mask"][r].sum(), high / every["mask"][r].sum()

    # what stands in the padding decides nothing: the other sign there would have a gradient
    padded = every | {"advantages": every["advantages"].where(every["mask"], -every["advantages"])}
    row = metrics.clip_metrics(bind("clip", name, low=LOW, high=HIGH), padded)
    check(row, {"clip/low": lambda r: shares(r)[0], "clip/high": lambda r: shares(r)[1]})
    assert row["clip/low"].any() and row["clip/high"].any()


@pytest.mark.parametrize("name", ["naive", "unclipped"])
def test_nothing_is_clipped_where_nothing_clips(name):
    row = metrics.clip_metrics(bind("clip", name), clip_inputs())
    assert not row["clip/low"].any() and not row["clip/high"].any()


def test_clipped_shares_do_not_need_or_leave_gradients():
    every = clip_inputs()
    every["log_probs"].requires_grad_()
    with torch.no_grad():
        row = metrics.clip_metrics(bind("clip", "ppo", low=LOW, high=HIGH), every)
    assert every["log_probs"].grad is None
    assert not any(value.requires_grad for value in row.values())


CHOICES = {
    "ratio": bind("clip", "unclipped"),
    "no ratio": bind("clip", "naive"),
    "kappa": bind("mismatch", "token_truncate", low=0.0, high=2.0),
    "no kappa": bind("mismatch", "none"),
}
TO_OLD, TO_SAMPLER = ("log_probs", "old_log_probs"), ("old_log_probs", "sampler_log_probs")
TO_REFERENCE = ("log_probs", "ref_log_probs")


@pytest.mark.parametrize(
    ("clip", "mismatch", "kl", "weight", "pairs"),
    [
        ("ratio", "no kappa", "k3", 0.0, [TO_OLD]),
        ("no ratio", "no kappa", "k3", 0.0, []),
        ("no ratio", "kappa", "k3", 0.0, [TO_SAMPLER]),
        ("no ratio", "no kappa", "k3", 0.1, [TO_REFERENCE]),
        ("no ratio", "no kappa", "k2", 0.1, []),
        ("ratio", "kappa", "k3_corrected", 0.1, [TO_OLD, TO_SAMPLER, TO_REFERENCE]),
    ],
)
def test_the_share_of_bounded_tokens_is_of_what_the_choices_compare(clip, mismatch, kl, weight, pairs):
    every = clip_inputs() | {"log_ratio_bound": torch.linspace(0.2, 0.4, R)}
    chosen = dict(clip=CHOICES[clip], mismatch=CHOICES[mismatch], kl=bind("kl", kl), kl_in_loss=weight)
    row = metrics.bounded_metrics(replace(variant(Recipe()), **chosen), every)

    def share(r):
        mask, bound = every["mask"][r], every["log_ratio_bound"][r]
        columns = [[counted(every[name][r], mask) for name in pair] for pair in pairs]
        places = range(int(mask.sum()))
        beyond = [any(abs(one[place] - other[place]) > bound for one, other in columns) for place in places]
        return sum(beyond) / len(places)

    check(row, {"ratio/bounded": share})
    assert not pairs or (row["ratio/bounded"] > 0.1).all()
