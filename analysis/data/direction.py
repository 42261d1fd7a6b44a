"""The better end of a metric. Where neither is better, there are differences, but no wins and no best."""

from typing import Literal

Direction = Literal["higher", "lower"] | None

HIGHER = ("eval/greedy_accuracy", "eval/sampled_accuracy", "eval/pass@", "eval/reward", "reward/mean", "reward/shaped")
HIGHER += ("eval/exact/accuracy", "eval/exact/pass@", "eval/exact/reward", "eval/exact/gold")
LOWER = ("kl/ref_", "mismatch/kl", "time/")


def better_direction(metric: str, score_metric: str | None = None) -> Direction:
    """Higher for the metric of a score, as a score has a floor; by the beginning of the name for others, or unknown.

    Unknown are what describes a policy without judging it: entropy, lengths, gradients, clipping, equal rewards.
    """
    if metric == score_metric or metric.startswith(HIGHER):
        return "higher"
    return "lower" if metric.startswith(LOWER) else None


def direction_sign(direction: Direction) -> int:
    """The factor by which the largest number becomes the best; 1 where nothing is known."""
    return -1 if direction == "lower" else 1


def direction_note(direction: Direction) -> str:
    """` (higher is better)`, or nothing."""
    return f" ({direction} is better)" if direction else ""
