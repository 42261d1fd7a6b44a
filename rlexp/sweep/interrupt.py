"""Stopping a run that takes minutes: the clock that goes on after a pause, and Ctrl-C with everything saved."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Clock:
    """Seconds of training, those before an interruption included."""

    def __init__(self, before: float):
        self.started = time.perf_counter() - before

    def elapsed(self) -> float:
        """Return the seconds until now."""
        return time.perf_counter() - self.started


def in_main_thread() -> bool:
    """Whether this is the thread that signals reach, and the only one that may set their handlers."""
    return threading.current_thread() is threading.main_thread()


@contextmanager
def sigterm_as_ctrl_c() -> Iterator[None]:
    """Context in which a SIGTERM raises KeyboardInterrupt: a process that has started others must stop them first."""
    if not in_main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class Interrupt:
    """Context in which a first Ctrl-C or SIGTERM only sets ``requested``, and a second one does what it always does.

    Signals reach the main thread only; elsewhere nothing changes. One that this process is to ignore stays ignored.
    """

    def __init__(self):
        self.requested = False
        self.handlers: dict[int, object] = {}

    def __enter__(self) -> Interrupt:
        if in_main_thread():
            handled = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
            self.handlers = {number: signal.signal(number, self.request) for number in handled}
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self.handlers.items():
            signal.signal(number, handler)

    def request(self, number: int, frame: FrameType | None) -> None:
        """Handle a first signal, and put the handlers back that were there before."""
        self.requested = True
        self.__exit__()
