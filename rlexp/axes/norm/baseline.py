"""Rewards less a baseline that is no mean of the group: weighted, greedy, or by the reference."""

from __future__ import annotations

from torch import Tensor

from rlexp.axes.norm.tokens import gradient_energy
from rlexp.core.exact import sum_keepdim
from rlexp.core.facts import NormFacts
from rlexp.core.masked import (
    GROUP,
    is_constant,
    masked_sum,
)
from rlexp.core.registry import by_name
from rlexp.core.types import (
    CompletionMask,
    PerCompletion,
    PerPrompt,
    PerToken,
    Positive,
    TokenMask,
)


@NormFacts(compares="group", laws=("linear",))
def opo(rewards: PerCompletion, keep: CompletionMask, lengths: PerCompletion) -> PerCompletion:
    """A = r − Σ length · r / Σ length over the group: the baseline of least variance if every token adds the same.

    Source: OPO (arXiv 2505.23585); verl ``opo``.
    """
    return minus_weighted_mean(rewards, lengths, keep)


@NormFacts(compares="group", laws=("linear",))
def optimal(
    rewards: PerCompletion, keep: CompletionMask, mask: TokenMask, old_log_probs: PerToken, sum_pi_squared: PerToken
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


def a2po(rewards: PerCompletion, reference_rewards: PerCompletion, *, beta: Positive) -> PerCompletion:
    """A = r − V*, V* = beta · log(mean_j exp(r_j / beta)) over completions of the same prompt by the reference.

    V* is what the best policy expects of a prompt less beta · KL to the reference, up to the error of a mean of few:
    exp(V* / beta) has none on average. Beta to 0 makes it the largest of these rewards, without end their mean. Source:
    A*-PO (arXiv 2505.20686, stage 1), with 0.5 and 8 completions; its code, ZhaolinGao/A-PO c8823a3
    (``rl_dataset.py``), and TRL's ``A2POTrainer``. There V* of a prompt is estimated once, before training; here anew
    in each step that has the prompt, of as many completions as the group has, which ``progress/tokens`` does not count.
    Their rewards are those of who judges the run, before shaping and KL. TRL also drops prompts whose completions by
    the reference are all wrong.
    """
    powers = reference_rewards / beta
    largest = powers.amax(-1, keepdim=True)
    mean = sum_keepdim((powers - largest).exp(), GROUP) / powers.shape[-1]
    return rewards - beta * (largest + mean.log())


FUNCTIONS = by_name(opo, optimal, remax, a2po)
