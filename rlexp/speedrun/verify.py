"""A record again: its recipe, and that of the record before, on its own seeds, bit by bit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from rlexp.core.errors import ConfigError
from rlexp.record.disk.durable import replace_unsynced
from rlexp.speedrun.race import Race, race
from rlexp.speedrun.recipe import Recipe, read_recipe
from rlexp.speedrun.records import Record, bits, other_build
from rlexp.speedrun.seeds import fingerprint
from rlexp.speedrun.worlds import find_world

DONE = "verified"  # a file beside the runs of a verification that has ended: the next one trains anew


class Answer(IntEnum):
    """An answer as an exit code, as those of `rlexp better`."""

    YES = 0
    NO = 10
    OPEN = 11


class Verified(NamedTuple):
    """Whether a record came out again, and what to say of it, a line each."""

    answer: Answer
    lines: list[str]


def verify(record: Record, earlier: Sequence[Record], folder: Path, threads: int | None = None) -> Verified:
    """Train a record again below ``folder`` and compare it bit by bit; interrupted, the same call goes on.

    NO if something differs though code and machine are the same. OPEN if it differs and they are not, or if the recipe
    is another configuration by now, of which nothing is trained.
    """
    before = earlier[-1] if earlier else None
    pairs = [(each, *recipe_of(each)) for each in (record, before) if each is not None]
    if problems := [f"{each.name}: {problem}" for each, _, problem in pairs if problem]:
        return Verified(Answer.OPEN, [problems[0], f"open: the code that set it is commit {record.build['commit']}"])
    place = new_place(folder, record)
    races = [race(recipe, record.seeds, place / each.name, threads) for each, recipe, _ in pairs]
    stored = [Race(record.completions, record.rows), Race(record.before_completions, record.before_rows)]
    unlike = [
        line
        for (each, _, _), now, then in zip(pairs, races, stored, strict=False)
        for line in differences(each.name, record.seeds, then, now)
    ]
    replace_unsynced(place / DONE, "")
    others = [f"note: {line}" for line in other_build(record.build)]
    if not unlike:
        both = f", and so is {before.name} on them: p = {record.p:.3g}" if before else ""
        said = f"yes: {record.name} is the same bit by bit on its {len(record.seeds)} seeds{both}"
        return Verified(Answer.YES, [*others, said])
    if others:
        commit = record.build["commit"]
        said = f"open: {record.name} is not the same, but code or machine are not either; its code is commit {commit}"
        return Verified(Answer.OPEN, [*others, *unlike, said])
    return Verified(Answer.NO, [*unlike, f"no: {record.name} does not come out again"])


def recipe_of(record: Record) -> tuple[Recipe | None, str | None]:
    """Return the recipe of a record as this code reads it, or why it is not what was recorded."""
    try:
        recipe = read_recipe(find_world(record.world), record.recipe)
    except ConfigError as error:
        return None, f"this code does not take its recipe: {error.problems[0]}"
    if unlike := next(otherwise(record.config, recipe.config), None):
        return None, f"its recipe is another configuration by now: {unlike}"
    return recipe, None


def otherwise(then: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """Say what was set and is otherwise; a key that came later changes nothing by default."""
    for key, value in then.items():
        if now.get(key) != value:
            yield f"{key} was {value!r} and is {now.get(key)!r}"


def differences(name: str, seeds: Sequence[int], then: Race, now: Race) -> Iterator[str]:
    """Say for which seeds completions, or anything else that was logged, are not those that were recorded."""
    for place, seed in enumerate(seeds):
        if then.completions[place] != now.completions[place]:
            was, found = (shown(each.completions[place]) for each in (then, now))
            yield f"{name}, seed {seed}: {was} recorded, {found} now"
        elif then.rows[place] != now.rows[place]:
            yield f"{name}, seed {seed}: as many completions, but not the same metrics bit by bit"


def shown(completions: int | None) -> str:
    """`23,040 completions`."""
    return "never arrived" if completions is None else f"{completions:,} completions"


def new_place(folder: Path, record: Record) -> Path:
    """Return the folder of a verification that was interrupted, by this code on such a machine, or else a new one."""
    stem = f"verify-{record.name}-{fingerprint([record.mark, bits()])[:12]}"
    return next(place for place in (folder / f"{stem}-{number}" for number in count(1)) if not (place / DONE).exists())
