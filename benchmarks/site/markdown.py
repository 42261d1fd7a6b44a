"""Markdown as GitHub reads it, for Python-Markdown: headings, links, lists, and long pages cut in pieces."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})")
HEADING = re.compile(r"^(#{1,6}) +(.*?)\s*$")
ANCHOR = re.compile(r'<a id="([^"]+)"></a>')
LINK = re.compile(r'(?<=\]\()(?P<inline>[^()\s]+)(?=(?: "[^"]*")?\))|(?<= src=")(?P<image>[^"]+)(?=")')
CODE = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)")
ITEM = re.compile(r"^( *)([-*+]|\d+[.)]) +")


def slug(heading: str, separator: str = "-") -> str:
    """Return the anchor that GitHub gives a heading.

    Args:
        heading: The heading's text, with or without marks of Markdown.
        separator: What a space becomes.

    Returns:
        The text in lower case without punctuation: ``norm: local`` becomes ``norm-local``.
    """
    shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w\- ]", "", shown.strip().lower()).replace(" ", separator)


def lines_of(text: str) -> Iterator[tuple[str, bool]]:
    """Yield each line of a page, and whether it is part of a block of code."""
    fence = ""
    for line in text.splitlines():
        mark = FENCE.match(line)
        if mark and not fence:
            fence = mark[1]
            yield line, True
        elif fence:
            yield line, True
            if mark and mark[1].startswith(fence) and line.strip() == mark[1]:
                fence = ""
        else:
            yield line, False


def headings(text: str) -> Iterator[tuple[int, str]]:
    """Yield level and text of each heading of a page."""
    for line, code in lines_of(text):
        found = None if code else HEADING.match(line)
        if found:
            yield len(found[1]), found[2]


def title(text: str) -> str:
    """Return the first heading of a page without marks of code; an empty text if there is none."""
    return next((heading.replace("`", "") for _, heading in headings(text)), "")


def anchors(text: str) -> set[str]:
    """Return what a link into a page may name after ``#``."""
    found = {slug(heading) for _, heading in headings(text)}
    return found | {name for line, code in lines_of(text) if not code for name in ANCHOR.findall(line)}


def relink(text: str, target: Callable[[str], str]) -> str:
    """Return a page with another target for each link and image that is not in code."""

    def outside_code(line: str) -> str:
        codes = [found.span() for found in CODE.finditer(line)]

        def one(found: re.Match) -> str:
            inside = any(start <= found.start() and found.end() <= end for start, end in codes)
            return found[0] if inside else target(found[0])

        return LINK.sub(one, line)

    return "\n".join(line if code else outside_code(line) for line, code in lines_of(text)) + "\n"


def for_python_markdown(text: str) -> str:
    """Return a page as Python-Markdown wants it: an empty line before each list, four spaces a level."""
    lines: list[str] = []
    before, in_list = "", False
    for line, code in lines_of(text):
        item = None if code else ITEM.match(line)
        if item and not in_list and before.strip() and not before.startswith("#"):
            lines.append("")
        if item:
            in_list = True
        elif not code and line.strip() and not line.startswith(" ") and not before.strip():
            in_list = False
        indent = len(line) - len(line.lstrip(" "))
        if in_list and not code and indent:
            line = " " * (4 * ((indent + 1) // 2)) + line.lstrip(" ") if indent < 4 else line
        lines.append(line)
        before = line
    return "\n".join(lines) + "\n"


class Piece(NamedTuple):
    """A section of a long page as a page of its own: its name, its text, and the anchors that lead to its top."""

    name: str
    text: str
    tops: set[str]


def pieces(text: str) -> tuple[str, list[Piece]]:
    """Cut a page at its headings of the second level.

    Args:
        text: The page.

    Returns:
        What comes before the first of them, and a piece for each, with headings one level up.
    """
    parts: list[list[str]] = [[]]
    for line, code in lines_of(text):
        if not code and line.startswith("## "):
            lead = [parts[-1].pop()] if parts[-1] and ANCHOR.fullmatch(parts[-1][-1]) else []
            parts.append([*lead, line])
        else:
            parts[-1].append(line)
    return "\n".join(parts[0]) + "\n", [piece(part) for part in parts[1:]]


def piece(lines: list[str]) -> Piece:
    """Return the page of one section, whose first lines are its heading and perhaps an anchor before it."""
    named = ANCHOR.fullmatch(lines[0])
    body = lines[1:] if named else lines
    heading = body[0].removeprefix("## ")
    name = named[1] if named else slug(re.split(r"[.:]", heading)[0])
    tops = {slug(heading), *([named[1]] if named else [])}
    raised = [line[1:] if not code and HEADING.match(line) else line for line, code in lines_of("\n".join(body))]
    return Piece(name, "\n".join(raised) + "\n", tops)
