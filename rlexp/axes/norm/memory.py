"""Norms that remember rewards of earlier steps, and how what they remember goes on (see ``memory``)."""

from __future__ import annotations

from math import inf

from torch import Tensor, stack

from rlexp.core.facts import facts
from rlexp.core.masked import BATCH, count, masked_extreme, masked_mean, masked_sum
from rlexp.core.memory import Memory
from rlexp.core.types import CompletionMask, Ddof, Discount, PerCompletion, PerReplica, Positive, Remembered


@facts(laws=("scale",))
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
    batch_squares = squeeze_batch(masked_sum((rewards - batch_mean).square(), keep, BATCH))
    batch_number, difference = squeeze_batch(count(keep, BATCH, rewards.dtype)), squeeze_batch(batch_mean) - mean
    total = number + batch_number
    weight = batch_number / total.clamp(min=1)
    return stack(
        [
            total,
            mean + difference * weight,
            squares + batch_squares + difference.square() * number * weight,
            smallest.minimum(squeeze_batch(masked_extreme(rewards, keep, BATCH, -1))),
            largest.maximum(squeeze_batch(masked_extreme(rewards, keep, BATCH, 1))),
        ],
        -1,
    )


@facts(laws=("linear",))
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
    """Return decay · average + (1 − decay) · mean of the step; the average where no completion counts."""
    moved = decay * reward_average + (1 - decay) * squeeze_batch(masked_mean(rewards, keep, BATCH))
    return moved.where(keep.any(-1).any(-1), reward_average)


def squeeze_batch(values: Tensor) -> Tensor:
    """Drop the two axes that a reduction over the batch leaves with size 1."""
    return values.squeeze(BATCH)


FUNCTIONS = {"running": running, "ema": ema}
MEMORIES = {
    "running": Memory(
        "reward_moments",
        no_moments,
        combine_moments,
        "number, mean, Σ (r − mean)², smallest and largest of the run's rewards before this step",
    ),
    "ema": Memory("reward_average", zero_average, move_average, "moving average of the rewards of earlier steps"),
}
