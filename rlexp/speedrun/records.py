"""The records: a JSON file each, `sort-2.json`, which names the one before it by its fingerprint.

What can be checked without training is checked whenever they are read: that there is no gap, that each follows the one
before as that is now, that its seeds are those that it had to have, and that its p comes out of its numbers.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from rlexp.core.errors import ConfigError
from rlexp.core.exits import RunFailed
from rlexp.record import provenance
from rlexp.record.disk.durable import replace
from rlexp.speedrun.seeds import draw_seeds, fingerprint
from rlexp.speedrun.verdict import judge
from rlexp.speedrun.worlds import World, find_world

FOLDER = provenance.ROOT / "docs" / "speedrun" / "records"
FORMAT = 1
BUILD = ("version", "commit", *provenance.BITS_DEPEND_ON)


@dataclass(frozen=True, kw_only=True)
class Record:
    """A record. Lists are by seed; completions are None for runs that never arrived."""

    format: int
    world: str
    number: int
    date: str
    """When it was set, as 2026-07-31."""
    recipe: list[str]
    """Its overrides, which come after those of the world."""
    changes: dict[str, Any]
    """What these change of the world's configuration."""
    after: str | None
    """The fingerprint of the record before; None for the first."""
    seeds: list[int]
    completions: list[int | None]
    rows: list[str]
    """Fingerprints of what its runs logged, without the clock."""
    before_completions: list[int | None] | None
    """Those of the recipe of the record before on the same seeds; None for the first."""
    before_rows: list[str] | None
    p: float | None
    build: dict[str, Any]
    """The code and the machine that trained it."""
    config: dict[str, Any]
    """The whole configuration that results depend on, but the seed."""

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
        """What the next record says it comes after."""
        return fingerprint(asdict(self))


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
    except OSError as error:
        raise RunFailed(f"{file}: {error.strerror or error}") from None
    except ValueError:
        raise RunFailed(f"{file}: is no record: it is not JSON") from None
    names = {field.name for field in fields(Record)}
    if not isinstance(values, dict) or values.get("format") != FORMAT:
        raise RunFailed(f"{file}: is no record of format {FORMAT}")
    if unlike := sorted(names ^ values.keys()):
        why = "is missing" if unlike[0] in names else "is no part of one"
        raise RunFailed(f"{file}: is no record: {unlike[0]} {why}")
    return Record(**values)


def problem_of(record: Record, number: int, world: World, earlier: list[Record]) -> str | None:
    """Say what is not right with a record that comes after ``earlier``; None if nothing can be seen."""
    mark = earlier[-1].mark if earlier else None
    if (record.world, record.number) != (world.name, number):
        return f"is the record {record.name}"
    if number != len(earlier) + 1:
        return f"comes after {len(earlier)} records; {world.name}-{len(earlier) + 1} is missing"
    if record.after != mark:
        return "does not come after the record before it as that is now"
    if record.seeds != draw_seeds(world, record.changes, record.after):
        return "has other seeds than its recipe and the record before it give"
    ours, theirs = record.completions, record.before_completions
    if not len(record.seeds) == len(ours) == len(record.rows):
        return "has not one number for each seed"
    if not earlier:
        return None
    if theirs is None or len(theirs) != len(ours):
        return "does not have the record before it on its seeds"
    verdict = judge(ours, theirs)
    if not verdict.beats or record.p is None or not math.isclose(verdict.p, record.p):
        return f"does not beat the one before: its numbers give p = {verdict.p:.3g}"
    return None


def find_record(name: str, folder: Path) -> tuple[Record, list[Record]]:
    """Return the record of a name as `sort-2`, or of a file, and those before it; ConfigError if there is none."""
    path = Path(name)
    folder, stem = (path.parent, path.stem) if path.suffix == ".json" and path.parent != Path() else (folder, path.stem)
    world, _, number = stem.rpartition("-")
    if not number.isdecimal() or not world:
        raise ConfigError([f"{name}: is no name of a record, as sort-1"])
    records = records_of(find_world(world), folder)
    if not 1 <= int(number) <= len(records):
        there = f"there are {', '.join(record.name for record in records)}" if records else f"{world} has none"
        raise ConfigError([f"{name}: no such record; {there}"])
    return records[int(number) - 1], records[: int(number) - 1]


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


def bits() -> dict[str, Any]:
    """Return the part of this that the bits depend on."""
    return {key: value for key, value in build().items() if key in provenance.BITS_DEPEND_ON}


def check_committed() -> None:
    """RunFailed if nobody could get the code that trains here, because it is not that of a commit."""
    code = provenance.code()
    if code["commit"] is None:
        raise RunFailed("a record is set in a git checkout of rlexp, so that others can check it out; this is none")
    if code["dirty"]:
        raise RunFailed("the code is not as committed, so nobody else could train this record; commit it first")


def other_build(then: Mapping[str, Any]) -> list[str]:
    """Name what the bits depend on and was otherwise when a record was set."""
    return provenance.changes(dict(then), build())
