"""``rlexp.testing.check``: functions that keep everything, references, hints, and the batch."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import rlexp.testing
from rlexp.core.facts import NormFacts
from rlexp.core.masked import GROUP, centered, masked_mean
from rlexp.core.types import CompletionMask, Discount, PerCompletion, PerToken, Positive
from rlexp.testing.contract import same

LAWS = dict(compares="group", laws=("scale", "zero sum"))


@NormFacts(**LAWS)
def mad(rewards: PerCompletion, keep: CompletionMask, *, eps: Positive = 1e-6) -> PerCompletion:
    """A = (r − mean) / (mean absolute deviation + eps)."""
    deviations = centered(rewards, keep, GROUP)
    return deviations / (masked_mean(deviations.abs(), keep, GROUP) + eps)


def plain_mad(rewards, keep, *, eps):
    found = np.zeros(rewards.shape)
    for p, row in enumerate(rewards):
        group = row[keep[p]]
        if len(group) and not (group == group[0]).all():
            found[p] = (row - group.mean()) / (np.abs(group - group.mean()).mean() + eps)
    return found


def clipped(log_probs: PerToken, old_log_probs: PerToken, advantages: PerToken, *, bound: Positive = 0.2) -> PerToken:
    """PPO's loss."""
    ratio = (log_probs - old_log_probs).exp()
    return -torch.minimum(ratio * advantages, ratio.clamp(1 - bound, 1 + bound) * advantages)


def plain_clipped(log_probs, old_log_probs, advantages, *, bound):
    ratio = np.exp(log_probs - old_log_probs)
    return -np.minimum(ratio * advantages, np.clip(ratio, 1 - bound, 1 + bound) * advantages)


def test_functions_that_keep_everything_pass_and_are_their_references():
    assert rlexp.testing.check("norm", mad, plain_mad) == []
    assert rlexp.testing.check("clip", clipped, plain_clipped, bound=0.3) == []
    assert rlexp.testing.check("norm", "local", eps=1e-6, ddof=1) == []


def test_a_reference_may_be_of_tensors():
    def plain(log_probs, old_log_probs, advantages, *, bound):
        return -advantages * ((log_probs - old_log_probs).exp().clamp(1 - bound, 1 + bound).detach() * log_probs)

    def weighted(log_probs: PerToken, old_log_probs: PerToken, advantages: PerToken, *, bound: Positive) -> PerToken:
        weight = (log_probs - old_log_probs).exp().clamp(1 - bound, 1 + bound).detach()
        return -advantages * weight * log_probs

    assert rlexp.testing.check("clip", weighted, plain, bound=0.2) == []
    (hint,) = rlexp.testing.check("clip", weighted, bound=0.2)
    assert hint.property == "gradient of the value" and "a gradient is stopped" in hint.problem


def test_the_slope_of_a_stopped_gradient_is_given_by_hand():
    def weighted(log_probs: PerToken, old_log_probs: PerToken, advantages: PerToken, *, bound: Positive) -> PerToken:
        weight = (log_probs - old_log_probs).exp().clamp(1 - bound, 1 + bound).detach()
        return -advantages * weight * log_probs

    def slope(log_probs, old_log_probs, advantages, *, bound):
        return -advantages * np.clip(np.exp(log_probs - old_log_probs), 1 - bound, 1 + bound)

    assert rlexp.testing.check("clip", weighted, undetached, gradient=slope, bound=0.2) == []
    with pytest.raises(AssertionError, match="gradient of the reference: the gradient in `log_probs` is"):
        rlexp.testing.check("clip", weighted, undetached, bound=0.2)


def undetached(log_probs, old_log_probs, advantages, *, bound):
    return -advantages * np.clip(np.exp(log_probs - old_log_probs), 1 - bound, 1 + bound) * log_probs


# ---- references and hints


def test_another_formula_than_the_reference_is_named_with_both_places():
    def other(rewards, keep, *, eps):
        return 2 * plain_mad(rewards, keep, eps=eps)

    with pytest.raises(AssertionError, match="reference: the output with eps=1e-06 is .*`mad`.*`other`"):
        rlexp.testing.check("norm", mad, other)


def test_a_number_written_into_the_reference_shows_at_another_value():
    with pytest.raises(AssertionError, match="reference, retuned: the output with bound=0.1"):
        rlexp.testing.check("clip", clipped, lambda *given, bound: plain_clipped(*given, bound=0.2))


def test_what_holds_and_is_not_declared_is_a_hint_and_so_is_an_idle_hyperparameter():
    @NormFacts(compares="group", laws=("scale",))
    def modest(
        rewards: PerCompletion, keep: CompletionMask, *, eps: Positive = 1e-6, idle: Discount = 0.5
    ) -> PerCompletion:
        return mad(rewards, keep, eps=eps)

    laws, idle = rlexp.testing.check("norm", modest)
    assert laws.hint and 'obeys "zero sum"' in laws.problem and "add it to `laws`" in laws.problem
    assert idle.property == "hyperparameters" and "idle of `modest`" in idle.problem


def test_a_batch_has_every_tensor_that_an_axis_is_offered():
    from rlexp.axes import axis_of
    from rlexp.testing.choices import BATCH_AXES

    shape, found = (2, 3, 4, 5), rlexp.testing.batch(2, 3, 4, 5)
    missing = {name for axis in BATCH_AXES for name in axis_of(axis).inputs} - {*found}
    assert not missing
    ratio = found["log_probs"] - found["old_log_probs"]
    assert ratio.shape == shape and (ratio > 0.2).any() and (ratio < -0.2).any()
    lengths = found["mask"].sum(-1)
    assert len(lengths.unique()) > 2 and not found["keep"].all() and not found["scored"].all()


def test_bits_are_compared_with_nan():
    nan, zero, half = map(torch.tensor, (float("nan"), 0.0, 0.5))
    assert same(nan, nan) and not same(nan, half) and not same(zero, nan)
    assert not same(half, torch.nextafter(half, zero)) and not same(half, half.double())
