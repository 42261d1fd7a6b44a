"""Norms with another baseline than the mean of the group or the batch, or another weight of a group: ``[*R P G]``."""

from __future__ import annotations

from pydantic import FiniteFloat
from torch import Tensor, eye

from rlexp.axes.norm.token import gradient_energy
from rlexp.core.facts import NormFacts
from rlexp.core.masked import (
    BATCH,
    GROUP,
    centered,
    count,
    is_constant,
    masked_extreme,
    masked_mean,
    masked_std,
    masked_sum,
)
from rlexp.core.types import CompletionMask, Ddof, Level, PerCompletion, PerPrompt, PerToken, Positive, TokenMask


@NormFacts(compares="group", laws=("linear",))
def opo(rewards: PerCompletion, keep: CompletionMask, lengths: PerCompletion) -> PerCompletion:
    """A = r − Σ length · r / Σ length over the group: the baseline of least variance if every token adds the same.

    Source: OPO (arXiv 2505.23585); verl ``opo``.
    """
    return minus_weighted_mean(rewards, lengths, keep)


@NormFacts(compares="group", laws=("linear",))
def optimal(
    rewards: PerCompletion,
    keep: CompletionMask,
    mask: TokenMask,
    old_log_probs: PerToken,
    sum_pi_squared: PerToken,
) -> PerCompletion:
    """A = r − Σ W r / Σ W over the group, W = Σ_t (1 − 2π_t + Σ_v π_t(v)²): ``opo`` with gradients for lengths.

    W is the squared norm of the gradient of a completion's log π in the logits. Source: the optimal constant baseline
    E[‖∇ log π‖² r] / E[‖∇ log π‖²] (Weaver and Tao, 2001); ``optimal_token`` has one for each step. CS336 lecture 17
    (2025) has ∇π for ∇ log π, which is not optimal.
    """
    energy = gradient_energy(old_log_probs, sum_pi_squared, mask).sum(-1)
    return minus_weighted_mean(rewards, energy, keep)


def minus_weighted_mean(rewards: Tensor, weights: Tensor, keep: Tensor) -> Tensor:
    """r − Σ weight · r / Σ weight over the group, exactly zero where all are equal."""
    baseline = masked_sum(weights * rewards, keep, GROUP) / masked_sum(weights, keep, GROUP)
    return (rewards - baseline).masked_fill(is_constant(rewards, keep, GROUP), 0.0)


@NormFacts(laws=("linear",))
def remax(rewards: PerCompletion, greedy_rewards: PerPrompt) -> PerCompletion:
    """A = r − reward of the policy's greedy completion of the same prompt, ``[*R P 1]``.

    Source: ReMax (arXiv 2310.10505); verl ``remax``. The greedy reward is the task's, before shaping and KL: whatever
    depends on the prompt alone leaves the expected gradient as it is. verl's includes what its reward function shapes.
    KL in the reward is taken off the whole completion here; in verl a token bears that of itself and of what follows.
    It costs a completion a prompt, which ``progress/tokens`` does not count.
    """
    return rewards - greedy_rewards


@NormFacts(compares="group", laws=("scale",))
def quantile(rewards: PerCompletion, keep: CompletionMask, *, level: Level, eps: Positive, ddof: Ddof) -> PerCompletion:
    """A = (r − Q) / (std_group + eps), Q the smallest reward that a share ``level`` of the group does not exceed.

    Source: quantile advantage estimation (arXiv 2509.22611), level 0.4. For 0/1 rewards with success rate p it only
    reinforces what is right where p ≤ 1 − level, and only punishes what is wrong elsewhere: most advantages are 0.
    ``level`` 0.5 is the median. The deviation stays the standard one: the median absolute deviation is 0 as soon as
    more than half of a group agrees, which 0/1 rewards nearly always do.
    """
    others = rewards.unsqueeze(-2)
    not_above = ((others <= rewards.unsqueeze(-1)) & keep.unsqueeze(-2)).sum(-1)
    enough = not_above.double() >= level * keep.sum(-1, keepdim=True).double()
    threshold = masked_extreme(rewards, keep & enough, GROUP, -1)
    advantages = (rewards - threshold) / (masked_std(rewards, keep, GROUP, ddof) + eps)
    return advantages.masked_fill(is_constant(rewards, keep, GROUP), 0.0)


@NormFacts(compares="group", laws=("linear", "zero sum"))
def gpg(rewards: PerCompletion, keep: CompletionMask) -> PerCompletion:
    """A = α · (r − mean_group), α = completions / completions of groups whose rewards differ.

    Source: GPG (arXiv 2504.02546), where groups without a gradient are taken out of the denominator. verl ``gpg``
    divides by the number of completions with a reward other than 0 instead, which is another number.
    """
    varied = keep & ~is_constant(rewards, keep, GROUP)
    alpha = count(keep, BATCH, rewards.dtype) / count(varied, BATCH, rewards.dtype).clamp(min=1)
    return alpha * centered(rewards, keep, GROUP)


@NormFacts(compares="group", laws=("scale", "zero sum"), breaks=("shift", "group shift"))
def maxrl(rewards: PerCompletion, keep: CompletionMask) -> PerCompletion:
    """A = (r − mean_group) / mean_group, 0 where the mean is not positive; for rewards ≥ 0.

    Source: MaxRL (arXiv 2602.02710), whose expected update on 0/1 rewards tends to that of log p, a weight of 1/p;
    prime-rl ``max_rl``.
    """
    mean = masked_mean(rewards, keep, GROUP)
    return (centered(rewards, keep, GROUP) / mean).where(mean > 0, 0.0)


@NormFacts(laws=("group shift",))
def asymre(rewards: PerCompletion, keep: CompletionMask, *, shift: FiniteFloat) -> PerCompletion:
    """A = r − (mean_group + shift): with a shift below 0 what is good counts for more than what is bad.

    On old data a baseline is no longer free: with one below the mean reward of the policy that sampled the policy
    improves, with one above it can collapse. Equal rewards have the advantage −shift. Source: AsymRE (arXiv
    2506.20520), A = r − V with a V a little below the mean; no code of it was found.
    """
    return centered(rewards, keep, GROUP) - shift


@NormFacts(compares="batch")
def shrinkage(rewards: PerCompletion, keep: CompletionMask, *, eps: Positive) -> PerCompletion:
    """A = r − (1 − λ) · mean of the others in the group − λ · mean of the other groups' means.

    λ = v / (v + s + eps), both of the other groups alone: v the mean over them of var / n, the error of a group's mean
    of n completions (divisor n − 1), s the variance of their means (divisor: how many they are). So the less a group's
    own mean is worth, the more the others count, and no completion has a part in its own baseline. Source: shrinkage
    baselines (arXiv 2511.03710), from the authors' own code, JSPO-Official ``jspo`` (November 2025), eps 1e-6; its
    ``jspo_plus_plus`` takes λ from all groups and smooths it over steps. There all groups have n completions. Here,
    where some do not count, a group without any is none, one of a single completion has no v and, for itself, λ = 1.
    A batch of one group is that of ``rloo``.
    """
    number, means = count(keep, GROUP, rewards.dtype), masked_mean(rewards, keep, GROUP)
    deviations = centered(rewards, keep, GROUP)
    more = (number - 1).clamp(min=1)
    errors = masked_sum(deviations.square(), keep, GROUP) / (more * number.clamp(min=1))
    apart = ~eye(rewards.shape[-2], dtype=keep.dtype, device=rewards.device)
    others, measured = apart & (number > 0).mT, apart & (number > 1).mT
    across = masked_mean(means.mT, others, GROUP)
    within, between = masked_mean(errors.mT, measured, GROUP), masked_mean((means.mT - across).square(), others, GROUP)
    share = (within / (within + between + eps)).masked_fill(number < 2, 1.0).where(others.any(-1, keepdim=True), 0.0)
    return (1 - share) * deviations * number / more + share * (rewards - across)


FUNCTIONS = {
    "shrinkage": shrinkage,
    "opo": opo,
    "optimal": optimal,
    "remax": remax,
    "quantile": quantile,
    "gpg": gpg,
    "maxrl": maxrl,
    "asymre": asymre,
}
