"""A world that is learned in a second, and records that were never trained."""

from dataclasses import replace

import pytest

from rlexp.speedrun import records, worlds
from rlexp.speedrun.recipe import read_recipe
from rlexp.speedrun.records import Record
from rlexp.speedrun.seeds import draw_seeds
from rlexp.speedrun.verdict import judge
from rlexp.speedrun.worlds import World

TINY = World(
    name="tiny",
    overrides=("task=bandit", "task.easy=4", "task.hard=0", "task.impossible=0", "task.easy_right=32", "model=tabular")
    + ("group_size.completions=4", "group_size.prompts=8", *worlds.evaluated(every=1, steps=8)),
    metric="eval/exact/accuracy",
    target=0.68,
    what="four easy questions",
    fixed=("temperature",),
)
BUILD = {"version": "0", "commit": "c0", "files": "f0", "torch": "t", "cpu": "c", "vectors": "v"}
BUILD |= {"MKL_CBWR": None, "ATEN_CPU_CAPABILITY": None}


@pytest.fixture
def tiny(monkeypatch):
    """The world among the others, and a build of which records may be set."""
    monkeypatch.setitem(worlds.WORLDS, "tiny", TINY)
    monkeypatch.setattr(records, "check_committed", lambda: None)
    return TINY


def invented(*recipe: str, after: Record | None = None, completions=None, before=None) -> Record:
    """A record of the tiny world with the numbers that it is given, ten by ten."""
    read, mark = read_recipe(TINY, recipe), after.mark if after else None
    completions = completions or [100] * 10
    before = (before or [200 + place for place in range(10)]) if after else None
    return Record(
        format=records.FORMAT,
        world="tiny",
        number=after.number + 1 if after else 1,
        date="2026-01-31",
        recipe=list(recipe),
        changes=read.changes,
        after=mark,
        seeds=draw_seeds(TINY, read.changes, mark),
        completions=completions,
        rows=["0"] * 10,
        before_completions=before,
        before_rows=["0"] * 10 if before else None,
        p=judge(completions, before).p if before else None,
        build=BUILD,
        config=read.config,
    )


def changed(record: Record, **values) -> Record:
    """The record with other values."""
    return replace(record, **values)
