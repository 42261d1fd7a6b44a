"""What the program prints and how it ends: one line, an exit code, a traceback only for those who ask.

Output stops nothing: where nobody reads it, or no more of it fits, it ends, and the program goes on.
"""

from __future__ import annotations

import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, NoReturn


def format_value(value: Any) -> str:
    """Return a value as one types it on the command line."""
    if isinstance(value, list | tuple):
        return f"[{','.join(map(format_value, value))}]"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return f"{value:g}" if isinstance(value, float) and value.is_integer() else str(value)


FAILED, BAD_INPUT, INTERRUPTED, BROKEN_PIPE = 1, 2, 130, 141
LONGEST_VALUE, LONGEST_WORD = 200, 500  # characters of what was typed, and of any word, that a message repeats
TRACEBACKS = os.environ.get("HYDRA_FULL_ERROR") == "1"  # read before train.main sets it for its own use


class RunFailed(Exception):
    """A run that started and did not come to its end."""


def exit_with(text: str, code: int, error: BaseException | None = None) -> NoReturn:
    """End the process with a text on stderr, in which long values are cut; not those of a command to go on with."""
    if error is not None and TRACEBACKS:
        traceback.print_exception(error)
    print(printable(text if code == INTERRUPTED else shortened(text, sys.argv[1:])), file=sys.stderr)
    raise SystemExit(code)


def relative(folder: str | Path) -> str:
    """Return a path relative to the current folder if it is below it, else as it is; nothing a terminal would obey."""
    folder = Path(folder)
    return printable(str(folder.relative_to(Path.cwd()) if folder.is_relative_to(Path.cwd()) else folder))


def shortened(text: str, typed: Sequence[str] = ()) -> str:
    """Return a text without the middle of its long words, and of what was typed and is long, with or without spaces."""
    values = [word.partition("=")[2] for word in typed]
    for value in sorted({*typed, *values, *(value.strip("'\"") for value in values)}, key=len, reverse=True):
        if len(value) > LONGEST_VALUE:
            text = text.replace(value, ends_of(value))
    return re.sub(rf"\S{{{LONGEST_WORD},}}", lambda word: ends_of(word[0]), text)


def ends_of(value: str) -> str:
    """`aaaa…[2880 more characters]…aaaa`."""
    return f"{value[:90]}…[{len(value) - 120} more characters]…{value[-30:]}"


def printable(text: str) -> str:
    """Return a text with its lines as they are, and what a terminal would obey or break a line at as its code."""
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)


@contextmanager
def silent_without_reader() -> Iterator[None]:
    """End without a word where the reader of the output has left, as `rlexp explain clip | head` does.

    Where the output cannot be written, as to a full disk, say so in a line.
    """
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        drop_output()
        raise SystemExit(BROKEN_PIPE) from None
    except OSError as error:
        if error.filename:  # of a file: whoever wrote it knows more
            raise
        drop_output()
        exit_with(f"cannot write the output: {error.strerror or error}", FAILED, error)


def drop_output() -> None:
    """Let what is printed from here on, and what Python flushes at its end, go nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def describe_error(error: BaseException) -> str:
    first = str(error).partition("\n")[0]
    if isinstance(error, RunFailed):
        return first
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


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
