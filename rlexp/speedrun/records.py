"""The records: a JSON file each, `sort-2.json`, which names the one that it beats by its fingerprint.

A file is a candidate until somebody else has made a second draw, which is kept in it; a record then. What can be
checked without training is checked whenever they are read: that there is no gap, that each follows one that is there
as it is now, that all seeds are those that they had to be, and that each p comes out of its numbers.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import chain
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from rlexp.config.trust import steps
from rlexp.core.errors import ConfigError, problem_lines
from rlexp.core.exits import RunFailed
from rlexp.record import provenance
from rlexp.record.disk.durable import replace
from rlexp.speedrun.seeds import draw_seeds, fingerprint
from rlexp.speedrun.verdict import Verdict, judge
from rlexp.speedrun.worlds import World, find_world

FOLDER = provenance.ROOT / "docs" / "speedrun" / "records"
FORMAT = 1
MARKUP = re.compile(r"[`|<]")
BUILD = ("version", "commit", *provenance.BITS_DEPEND_ON)


@dataclass(frozen=True, kw_only=True)
class Draw:
    """A recipe and that of the record before on the same seeds. Lists are by seed; None for runs that never arrived."""

    date: str
    """When it was made, as 2026-07-31."""
    seeds: list[int]
    completions: list[int | None]
    rows: list[str]
    """Fingerprints of what its runs logged, without the clock."""
    before_completions: list[int | None] | None
    """Those of the recipe of the record before; None where there is none."""
    before_rows: list[str] | None
    p: float | None
    build: dict[str, Any]
    """The code, the processor and the settings that trained it."""


@dataclass(frozen=True, kw_only=True)
class SecondDraw(Draw):
    """Numbers on seeds that nobody could know when the recipe was submitted; without any while it is being trained."""

    by: str
    entropy: str
    """By chance, in hexadecimal digits; with the submission and the draws before it gives the seeds."""


@dataclass(frozen=True, kw_only=True)
class Record(Draw):
    """A submission with its own numbers, and all second draws that were made of it."""

    format: int
    world: str
    number: int
    recipe: list[str]
    """Its overrides, which come after those of the world."""
    changes: dict[str, Any]
    """What these change of the world's configuration."""
    after: str | None
    """The fingerprint of the record that it beats; None where there was none."""
    config: dict[str, Any]
    """The whole configuration that results depend on, but the seed."""
    draws: list[SecondDraw]

    @property
    def name(self) -> str:
        """`sort-2`."""
        return f"{self.world}-{self.number}"

    @property
    def text(self) -> str:
        """The recipe as a reader sees it."""
        return " ".join(self.recipe) or "the default recipe"

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
    def verdict(self) -> Verdict:
        """What all second draws together say; nothing before they are trained."""
        return judge(*self.second, len(self.draws)) if self.is_drawn else Verdict(False, None)


def records_of(world: World, folder: Path) -> list[Record]:
    """Read all records of a world, oldest first, and check what can be checked; RunFailed for what is not right."""
    files = {file.stem.removeprefix(f"{world.name}-"): file for file in folder.glob(f"{world.name}-*.json")}
    if strange := [file for number, file in files.items() if not number.isdecimal()]:
        raise RunFailed(f"{strange[0]}: is called otherwise than {world.name}-<number>.json")
    records: list[Record] = []
    for number, file in sorted(files.items(), key=lambda each: int(each[0])):
        try:
            record = read(file)
            problem = problem_of(record, int(number), world, records)
        except (TypeError, ValueError, AttributeError, ArithmeticError):
            raise RunFailed(f"{file}: is no record: a value is of another kind than it should be") from None
        if problem:
            raise RunFailed(f"{file}: {problem}")
        records.append(record)
    return records


def read(file: Path) -> Record:
    """Read a record as it stands there; RunFailed for a file that is none."""
    try:
        values = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise RunFailed(f"{file}: {error.strerror or error}") from None
    except (ValueError, RecursionError):
        raise RunFailed(f"{file}: is no record: it is not JSON") from None
    if not isinstance(values, dict) or values.get("format") != FORMAT:
        raise RunFailed(f"{file}: is no record of format {FORMAT}")
    check_names(Record, values, file)
    try:
        TypeAdapter(Record).validate_json(json.dumps(values), strict=True)
    except ValidationError as error:
        raise RunFailed(f"{file}: is no record: {problem_lines(error, values)[0]}") from None
    for draw in values["draws"]:
        check_names(SecondDraw, draw, file)
    record = Record(**values | {"draws": [SecondDraw(**draw) for draw in values["draws"]]})
    names = [record.text, record.date, *(text for draw in record.draws for text in (draw.date, draw.by))]
    if any(map(MARKUP.search, names)) or not all(map(str.isprintable, texts(values))):
        raise RunFailed(f"{file}: is no record: it holds characters that a terminal or a page would obey")
    return record


def check_names(kind: type, values: Mapping[str, Any], file: Path) -> None:
    """RunFailed unless the values have exactly the names of the fields."""
    names = {field.name for field in fields(kind)}
    if unlike := sorted(names ^ set(values)):
        why = "is missing" if unlike[0] in names else "is no part of one"
        raise RunFailed(f"{file}: is no record: {unlike[0]} {why}")


def texts(values: Mapping[str, Any]) -> Iterator[str]:
    """Yield every text in nested values."""
    return (value for _, value in steps(values) if isinstance(value, str))


def problem_of(record: Record, number: int, world: World, earlier: Sequence[Record]) -> str | None:
    """Say what is not right with a record that comes after ``earlier``; None if nothing can be seen."""
    if (record.world, record.number) != (world.name, number):
        return f"is the record {record.name}"
    if number != len(earlier) + 1:
        return f"comes after {len(earlier)} records; {world.name}-{len(earlier) + 1} is missing"
    if record.after != (before.mark if (before := standing(earlier)) else None):
        return "does not come after the record before it as that is now"
    if problem := wrong_draw(record, draw_seeds(world.name, record.changes, record.after), record.after):
        return problem
    if not judge(record.completions, record.before_completions).beats:
        return "does not beat the one before"
    for place, draw in enumerate(record.draws):
        seeds = second_seeds(record.mark, record.draws[:place], draw.entropy)
        if draw.completions and (problem := wrong_draw(draw, seeds, record.after)):
            return f"second draw {place + 1} {problem}"
    return None


def second_seeds(mark: str, earlier: Sequence[SecondDraw], entropy: str) -> list[int]:
    """Return the seeds of a second draw of a submission after earlier ones, none of which can be taken away then."""
    return draw_seeds(mark, [asdict(draw) for draw in earlier], entropy)


def standing(records: Sequence[Record]) -> Record | None:
    """Return the last one that its second draws confirm."""
    return next((record for record in reversed(records) if record.verdict.beats), None)


def wrong_draw(draw: Draw, seeds: Sequence[int], after: str | None) -> str | None:
    """Say what is not right with the numbers of a draw that had to have these seeds."""
    ours, theirs = draw.completions, draw.before_completions
    if draw.seeds != seeds:
        return "has other seeds than its submission gives"
    if not len(draw.seeds) == len(ours) == len(draw.rows):
        return "has not one number for each seed"
    if (after is None) != (theirs is None) or len(theirs or ours) != len(ours):
        return "does not have the record before it on its seeds"
    p = judge(ours, theirs).p
    if p != draw.p and (None in (p, draw.p) or not math.isclose(p, draw.p)):
        return f"has another p than its numbers give: p = {p:.3g}"
    unusual = (key for key, usual in provenance.SETTINGS.items() if usual is None and draw.build.get(key))
    return next((f"was trained with {key}={draw.build[key]}" for key in unusual), None)


def find_record(name: str, folder: Path) -> tuple[Record, Record | None, list[Record]]:
    """Return the record of a name as `sort-2`, the one that it beats, and those after it; ConfigError for no name."""
    world, _, number = name.rpartition("-")
    if not number.isdecimal() or not world:
        raise ConfigError([f"{name}: is no name of a record, as sort-1"])
    records = records_of(find_world(world), folder)
    if not 1 <= int(number) <= len(records):
        there = f"there are {', '.join(record.name for record in records)}" if records else f"{world} has none"
        raise ConfigError([f"{name}: no such record; {there}"])
    return records[int(number) - 1], standing(records[: int(number) - 1]), records[int(number) :]


def write(record: Record, folder: Path) -> Path:
    """Write a record into a folder and return its file; a reader never finds half of it."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{record.name}.json"
    replace(file, json.dumps(asdict(record), indent=1, allow_nan=False) + "\n")
    return file


def build() -> dict[str, Any]:
    """Return what trains here, as far as the bits depend on it, and where its code can be found again."""
    code = provenance.code()
    return {key: code[key] for key in BUILD}


def machine(build: Mapping[str, Any]) -> str:
    """The processor and the settings of a build: `AMD EPYC 7763 (AVX2, MKL_CBWR=AUTO,STRICT)`."""
    settings = [f"{key}={build[key]}" for key in provenance.SETTINGS if build.get(key)]
    return f"{build.get('cpu')} ({', '.join([str(build.get('vectors')), *settings])})"


def bits() -> dict[str, Any]:
    """Return the part of this that the bits depend on."""
    return {key: value for key, value in build().items() if key in provenance.BITS_DEPEND_ON}


def check_repeatable() -> None:
    """RunFailed if others could not train what is trained here: other code than a commit's, or unusual settings."""
    code = provenance.code()
    if code["commit"] is None:
        raise RunFailed("a record is set in a git checkout of rlexp, so that others can check it out; this is none")
    if code["dirty"]:
        raise RunFailed("the code is not as committed, so nobody else could train this record; commit it first")
    if notes := provenance.setting_notes():
        raise RunFailed(f"a record is set with the usual settings; {notes[0]}")


def check_committed(file: Path) -> None:
    """RunFailed if a record could still be changed: git's HEAD does not have the file as it is."""
    if provenance.git(file.parent, "show", f"HEAD:./{file.name}") != file.read_text(encoding="utf-8"):
        raise RunFailed(f"{file}: is not as committed; a second draw comes after what it is of: commit that first")
