"""Which policy ratios are against: what each anchor is in a step, and what it makes of the gradient."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from axis_choices import CLOSE, bind, choices, numbers, same_bits
from plain_step import Recipe
from small_runs import compose
from step_fixtures import float64  # noqa: F401 (a fixture)
from toy_state import make_state, variant

from rlexp.config.checks import remarks
from rlexp.core.registry import call_with
from rlexp.loop.data import Stale, prefill_buffer
from rlexp.loop.step import train_step

OPEN = {"low": 0.0, "high": 1e9}
FAR = {"low": 1.0, "high": 1e9}  # a clip that clips nothing


def state_with(anchor, mismatch=None, *, age=2, sampler="exact", **more):
    one = replace(variant(Recipe()), anchor=anchor, mismatch=mismatch or bind("mismatch", "none"))
    one = replace(one, sampler=bind("sampler", sampler, **({"std": 0.5} if sampler == "noisy" else {})))
    state = make_state([(one, 3)], [0, 1, 2], dtype=torch.float64, data=Stale(age=age), **more)
    state = replace(state, buffer=state.data.empty(state))
    prefill_buffer(state)
    return state


def test_a_fresh_policy_is_its_own_anchor():
    """Nothing aged: log-linear interpolation is π_old, to the bit; so it is at an age of 1."""
    every = numbers(3, 3, 4, 5)
    for age in (0.0, 1.0):
        given = every | {"ages": torch.full_like(every["ages"], age)}
        assert same_bits(bind("anchor", "loglinear").of(given), every["old_log_probs"])


def test_the_older_the_nearer_to_the_policy():
    every = numbers(3, 3, 4, 5)
    far = bind("anchor", "loglinear").of(every | {"ages": torch.full_like(every["ages"], 1e12)})
    torch.testing.assert_close(far, every["log_probs"], **CLOSE)
    assert not bind("anchor", "loglinear").of(every | {"log_probs": every["log_probs"].requires_grad_()}).requires_grad


@pytest.mark.parametrize("choice", choices("anchor"), ids=str)
def test_what_an_anchor_is_in_a_step(float64, choice):
    """In every update of a step: π before the step, π_old, or μ; π itself in part."""
    seen = []

    def spy(log_probs, old_log_probs, proximal_log_probs, sampler_log_probs, ages, mask):
        offered = dict(zip(NAMES, (log_probs, old_log_probs, proximal_log_probs, sampler_log_probs, ages), strict=True))
        seen.append(offered | {"mask": mask, "found": call_with(choice.function, offered)})
        return seen[-1]["found"]

    state = state_with(spy, sampler="noisy", inner_steps=2, minibatches=1)
    for step in range(1, 5):
        seen.clear()
        rollout = state.data.slot(state, step)
        before = state.policy.log_probs(rollout.prompts, rollout.completions, torch.ones(3).double())
        before = before.log_probs.detach()
        train_step(state, step, measure=False)
        for update, each in enumerate(seen):
            mask = each["mask"]
            assert not any(tensor.requires_grad for tensor in each.values())
            torch.testing.assert_close(each["proximal_log_probs"][mask], before[mask], **CLOSE)
            torch.testing.assert_close(each["old_log_probs"][mask], rollout.old_log_probs[mask], **CLOSE)
            torch.testing.assert_close(each["sampler_log_probs"][mask], rollout.sampler_log_probs[mask], **CLOSE)
            assert (each["ages"] == min(step - 1, 2)).all()
            same = torch.allclose(each["log_probs"][mask], before[mask], **CLOSE)
            assert same == (update == 0)
        assert len(seen) == 2
    assert not torch.allclose(before[mask], rollout.old_log_probs[mask]), "the policy has moved"
    kept = {"old": "old_log_probs", "rollout": "sampler_log_probs", "proximal": "proximal_log_probs"}
    if choice.name in kept:
        assert seen[0]["found"].equal(seen[0][kept[choice.name]])


NAMES = ("log_probs", "old_log_probs", "proximal_log_probs", "sampler_log_probs", "ages")


def test_ratios_corrections_and_metrics_are_against_the_anchor(float64):
    """At the first update π is π_prox: ratios are 1, and κ has the age; with π_old it is the other way round."""
    correction = bind("mismatch", "token_truncate", **OPEN)
    rows = {}
    for name in ("old", "proximal", "rollout"):
        state = state_with(bind("anchor", name), correction, inner_steps=1, minibatches=1)
        rows[name] = [train_step(state, step, True) for step in range(1, 4)][-1]
    assert (rows["proximal"]["ratio/mean"] - 1).abs().max() < 1e-12 > rows["proximal"]["kl/old"].abs().max()
    assert (rows["old"]["ratio/mean"] - 1).abs().min() > 1e-4 and (rows["old"]["kl/old"] > 0).all()
    assert (rows["old"]["mismatch/weight"] == 1).all() and (rows["old"]["mismatch/kl"] == 0).all()
    assert (rows["proximal"]["mismatch/kl"] > 0).all() and (rows["proximal"]["mismatch/weight"] != 1).all()
    # the sampler is exact: what it reports is what the trainer computes
    assert all(rows["rollout"][name].equal(rows["old"][name]) for name in ("ratio/mean", "loss/policy", "mismatch/kl"))


def expected_gradient(drawn, logits, proximal, advantages, anchor, mismatch):
    """Gradient of the loss of two tokens in expectation over all nine pairs, drawn from ``drawn``."""
    logits = logits.clone().requires_grad_()
    mask, bound = torch.ones(1, 1, 2, dtype=torch.bool), torch.tensor(math.inf).double()
    total = 0
    for (a, b), advantage in zip(((a, b) for a in range(3) for b in range(3)), advantages, strict=True):

        def of(policy, a=a, b=b):
            return torch.stack([policy[0, a], policy[1, b]]).view(1, 1, 2)

        log_probs = of(logits.log_softmax(-1))
        given = {"sampler_log_probs": of(drawn), "proximal_log_probs": of(proximal), "mask": mask}
        given |= {"log_ratio_bound": bound, "advantages": torch.full((1, 1, 2), advantage).double()}
        given |= {"old_log_probs": given["sampler_log_probs"]}
        given["old_log_probs"] = bind("anchor", anchor).of(given)
        losses = bind("clip", "ppo", **FAR).of(given | {"log_probs": log_probs})
        losses = mismatch.of(given | {"losses": losses})
        total = total + of(drawn).sum().exp() * losses.sum()
    return torch.autograd.grad(total, logits)[0]


def test_decoupled_and_corrected_the_gradient_of_old_samples_is_that_of_new_ones():
    """Exactly, in expectation, at π = π_prox, with the product of κ; not without it, nor with ratios of tokens."""
    random = torch.Generator().manual_seed(6)
    logits, errors = torch.randn(2, 2, 3, generator=random).double()
    advantages = torch.randn(9, generator=random).double().tolist()
    now, then = logits.log_softmax(-1), (logits + errors).log_softmax(-1)
    none, product = bind("mismatch", "none"), bind("mismatch", "sequence_truncate", **OPEN)
    wanted = expected_gradient(now, logits, now, advantages, "old", none)
    decoupled = expected_gradient(then, logits, now, advantages, "proximal", product)
    torch.testing.assert_close(decoupled, wanted, **CLOSE)
    for anchor, mismatch in (("old", none), ("old", product), ("proximal", none)):
        biased = expected_gradient(then, logits, now, advantages, anchor, mismatch)
        assert (biased - wanted).abs().max() > 0.01, (anchor, mismatch)


IDLE = {
    ("anchor=proximal",): ["anchor=proximal data=fresh: nothing has an age, and it trains as anchor=old does"],
    ("anchor=loglinear",): ["anchor=loglinear data=fresh: nothing has an age, and it trains as anchor=old does"],
    ("anchor=rollout",): [
        "anchor=rollout sampler=exact: reports what the trainer computes, and it trains as anchor=old does"
    ],
    ("anchor=rollout", "sampler=noisy"): [],
    ("anchor=proximal", "data=stale"): [],
    ("anchor=proximal", "data=stale", "mismatch=token_mask"): [],
    ("data=stale", "mismatch=token_mask"): [
        "mismatch=token_mask: sampler=exact leaves nothing to correct, every weight is 1"
    ],
    ("anchor=rollout", "sampler=noisy", "mismatch=token_mask"): [
        "mismatch=token_mask anchor=rollout: ratios hold the disagreement already, every weight is 1"
    ],
}


@pytest.mark.parametrize("overrides", IDLE, ids=" ".join)
def test_a_choice_that_does_nothing_says_so(overrides):
    assert list(remarks(compose(*overrides))) == IDLE[overrides]
