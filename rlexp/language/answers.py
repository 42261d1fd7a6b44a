r"""Whether a text gives the right answer: ``matches(text, answer)``, pure functions of what was written and is right.

Numbers are compared as exact fractions, so that 0.1 is 1/10 and nothing is rounded. They may have a sign, thousands
separators, decimals, an exponent of at most three digits, and a denominator: -1,234.50, 1/3, \frac{1}{3}, 2e-3. A dash
between two numbers is no sign: the last number of "10-3" is 3. Digits in a word, as in x2, are no number.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

UNSIGNED = r"(?:(?:[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]+)(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?"
NUMBER = re.compile(rf"(?:(?<![A-Za-z0-9_)\]}}.])[-+]|(?<![A-Za-z0-9_]))({UNSIGNED})(?:\s?/\s?({UNSIGNED}))?")
FRAC = re.compile(r"\\[dt]?frac\{([^{}]+)\}\{([^{}]+)\}")
BOX = r"\boxed{"
LONGEST = 1000  # characters of a number: Python refuses to read more than 4300 digits
HUGE = re.compile(r"[eE][-+]?[0-9]{4}")  # an exponent whose power of ten could fill the memory


def exact(text: str, answer: str) -> bool:
    return text.strip() == answer.strip()


def numeric(text: str, answer: str) -> bool:
    wanted = last_number(answer)
    return wanted is not None and last_number(text) == wanted


def boxed(text: str, answer: str) -> bool:
    r"""Whether the last ``\boxed{...}`` of a text holds the answer: the same number, or else the same characters.

    The answer may be boxed itself. Space around either is ignored.
    """
    given, wanted = last_box(text), unboxed(answer)
    if given is None:
        return False
    number = whole_number(wanted)
    return given.strip() == wanted or (number is not None and whole_number(given) == number)


def last_number_text(text: str) -> str | None:
    """Return the last number of a text as it stands there, None if there is none."""
    *_, last = [None, *NUMBER.finditer(plain(text))]
    return last and last[0]


def last_number(text: str) -> Fraction | None:
    """Return the value of the last number of a text, None if it has none."""
    return value(last_number_text(text) or "")


def whole_number(text: str) -> Fraction | None:
    """Return the value of a text that is one number and nothing else, None if it is something else."""
    return value(plain(text).strip().strip("$"))


def value(text: str) -> Fraction | None:
    """Return the value of a number as ``NUMBER`` finds it; None where there is none, or none to count with."""
    found = NUMBER.fullmatch(text)
    if found is None or len(text) > LONGEST or HUGE.search(text):
        return None
    above, below = (Fraction((part or "1").replace(",", "")) for part in found.groups())
    sign = -1 if text[0] == "-" else 1
    return sign * above / below if below else None


def plain(text: str) -> str:
    r"""Write ``\frac{1}{2}`` as 1/2 and the minus sign of Unicode as a dash."""
    return FRAC.sub(r"\1/\2", text.replace("\N{MINUS SIGN}", "-"))


def last_box(text: str) -> str | None:
    r"""Return what is in the last ``\boxed{...}`` that is closed, braces within braces included; None without one."""
    start = text.rfind(BOX)
    while start >= 0:
        inside, depth = text[start + len(BOX) :], 1
        for found in re.finditer(r"\\.|[{}]", inside, re.DOTALL):  # braces after a backslash are characters
            depth += {"{": 1, "}": -1}.get(found[0], 0)
            if depth == 0:
                return inside[: found.start()]
        start = text.rfind(BOX, 0, start)
    return None


def unboxed(answer: str) -> str:
    """Return what is in the box of an answer, the whole answer where it has none."""
    inside = last_box(answer)
    return (answer if inside is None else inside).strip()


def altered(answer: str) -> str | None:
    """Return an answer of the same form that reads otherwise: its last digit, or else letter, is the next one."""
    for kind, symbols in (("[0-9]", "0123456789"), ("[a-z]", "abcdefghijklmnopqrstuvwxyz")):
        *_, last = [None, *re.finditer(kind, answer)]
        if last:
            other = symbols[(symbols.index(last[0]) + 1) % len(symbols)]
            return answer[: last.start()] + other + answer[last.end() :]
    return None


class Match(NamedTuple):
    """A way to compare: whether a text ``matches`` an answer, what is right of it alone, how that is to be written."""

    matches: Callable[[str, str], bool]
    shortest: Callable[[str], str]
    written: str = "{}"


MATCHES = {
    "exact": Match(exact, str.strip),
    "numeric": Match(numeric, last_number_text),
    "boxed": Match(boxed, unboxed, r"\boxed{{{}}}"),
}
