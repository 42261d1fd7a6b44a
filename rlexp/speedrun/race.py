"""Trains recipes through ``rlexp.api``: the draws of a submission, second draws, and a record again bit by bit."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from itertools import count
from pathlib import Path
from secrets import token_hex
from typing import Any, NamedTuple

from rlexp.api import SweepFailed, sweep
from rlexp.core.errors import ConfigError
from rlexp.core.exits import RunFailed
from rlexp.record import provenance
from rlexp.record.disk import replace_unsynced
from rlexp.runfolder.files import METRICS_FILE
from rlexp.runfolder.rows import without_clock
from rlexp.speedrun.recipe import Recipe, find_world, read_recipe
from rlexp.speedrun.records import BUILD, FORMAT, Draw, Record, SecondDraw, compare, fingerprint, second_seeds

ENDED = {"completed", "diverged"}
DONE = "verified"  # a file beside the runs of a verification that has ended: the next one trains anew
YES, NO, OPEN = 0, 10, 11  # answers as exit codes, as those of `rlexp better`


class Outdated(Exception):
    """A record's recipe is not what it was when it was recorded; the text says why."""


class Trained(NamedTuple):
    """What came of a recipe, by seed: completions until the world was learned, fingerprints of all that was logged."""

    completions: list[int | None] | None
    rows: list[str] | None


def train(recipe: Recipe, seeds: Sequence[int], folder: Path, threads: int | None = None) -> Trained:
    """Train one sweep of all seeds in a folder, or go on with one that is there; RunFailed where a run cannot be read.

    A run that diverges has ended, whether it had arrived before or not. One that fails in another way has not.
    """
    beside = ["logger=none", f"threads={'null' if threads is None else threads}"]
    try:
        found = sweep(*recipe.world.overrides, *recipe.overrides, *beside, seeds=seeds, folder=folder)
    except SweepFailed as error:
        found = error.found
        if set(found.runs["status"]) - ENDED:
            raise
    runs = dict(zip(found.runs["seed"], found.runs["folder"], strict=True))
    if missing := [seed for seed in seeds if seed not in runs]:
        raise RunFailed(f"{folder} has no run of seed {missing[0]}; move it away, then start again")
    texts = [(Path(runs[seed]) / METRICS_FILE).read_text(encoding="utf-8") for seed in seeds]
    logged = [[without_clock(json.loads(line)) for line in text.splitlines()] for text in texts]
    return Trained([completions_until_learned(recipe, rows) for rows in logged], [*map(fingerprint, logged)])


def completions_until_learned(recipe: Recipe, rows: Sequence[dict[str, Any]]) -> int | None:
    """Return the completions sampled by the first row in which the world is learned; None if none is such.

    All that were sampled for training count: those that dynamic sampling has discarded, those of a buffer, and greedy
    ones that a baseline asks for. Those of evaluations do not.
    """
    for row in rows:
        value = row.get(recipe.world.metric)
        if value is not None and value >= recipe.world.target:
            return int(row["progress/completions"]) + int(row["step"]) * recipe.uncounted
    return None


def measure(recipe: Recipe, before: Recipe | None, seeds: list[int], folder: Path, threads: int | None) -> Draw:
    """Train a recipe, and that of the record before, on seeds, below ``folder``.

    What was trained there already by the same code on such a machine is not trained again.
    """
    place = folder / name_here(recipe.world.name, recipe.overrides, seeds)
    ours = train(recipe, seeds, place / "ours", threads)
    theirs = train(before, seeds, place / "before", threads) if before else Trained(None, None)
    return Draw(
        date=date.today().isoformat(),
        seeds=seeds,
        completions=ours.completions,
        rows=ours.rows,
        before_completions=theirs.completions,
        before_rows=theirs.rows,
        p=compare(ours.completions, theirs.completions).p,
        build=build(),
    )


def candidate(recipe: Recipe, known: Sequence[Record], after: str | None, draw: Draw) -> Record:
    """Return the record that a submission is, which no second draw has confirmed yet."""
    meant = {"recipe": list(recipe.overrides), "changes": recipe.changes, "config": recipe.config}
    place = {"world": recipe.world.name, "number": len(known) + 1, "after": after}
    return Record(**vars(draw), **meant, **place, format=FORMAT, draws=[])


def draw_again(record: Record, by: str) -> Record:
    """Return a record with one more second draw, of seeds by chance, which is to be trained."""
    entropy = token_hex(16)
    nothing = dict(completions=[], rows=[], before_completions=None, before_rows=None, p=None, build={})
    seeds = second_seeds(record.mark, record.draws, entropy)
    draw = SecondDraw(by=by, entropy=entropy, date=date.today().isoformat(), seeds=seeds, **nothing)
    return replace(record, draws=[*record.draws, draw])


def verify(record: Record, before: Record | None, folder: Path, threads: int | None = None) -> tuple[int, list[str]]:
    """Train a record and its second draws again below ``folder``, compare bit by bit, and say what came of it.

    NO if something differs though code and machine are the same, OPEN if it differs and they are not. Outdated if the
    recipe is another configuration by now, before anything is trained. Interrupted, the same call goes on.
    """
    recipes = [recipe_of(record), recipe_of(before) if before else None]
    runs = [(record.name, ""), *([(before.name, "before_")] if before else [])]
    stem = name_here(f"verify-{record.name}", record.mark)
    place = next(place for place in (folder / f"{stem}-{n}" for n in count(1)) if not (place / DONE).exists())
    answers, lines = set(), []
    for number, draw in enumerate((record, *record.draws)):
        if not draw.completions:
            continue
        now = measure(*recipes, draw.seeds, place, threads)
        unlike = [line for name, which in runs for line in differences(name, which, draw, now)]
        other = provenance.changes(draw.build, now.build)
        answers.add((OPEN if other else NO) if unlike else YES)
        said = [f"note: {line}" for line in other]
        said += unlike or [f"the same bit by bit; it was trained on {machine(draw.build)}"]
        lines += [f"{f'second draw {number}' if number else 'own seeds'}: {line}" for line in said]
    replace_unsynced(place / DONE, "")
    answer = NO if NO in answers else max(answers)
    ends = {
        YES: f"yes: {record.name} comes out again",
        NO: f"no: {record.name} does not come out again",
        OPEN: f"open: {record.name} differs, but so do code or machine; its code is {record.build['commit']}",
    }
    return answer, [*lines, f"{ends[answer]}; this is {machine(build())}"]


def recipe_of(record: Record) -> Recipe:
    """Return the recipe of a record; Outdated if this code reads it otherwise than it was recorded.

    RunFailed where the changes of a record are not those of its recipe: its seeds follow from them.
    """
    why = None
    try:
        recipe = read_recipe(find_world(record.world), record.recipe)
        for key, value in record.config.items():  # a key that came later changes nothing by default
            if recipe.config.get(key) != value:
                why = f"{key} was {value!r} and is {recipe.config.get(key)!r}"
                break
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


def build() -> dict[str, Any]:
    """Return what trains here, as far as the bits depend on it, and where its code can be found again."""
    code = provenance.code()
    return {key: code[key] for key in BUILD}


def name_here(name: str, *values: Any) -> str:
    """Return the name of a folder for these values, the same only for the same code on such a machine."""
    bits = {key: value for key, value in build().items() if key in provenance.BITS_DEPEND_ON}
    return f"{name}-{fingerprint([*values, bits])[:12]}"


def machine(build: Mapping[str, Any]) -> str:
    """The processor and the settings of a build: `AMD EPYC 7763 (AVX2, MKL_CBWR=AUTO,STRICT)`."""
    settings = [f"{key}={build[key]}" for key in provenance.SETTINGS if build.get(key)]
    return f"{build.get('cpu')} ({', '.join([str(build.get('vectors')), *settings])})"


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
