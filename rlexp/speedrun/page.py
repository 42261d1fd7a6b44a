"""The tables of docs/speedrun.md, made of the records."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from rlexp.core.exits import RunFailed
from rlexp.record.disk.durable import replace
from rlexp.speedrun.records import FOLDER, Record, records_of
from rlexp.speedrun.verdict import Completions, typical
from rlexp.speedrun.worlds import WORLDS, World

PAGE = FOLDER.parents[1] / "speedrun.md"
BEGIN, END = "<!-- records: written by rlexp speedrun --table -->\n", "<!-- end of the records -->\n"
COLUMNS = ("record", "completions: median (smallest to largest)", "arrived")
COLUMNS += ("before, on these seeds", "p", "recipe", "set")


def tables(folder: Path) -> str:
    """Return a table of records for each world, as Markdown; RunFailed where a record is not right."""
    return "\n".join("\n".join(table(world, records_of(world, folder))) + "\n" for world in WORLDS.values())


def table(world: World, records: Sequence[Record]) -> Iterator[str]:
    """Yield the lines about a world and its records, oldest first."""
    yield f"### `{world.name}`"
    yield ""
    yield f"{world.what[0].upper()}{world.what[1:]}. Learned when `{world.metric}` is at least {world.target:g}."
    yield ""
    if not records:
        yield "No record yet."
        return
    yield f"| {' | '.join(COLUMNS)} |"
    yield f"|{'---|' * len(COLUMNS)}"
    for record in records:
        before = "" if record.before_completions is None else middle(record.before_completions)
        cells = [record.name, spread(record.completions), arrived(record.completions), before]
        cells += ["" if record.p is None else f"{record.p:.2g}", f"`{record.text}`", record.date]
        yield f"| {' | '.join(cells)} |"


def middle(completions: Completions) -> str:
    """The median over seeds: `23,040`."""
    found = typical(completions)
    return "never" if found is None else f"{found:,.0f}"


def spread(completions: Completions) -> str:
    """The median over seeds and between which numbers they are: `23,040 (19,200 to never)`."""
    known = sorted(number for number in completions if number is not None)
    largest = f"{known[-1]:,}" if len(known) == len(completions) else "never"
    return f"{middle(completions)} ({known[0]:,} to {largest})" if known else "never"


def arrived(completions: Completions) -> str:
    """How many runs arrive: `9/10`."""
    return f"{sum(number is not None for number in completions)}/{len(completions)}"


def rewrite(page: Path = PAGE, folder: Path = FOLDER) -> None:
    """Put the tables into the page, between its two comments; RunFailed if these are not there."""
    try:
        text = page.read_text(encoding="utf-8")
    except OSError as error:
        raise RunFailed(f"{page}: {error.strerror or error}") from None
    if BEGIN not in text or END not in text:
        raise RunFailed(f"{page}: has no place for the records, between {BEGIN.strip()} and {END.strip()}")
    replace(page, re.sub(f"{re.escape(BEGIN)}.*{re.escape(END)}", lambda _: filled(folder), text, flags=re.DOTALL))


def filled(folder: Path = FOLDER) -> str:
    """Return what stands between the two comments, and these."""
    return f"{BEGIN}\n{tables(folder)}\n{END}"
