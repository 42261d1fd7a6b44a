"""Statistics of all steps of a run so far, and how they go on."""

from __future__ import annotations

from math import inf

from pydantic import FiniteFloat
from torch import stack

from rlexp.core.facts import NormFacts
from rlexp.core.masked import (
    BATCH,
    centered,
    count,
    masked_extreme,
    masked_mean,
    masked_std,
    masked_sum,
    sums_by_prompt,
)
from rlexp.core.memory import Memory
from rlexp.core.registry import by_name
from rlexp.core.types import (
    CompletionMask,
    Ddof,
    Discount,
    PerCompletion,
    PerKnownPrompt,
    PerReplica,
    Positive,
    PromptNumbers,
    Remembered,
    Size,
)


@NormFacts(laws=("scale",))
def running(
    rewards: PerCompletion, keep: CompletionMask, reward_moments: Remembered, *, eps: Positive, ddof: Ddof
) -> PerCompletion:
    """A = (r − mean_run) / (std_run + eps), statistics over all completions of the run so far, this step's included.

    Source: ROLL ``norm_mean_type=running, norm_std_type=running`` (``RunningMoments``, ddof 1, eps 1e-6). Exactly zero
    as long as all rewards of the run are equal.
    """
    number, mean, squares, smallest, largest = (
        moment[..., None, None] for moment in combine_moments(reward_moments, rewards, keep).unbind(-1)
    )
    deviation = (squares / (number - ddof).clamp(min=1)).sqrt()
    return ((rewards - mean) / (deviation + eps)).masked_fill(largest <= smallest, 0.0)


def no_moments() -> tuple[float, ...]:
    """Return the moments of no reward."""
    return 0.0, 0.0, 0.0, inf, -inf


def combine_moments(reward_moments: Remembered, rewards: PerCompletion, keep: CompletionMask) -> Remembered:
    """Return number, mean, Σ (r − mean)², smallest and largest of the rewards before and those of a batch, ``[*R 5]``.

    Source: pairwise update of Chan, Golub and LeVeque (1979).
    """
    number, mean, squares, smallest, largest = reward_moments.unbind(-1)
    batch_mean = masked_mean(rewards, keep, BATCH)
    batch_squares = masked_sum((rewards - batch_mean).square(), keep, BATCH)
    batch_smallest, batch_largest = (masked_extreme(rewards, keep, BATCH, sign).squeeze(BATCH) for sign in (-1, 1))
    batch_number = count(keep, BATCH, rewards.dtype).squeeze(BATCH)
    total, difference = number + batch_number, batch_mean.squeeze(BATCH) - mean
    weight = batch_number / total.clamp(min=1)
    mean = mean + difference * weight
    squares = squares + batch_squares.squeeze(BATCH) + difference.square() * number * weight
    return stack([total, mean, squares, smallest.minimum(batch_smallest), largest.maximum(batch_largest)], -1)


@NormFacts(laws=("linear",))
def ema(rewards: PerCompletion, reward_average: PerReplica, *, decay: Discount) -> PerCompletion:
    """A = r − average, the average of the run's earlier rewards; it starts at 0 and moves after the step.

    Source: a moving-average baseline (Williams, 1992); prime-rl ``rae`` (SPIRAL, arXiv 2506.24119), which moves it
    after each completion, here once a step by the mean of the step.
    """
    return rewards - reward_average[..., None, None]


def zero_average() -> float:
    """Return the average before the first reward."""
    return 0.0


def move_average(
    reward_average: PerReplica, rewards: PerCompletion, keep: CompletionMask, *, decay: Discount
) -> PerReplica:
    """Return decay · average + (1 − decay) · mean of the step; the average where no completion counts.

    Source: the moving-average baseline of ``ema`` (Williams, 1992).
    """
    moved = decay * reward_average + (1 - decay) * masked_mean(rewards, keep, BATCH).squeeze(BATCH)
    return moved.where(keep.any(-1).any(-1), reward_average)


@NormFacts(compares="batch", laws=("scale", "zero batch sum"), breaks=("equal",))
def spo(
    rewards: PerCompletion,
    keep: CompletionMask,
    prompt_values: PerKnownPrompt,
    prompt_numbers: PromptNumbers,
    *,
    prompts: Size | None,
    decay: Discount,
    prior: FiniteFloat,
    weight: Positive,
    eps: Positive,
    ddof: Ddof,
) -> PerCompletion:
    """A = (e − mean_batch e) / (std_batch e + eps) with e = r − v, v the value of the prompt before this step.

    A prompt's value v is a mean of its earlier rewards that forgets: a reward weighs 1, what was known before it
    ``decay`` as much as then. It begins as ``prior`` with the weight ``weight``. Source: single-stream policy
    optimization (SPO, arXiv 2509.13232) with a constant decay; verl-recipe ``spo``, α ← ρα + r, β ← ρβ + 1 − r,
    v = α / (α + β), written so that rewards need not be 0 or 1, and ``rho.type=constant``. The paper's own decay
    follows how far the policy has moved; its values begin at what eight completions of the start policy say. There a
    prompt has one completion a step; here the mean of all that a step has of a prompt is one observation.
    """
    values = prompt_values[..., 0].gather(-1, prompt_numbers).unsqueeze(-1)
    errors = rewards - values
    return centered(errors, keep, BATCH) / (masked_std(errors, keep, BATCH, ddof) + eps)


def prior_values(*, prompts: Size | None, prior: FiniteFloat, weight: Positive) -> list[list[float]]:
    """Return ``prior`` and ``weight`` for each prompt: its value and weight before any reward is known."""
    return [[prior, weight]] * prompts


def move_values(
    prompt_values: PerKnownPrompt,
    rewards: PerCompletion,
    keep: CompletionMask,
    prompt_numbers: PromptNumbers,
    *,
    decay: Discount,
) -> PerKnownPrompt:
    """Return values and weights after a step: v ← v + (mean of the step − v) / (decay · weight + 1), and that weight.

    Those of prompts that have no completion in the step that counts stay. Source: SPO (arXiv 2509.13232), as ``spo``.
    """
    number, total = sums_by_prompt(rewards, keep, prompt_numbers, prompt_values.shape[-2])
    value, weight = prompt_values.unbind(-1)
    more = decay * weight + 1
    moved = stack([value + (total / number.clamp(min=1) - value) / more, more], -1)
    return moved.where(number.unsqueeze(-1) > 0, prompt_values)


def dbb(
    rewards: PerCompletion,
    keep: CompletionMask,
    prompt_values: PerKnownPrompt,
    prompt_numbers: PromptNumbers,
    *,
    prompts: Size | None,
    decay: Discount,
    prior: FiniteFloat,
    weight: Positive,
    eps: Positive,
) -> PerCompletion:
    """A = (r − p) / (√(p (1 − p)) + eps), p the discounted share of successes of the prompt, this step's included.

    α ← decay · α + Σ r and β ← decay · β + n − Σ r over the n completions that a step has of a prompt, p = α / (α + β);
    they begin as ``weight`` · ``prior`` and ``weight`` · (1 − ``prior``). Equal rewards of a group have an advantage,
    which fades as its prompt stays all right or all wrong. Rewards are from 0 to 1. Source: discounted Beta–Bernoulli
    estimation (GRPO-DBB, arXiv 2603.18444, alg. 1 and eq. 11 to 13, which has no eps): decay 0.5 and 0.75, one step of
    a prompt an epoch, α = β = 1 at first. With decay 0 it is ``local`` of rewards that are 0 or 1, with ddof 0.
    """
    moved = count_rewards(prompt_values, rewards, keep, prompt_numbers, decay=decay)
    share = moved[..., 0].gather(-1, prompt_numbers).unsqueeze(-1)
    return (rewards - share) / ((share * (1 - share)).clamp(min=0).sqrt() + eps)


def count_rewards(
    prompt_values: PerKnownPrompt,
    rewards: PerCompletion,
    keep: CompletionMask,
    prompt_numbers: PromptNumbers,
    *,
    decay: Discount,
) -> PerKnownPrompt:
    """Return values and weights after a step: α / (α + β) and α + β, as ``dbb`` has them.

    Those of prompts that have no completion in the step that counts stay. Source: GRPO-DBB (arXiv 2603.18444, eq. 11).
    """
    number, total = sums_by_prompt(rewards, keep, prompt_numbers, prompt_values.shape[-2])
    value, weight = prompt_values.unbind(-1)
    more = decay * weight + number
    moved = stack([value + (total - number * value) / more, more], -1)
    return moved.where(number.unsqueeze(-1) > 0, prompt_values)


FUNCTIONS = by_name(running, ema, spo, dbb)
MOMENTS = "number, mean, Σ (r − mean)², smallest and largest of the run's rewards before this step"
PRIOR = "value of each prompt of the run's set before this step, and the weight of what it is the mean of"
MEMORIES = {
    "running": Memory("reward_moments", no_moments, combine_moments, MOMENTS),
    "ema": Memory("reward_average", zero_average, move_average, "moving average of the rewards of earlier steps"),
    "spo": Memory("prompt_values", prior_values, move_values, PRIOR),
    "dbb": Memory("prompt_values", prior_values, count_rewards, PRIOR),
}
