"""Stopping a run that takes minutes: Ctrl-C, and what else ends a process, with everything saved."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

ENDING = (signal.SIGTERM, signal.SIGHUP)  # the second is of a terminal that closes, a connection that breaks
SIGNALS = (signal.SIGINT, *ENDING)


def in_main_thread() -> bool:
    """Whether this is the thread that signals reach, and the only one that may set their handlers."""
    return threading.current_thread() is threading.main_thread()


@contextmanager
def signals_as_ctrl_c() -> Iterator[None]:
    """Context in which SIGTERM and SIGHUP raise KeyboardInterrupt, as Ctrl-C does: then all is recorded that has to be.

    One that this process is to ignore, as ``nohup`` wants of SIGHUP, stays ignored.
    """
    before = {number: signal.getsignal(number) for number in SIGNALS} if in_main_thread() else {}
    for number in ENDING:
        if before.get(number, signal.SIG_IGN) is not signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def end_undisturbed() -> None:
    """Ignore further signals, until the end of ``signals_as_ctrl_c`` if it is within: nothing is left but to end."""
    if in_main_thread():
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)


class Interrupt:
    """Context in which a first Ctrl-C, SIGTERM or SIGHUP only sets ``requested``; a second does what it always does.

    A second of another kind is another first one, as who ends a session sends one of each at once. Signals reach the
    main thread only; elsewhere nothing changes. One that this process is to ignore stays ignored.
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
        """Handle a first signal, and put the handler back that was there before."""
        self.requested = True
        signal.signal(number, self.handlers.pop(number))
