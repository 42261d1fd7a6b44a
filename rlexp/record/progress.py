"""How training is going: a live display on a terminal, now and then a line elsewhere; always on stderr."""

from __future__ import annotations

import logging
import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from statistics import fmean

from rich import progress as rich_progress
from rich.console import Console, RenderableType
from rich.table import Column, Table
from rich.text import Text

from rlexp.runfolder.variants import short_labels, split_overrides

SECONDS_BETWEEN_LINES = 10.0
DRAWINGS_PER_SECOND = 2
LONGEST_TITLE = 40  # of a live display
MOST_ROWS, MOST_IN_LINE = 12, 6


class QuietConsole(Console):
    """A console whose reader may go away: Rich's own ends the process then, and training goes on without it."""

    def on_broken_pipe(self) -> None:
        self.quiet = True


def stderr() -> Console:
    """Return the console of stderr; FORCE_COLOR may color a file, but must not animate it."""
    return QuietConsole(stderr=True, force_interactive=None if sys.stderr.isatty() else False)


class SpeedColumn(rich_progress.ProgressColumn):
    """Steps a second, or seconds a step; empty until two steps were logged."""

    def render(self, task: rich_progress.Task) -> Text:
        return Text(speed(task.speed) if task.speed else "")


class Display(rich_progress.Progress):
    """A bar, and below it a table of the variants."""

    def __init__(self, table: Callable[[], Table], console: Console, clock: Callable[[], float]):
        self.table = table
        narrow = Column(no_wrap=True, overflow="ellipsis", max_width=LONGEST_TITLE)
        super().__init__(
            rich_progress.TextColumn("{task.description}", style="bold", markup=False, table_column=narrow),
            rich_progress.BarColumn(),
            rich_progress.MofNCompleteColumn(),
            SpeedColumn(),
            rich_progress.TimeRemainingColumn(),
            rich_progress.TextColumn("left"),
            console=console,
            get_time=clock,
            refresh_per_second=DRAWINGS_PER_SECOND,
            speed_estimate_period=math.inf,
            redirect_stdout=sys.stdout.isatty(),  # what goes to a file or a pipe still goes there
            redirect_stderr=sys.stderr.isatty(),
        )

    def get_renderables(self) -> Iterable[RenderableType]:
        yield from super().get_renderables()
        yield self.table()


class Progress:
    """Context manager that shows the training of runs, given by their variants; ``update`` costs microseconds.

    A live display draws itself, twice a second; without a terminal a line is printed at the start, at most every ten
    seconds, and at the end.
    """

    def __init__(
        self,
        variants: Sequence[str],
        steps: int,
        title: str = "rlexp",
        *,
        console: Console | None = None,
        clock: Callable[[], float] = time.monotonic,
    ):
        self.steps, self.title, self.clock = steps, title, clock
        self.console = console or stderr()
        self.variants = variants
        self.labels = short_labels({variant: split_overrides(variant) for variant in variants})[1]
        self.alive: Sequence[bool] = [True] * len(variants)
        self.rewards: Sequence[float] = [math.nan] * len(variants)
        self.display = Display(self.table, self.console, clock)
        self._stack = ExitStack()

    def __enter__(self) -> Progress:
        self.display.add_task(self.title, total=self.steps)
        (self.task,) = self.display.tasks
        self.printed = self.clock()
        if self.console.is_interactive:
            streams = id(sys.stdout), id(sys.stderr)
            self._stack.enter_context(self.display)
            self._stack.enter_context(swapped_streams(dict(zip(streams, (sys.stdout, sys.stderr), strict=True))))
        else:
            runs = f" · runs: {len(self.variants)} · variants: {len(self.labels)}" if len(self.variants) > 1 else ""
            self._print(f"{self.steps} steps{runs}")
        return self

    def update(self, step: int, alive: Sequence[bool], rewards: Sequence[float]) -> None:
        """Show a logged step. The sequences must not be changed afterwards."""
        self.alive, self.rewards = alive, rewards
        self.display.advance(self.task.id, step - self.task.completed)  # the first one does not count for the speed
        if not self.console.is_interactive and self.clock() - self.printed >= SECONDS_BETWEEN_LINES:
            self.printed = self.clock()
            self._print(self.line(ended=False))

    def __exit__(self, *error: object) -> None:
        self._stack.close()
        if not self.console.is_interactive:
            self._print(self.line(ended=True))

    def line(self, ended: bool) -> str:
        """Steps, runs, speed, times and rewards in one line of text, as far as they are known."""
        task, alive = self.task, self.alive
        parts = [f"step {task.completed}/{self.steps}"]
        if len(alive) > 1:
            parts.append(f"{sum(map(bool, alive))} of {len(alive)} runs alive")
        if task.speed:
            parts.append(speed(task.speed))
        if task.time_remaining is not None and not ended:
            parts.append(f"{duration(task.time_remaining)} left")
        rows, rest = self.best(MOST_IN_LINE)
        rewards = [reward if len(alive) == 1 else f"{label} {reward}" for label, _, reward in rows]
        return " · ".join([*parts, f"{duration(task.elapsed)} elapsed", " ".join(["reward", *rewards, *rest])])

    def table(self) -> Table:
        table = Table(box=None, padding=(0, 2, 0, 0))
        table.add_column("variant", overflow="ellipsis", no_wrap=True)
        table.add_column("runs", justify="right", no_wrap=True)
        table.add_column("reward", justify="right", no_wrap=True, min_width=6)
        rows, rest = self.best(MOST_ROWS)
        for label, *numbers in rows:
            table.add_row(Text(label), *numbers)
        for words in rest:
            table.add_row(Text(words))
        return table

    def best(self, most: int) -> tuple[list[tuple[str, str, str]], list[str]]:
        """Label, runs that are alive of all and their mean reward of each variant, or of the best; words for others."""
        runs: dict[str, list[tuple[bool, float]]] = {variant: [] for variant in self.labels}
        for variant, alive, reward in zip(self.variants, self.alive, self.rewards, strict=True):
            runs[variant].append((bool(alive), reward))
        rewards, rows = {}, {}
        for variant, pairs in runs.items():
            known = [reward for alive, reward in pairs if alive and math.isfinite(reward)]
            rewards[variant] = fmean(known) if known else -math.inf
            alive, shown = sum(alive for alive, _ in pairs), f"{rewards[variant]:.2f}" if known else "–"
            rows[variant] = self.labels[variant], f"{alive}/{len(pairs)}", shown
        if len(rows) <= most:
            return [*rows.values()], []
        best = sorted(rows, key=rewards.get, reverse=True)[:most]
        return [rows[variant] for variant in best], [f"and {len(rows) - most} more"]

    def _print(self, text: str) -> None:
        self.console.print(f"[{self.title}] {text}", soft_wrap=True, markup=False, highlight=False)


def speed(rate: float) -> str:
    """Steps a second, or seconds a step where that is more than one."""
    return f"{rate:.1f} steps/s" if rate >= 1 else f"{1 / rate:.1f} s/step"


def duration(seconds: float | int) -> str:
    """Two units at most: 9 s, 1 min 32 s, 2 h 5 min."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


@contextmanager
def swapped_streams(swap: dict[int, object]) -> Iterator[None]:
    """Point the root's log handlers, which keep the stream they were made with, to other streams for a while."""
    handlers = [each for each in logging.root.handlers if id(getattr(each, "stream", None)) in swap]
    streams = {handler: handler.stream for handler in handlers}
    for handler, stream in streams.items():
        handler.setStream(swap[id(stream)])
    try:
        yield
    finally:
        for handler, stream in streams.items():
            handler.setStream(stream)
