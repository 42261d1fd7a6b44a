"""Choices of several axes together, by the code of a training step: against loops, and with garbage in the padding."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
import reference
import reference_norm_token
import torch
from axis_choices import bind, choices, numbers, same_bits
from objectives import objective
from reference_batch import batch  # noqa: F401 (a fixture)

from rlexp.testing.batches import R, T

# Both sides are float64 and differ only in the order of some ten additions of numbers of order one.
VALUE = dict(rtol=1e-10, atol=1e-12)
# Central differences with STEP = 1e-6 are good to about 1e-9; a wrong sign, factor or bound is off by 1e-2 and more.
SLOPE = dict(rtol=1e-6, atol=1e-8)

KL_COEF = 0.1


def reference_of(choice):
    """Return the loops for a choice, bound to its hyperparameters."""
    return functools.partial(reference.REFERENCES[choice.axis][choice.name], **choice.hyperparameters)


def advantages_of(norm, one) -> np.ndarray:
    """What the loops make of one replica's rewards without shaping and without KL in the reward, ``[P G T]``."""
    whole = {"outcomes": one["rewards"], "adjustments": 0 * one["rewards"], "token_penalties": 0 * one["log_probs"]}
    one = one | whole | {"lengths": one["mask"].sum(-1), "token_rewards": reference_norm_token.due(one)}
    values = reference_of(norm)(*(one[key] for key in norm.needs))
    return np.where(one["keep"][..., None], values if values.ndim == 3 else values[..., None], 0.0) * np.ones(T)


def replica(batch, index: int) -> dict[str, np.ndarray]:
    return {key: array[index] for key, array in batch.items()}


def tensors(batch) -> dict[str, torch.Tensor]:
    return {key: torch.from_numpy(array) for key, array in batch.items()}


DEFAULT = {"norm": bind("norm", "local", eps=1e-6, ddof=1), "clip": bind("clip", "ppo", low=0.2, high=0.2)}
DEFAULT |= {"agg": bind("agg", "token"), "kl": bind("kl", "k3"), "mismatch": bind("mismatch", "none")}
COMPOSED = [choice for axis in ("norm", "clip", "agg", "mismatch") for choice in choices(axis)]


@pytest.mark.parametrize("choice", COMPOSED, ids=str)
def test_objective_equals_the_composed_reference(choice, batch):
    """Rewards to loss and its slope in the log-probs: norm, clip, weights of mismatch, k3 in the loss, agg."""
    chosen, batch = DEFAULT | {choice.axis: choice}, batch | {"log_ratio_bound": np.full(R, 1.0)}
    norm, clip, mismatch, agg, kl = (chosen[axis] for axis in ("norm", "clip", "mismatch", "agg", "kl"))
    inputs = tensors(batch)
    log_probs = inputs["log_probs"].requires_grad_()
    loss = objective(chosen, KL_COEF, inputs)
    (slopes,) = torch.autograd.grad(loss.sum(), log_probs)

    def composed(one, advantages, point):
        at = one | {"log_probs": point, "advantages": advantages}
        at["losses"] = reference_of(clip)(*(at[key] for key in clip.needs))
        corrected = reference_of(mismatch)(*(at[key] for key in mismatch.needs))
        at["losses"] = corrected + KL_COEF * reference_of(kl)(*(at[key] for key in kl.needs))
        return reference_of(agg)(*(at[key] for key in agg.needs))

    for r in range(R):
        one = replica(batch, r)
        advantages = advantages_of(norm, one)
        at = functools.partial(composed, one, advantages)
        np.testing.assert_allclose(loss[r].item(), at(one["log_probs"]), **VALUE)
    # the slopes of one replica are enough here: that replicas do not mix is a law
    if choice.name not in reference.GRADIENTS.get(choice.axis, {}):
        np.testing.assert_allclose(slopes[-1].numpy(), reference.gradient(at, one["log_probs"]), **SLOPE)


# ---- padding

PLAIN = DEFAULT | {"norm": bind("norm", "center")}


@pytest.mark.holds("E17")
@pytest.mark.parametrize("axis", ["clip", "mismatch", "kl", "agg"])
def test_padding_reaches_neither_loss_nor_gradient(axis):
    """1B-17: −inf − −inf is NaN and NaN · 0 is NaN, so a mask that multiplies does not save the loss."""
    clean = numbers(6, 3, 4, 5)

    def loss_and_slope(choice, batch):
        log_probs = batch["log_probs"].clone().requires_grad_()
        loss = objective(PLAIN | {axis: choice}, 0.1, batch | {"log_probs": log_probs})
        return loss.detach(), *torch.autograd.grad(loss.sum(), log_probs)

    for choice in choices(axis):
        wanted = loss_and_slope(choice, clean)
        for garbage in (1e4, math.inf, math.nan):
            log_probs = {key: clean[key] for key in clean if key.endswith("log_probs")}
            dirty = {key: each.masked_fill(~clean["mask"], garbage) for key, each in log_probs.items()}
            found = loss_and_slope(choice, clean | dirty)
            assert all(same_bits(one, other) for one, other in zip(found, wanted, strict=True)), (choice, garbage)
