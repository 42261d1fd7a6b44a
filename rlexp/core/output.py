"""Output that stops nothing: where nobody reads it, or no more of it fits, it ends, and the program goes on."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any


class SafeStream:
    """A text stream whose first failure is its end; what is written afterwards goes nowhere."""

    def __init__(self, stream: Any):
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._stream, name)
        return partial(self._try, attribute) if name in ("write", "writelines", "flush") else attribute

    def _try(self, function: Callable, *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except BlockingIOError:  # another program has made this terminal one that does not wait
            return None
        except OSError as error:
            with suppress(OSError, ValueError):  # what the stream still holds, and others write to its file: too
                void = os.open(os.devnull, os.O_WRONLY)
                os.dup2(void, self._stream.fileno())
                os.close(void)
            if not isinstance(error, BrokenPipeError):
                print(f"note: no more can be printed ({error.strerror}); everything else goes on", file=sys.stderr)


@contextmanager
def safe_stdio() -> Iterator[None]:
    """Context in which nothing that is printed can end the program."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:  # closed: else the next file that is opened would be taken for it
            os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))
    before = sys.stdout, sys.stderr
    for stream in before:
        with suppress(AttributeError, OSError, ValueError):
            stream.reconfigure(errors="backslashreplace")  # where there are no such letters, as with LANG=C
    sys.stdout, sys.stderr = map(SafeStream, before)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        sys.stdout, sys.stderr = before
