"""The errors of this package, the parser of its commands, and how they end: in one line."""

import argparse
import codecs
import functools
import os
import re
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

LONGEST_VALUE, LONGEST_WORD = 200, 500  # characters of what was typed, and of any word, that a message repeats
NOBODY_READS = 141  # as of a program that SIGPIPE ends


PLAIN = dict(zip("−–—─·“”’≤≥×→…", ("-", "-", "-", "-", "|", '"', '"', "'", "<=", ">=", "x", "->", "..."), strict=True))
PLAIN |= {"±": "+/-"}


class AnalysisError(ValueError):
    """A question that cannot be answered; its message is one line for the user."""


class NothingLeft(AnalysisError):
    """A condition that no run meets."""


def printable(text: str) -> str:
    """The text with control characters, lone surrogates and direction marks as their codes."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else f"\\u{ord(c):04x}" for c in text)


class CommandParser(argparse.ArgumentParser):
    """A parser that ends wrong arguments with one line and exit code 2, without the whole usage."""

    def error(self, message: str) -> NoReturn:
        """End the process."""
        self.exit(2, f"error: {shortened(message)} ({self.prog} --help)\n")


def plain_letters() -> None:
    """Let what is printed be read where the terminal has fewer letters (LANG=C): −0.01 as -0.01, others as codes."""
    codecs.register_error("plain", _plain)
    for stream in (sys.stdout, sys.stderr):
        if not str(getattr(stream, "encoding", "utf-8")).lower().startswith("utf"):
            with suppress(AttributeError, OSError, ValueError):
                stream.reconfigure(errors="plain")


def _plain(error: UnicodeError) -> tuple[str | bytes, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    letters = error.object[error.start : error.end]
    return "".join(PLAIN.get(c) or c.encode("unicode_escape").decode() for c in letters), error.end


def ends_in_a_line(main: Callable[..., int]) -> Callable[..., int]:
    """Let a command end in one line, whatever goes wrong; HYDRA_FULL_ERROR=1 shows where it did.

    2: what was asked cannot be answered, or the output cannot be written; 141: nobody reads the output any more.
    """

    @functools.wraps(main)
    def command(*arguments: object) -> int:
        plain_letters()
        try:
            code = main(*arguments)
            sys.stdout.flush()
            return code
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what Python flushes at its end
            return NOBODY_READS
        except Exception as error:
            if os.environ.get("HYDRA_FULL_ERROR") == "1":
                traceback.print_exception(error)
            print(printable(f"error: {shortened(in_a_line(error))}"), file=sys.stderr)
            if isinstance(error, OSError) and not error.filename:  # the output itself: Python would try it once more
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 2

    return command


def shortened(text: str) -> str:
    """The text without the middle of what was typed and is long, and of other long words."""
    for typed in sorted(sys.argv[1:], key=len, reverse=True):
        for value in (typed, typed.partition("=")[2]):
            text = text.replace(value, _ends(value)) if len(value) > LONGEST_VALUE else text
    return re.sub(rf"\S{{{LONGEST_WORD},}}", lambda word: _ends(word[0]), text)


def _ends(value: str) -> str:
    return f"{value[:90]}…[{len(value) - 120} more characters]…{value[-30:]}"


def in_a_line(error: Exception) -> str:
    """What is wrong, in one line: as it is said, or of what nobody has foreseen the kind too."""
    if isinstance(error, AnalysisError):
        return str(error)
    if isinstance(error, OSError):
        return f"cannot write to '{error.filename or 'the output'}': {error.strerror or error}"
    text = " ".join(str(error).split())[:300]
    return f"{type(error).__name__}: {text} (HYDRA_FULL_ERROR=1 shows where)"
