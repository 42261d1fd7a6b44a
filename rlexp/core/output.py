"""Output that stops nothing: where nobody reads it, or no more of it fits, it ends, and the program goes on."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any


class Unstoppable:
    """A text stream whose first failure is its end; what is written afterwards goes nowhere."""

    def __init__(self, stream: Any):
        self._stream = stream

    def write(self, text: str) -> int:
        """Write text, or drop it."""
        self._try(self._stream.write, text)
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write lines, or drop them."""
        self._try(self._stream.writelines, lines)

    def flush(self) -> None:
        """Pass on what was written, or drop it."""
        self._try(self._stream.flush)

    def _try(self, function: Callable, *arguments: Any) -> None:
        try:
            function(*arguments)
        except BlockingIOError:  # another program has made this terminal one that does not wait
            pass
        except OSError as error:
            to_nowhere(self._stream)
            if not isinstance(error, BrokenPipeError):
                print(f"note: no more can be printed ({error.strerror}); everything else goes on", file=sys.stderr)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def to_nowhere(stream: Any) -> None:
    """Let a stream, and whatever else writes to its file, write into the void: what it still holds fails no more."""
    with suppress(OSError, ValueError):
        void = os.open(os.devnull, os.O_WRONLY)
        os.dup2(void, stream.fileno())
        os.close(void)


def open_standard_files() -> None:
    """Open those of the standard files that are closed: else the next file that is opened would be taken for one."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))


@contextmanager
def unstoppable_output() -> Iterator[None]:
    """Context in which nothing that is printed can end the program."""
    open_standard_files()
    before = sys.stdout, sys.stderr
    for stream in before:
        with suppress(AttributeError, OSError, ValueError):
            stream.reconfigure(errors="backslashreplace")  # where there are no such letters, as with LANG=C
    sys.stdout, sys.stderr = map(Unstoppable, before)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        sys.stdout, sys.stderr = before
