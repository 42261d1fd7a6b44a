"""A wrong function for each property that ``rlexp.testing`` checks: the check names what it breaks."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch.nn.functional import pad

import rlexp.testing
from rlexp.core.facts import NormFacts
from rlexp.core.masked import GROUP, centered, masked_mean
from rlexp.core.types import CompletionMask, PerCompletion, PerReplica, PerToken, Positive, TokenMask
from rlexp.testing.contract import PROPERTIES

LAWS = dict(compares="group", laws=("scale", "zero sum"))


@NormFacts(**LAWS)
def mad(rewards: PerCompletion, keep: CompletionMask, *, eps: Positive = 1e-6) -> PerCompletion:
    """A = (r − mean) / (mean absolute deviation + eps)."""
    deviations = centered(rewards, keep, GROUP)
    return deviations / (masked_mean(deviations.abs(), keep, GROUP) + eps)


def asks_for_what_is_not_offered(rewards: PerCompletion, foo: PerToken) -> PerCompletion:
    return rewards


def another_type(rewards: PerToken) -> PerToken:
    return rewards


def untyped_hyperparameter(rewards: PerCompletion, *, eps) -> PerCompletion:
    return rewards


def without_a_value(rewards: PerCompletion, *, eps: Positive) -> PerCompletion:
    return rewards


def out_of_range(rewards: PerCompletion, *, eps: Positive = -1.0) -> PerCompletion:
    return rewards


def one_number(rewards: PerCompletion, keep: CompletionMask) -> PerCompletion:
    return rewards.sum()


def single_precision(rewards: PerCompletion, keep: CompletionMask) -> PerCompletion:
    return centered(rewards, keep, GROUP).float()


def in_place(rewards: PerCompletion, keep: CompletionMask) -> PerCompletion:
    return rewards.sub_(masked_mean(rewards, keep, GROUP))


def noisy(rewards: PerCompletion) -> PerCompletion:
    return rewards + torch.rand_like(rewards)


CALLS = itertools.count()


def counting(rewards: PerCompletion) -> PerCompletion:
    return rewards + next(CALLS)


def over_runs(rewards: PerCompletion) -> PerCompletion:
    return rewards - rewards.mean()


def of_the_first_axis(rewards: PerCompletion) -> PerCompletion:
    return rewards - rewards.mean(2, keepdim=True)


def forgets_keep(rewards: PerCompletion, keep: CompletionMask) -> PerCompletion:
    return rewards - rewards.mean(-1, keepdim=True)


def multiplies_by_keep(rewards: PerCompletion, keep: CompletionMask) -> PerCompletion:
    sums = (rewards * keep).sum(-1, keepdim=True)
    return rewards - sums / keep.sum(-1, keepdim=True).clamp(min=1)


def divides_by_nothing(rewards: PerCompletion, keep: CompletionMask) -> PerCompletion:
    deviations = centered(rewards, keep, GROUP)
    return deviations / masked_mean(deviations.abs(), keep, GROUP)


def sample_deviation(rewards: PerCompletion) -> PerCompletion:
    return (rewards - rewards.mean(-1, keepdim=True)) / (rewards.std(-1, keepdim=True) + 1e-6)


def first_is_best(rewards: PerCompletion, keep: CompletionMask) -> PerCompletion:
    return rewards - rewards[..., :1]


@NormFacts(**LAWS | {"laws": ("scale", "zero sum", "linear")})
def boasts(rewards: PerCompletion, keep: CompletionMask, *, eps: Positive = 1e-6) -> PerCompletion:
    return mad(rewards, keep, eps=eps)


@NormFacts(laws=("shift", "scale", "zero sum"))
def alone(rewards: PerCompletion, keep: CompletionMask, *, eps: Positive = 1e-6) -> PerCompletion:
    return mad(rewards, keep, eps=eps)


def mean_over_padding(log_probs: PerToken, old_log_probs: PerToken, advantages: PerToken) -> PerToken:
    return -((log_probs - old_log_probs).mean(-1, keepdim=True).exp() * advantages).expand_as(log_probs)


def masks_by_product(log_probs: PerToken, old_log_probs: PerToken, advantages: PerToken, mask: TokenMask) -> PerToken:
    ratio = ((log_probs - old_log_probs) * mask).sum(-1, keepdim=True).exp()
    return -(ratio * advantages).expand_as(log_probs)


def paid_at_each_gap(outcomes: PerCompletion, mask: TokenMask) -> PerToken:
    return outcomes.unsqueeze(-1).where(mask & ~pad(mask[..., 1:], (0, 1)), 0.0)


def detached(log_probs: PerToken, old_log_probs: PerToken, advantages: PerToken) -> PerToken:
    return -(log_probs.detach() - old_log_probs).exp() * advantages


def wrong_sign(log_probs: PerToken, old_log_probs: PerToken, advantages: PerToken) -> PerToken:
    return advantages * (log_probs - old_log_probs).exp()


def mean_of_nothing(losses: PerToken, mask: TokenMask) -> PerReplica:
    return losses.where(mask, 0.0).sum((-1, -2, -3)) / mask.sum((-1, -2, -3))


def by_neighbors(rewards: PerCompletion) -> PerCompletion:
    return rewards - 0.1 * rewards.roll(1, -1)


def rewards_nothing(rewards: PerCompletion) -> PerCompletion:
    return rewards.nan_to_num(0.0)


WRONG = {
    ("norm", asks_for_what_is_not_offered): "signature: .*asks for `foo`, which norm is not offered",
    ("norm", another_type): r"signature: .*asks for `rewards` as float \[\*R P G T\], and it is float \[\*R P G\]",
    ("norm", untyped_hyperparameter): "signature: the hyperparameter `eps` .*has no type",
    ("norm", without_a_value): "signature: eps of `without_a_value` has no value",
    ("norm", out_of_range): "signature: .*eps=-1: must be above 0",
    ("norm", one_number): r"shape: .*the output is \[\]",
    ("norm", single_precision): "dtype: torch.float64 in gives torch.float32 out",
    ("norm", in_place): "inputs unchanged: `rewards` was changed",
    ("norm", noisy): "no global randomness: .*torch",
    ("norm", counting): "determinism: call 2",
    ("norm", over_runs): "leading axes: .*in a stack of 6",
    ("norm", of_the_first_axis): r"leading axes: leading axes \[\]",
    ("norm", forgets_keep): "left-out completions: where `rewards` is 7",
    ("norm", multiplies_by_keep): "left-out completions: where `rewards` is nan",
    ("norm", divides_by_nothing): "corner cases: groups of one: .*nan",
    ("norm", sample_deviation): "corner cases: groups of one: .*nan",
    ("norm", first_is_best): "permutation: with the completions of a group in the order",
    ("norm", boasts): 'declared laws: .*does not obey "linear"',
    ("norm", alone): 'compares: .*must have compares="group"',
    ("clip", mean_over_padding): "masked tokens: where `log_probs` is 10000 outside the mask the output",
    ("clip", masks_by_product): "masked tokens: where `(old_)?log_probs` is inf outside the mask",
    ("norm", paid_at_each_gap): "gaps: with 2 tokens outside the mask behind the first the output",
    ("clip", detached): "gradient: no gradient reaches `log_probs`",
    ("clip", wrong_sign): 'declared laws: .*does not obey "policy gradient"',
    ("agg", mean_of_nothing): "nothing counts: nothing is in `mask`: .*nan",
    ("shaping", by_neighbors): "neighbors: of prompt 0, completion 0, alone",
    ("shaping", rewards_nothing): "no reward: a completion without a reward got 0",
}


@pytest.mark.parametrize(("axis", "function"), WRONG, ids=lambda each: getattr(each, "__name__", each))
def test_a_wrong_function_is_told_what_it_breaks(axis, function):
    with pytest.raises(AssertionError, match=rf"(?m)^{axis}={function.__name__}: {WRONG[axis, function]}"):
        rlexp.testing.check(axis, function)


def test_every_property_has_a_wrong_function():
    named = {pattern.partition(":")[0] for pattern in WRONG.values()}
    every = {name for name, each in PROPERTIES.items() if not each.hint}
    assert every - named == {"broken neighbor", "equal rewards"}  # they have tests of their own


@NormFacts(compares="group", laws=("scale", "zero sum"), breaks=("equal", "equal group", "faint"))
def eager(rewards: PerCompletion, keep: CompletionMask) -> PerCompletion:
    deviations = centered(rewards, keep, GROUP)
    size = masked_mean(deviations.abs(), keep, GROUP)
    several = keep.sum(-1, keepdim=True) > 1
    return (deviations / size.where(several & (rewards != 0).any(-1, keepdim=True), 1.0)).where(keep, 0.0)


def test_rewards_that_are_all_equal_must_not_divide_by_zero():
    with pytest.raises(AssertionError, match="equal rewards: all rewards are 0.7: .*nan"):
        rlexp.testing.check("norm", eager)


def over_runs_in_the_gradient(losses: PerToken, mask: TokenMask) -> PerReplica:
    return Mixing.apply(losses.where(mask, 0.0).sum((-1, -2, -3)))


class Mixing(torch.autograd.Function):
    """The identity; what is not finite anywhere in the gradient or in the values makes the whole gradient NaN."""

    @staticmethod
    def forward(ctx, values):
        ctx.save_for_backward(values)
        return values.clone()

    @staticmethod
    def backward(ctx, slopes):
        (values,) = ctx.saved_tensors
        return slopes + 0 * values.sum()


def test_a_broken_run_must_not_reach_the_gradients_of_others():
    with pytest.raises(AssertionError, match="broken neighbor: with inf in run 1 the gradient of the others"):
        rlexp.testing.check("agg", over_runs_in_the_gradient)
