"""What training says while it goes on, as typed events, and at which steps it says what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any, Literal

from rlexp.config.schema import Config

Status = Literal["completed", "diverged", "failed", "interrupted"]
COUNTED = ("tokens", "completions", "verdicts")
HEALTH = ("loss/total", "optim/grad_norm", "value/loss")
FRESH: Mapping[str, Any] = {"step": -1, **dict.fromkeys(COUNTED, 0)}
"""The state of a run that has not begun."""


@dataclass(frozen=True)
class Row:
    """The metrics of a run after ``step`` updates of its policy; 0 is before training."""

    run: int
    step: int
    metrics: dict[str, float]


@dataclass(frozen=True)
class Samples:
    """A few completions of a run as text, with what they earn."""

    run: int
    step: int
    completions: list[dict[str, Any]]


@dataclass(frozen=True)
class Checkpoint:
    """All that a run needs to go on after ``step``: tensors, numbers and text in dicts, on the CPU."""

    run: int
    step: int
    state: dict[str, Any]


@dataclass(frozen=True)
class Ended:
    """The last event of a run. ``error`` says why it was not completed."""

    run: int
    step: int
    status: Status
    error: Exception | None = None


@dataclass(frozen=True)
class Step:
    """All events of a step of one batch were yielded; ``runs`` go on. Step −1: made, and not yet evaluated."""

    runs: tuple[int, ...]
    step: int


Event = Row | Samples | Checkpoint | Ended | Step


def divergence(row: Row) -> FloatingPointError | None:
    """Say which number of a row shows that the run has diverged; None if none does."""
    nonfinite = [f"{key} is {row.metrics[key]}" for key in HEALTH if not isfinite(row.metrics.get(key, 0.0))]
    return FloatingPointError(f"diverged by step {row.step}: {', '.join(nonfinite)}") if nonfinite else None


@dataclass(frozen=True)
class Cadence:
    """The steps after which runs of a config are measured, evaluated, sampled and saved."""

    config: Config

    def evaluates(self, step: int) -> bool:
        return step % self.config.eval.every == 0 or step == self.config.steps

    def measures(self, step: int) -> bool:
        return step % self.config.log_every == 0 or self.evaluates(step)

    def samples(self, step: int) -> bool:
        return step in (0, self.config.steps // 2, self.config.steps)

    def saves(self, step: int) -> bool:
        return step % self.config.checkpoint_every == 0 or step == self.config.steps
