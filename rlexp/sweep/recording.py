"""The consumer of training that every recorded run has: its events become files, logged rows and progress."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from rlexp.record import checkpoint
from rlexp.record.disk.durable import AT_ONCE
from rlexp.record.disk.io_errors import unwritable
from rlexp.sweep.events import Checkpoint, Event, Row, Step
from rlexp.sweep.interrupt import Clock
from rlexp.sweep.run import Run


class Recording:
    """Writes down what training says of runs. ``active`` are those that train: one that cannot be written is not."""

    def __init__(self, runs: Mapping[int, Run], progress: Any = None):
        self.runs, self.progress = runs, progress
        self.active = set(runs)
        self.clock: Clock | None = None
        self.rewards = dict.fromkeys(runs, math.nan)
        self.unsaved: list[Checkpoint] = []
        self.unshown = False

    def take(self, event: Event) -> None:
        """Write down an event; checkpoints are written side by side, at the latest at the end of their step."""
        if isinstance(event, Step):
            self.clock = self.clock or Clock(next(iter(self.runs.values())).last.get("time/total", 0.0))
            self.save()
            self.show(event.step)
        elif isinstance(event, Checkpoint):
            self.unsaved.append(event)
            if len(self.unsaved) == AT_ONCE:
                self.save()
        elif (run := self.runs[event.run]).alive:
            if isinstance(event, Row):
                self.record(run, event)
            else:
                run.take(event)
            if not run.alive:
                self.active.discard(event.run)

    def record(self, run: Run, event: Row) -> None:
        """Write a row, and when it was."""
        elapsed = self.clock.elapsed()
        times = {"time/total": elapsed, "time/step": elapsed / max(event.step, 1)}
        run.record(event.step, event.metrics | times)
        self.rewards[event.run], self.unshown = event.metrics.get("reward/mean", math.nan), event.step > 0

    def save(self) -> None:
        """Write the checkpoints that are not on the disk; one that cannot be written ends its run."""
        states = [(self.runs[event.run].recorder, event.state) for event in self.unsaved]
        for event, error in zip(self.unsaved, checkpoint.save(states), strict=True):
            if error is not None:
                run = self.runs[event.run]
                run.fail(unwritable(error, run.job.folder / checkpoint.LATEST))
                self.active.discard(event.run)
        self.unsaved = []

    def show(self, step: int) -> None:
        """Show the rewards of a step whose rows are written."""
        if self.progress and self.unshown:
            self.progress.update(step, [run.alive for run in self.runs.values()], list(self.rewards.values()))
            self.unshown = False
