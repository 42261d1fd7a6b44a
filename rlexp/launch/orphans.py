"""A worker whose sweep has ended without it, killed or lost with its machine, saves what it trains and ends too.

Whoever has started the sweep holds the lock of its folder, and its text names one process at one time: workers on any
machine that shares the folder look there now and then.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rlexp.core.exits import INTERRUPTED
from rlexp.record import lock
from rlexp.sweep.job import Batch

SECONDS_TO_SAVE = 10.0  # of who is told to stop; then nothing is waited for
SECONDS_BETWEEN_LOOKS, LOOKS = 1.0, 3  # a shared folder may show a new lock late


@contextmanager
def parent_watchdog(batch: Batch) -> Iterator[None]:
    """Context that a Ctrl-C ends when nobody holds the sweep's lock any more, or another process does."""
    if batch.sweep is None:
        yield
        return
    if is_orphan(batch):
        raise KeyboardInterrupt
    ended = threading.Event()
    threading.Thread(target=watch, args=(batch, ended), daemon=True).start()
    try:
        yield
    finally:
        ended.set()


def watch(batch: Batch, ended: threading.Event) -> None:
    """Look after the sweep until the batch has ended."""
    while not ended.wait(SECONDS_BETWEEN_LOOKS):
        if is_orphan(batch):
            return interrupt_main_thread(signal.SIGINT, ended)


def is_orphan(batch: Batch) -> bool:
    """Whether the process that started a batch has ended: repeatedly nobody held the lock, or somebody else did."""
    for look in range(LOOKS):
        if lock.text(batch.sweep) == batch.owner and lock.is_held(batch.sweep, unsure=True):
            return False
        if look + 1 < LOOKS:
            time.sleep(SECONDS_BETWEEN_LOOKS)
    return True


def interrupt_main_thread(number: int, ended: threading.Event) -> None:
    """Send the thread that trains a signal: a first lets it save. Who has not ended in time is ended."""
    signal.pthread_kill(threading.main_thread().ident, number)
    if not ended.wait(SECONDS_TO_SAVE):
        os._exit(INTERRUPTED)
