"""Trains recipes through ``rlexp.api``: the draws of a submission, second draws, and a record again bit by bit."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date
from itertools import count
from pathlib import Path
from secrets import token_hex

from rlexp.api import SweepFailed, sweep
from rlexp.core.errors import ConfigError
from rlexp.core.exits import RunFailed
from rlexp.record import provenance
from rlexp.record.disk import replace_unsynced
from rlexp.runfolder.files import METRICS_FILE
from rlexp.runfolder.rows import without_clock
from rlexp.speedrun import records
from rlexp.speedrun.recipe import Recipe, find_world, read_recipe, text_of
from rlexp.speedrun.records import Comparison, Draw, Record, SecondDraw, build, fingerprint, machine, summary

ENDED = {"completed", "diverged"}
DONE = "verified"  # a file beside the runs of a verification that has ended: the next one trains anew
YES, NO, OPEN = 0, 10, 11  # answers as exit codes, as those of `rlexp better`


class Outdated(Exception):
    """A record's recipe is not what it was when it was recorded; the text says why."""


def submit(options: Namespace) -> int:
    """Measure a recipe against the record of its world, print both, and write it down if it is better and is to be."""
    name, *overrides = options.words
    world = find_world(name)
    known = records.records_of(world, options.records)
    before = records.current_record(known)
    recipe = read_recipe(world, overrides)
    if same := [record.name for record in known if record.changes == recipe.changes]:
        raise ConfigError([f"{text_of(overrides)}: is the recipe of {same[0]}"])
    if options.record:
        check_repeatable()
        if known and not known[-1].is_drawn:
            waiting = known[-1].name
            raise ConfigError([f"{waiting} comes first: rlexp speedrun --confirm {waiting} --by NAME"])
    after, theirs = (before.mark, recipe_of(before)) if before else (None, None)
    seeds = records.draw_seeds(name, recipe.changes, after)
    draw = measure(recipe, theirs, seeds, options.folder, options.threads)
    comparison = records.compare(draw.completions, draw.before_completions)
    told = report(text_of(overrides), before, draw, comparison)
    if comparison.beats and options.record:
        record = candidate(recipe, known, after, draw)
        print(f"{told}; a record once somebody else has confirmed it: {records.keep(record, options.records)}")
    else:
        print(f"{told}{'; --record submits it' * comparison.beats}")
    return YES if comparison.beats else NO


def confirm(options: Namespace) -> int:
    """Make a second draw, or go on with one, keep it in the record, and print what all of them say."""
    record, before, later = records.find_record(options.confirm, options.records)
    if later:
        raise ConfigError([f"{record.name}: {later[-1].name} has followed it; only the last takes another draw"])
    recipes = recipe_of(record), recipe_of(before) if before else None
    check_repeatable()
    if record.is_drawn or not record.draws:
        check_committed(options.records / f"{record.name}.json")
        record = draw_again(record, options.by)
        records.write(record, options.records)
    *others, last = record.draws
    draw = measure(*recipes, last.seeds, options.folder, options.threads)
    record = replace(record, draws=[*others, replace(last, **vars(draw))])
    told = report(text_of(record.recipe), before, draw, record.comparison, len(record.draws))
    print(f"{told}; written: {records.keep(record, options.records)}")
    return YES if record.comparison.beats else NO


def report(recipe: str, before: Record | None, draw: Draw, comparison: Comparison, draws: int = 0) -> str:
    """Print what each seed of a draw took; return what that means, with the second draws before it, in a line."""
    races = [each for each in (draw.completions, draw.before_completions) if each is not None]
    rows = [["seed", "recipe", *([before.name] if before else [])]]
    for seed, *numbers in zip(draw.seeds, *races, strict=True):
        rows.append([str(seed), *("never" if number is None else f"{number:,}" for number in numbers)])
    medians, _, _, arrived = zip(*map(summary, races), strict=True)
    rows += [["median", *medians], ["arrived", *arrived]]
    print("\n".join("".join(f"{cell:>14}" for cell in row) for row in rows))
    word, on = "yes" if comparison.beats else "no", f" on {draws} second draw{'s' * (draws > 1)}" * bool(draws)
    if before is None:
        why = "it is the first of its world" if comparison.beats else "half of its runs or more never arrive"
        return f"{word}: {recipe}: {why}{on}"
    found = "beats" if comparison.beats else "is not shown to beat"
    return f"{word}: {recipe} {found} {before.name}{on}: p = {comparison.p:.2g}"


def verify(options: Namespace) -> int:
    """Train a record and its second draws again, compare bit by bit, and print what came of it.

    NO if something differs though code and machine are the same, OPEN if it differs and they are not. Outdated if the
    recipe is another configuration by now, before anything is trained. Interrupted, the same call goes on.
    """
    record, before, _ = records.find_record(options.verify, options.records)
    recipes = recipe_of(record), recipe_of(before) if before else None
    runs = [(record.name, ""), *([(before.name, "before_")] if before else [])]
    stem = name_here(f"verify-{record.name}", record.mark)
    places = (options.folder / f"{stem}-{number}" for number in count(1))
    place = next(place for place in places if not (place / DONE).exists())
    answers, lines = set(), []
    for number, draw in enumerate((record, *record.draws)):
        if not draw.completions:
            continue
        now = measure(*recipes, draw.seeds, place, options.threads)
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
    print("\n".join([*lines, f"{ends[answer]}; this is {machine(build())}"]))
    return answer


def differences(name: str, which: str, then: Draw, now: Draw) -> Iterator[str]:
    """Say for which seeds completions, or anything else that was logged, are not those that were recorded."""
    pairs = [zip(getattr(then, which + key), getattr(now, which + key), strict=True) for key in ("completions", "rows")]
    for seed, (was, found), (row, row_now) in zip(then.seeds, *pairs, strict=True):
        if was != found:
            yield f"{name}, seed {seed}: {was or 'no'} completions recorded, {found or 'none'} now"
        elif row != row_now:
            yield f"{name}, seed {seed}: as many completions, but not the same metrics bit by bit"


def measure(recipe: Recipe, before: Recipe | None, seeds: list[int], folder: Path, threads: int | None) -> Draw:
    """Train a recipe, and that of the record before, on seeds, below ``folder``.

    What was trained there already by the same code on such a machine is not trained again.
    """
    place = folder / name_here(recipe.world.name, recipe.overrides, seeds)
    ours, rows = train(recipe, seeds, place / "ours", threads)
    theirs, before_rows = train(before, seeds, place / "before", threads) if before else (None, None)
    p, today = records.compare(ours, theirs).p, date.today().isoformat()
    numbers = dict(completions=ours, rows=rows, before_completions=theirs, before_rows=before_rows)
    return Draw(date=today, seeds=seeds, **numbers, p=p, build=build())


def train(
    recipe: Recipe, seeds: Sequence[int], folder: Path, threads: int | None = None
) -> tuple[list[int | None], list[str]]:
    """Train one sweep of all seeds in a folder, or go on with one that is there; RunFailed where a run cannot be read.

    A run that diverges has ended, whether it had arrived before or not. One that fails in another way has not.

    Returns:
        By seed, the completions sampled by the first row in which the world is learned, None if none is such, and a
        fingerprint of all that was logged. All that were sampled for training count: those that dynamic sampling has
        discarded, those of a buffer, and greedy ones that a baseline asks for. Those of evaluations do not.
    """
    beside = ["logger=none", f"threads={'null' if threads is None else threads}"]
    metric, target = recipe.world.metric, recipe.world.target
    try:
        found = sweep(*recipe.world.overrides, *recipe.overrides, *beside, seeds=seeds, folder=folder)
    except SweepFailed as error:
        found = error.found
        if set(found.runs["status"]) - ENDED:
            raise
    runs = dict(zip(found.runs["seed"], found.runs["folder"], strict=True))
    if missing := [seed for seed in seeds if seed not in runs]:
        raise RunFailed(f"{folder} has no run of seed {missing[0]}; move it away, then start again")
    completions, fingerprints = [], []
    for seed in seeds:
        lines = (Path(runs[seed]) / METRICS_FILE).read_text(encoding="utf-8").splitlines()
        rows = [without_clock(json.loads(line)) for line in lines]
        learned = (row for row in rows if row.get(metric) is not None and row[metric] >= target)
        sampled = (int(row["progress/completions"]) + int(row["step"]) * recipe.uncounted for row in learned)
        completions.append(next(sampled, None))
        fingerprints.append(fingerprint(rows))
    return completions, fingerprints


def candidate(recipe: Recipe, known: Sequence[Record], after: str | None, draw: Draw) -> Record:
    """Return the record that a submission is, which no second draw has confirmed yet."""
    meant = {"recipe": list(recipe.overrides), "changes": recipe.changes, "config": recipe.config}
    place = {"world": recipe.world.name, "number": len(known) + 1, "after": after}
    return Record(**vars(draw), **meant, **place, format=records.FORMAT, draws=[])


def draw_again(record: Record, by: str) -> Record:
    """Return a record with one more second draw, of seeds by chance, which is to be trained."""
    entropy = token_hex(16)
    nothing = dict(completions=[], rows=[], before_completions=None, before_rows=None, p=None, build={})
    seeds = records.second_seeds(record.mark, record.draws, entropy)
    draw = SecondDraw(by=by, entropy=entropy, date=date.today().isoformat(), seeds=seeds, **nothing)
    return replace(record, draws=[*record.draws, draw])


def recipe_of(record: Record) -> Recipe:
    """Return the recipe of a record; Outdated if this code reads it otherwise than it was recorded.

    RunFailed where the changes of a record are not those of its recipe: its seeds follow from them.
    """
    try:
        recipe = read_recipe(find_world(record.world), record.recipe)
        # a key that came later changes nothing by default
        unlike = (key for key, value in record.config.items() if recipe.config.get(key) != value)
        reasons = (f"{key} was {record.config[key]!r} and is {recipe.config.get(key)!r}" for key in unlike)
        why = next(reasons, None)
    except ConfigError as error:
        why = error.problems[0]
    if why:
        code = f"the code that set it is commit {record.build['commit']}"
        raise Outdated(f"{record.name}: its recipe is another configuration by now: {why}; {code}")
    if record.changes != recipe.changes:
        raise RunFailed(f"{record.name}: its recipe changes {recipe.changes}, but its seeds are of {record.changes}")
    return recipe


def name_here(name: str, *values: object) -> str:
    """Return the name of a folder for these values, the same only for the same code on such a machine."""
    bits = {key: value for key, value in build().items() if key in provenance.BITS_DEPEND_ON}
    return f"{name}-{fingerprint([*values, bits])[:12]}"


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
