"""How many threads a batch is worth: tried out while it trains, because the answer changes with the neighbours.

Two threads halve the time of thirty small runs on two idle cores and multiply it by ten beside another busy process.
No result depends on the choice. For a batch of one run that takes one thread: MKL cuts a single product between threads
in a way that changes its last bit (``[6, 30]`` by ``[30, 10]``), but gives each product of a stack to one thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import torch

AVAILABLE = torch.get_num_threads()
PERIOD = 25

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
        self.clock = clock

    def run(self, step: int, function: Callable[..., Result], *arguments) -> Result:
        """Call ``function``; the first steps of each period try the choices one after another."""
        place = step % PERIOD
        number = self.choices[place] if place < len(self.choices) else min(self.seconds, key=self.seconds.get)
        torch.set_num_threads(number)
        started = self.clock()
        result = function(*arguments)
        if place < len(self.choices):
            self.seconds[number] = self.clock() - started
        return result
