"""A world that is learned in a second, and records that were never trained."""

from dataclasses import replace
from functools import cache

import pytest

from rlexp.speedrun import race, recipe, records
from rlexp.speedrun.race import candidate, draw_again
from rlexp.speedrun.recipe import FIXED, Recipe, World, read_recipe
from rlexp.speedrun.records import Draw, Record, compare, draw_seeds

TINY = World(
    name="tiny",
    overrides=("task=bandit", "task.easy=4", "task.hard=0", "task.impossible=0", "task.easy_right=32", "model=tabular")
    + ("group_size.completions=4", "group_size.prompts=8", *recipe.evaluated(every=1, steps=16)),
    metric="eval/exact/accuracy",
    target=0.68,
    what="four easy questions",
    fixed=(*FIXED, "temperature"),
)
BUILD = {"version": "0", "commit": "c0", "files": "f0", "torch": "t", "cpu": "c", "vectors": "v"}
BUILD |= {"MKL_CBWR": None, "ATEN_CPU_CAPABILITY": None}
LATER = [200 + place for place in range(10)]  # what the record before takes, unless told


@pytest.fixture
def tiny(monkeypatch):
    """The world among the others, on a machine on which records may be set and are committed."""
    monkeypatch.setitem(recipe.WORLDS, "tiny", TINY)
    monkeypatch.setattr(race, "check_repeatable", lambda: None)
    monkeypatch.setattr(race, "check_committed", lambda file: None)
    return TINY


@cache
def recipe_of_tiny(*overrides: str) -> Recipe:
    """A recipe that is read once."""
    return read_recipe(TINY, overrides)


def invented(*overrides: str, known=(), completions=None, before=None) -> Record:
    """A submission to the tiny world, after the last record that is known, with the numbers that it is given."""
    read, last = recipe_of_tiny(*overrides), records.current_record(known)
    after = last.mark if last else None
    seeds = draw_seeds("tiny", read.changes, after)
    return candidate(read, known, after, numbers(seeds, completions, (before or LATER) if last else None))


def numbers(seeds, completions=None, before=None) -> Draw:
    """A draw that nobody trained."""
    ours = completions or [100] * 10
    rows, before_rows = ["0"] * 10, ["0"] * 10 if before else None
    made = dict(date="2026-01-31", seeds=seeds, rows=rows, before_rows=before_rows, build=BUILD)
    return Draw(completions=ours, before_completions=before, p=compare(ours, before).p, **made)


def drawn(record: Record, completions=None, before=None) -> Record:
    """The record with one more second draw with the numbers that it is given; those of a good recipe, unless told."""
    *others, last = draw_again(record, "somebody").draws
    found = numbers(last.seeds, completions, (before or LATER) if record.after else None)
    return replace(record, draws=[*others, replace(last, **vars(found))])
