"""The records: a JSON file each, `sort-2.json`, which names the one that it beats by its fingerprint; and their tables.

A file is a candidate until somebody else has made a second draw, which is kept in it; a record then. What can be
checked without training is checked whenever they are read: that there is no gap, that each follows one that is there
as it is now, that all seeds are those that they had to be, and that each p comes out of its numbers.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from html import escape
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from pydantic import ConfigDict, TypeAdapter, ValidationError

from rlexp.config.trust import steps
from rlexp.core.errors import ConfigError, problem_lines
from rlexp.core.exits import RunFailed, printable
from rlexp.record import provenance
from rlexp.record.disk import replace
from rlexp.speedrun.recipe import WORLDS, World, find_world, text_of

PAGE = provenance.ROOT / "docs" / "speedrun.md"
FOLDER = PAGE.with_suffix("") / "records"
BEGIN, END = "<!-- records: written by rlexp speedrun --table -->\n", "<!-- end of the records -->\n"
COLUMNS = ("record", "completions: median (smallest to largest)", "arrived", "beats", "which takes, on these seeds")
COLUMNS += ("p", "recipe", "set", "second draws")
FORMAT = 1
MARKUP = re.compile(r"[`|<]")
SEEDS = 10
LEVEL = 0.01  # a record beats the one before with a p below it
BUILD = ("version", "commit", *provenance.BITS_DEPEND_ON)

Completions = Sequence[int | None]
"""Completions until a world was learned, by seed; None for a run that never got there."""


class Comparison(NamedTuple):
    """Whether one recipe beats another. ``p`` is two-sided; None of a first record, which has nobody to beat."""

    beats: bool
    p: float | None


@dataclass(frozen=True, kw_only=True)
class Draw:
    """A recipe and that of the record before on the same seeds; None for what a first record has not before it."""

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)
    date: str  # when it was made, as 2026-07-31
    seeds: list[int]
    completions: list[int | None]
    rows: list[str]  # fingerprints of what its runs logged, without the clock
    before_completions: list[int | None] | None
    before_rows: list[str] | None
    p: float | None
    build: dict[str, Any]  # the code, the processor and the settings that trained it


@dataclass(frozen=True, kw_only=True)
class SecondDraw(Draw):
    """Numbers on seeds that nobody could know when the recipe was submitted; without any while it is being trained."""

    by: str
    entropy: str  # by chance, in hexadecimal digits; with the submission and the draws before it gives the seeds


@dataclass(frozen=True, kw_only=True)
class Record(Draw):
    """A submission with its own numbers, and all second draws that were made of it."""

    format: int
    world: str
    number: int
    recipe: list[str]  # its overrides
    changes: dict[str, Any]  # what these change of the world's configuration
    after: str | None  # the mark of the record that it beats; None where there was none
    config: dict[str, Any]  # all that results depend on but the seed
    draws: list[SecondDraw]

    @property
    def name(self) -> str:
        """`sort-2`."""
        return f"{self.world}-{self.number}"

    @property
    def mark(self) -> str:
        """The fingerprint of the submission, which second draws do not change."""
        return fingerprint({key: value for key, value in asdict(self).items() if key != "draws"})

    @property
    def is_drawn(self) -> bool:
        """Whether there is a second draw, and all of them are trained."""
        return bool(self.draws) and all(draw.completions for draw in self.draws)

    @property
    def second(self) -> tuple[list[int | None], list[int | None] | None]:
        """The completions of all second draws together: its own, and those of the record before."""
        before = None if self.after is None else [*chain(*(draw.before_completions or () for draw in self.draws))]
        return [*chain(*(draw.completions for draw in self.draws))], before

    @property
    def comparison(self) -> Comparison:
        """What all second draws together say; nothing before they are trained."""
        return compare(*self.second, len(self.draws)) if self.is_drawn else Comparison(False, None)


def fingerprint(value: Any) -> str:
    """Return the SHA-256 of a value, written as JSON in one way only, in 64 hexadecimal digits."""
    return sha256(json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()).hexdigest()


def draw_seeds(*fixed: Any) -> list[int]:
    """Return SEEDS different seeds below 2³¹ that follow from these values, which JSON can hold."""
    drawn = (int(fingerprint([*fixed, number]), 16) % 2**31 for number in range(2 * SEEDS))
    return list(dict.fromkeys(drawn))[:SEEDS]


def second_seeds(mark: str, earlier: Sequence[SecondDraw], entropy: str) -> list[int]:
    """Return the seeds of a second draw of a submission after earlier ones, none of which can be taken away then."""
    return draw_seeds(mark, [asdict(draw) for draw in earlier], entropy)


def compare(ours: Completions, theirs: Completions | None, draws: int = 1) -> Comparison:
    """Compare two recipes seed by seed, by signed ranks; of a first record, say whether it mostly arrives.

    A run that never arrives needs more completions than any that does, and as many as any other that never does.

    Args:
        ours: of the recipe, ``[seeds]``.
        theirs: of the one before, on the same seeds.
        draws: how many have been compared one after another, each time with all seeds so far. Each after the first
            doubles p: a recipe that is no better passes with probability below LEVEL/2 + LEVEL/4 + … = LEVEL.
    """
    from rlexp.analysis.stats.significance import signed_ranks, subtract

    if theirs is None:
        return Comparison(bool(np.isfinite(np.median(as_numbers(ours)))), None)
    ranks = signed_ranks(subtract(as_numbers(theirs), as_numbers(ours)))
    # The share of all flips of signs whose sum is as far from 0; the analysis draws flips beyond 14 seeds, and several
    # draws have more. Ranks are multiples of a half.
    halves = np.rint(2 * np.abs(ranks)).astype(int)
    shares = np.ones(1)  # of the flips in which the positive ranks sum to so many halves
    for half in halves:
        shares = (np.pad(shares, (0, half)) + np.pad(shares, (half, 0))) / 2
    sums = 2 * np.arange(shares.size) - halves.sum()
    p = float(shares[np.abs(sums) >= abs(2 * ranks.sum())].sum())
    p = min(1.0, p * 2 ** (draws - 1))
    return Comparison(bool(p < LEVEL and ranks.sum() > 0), p)


def as_numbers(completions: Completions) -> np.ndarray:
    """Return completions ``[seeds]``, infinite for a run that never arrives."""
    return np.array([np.inf if each is None else each for each in completions], float)


def records_of(world: World, folder: Path) -> list[Record]:
    """Read all records of a world, oldest first, and check what can be checked; RunFailed for what is not right."""
    files = {file.stem.removeprefix(f"{world.name}-"): file for file in folder.glob(f"{world.name}-*.json")}
    if strange := [file for number, file in files.items() if not number.isdecimal()]:
        raise RunFailed(f"{strange[0]}: is called otherwise than {world.name}-<number>.json")
    records: list[Record] = []
    for number, file in sorted(files.items(), key=lambda each: int(each[0])):
        record = read(file)
        if problem := problem_of(record, int(number), world, records):
            raise RunFailed(f"{file}: {problem}")
        records.append(record)
    return records


def read(file: Path) -> Record:
    """Read a record as it stands there; RunFailed for a file that is none."""
    try:
        values = json.loads(file.read_text(encoding="utf-8"))
        if not isinstance(values, dict) or values.get("format") != FORMAT:
            raise RunFailed(f"{file}: is no record of format {FORMAT}")
        record = TypeAdapter(Record).validate_json(json.dumps(values))
    except ValidationError as error:
        raise RunFailed(f"{file}: is no record: {problem_lines(error, values)[0]}") from None
    except (ValueError, RecursionError):
        raise RunFailed(f"{file}: is no record: it is not JSON") from None
    names = [*record.recipe, record.date, *(text for draw in record.draws for text in (draw.date, draw.by))]
    texts = (value for _, value in steps(values) if isinstance(value, str))
    if any(map(MARKUP.search, names)) or not all(map(str.isprintable, texts)):
        raise RunFailed(f"{file}: is no record: it holds characters that a terminal or a page would obey")
    return record


def problem_of(record: Record, number: int, world: World, earlier: Sequence[Record]) -> str | None:
    """Say what is not right with a record that comes after ``earlier``; None if nothing can be seen."""
    if (record.world, record.number) != (world.name, number):
        return f"is the record {record.name}"
    if number != len(earlier) + 1:
        return f"comes after {len(earlier)} records; {world.name}-{len(earlier) + 1} is missing"
    if record.after != (before.mark if (before := current_record(earlier)) else None):
        return "does not come after the record before it as that is now"
    if problem := wrong_draw(record, draw_seeds(world.name, record.changes, record.after), record.after):
        return problem
    if not compare(record.completions, record.before_completions).beats:
        return "does not beat the one before"
    for place, draw in enumerate(record.draws):
        seeds = second_seeds(record.mark, record.draws[:place], draw.entropy)
        if draw.completions and (problem := wrong_draw(draw, seeds, record.after)):
            return f"second draw {place + 1} {problem}"
    return None


def wrong_draw(draw: Draw, seeds: Sequence[int], after: str | None) -> str | None:
    """Say what is not right with the numbers of a draw that had to have these seeds."""
    ours, theirs = draw.completions, draw.before_completions
    if draw.seeds != seeds:
        return "has other seeds than its submission gives"
    if not len(draw.seeds) == len(ours) == len(draw.rows):
        return "has not one number for each seed"
    if (after is None) != (theirs is None) or len(theirs or ours) != len(ours):
        return "does not have the record before it on its seeds"
    p = compare(ours, theirs).p
    if p != draw.p and (None in (p, draw.p) or not math.isclose(p, draw.p)):
        return f"has another p than its numbers give: p = {p:.3g}"
    unusual = (key for key, usual in provenance.SETTINGS.items() if usual is None and draw.build.get(key))
    return next((f"was trained with {key}={draw.build[key]}" for key in unusual), None)


def current_record(records: Sequence[Record]) -> Record | None:
    """Return the last one that its second draws confirm."""
    return next((record for record in reversed(records) if record.comparison.beats), None)


def find_record(name: str, folder: Path) -> tuple[Record, Record | None, list[Record]]:
    """Return the record of a name as `sort-2`, the one that it beats, and those after it; ConfigError for no name."""
    world, _, number = name.rpartition("-")
    if not number.isdecimal() or not world:
        raise ConfigError([f"{name}: is no name of a record, as sort-1"])
    records = records_of(find_world(world), folder)
    if not 1 <= int(number) <= len(records):
        there = f"there are {', '.join(record.name for record in records)}" if records else f"{world} has none"
        raise ConfigError([f"{name}: no such record; {there}"])
    return records[int(number) - 1], current_record(records[: int(number) - 1]), records[int(number) :]


def write(record: Record, folder: Path) -> Path:
    """Write a record into a folder and return its file; a reader never finds half of it."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{record.name}.json"
    replace(file, json.dumps(asdict(record), indent=1, allow_nan=False) + "\n")
    return file


def keep(record: Record, folder: Path) -> Path:
    """Write a record, and the page if it is one of this project; return its file."""
    file = write(record, folder)
    if folder == FOLDER:
        rewrite_page()
    return file


def rewrite_page(page: Path = PAGE, folder: Path = FOLDER) -> None:
    """Put the tables into the page, between its two comments; RunFailed if these are not there."""
    text = page.read_text(encoding="utf-8")
    if BEGIN not in text or END not in text:
        raise RunFailed(f"{page}: has no place for the records, between {BEGIN.strip()} and {END.strip()}")
    replace(page, f"{text.partition(BEGIN)[0]}{BEGIN}\n{tables(folder)}\n{END}{text.rpartition(END)[2]}")


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
        middle, least, most, arrived = summary(ours)
        ended = ((draw, machine(draw.build) if draw.build else "not trained") for draw in record.draws)
        second = "; ".join(f"{escape(draw.by)}, {draw.date}, {where}" for draw, where in ended)
        spread = middle if least == "never" else f"{middle} ({least} to {most})"
        cells = [record.name, spread, arrived, names.get(record.after, "")]
        cells += ["" if theirs is None else summary(theirs)[0], "" if p is None else f"{p:.2g}"]
        cells += [f"`{text_of(record.recipe)}`", record.date]
        cells.append(second or "none: the numbers are those of the submission")
        yield f"| {' | '.join(printable(' '.join(cell.split())).replace('|', '&#124;') for cell in cells)} |"


def summary(completions: Completions) -> list[str]:
    """Return median, smallest and largest over seeds, as `23,040` or `never`, and how many runs arrive, as `9/10`."""
    numbers = as_numbers(completions)
    found = (np.median(numbers), numbers.min(), numbers.max())
    texts = [f"{each:,.0f}" if np.isfinite(each) else "never" for each in found]
    return [*texts, f"{np.isfinite(numbers).sum()}/{len(numbers)}"]


def build() -> dict[str, Any]:
    """Return what trains here, as far as the bits depend on it, and where its code can be found again."""
    code = provenance.code()
    return {key: code[key] for key in BUILD}


def machine(build: Mapping[str, Any]) -> str:
    """The processor and the settings of a build: `AMD EPYC 7763 (AVX2, MKL_CBWR=AUTO,STRICT)`."""
    settings = [f"{key}={build[key]}" for key in provenance.SETTINGS if build.get(key)]
    return f"{build.get('cpu')} ({', '.join([str(build.get('vectors')), *settings])})"
