"""How training is going: a live display on a terminal, now and then a line elsewhere; always on stderr."""

from __future__ import annotations

import logging
import math
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from statistics import fmean
from typing import NamedTuple, Protocol, runtime_checkable

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

SECONDS_BETWEEN_LINES = 10.0
DRAWINGS_PER_SECOND = 2
MOST_ROWS, MOST_IN_LINE = 12, 6
COMMA_OUTSIDE_LISTS = re.compile(r",(?![^\[{(]*[)}\]])")


@runtime_checkable
class Job(Protocol):
    """What the display needs to know about a run."""

    variant: str


class Logged(NamedTuple):
    """A logged step: when it was, which runs were alive, and the mean reward of each."""

    time: float
    step: int
    alive: Sequence[bool]
    rewards: Sequence[float]


class Standing(NamedTuple):
    """One variant: its runs that are alive, all its runs, the mean reward of those alive (NaN if not known)."""

    label: str
    alive: int
    runs: int
    reward: float


class View(NamedTuple):
    """All that is shown. The rate (steps a second) and the seconds left are None until they are known."""

    title: str
    step: int
    steps: int
    rate: float | None
    left: float | None
    elapsed: float
    ended: bool
    standings: list[Standing]


class Progress:
    """Context manager that shows the training of ``jobs``; ``update`` costs microseconds.

    A live display draws itself, twice a second; without a terminal a line is printed at the start, at most every ten
    seconds, and at the end.
    """

    def __init__(
        self,
        jobs: Sequence[Job],
        steps: int,
        title: str = "rlexp",
        *,
        console: Console | None = None,
        clock: Callable[[], float] = time.monotonic,
    ):
        """Show nothing yet."""
        self.variants, self.steps, self.title, self.clock = [job.variant for job in jobs], steps, title, clock
        self.labels = short_labels(list(dict.fromkeys(self.variants)))
        self.console = console or stderr()
        self.first = self.last = None
        self.ended = False
        self._stack = ExitStack()

    def __enter__(self) -> Progress:
        """Start the display, or print the first line."""
        self.started = self.printed = self.clock()
        if self.console.is_interactive:
            self._stack.enter_context(live(self.console, lambda: drawing(self.view())))
        else:
            self._print(f"{self.steps} steps · runs: {len(self.variants)} · variants: {len(self.labels)}")
        return self

    def update(self, step: int, alive: Sequence[bool], rewards: Sequence[float]) -> None:
        """Take note of a logged step. The sequences must not be changed afterwards."""
        logged = Logged(self.clock(), step, alive, rewards)
        self.first = self.first or logged
        self.last = logged
        if not self.console.is_interactive and logged.time - self.printed >= SECONDS_BETWEEN_LINES:
            self.printed = logged.time
            self._print(line(self.view()))

    def __exit__(self, *error: object) -> None:
        """Stop the display as it is, or print the last line."""
        self.ended = True
        self._stack.close()
        if not self.console.is_interactive:
            self._print(line(self.view()))

    def view(self) -> View:
        """Put together what is known now."""
        now = self.clock()
        last = self.last or Logged(now, 0, [True] * len(self.variants), [math.nan] * len(self.variants))
        rate = speed(self.first or last, last)
        left = None if rate is None else max(0.0, (self.steps - last.step) / rate - (now - last.time))
        runs: dict[str, list[tuple[bool, float]]] = {variant: [] for variant in self.labels}
        for variant, alive, reward in zip(self.variants, last.alive, last.rewards, strict=True):
            runs[variant].append((alive, reward))
        standings = [standing(self.labels[variant], own) for variant, own in runs.items()]
        return View(self.title, last.step, self.steps, rate, left, now - self.started, self.ended, standings)

    def _print(self, text: str) -> None:
        self.console.print(f"[{self.title}] {text}", soft_wrap=True, markup=False, highlight=False)


def stderr() -> Console:
    """Return the console of stderr; FORCE_COLOR may colour a file, but must not animate it."""
    return Console(stderr=True, force_interactive=None if sys.stderr.isatty() else False)


def speed(first: Logged, last: Logged) -> float | None:
    """Steps a second since the first logged step, which leaves out what happens only once."""
    steps, seconds = last.step - first.step, last.time - first.time
    return steps / seconds if steps > 0 and seconds > 0 else None


def standing(label: str, runs: Sequence[tuple[bool, float]]) -> Standing:
    """Sum up the runs of one variant, each (alive, reward)."""
    rewards = [reward for alive, reward in runs if alive and math.isfinite(reward)]
    return Standing(label, sum(bool(alive) for alive, _ in runs), len(runs), fmean(rewards) if rewards else math.nan)


def shown(standings: Sequence[Standing], most: int) -> tuple[Sequence[Standing], str]:
    """All variants in their order, or the best if they are many; and words for the rest."""
    if len(standings) <= most:
        return standings, ""
    best = sorted(standings, key=lambda item: (math.isnan(item.reward), -item.reward))
    return best[:most], f"and {len(best) - most} more"


def line(view: View) -> str:
    """Everything in one line of text."""
    standings, rest = shown(view.standings, MOST_IN_LINE)
    rewards = [f"{item.label} {number(item.reward)}" for item in standings]
    return f"{counts(view)} · reward {' '.join([*rewards, rest]).strip()}"


def drawing(view: View) -> Group:
    """Draw the live display: a bar and one row per variant."""
    head = Table.grid(padding=(0, 2, 0, 0))
    head.add_row(Text(view.title, style="bold"), ProgressBar(total=view.steps, completed=view.step, width=40))
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("variant", overflow="ellipsis", no_wrap=True)
    table.add_column("runs", justify="right", no_wrap=True)
    table.add_column("reward", justify="right", no_wrap=True, min_width=6)
    standings, rest = shown(view.standings, MOST_ROWS)
    for item in standings:
        table.add_row(Text(item.label), f"{item.alive}/{item.runs}", number(item.reward))
    return Group(head, Text(counts(view)), table, *([Text(rest)] if rest else []))


def counts(view: View) -> str:
    """Steps, runs, speed and time, as far as they are known."""
    alive, runs = (sum(column) for column in list(zip(*view.standings, strict=True))[1:3])
    parts = [f"step {view.step}/{view.steps}", f"{alive} of {runs} runs alive"]
    if view.rate is not None:
        parts.append(f"{view.rate:.1f} steps/s" if view.rate >= 1 else f"{1 / view.rate:.1f} s/step")
    if view.left is not None and not view.ended:
        parts.append(f"{duration(view.left)} left")
    return " · ".join([*parts, f"{duration(view.elapsed)} elapsed"])


def number(value: float) -> str:
    """Two decimals; a dash for what is not known."""
    return f"{value:.2f}" if math.isfinite(value) else "–"


def duration(seconds: float) -> str:
    """Two units at most: 9 s, 1 min 32 s, 2 h 5 min."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def short_labels(variants: Sequence[str]) -> dict[str, str]:
    """Label per variant: what all variants share is dropped, and the key too if only one is left."""
    parts = {variant: COMMA_OUTSIDE_LISTS.split(variant) for variant in variants}
    shared = set.intersection(*map(set, parts.values())) if len(parts) > 1 else set()
    own = {variant: [item for item in items if item not in shared] for variant, items in parts.items()}
    keys = {item.partition("=")[0] for items in own.values() for item in items if "=" in item}
    if len(keys) == 1:
        own = {variant: [item.partition("=")[2] or item for item in items] for variant, items in own.items()}
    return {variant: ",".join(items) or "default" for variant, items in own.items()}


@contextmanager
def live(console: Console, draw: Callable[[], Group]) -> Iterator[None]:
    """Draw below what is printed and logged meanwhile; what goes to a file or a pipe still goes there."""
    before = sys.stdout, sys.stderr
    with Live(
        console=console,
        get_renderable=draw,
        refresh_per_second=DRAWINGS_PER_SECOND,
        redirect_stdout=sys.stdout.isatty(),
        redirect_stderr=sys.stderr.isatty(),
    ) as display:
        display.refresh()
        with swapped_streams(dict(zip(map(id, before), (sys.stdout, sys.stderr), strict=True))):
            yield


@contextmanager
def swapped_streams(swap: dict[int, object]) -> Iterator[None]:
    """Point the root's log handlers, which keep the stream they were made with, to other streams for a while."""
    handlers = [item for item in logging.root.handlers if id(getattr(item, "stream", None)) in swap]
    streams = [item.stream for item in handlers]
    for handler in handlers:
        handler.setStream(swap[id(handler.stream)])
    try:
        yield
    finally:
        for handler, stream in zip(handlers, streams, strict=True):
            handler.setStream(stream)
