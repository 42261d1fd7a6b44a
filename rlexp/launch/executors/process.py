"""What one of the processes does: train the batches that it is sent, until there are no more or it is told to stop."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any

from rlexp.core.exits import INTERRUPTED
from rlexp.launch.worker import train_in_worker
from rlexp.sweep.job import Job

STOP = "stop"


class Report:
    """Takes the place of the display of some jobs: hands on what it would show."""

    def __init__(self, connection: Connection, jobs: Sequence[Job]):
        self.connection, self.numbers = connection, [job.number for job in jobs]

    def __enter__(self) -> Report:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def update(self, step: int, alive: Sequence[bool], rewards: Sequence[float]) -> None:
        """Send a logged step."""
        send(self.connection, "progress", self.numbers, step, alive, rewards)


def work(connection: Connection, outputs: Sequence[Connection], cores: int) -> None:
    """Train batches with so many cores, until there are no more. A Ctrl-C is the parent's, which then says STOP."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    for number, output in enumerate(outputs, 1):
        os.dup2(output.fileno(), number)
        output.close()
    batches: SimpleQueue = SimpleQueue()
    try:
        threading.Thread(target=listen, args=(connection, batches), daemon=True).start()
        while batch := batches.get():
            results = train_in_worker(batch, cores, lambda jobs, steps, title: Report(connection, jobs))
            send(connection, "results", results)
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None


def listen(connection: Connection, batches: SimpleQueue) -> None:
    """Pass batches on. STOP, or the end of the parent, is for the runs what a Ctrl-C is: they save and stop."""
    told = False
    try:
        while message := connection.recv():
            if message == STOP:
                told = True
                interrupt_main_thread()
            else:
                batches.put(message)
    except (EOFError, OSError):
        if not told:
            interrupt_main_thread()
    finally:
        batches.put(None)


def interrupt_main_thread() -> None:
    """Send a SIGTERM to the thread that trains: the first lets it save, a second is a KeyboardInterrupt."""
    signal.pthread_kill(threading.main_thread().ident, signal.SIGTERM)


def send(connection: Connection, *message: Any) -> None:
    """Send something; if there is nobody to read it any more, ``listen`` knows."""
    with suppress(OSError):
        connection.send(message)
