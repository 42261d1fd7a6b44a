"""How the program ends when something is wrong: one line, an exit code, a traceback only for those who ask."""

from __future__ import annotations

import os
import re
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

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
    """Return the kind and the first line of an error."""
    first = str(error).partition("\n")[0]
    if isinstance(error, RunFailed):
        return first
    return f"{type(error).__name__}: {first}" if first else type(error).__name__
