"""How the program ends when something is wrong: one line, an exit code, a traceback only for those who ask."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

FAILED, BAD_INPUT, INTERRUPTED, NOBODY_READS = 1, 2, 130, 141
TRACEBACKS = os.environ.get("HYDRA_FULL_ERROR") == "1"  # read before train.main sets it for its own use


class RunFailed(Exception):
    """A run that started and did not come to its end."""


def exit_with(text: str, code: int, error: BaseException | None = None) -> None:
    """End the process with a text on stderr."""
    if error is not None and TRACEBACKS:
        traceback.print_exception(error)
    print(text, file=sys.stderr)
    raise SystemExit(code)


@contextmanager
def silent_without_reader() -> Iterator[None]:
    """End without a word where the reader of the output has left, as `rlexp explain clip | head` does."""
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what Python flushes at its end
        raise SystemExit(NOBODY_READS) from None


def describe_error(error: BaseException) -> str:
    """Return the kind and the first line of an error."""
    first = str(error).partition("\n")[0]
    if isinstance(error, RunFailed):
        return first
    return f"{type(error).__name__}: {first}" if first else type(error).__name__
