"""The tables of docs/speedrun.md, made of the records."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

from rlexp.core.exits import RunFailed, printable
from rlexp.record.disk import replace
from rlexp.speedrun.race import machine
from rlexp.speedrun.recipe import WORLDS, World
from rlexp.speedrun.records import FOLDER, Completions, Record, median_completions, records_of

PAGE = FOLDER.parents[1] / "speedrun.md"
BEGIN, END = "<!-- records: written by rlexp speedrun --table -->\n", "<!-- end of the records -->\n"
COLUMNS = ("record", "completions: median (smallest to largest)", "arrived", "beats", "which takes, on these seeds")
COLUMNS += ("p", "recipe", "set", "second draws")


def tables(folder: Path) -> str:
    """Return a table of records for each world, as Markdown; RunFailed where a record is not right."""
    return "\n".join("\n".join(table(world, records_of(world, folder))) + "\n" for world in WORLDS.values())


def table(world: World, records: Sequence[Record]) -> Iterator[str]:
    """Yield the lines about a world and its records, oldest first."""
    yield from (f"### `{world.name}`", "")
    yield f"{world.what[0].upper()}{world.what[1:]}. Learned when `{world.metric}` is at least {world.target:g}."
    yield ""
    confirmed = [record for record in records if record.comparison.beats]
    yield from rows(confirmed, records) if confirmed else ["No record yet."]
    if others := [record for record in records if not record.comparison.beats]:
        yield from ("", "Not confirmed, and so no records:", "", *rows(others, records))


def rows(shown: Sequence[Record], records: Sequence[Record]) -> Iterator[str]:
    """Yield a table of some of the records of a world."""
    names = {record.mark: record.name for record in records}
    yield f"| {' | '.join(COLUMNS)} |"
    yield f"|{'---|' * len(COLUMNS)}"
    for record in shown:
        drawn = record.is_drawn
        ours, theirs = record.second if drawn else (record.completions, record.before_completions)
        p = record.comparison.p if drawn else record.p
        cells = [record.name, spread(ours), arrived(ours), names.get(record.after, "")]
        cells += ["" if theirs is None else middle(theirs), "" if p is None else f"{p:.2g}"]
        cells += [f"`{record.text}`", record.date, second_draws(record)]
        yield f"| {' | '.join(printable(' '.join(cell.split())).replace('|', '&#124;') for cell in cells)} |"


def second_draws(record: Record) -> str:
    """By whom, when and where: `the maintainers, 2026-07-31, AMD EPYC 7763 (AVX2, MKL_CBWR=AUTO,STRICT)`."""
    ended = ((draw, machine(draw.build) if draw.build else "not trained") for draw in record.draws)
    said = [f"{escape(draw.by)}, {draw.date}, {where}" for draw, where in ended]
    return "; ".join(said) or "none: the numbers are those of the submission"


def middle(completions: Completions) -> str:
    """The median over seeds: `23,040`."""
    found = median_completions(completions)
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
    text = page.read_text(encoding="utf-8")
    if BEGIN not in text or END not in text:
        raise RunFailed(f"{page}: has no place for the records, between {BEGIN.strip()} and {END.strip()}")
    replace(page, re.sub(f"{re.escape(BEGIN)}.*{re.escape(END)}", lambda _: filled(folder), text, flags=re.DOTALL))


def filled(folder: Path = FOLDER) -> str:
    """Return what stands between the two comments, and these."""
    return f"{BEGIN}\n{tables(folder)}\n{END}"
