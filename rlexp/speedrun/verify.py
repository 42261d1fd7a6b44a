"""A record again: its recipe, and that of the record before, on all its seeds, bit by bit."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from itertools import count
from pathlib import Path

from rlexp.core.errors import ConfigError
from rlexp.core.exits import RunFailed
from rlexp.record import provenance
from rlexp.record.disk.durable import replace_unsynced
from rlexp.speedrun.recipe import Recipe, read_recipe
from rlexp.speedrun.records import Draw, Record, bits, build, machine
from rlexp.speedrun.seeds import fingerprint
from rlexp.speedrun.submission import measure
from rlexp.speedrun.worlds import find_world

DONE = "verified"  # a file beside the runs of a verification that has ended: the next one trains anew


class Answer(IntEnum):
    """An answer as an exit code, as those of `rlexp better`."""

    YES = 0
    NO = 10
    OPEN = 11


class Outdated(Exception):
    """A record's recipe is not what it was when it was recorded; the text says why."""


def verify(record: Record, before: Record | None, folder: Path, threads: int | None = None) -> tuple[Answer, list[str]]:
    """Train a record and its second draws again below ``folder``, compare bit by bit, and say what came of it.

    NO if something differs though code and machine are the same, OPEN if it differs and they are not. Outdated if the
    recipe is another configuration by now, before anything is trained. Interrupted, the same call goes on.
    """
    recipes = [recipe_of(record), recipe_of(before) if before else None]
    runs = [(record.name, ""), *([(before.name, "before_")] if before else [])]
    place = new_place(folder, record)
    answers, lines = set(), []
    for number, draw in enumerate((record, *record.draws)):
        if not draw.completions:
            continue
        now = measure(*recipes, draw.seeds, place, threads)
        unlike = [line for name, which in runs for line in differences(name, which, draw, now)]
        other = provenance.changes(draw.build, now.build)
        answers.add((Answer.OPEN if other else Answer.NO) if unlike else Answer.YES)
        said = [f"note: {line}" for line in other]
        said += unlike or [f"the same bit by bit; it was trained on {machine(draw.build)}"]
        lines += [f"{f'second draw {number}' if number else 'own seeds'}: {line}" for line in said]
    replace_unsynced(place / DONE, "")
    answer = Answer.NO if Answer.NO in answers else max(answers)
    ends = {
        Answer.YES: f"yes: {record.name} comes out again",
        Answer.NO: f"no: {record.name} does not come out again",
        Answer.OPEN: f"open: {record.name} differs, but so do code or machine; its code is {record.build['commit']}",
    }
    return answer, [*lines, f"{ends[answer]}; this is {machine(build())}"]


def recipe_of(record: Record) -> Recipe:
    """Return the recipe of a record; Outdated if this code reads it otherwise than it was recorded.

    RunFailed where the changes of a record are not those of its recipe: its seeds follow from them.
    """
    try:
        recipe = read_recipe(find_world(record.world), record.recipe)
        then, now = record.config, recipe.config  # a key that came later changes nothing by default
        unlike = (
            f"{key} was {value!r} and is {now.get(key)!r}" for key, value in then.items() if now.get(key) != value
        )
        why = next(unlike, None)
    except ConfigError as error:
        why = error.problems[0]
    if why:
        code = f"the code that set it is commit {record.build['commit']}"
        raise Outdated(f"{record.name}: its recipe is another configuration by now: {why}; {code}")
    if record.changes != recipe.changes:
        raise RunFailed(f"{record.name}: its recipe changes {recipe.changes}, but its seeds are of {record.changes}")
    return recipe


def differences(name: str, which: str, then: Draw, now: Draw) -> Iterator[str]:
    """Say for which seeds completions, or anything else that was logged, are not those that were recorded."""
    pairs = [zip(getattr(then, which + key), getattr(now, which + key), strict=True) for key in ("completions", "rows")]
    for seed, (was, found), (row, row_now) in zip(then.seeds, *pairs, strict=True):
        if was != found:
            yield f"{name}, seed {seed}: {was or 'no'} completions recorded, {found or 'none'} now"
        elif row != row_now:
            yield f"{name}, seed {seed}: as many completions, but not the same metrics bit by bit"


def new_place(folder: Path, record: Record) -> Path:
    """Return the folder of a verification that was interrupted, by this code on such a machine, or else a new one."""
    stem = f"verify-{record.name}-{fingerprint([record.mark, bits()])[:12]}"
    return next(place for place in (folder / f"{stem}-{number}" for number in count(1)) if not (place / DONE).exists())
