"""The weights of gradients that a run writes down are those of the formulas, for every policy loss."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from axis_choices import bind, schema_of
from pydantic import TypeAdapter
from small_runs import SHORT, SMALL, compose

from rlexp.axes import clip
from rlexp.core.registry import schema
from rlexp.core.types import CompletionMask, PerToken
from rlexp.record import gradient
from rlexp.record.gradient import RATIOS, gradient_curves
from rlexp.sweep.engine import Job, train_jobs

R, OLD = np.array(RATIOS), 0.1


def ppo(positive, low, high, **_):
    return np.where(R <= 1 + high if positive else R >= 1 - low, R, 0)


def sapo(positive, tau_positive, tau_negative):
    gate = 1 / (1 + np.exp(-(tau_positive if positive else tau_negative) * (R - 1)))
    return 4 * gate * (1 - gate) * R


def vespo(positive, k_positive, lambda_positive, k_negative, lambda_negative):
    k, rate = (k_positive, lambda_positive) if positive else (k_negative, lambda_negative)
    return R**k * np.exp(rate * (1 - R))


def dppo_tv(positive, low, high, upper):
    moved = OLD * (R - 1)
    return np.where(moved <= high if positive else moved >= -low, R.clip(max=upper), 0)


def m2po(positive, budget):
    outward = R > 1 if positive else R < 1
    return np.where(outward & (np.log(R) ** 2 > budget), 0, R)


def m2po_clipped(positive, budget, low, high):
    near = (R >= 1 - low) & (R <= 1 + high)
    return np.where(near, R, m2po(positive, budget))


def dppo_kl(positive, low, high, upper):
    new = OLD * R
    distance = OLD * np.log(OLD / new) + (1 - OLD) * np.log((1 - OLD + 1e-8) / (1 - new + 1e-8))
    near = (distance <= high) | (R <= 1) if positive else (distance <= low) | (R >= 1)
    return np.where(near, R.clip(max=upper), 0)


def parabola(positive, bound):
    return R - (1 if positive else -1) * (R - 1) * R / bound


def onward(positive, far):
    return np.where((R > 1 if positive else R < 1) & far, 0, R)


# The weight at each ratio, given whether A is 1 or −1 and the hyperparameters.
FORMULAS = {
    "naive": lambda positive: np.ones_like(R),
    "unclipped": lambda positive: R,
    "ppo": ppo,
    "scheduled": None,  # has a test of its own
    "dual": lambda positive, c, **bounds: np.where(positive | (R <= c), ppo(positive, **bounds), 0),
    "two_sided": lambda positive, delta, **bounds: np.where(R <= delta, ppo(positive, **bounds), 0),
    "opsm": lambda positive, delta, **bounds: np.where(positive | (-np.log(R) <= delta), ppo(positive, **bounds), 0),
    "sapo": sapo,
    "spo": lambda positive, epsilon: parabola(positive, epsilon),
    "drpo": lambda positive, epsilon: parabola(positive, epsilon / OLD),
    "rollout_is": lambda positive, low, high: np.where((R > 1 - low) & (R < 1 + high), R, 0),
    "vaco": lambda positive, delta: onward(positive, np.abs(R - 1) > delta),
    "trm": lambda positive, delta, over: np.where(R - 1 - np.log(R) <= delta, R, 0),
    "ctpo": lambda positive, low, high, c, **_: np.where(
        np.log(R) <= high if positive else (np.log(R) >= -low) & (np.log(R) <= c), R, 0
    ),
    "minpro": ppo,
    "mu_grpo": ppo,
    "wapo": lambda positive, high: np.where(positive & (R <= 1 + high), R, 0),
    "cppo": lambda positive, delta, **_: onward(positive, np.abs(OLD * (R - 1)) > delta),
    "cispo": lambda positive, lower, upper: R.clip(lower, upper),
    "topr": lambda positive: np.ones_like(R) if positive else R.clip(max=1),
    "dro": lambda positive, beta: 1 - (beta if positive else -beta) * np.log(R),
    "delightful": lambda positive, eta: 1 / (1 + (OLD * R) ** ((1 if positive else -1) / eta)),
    "dppo_tv": dppo_tv,
    "dppo_kl": dppo_kl,
    "ipo_prime_rl": lambda positive, eps: np.where(np.abs(OLD * (R - 1)) <= eps, R, 0),
    "m2po": m2po,
    "m2po_clipped": m2po_clipped,
    "gspo": ppo,
    "gspo_token": ppo,
    "gmpo": lambda positive, low, high: np.where(np.log(R) <= high if positive else np.log(R) >= -low, R, 0),
    "vespo": vespo,
    "clip_cov": ppo,
    "kl_cov": lambda positive, **_: R,
}
NOTES = {
    "clip_cov": "clip_cov: of tokens that are not drawn.",
    "kl_cov": "kl_cov: of tokens that are not drawn.",
    "scheduled": "scheduled: at the start and at the end.",
    "dppo_tv": "dppo: of a token whose probability was 0.1.",
    "delightful": "delightful: of a token whose probability was 0.1.",
    "dppo_kl": "dppo: of a token whose probability was 0.1.",
    "ipo_prime_rl": "ipo_prime_rl: of a token whose probability was 0.1.",
    "drpo": "drpo: of a token whose probability was 0.1.",
    "ctpo": "ctpo: of the first token, which has no prefix.",
    "minpro": "minpro: of the first token, which has no prefix.",
    "mu_grpo": "mu_grpo: of the first token, which has no prefix.",
    "cppo": "cppo: of the first token, whose probability was 0.1.",
}
# Weights are written with six significant digits.
ROUNDED = dict(rtol=1e-5, atol=1e-9)


def curves(choice):
    return gradient_curves(schema_of("clip").validate_python({"name": choice.name, **choice.hyperparameters}))


def is_that_of(line, formula, **hyperparameters):
    np.testing.assert_allclose(line["positive"], formula(True, **hyperparameters), **ROUNDED)
    np.testing.assert_allclose(line["negative"], formula(False, **hyperparameters), **ROUNDED)


def test_the_ratios_are_a_hundred_from_small_to_large():
    np.testing.assert_allclose(R, np.geomspace(0.3, 6, 100), **ROUNDED)


def test_the_weights_are_those_of_the_formula(clip_choice):
    if clip_choice.name == "scheduled":
        pytest.skip("has two lines")
    found = curves(clip_choice)
    if found is None:
        pytest.skip("asks for more than a token has")
    assert clip_choice.name in FORMULAS, f"write the weight of {clip_choice} here, from its formula"
    is_that_of(found["lines"][""], FORMULAS[clip_choice.name], **clip_choice.hyperparameters)
    assert found["ratios"] == RATIOS and [*found["lines"]] == [""]
    assert found["note"] == NOTES.get(clip_choice.name, "")


def test_a_schedule_has_a_line_for_its_start_and_one_for_its_end():
    found = curves(bind("clip", "scheduled", low=0.2, high=0.4, high_final=0.1))
    assert [*found["lines"]] == ["start", "end"] and found["note"] == NOTES["scheduled"]
    is_that_of(found["lines"]["start"], ppo, low=0.2, high=0.4)
    is_that_of(found["lines"]["end"], ppo, low=0.2, high=0.1)


@pytest.mark.parametrize("share", [1e-9, 0.4, 0.9])
def test_an_ordinary_token_is_not_among_those_that_are_treated_apart(share):
    is_that_of(curves(bind("clip", "kl_cov", share=share, coef=5.0))["lines"][""], lambda positive: R)
    wide = bind("clip", "clip_cov", low=0.2, high=0.2, share=share, lb=-1e12, ub=1e12)
    is_that_of(curves(wide)["lines"][""], ppo, low=0.2, high=0.2)


def remembering(log_probs: PerToken, keep: CompletionMask) -> PerToken:
    return log_probs


def test_a_loss_that_asks_for_more_than_a_token_has_draws_nothing(monkeypatch):
    monkeypatch.setitem(clip.FUNCTIONS, "remembering", remembering)
    node = TypeAdapter(schema({"remembering": remembering})).validate_python({"name": "remembering"})
    assert gradient_curves(node) is None


def test_a_run_writes_them_and_they_cost_next_to_nothing(tmp_path, monkeypatch):
    """Once for all runs of a choice; without a random number and within no_grad."""
    calls = []
    monkeypatch.setattr(gradient, "weights", lambda *given: calls.append(given) or [1.0])
    gradient_curves.cache_clear()
    jobs = [Job(compose(*SHORT, *SMALL, f"seed={seed}"), tmp_path / str(seed), str(seed), "") for seed in (0, 1)]
    for job in jobs:
        job.folder.mkdir()
    train_jobs(jobs)
    gradient_curves.cache_clear()
    monkeypatch.undo()
    summary = json.loads((tmp_path / "0" / "summary.json").read_text())
    assert len(calls) == 2 and summary["gradient"]["lines"] == {"": {"positive": [1.0], "negative": [1.0]}}
    state = torch.get_rng_state()
    with torch.no_grad():
        found = gradient_curves(jobs[0].config.clip)
    assert torch.equal(torch.get_rng_state(), state) and len(json.dumps(found)) < 4000
