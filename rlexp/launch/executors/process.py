"""What one of the processes does: train the batches that it is sent, until there are no more or it is told to stop."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any

from rlexp.core.exits import INTERRUPTED
from rlexp.launch.orphans import SECONDS_TO_SAVE, interrupt_main_thread
from rlexp.launch.worker import train_in_worker
from rlexp.sweep.interrupt import SIGNALS, end_undisturbed
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


def work(connection: Connection, outputs: Sequence[Connection], cores: int, gpu: str | None = None) -> None:
    """Train batches with so many cores, and with one CUDA device if it is named, until there are no more.

    A Ctrl-C and the end of a terminal are the parent's, which then says STOP.
    """
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if gpu is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = gpu
    for number, output in enumerate(outputs, 1):
        os.dup2(output.fileno(), number)
        output.close()
    batches: SimpleQueue = SimpleQueue()
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        threading.Thread(target=listen, args=(connection, batches), daemon=True).start()
        while batch := batches.get():
            results = train_in_worker(batch, cores, lambda jobs, steps, title: Report(connection, jobs))
            send(connection, "results", results)
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None
    finally:
        end_undisturbed()


def listen(connection: Connection, batches: SimpleQueue) -> None:
    """Pass batches on. STOP, or the end of the parent, is for the runs what a Ctrl-C is: they save and stop.

    Nobody waits for a process without parent: that ends soon, saved or not.
    """
    told = False
    try:
        while message := connection.recv():
            if message == STOP:
                told = True
                signal.pthread_kill(threading.main_thread().ident, signal.SIGTERM)
            else:
                batches.put(message)
    except (EOFError, OSError):
        batches.put(None)
        end_without_parent(told)
    finally:
        batches.put(None)


def end_without_parent(told: bool) -> None:
    """Let the runs save, once, and end this process."""
    if told:
        time.sleep(SECONDS_TO_SAVE)
        os._exit(INTERRUPTED)
    interrupt_main_thread(signal.SIGTERM, threading.Event())


def send(connection: Connection, *message: Any) -> None:
    """Send something; if there is nobody to read it any more, ``listen`` knows."""
    with suppress(OSError):
        connection.send(message)
