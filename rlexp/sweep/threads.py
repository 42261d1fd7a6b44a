"""How many threads a batch is worth: tried out while it trains, because the answer changes with the neighbours.

Two threads halve the time of thirty small runs on two idle cores and multiply it by ten beside another busy process.
A number that was that slow is not tried again soon: trials cost at most ``TOLERATED`` of the time.
No result depends on the choice; a batch of one run takes one thread, for the reason in ``core.exact``.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import torch

from rlexp.sweep.machine import usable_cores

AVAILABLE = min(torch.get_num_threads(), usable_cores())
PERIOD, TOLERATED = 25, 0.02

Result = TypeVar("Result")


def limit(cores: int) -> None:
    """Try out no more threads than these from now on: a worker shares its machine."""
    global AVAILABLE
    AVAILABLE = cores


class Threads:
    """Runs the steps of ``replicas`` runs with ``fixed`` threads, or with as many as were fastest when last tried."""

    def __init__(self, replicas: int, fixed: int | None, clock: Callable[[], float] = time.perf_counter):
        powers = [2**k for k in range(AVAILABLE.bit_length()) if 2**k < AVAILABLE]
        several = [fixed] if fixed else [*powers, AVAILABLE]
        self.choices = several if replicas > 1 else [1]
        self.seconds = dict.fromkeys(self.choices, 0.0)
        self.due: dict[int, int] = {}
        self.clock = clock

    def run(self, step: int, function: Callable[..., Result], *arguments) -> Result:
        """Call ``function``; the first steps of each period try those choices one after another that are due."""
        number, trial = self.choice(step)
        torch.set_num_threads(number)
        started = self.clock()
        result = function(*arguments)
        if trial:
            self.seconds[number] = self.clock() - started
            self.due[number] = step + self.rest(number)
        return result

    def choice(self, step: int) -> tuple[int, bool]:
        """Return how many threads a step takes, and whether that is a trial."""
        place = step % PERIOD
        if place < len(self.choices) and self.due.get(self.choices[place], 0) <= step:
            return self.choices[place], True
        return min(self.seconds, key=self.seconds.get), False

    def rest(self, number: int) -> int:
        """For how many steps a choice is not tried again: as many as make up for what its trial lost."""
        best = min((seconds for seconds in self.seconds.values() if seconds), default=0.0)
        return int((self.seconds[number] / best - 1) / TOLERATED) if best else 0
