"""The errors of this package, the parser of its commands, and how they end: in one line."""

import argparse
import codecs
import functools
import os
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

from rlexp.core.exits import BROKEN_PIPE, drop_output, shortened

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
    """A parser that ends wrong arguments with one line and exit code 2, without the whole usage.

    examples: lines below the options, as they are.
    """

    def __init__(self, prog: str, description: str, examples: str = "") -> None:
        layout = argparse.RawDescriptionHelpFormatter if examples else argparse.HelpFormatter
        super().__init__(prog, description=description, epilog=examples, formatter_class=layout)

    def error(self, message: str) -> NoReturn:
        """End the process."""
        self.exit(2, f"error: {shortened(message, sys.argv[1:])} ({self.prog} --help)\n")


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
            drop_output()
            return BROKEN_PIPE
        except Exception as error:
            if os.environ.get("HYDRA_FULL_ERROR") == "1":
                traceback.print_exception(error)
            print(printable(f"error: {shortened(in_a_line(error), sys.argv[1:])}"), file=sys.stderr)
            if isinstance(error, OSError) and not error.filename:  # the output itself: Python would try it once more
                drop_output()
            return 2

    return command


def in_a_line(error: Exception) -> str:
    """Describe an error in one line: its message, with its type where it is none of ours."""
    if isinstance(error, AnalysisError):
        return str(error)
    if isinstance(error, OSError):
        return f"cannot write to '{error.filename or 'the output'}': {error.strerror or error}"
    text = " ".join(str(error).split())[:300]
    return f"{type(error).__name__}: {text} (HYDRA_FULL_ERROR=1 shows where)"
