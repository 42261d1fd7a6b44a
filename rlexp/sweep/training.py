"""Training a batch of runs in memory: an iterator of typed events. Files, logs and progress are the consumer's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableSet, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any, Literal

import torch

from rlexp.config.schema import Config
from rlexp.core import exact
from rlexp.core.exits import RunFailed
from rlexp.loop.data import prefill_buffer
from rlexp.loop.evaluation import evaluate
from rlexp.loop.metrics import Row as Metrics
from rlexp.loop.metrics import of_judged, of_others, written
from rlexp.loop.reward_model import train_judges
from rlexp.loop.state import TrainState
from rlexp.loop.step import train_step
from rlexp.record import checkpoint
from rlexp.record.samples import samples
from rlexp.sweep.build import build
from rlexp.sweep.machine import Threads
from rlexp.sweep.starts import apply_starts

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


def never() -> bool:
    return False


def train_batch(
    configs: Mapping[int, Config],
    active: MutableSet[int],
    states: Mapping[int, Mapping[str, Any]] | None = None,
    stop: Callable[[], bool] = never,
    starts: Path | None = None,
) -> Iterator[Event]:
    """Train runs as one batch and yield what happens.

    Args:
        configs: of each run by its number; they share a bucket, and those of one variant stand side by side.
        active: the runs that train. A run that ends is taken out before its ``Ended``; a consumer that takes one out
            ends it, without an event.
        states: from which each run goes on, as a ``Checkpoint`` has them, all of one step; fresh runs without them.
        stop: asked once a step; once it says yes, all runs are saved and end as interrupted. In the last step they
            complete.
        starts: folder in which the weights that runs start from are kept for other runs.

    Yields:
        First ``Step``. At each step the rows of all runs, then their samples, then their checkpoints, then ``Step``.

    Raises:
        Whatever goes wrong with the whole batch, as too little memory.
    """
    settings = torch.get_num_threads(), torch.get_float32_matmul_precision()
    try:
        first = next(iter(configs.values()))
        threads = Threads(len(configs), first.threads)
        torch.set_num_threads(1)  # until the steps choose
        exact.forget()  # each batch tries out its own products
        saved = [(states or {}).get(run, FRESH) for run in configs]
        state = build([*configs.values()])
        counts = {name: torch.tensor([each.get(name, 0) for each in saved]) for name in COUNTED}
        done = saved[0]["step"]
        if done >= 0:
            problems = checkpoint.restore(state, saved)
        else:
            problems = apply_starts(state, [*configs.values()], starts)
            if state.judging is not None:
                problems = [one or other for one, other in zip(problems, train_judges(state), strict=True)]
            counts |= prefill_buffer(state)
        batch = Batch(state, [*configs], active, counts)
        yield from batch.fail(problems, max(done, 0))
        if not batch.remaining:
            return

        cadence, held_out = Cadence(first), first.eval.model_dump(exclude={"every"})
        yield Step(batch.remaining, done)
        if done < 0:
            yield from batch.rows(0, evaluate(state, 0, **held_out))
            yield from batch.samples(0)
            yield Step(batch.remaining, 0)
        for step in range(max(done, 0) + 1, first.steps + 1):
            with threads.chosen(step):
                row = train_step(state, step, cadence.measures(step))
            for name in COUNTED:
                counts[name] += row.pop(name).cpu()
            if cadence.measures(step):
                row |= evaluate(state, step, **held_out) if cadence.evaluates(step) else {}
                yield from batch.rows(step, row)
            if cadence.samples(step):
                yield from batch.samples(step)
            stopping = stop()  # asked once: what is asked for from here on is for the next step, which saves
            if cadence.saves(step) or stopping:
                yield from batch.checkpoints(step)
            yield Step(batch.remaining, step)
            if not batch.remaining:
                return
            if stopping and step < first.steps:
                yield from batch.fail(["interrupted by the user"] * len(configs), step, "interrupted", RuntimeError)
                return
        yield from batch.fail(unseen_divergence(state), first.steps, "diverged", FloatingPointError)
        for run in batch.remaining:
            yield from batch.end(run, first.steps, "completed")
    finally:
        torch.set_num_threads(settings[0])
        torch.set_float32_matmul_precision(settings[1])


class Batch:
    """Runs that train together: their state, how much each has sampled, and which of them are still active."""

    def __init__(self, state: TrainState, runs: Sequence[int], active: MutableSet[int], counts: Metrics):
        self.state, self.runs, self.active, self.counts = state, runs, active, counts

    @property
    def remaining(self) -> tuple[int, ...]:
        return tuple(run for run in self.runs if run in self.active)

    def checkpoints(self, step: int) -> Iterator[Event]:
        """Yield the state of each run that is active; a state that is not asked for is not copied."""
        for replica, run in enumerate(self.runs):
            if run in self.active:
                sampled = {name: int(count[replica]) for name, count in self.counts.items()}
                yield Checkpoint(run, step, checkpoint.content(self.state, replica, step, sampled))

    def rows(self, step: int, metrics: Metrics) -> Iterator[Event]:
        """Yield each run's column of the metrics, without those of other runs; a loss that is no number ends it."""
        sampled = self.counts | of_judged(self.state, {"verdicts": self.counts["verdicts"]})
        progress = {f"progress/{name}": count for name, count in sampled.items()}
        columns = {name: values.tolist() for name, values in (metrics | progress).items()}
        for replica, (run, others) in enumerate(zip(self.runs, of_others(self.state.blocks), strict=True)):
            if run in self.active:
                known = {name: column[replica] for name, column in columns.items() if name not in others}
                row = Row(run, step, written(known))
                yield row
                if error := divergence(row):
                    yield from self.end(run, step, "diverged", error)

    def samples(self, step: int) -> Iterator[Event]:
        for run, completions in zip(self.runs, samples(self.state, step), strict=True):
            if run in self.active:
                yield Samples(run, step, completions)

    def fail(
        self, problems: Sequence[str], step: int, status: Status = "failed", kind: type[Exception] = RunFailed
    ) -> Iterator[Event]:
        for run, problem in zip(self.runs, problems, strict=True):
            if problem:
                yield from self.end(run, step, status, kind(problem))

    def end(self, run: int, step: int, status: Status, error: Exception | None = None) -> Iterator[Event]:
        """End a run, unless it has ended."""
        if run in self.active:
            self.active.discard(run)
            yield Ended(run, step, status, error)


def unseen_divergence(state: TrainState) -> list[str]:
    """Say for each run which of its networks has weights that are no numbers after the last update, else ""."""
    problems = [""] * len(state.seeds)
    for name, network in state.networks.items():
        trained = network.module.parameters() if network.optimizer is not None else ()
        for weights in trained:
            for replica in torch.nonzero(~weights.isfinite().flatten(1).all(1)).flatten().tolist():
                problems[replica] = f"diverged in the last update: weights of the {name} are not finite"
    return problems
