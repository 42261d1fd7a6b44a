"""Trains a recipe on seeds through ``rlexp.api`` and counts the completions until its world is learned."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rlexp.api import SweepFailed, sweep
from rlexp.core.exits import RunFailed
from rlexp.record.files import METRICS_FILE
from rlexp.speedrun.recipe import Recipe
from rlexp.speedrun.seeds import fingerprint

CLOCK = "time/"
ENDED = {"completed", "diverged"}


class Race(NamedTuple):
    """What came of a recipe, by seed and in the order of the seeds."""

    completions: list[int | None]
    """Sampled until the first evaluation at which the world was learned; None where there was none."""
    rows: list[str]
    """Fingerprints of all that the runs have logged, the clock aside."""


def race(recipe: Recipe, seeds: Sequence[int], folder: Path, threads: int | None = None) -> Race:
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
    logged = [list(unclocked(Path(runs[seed]) / METRICS_FILE)) for seed in seeds]
    return Race([arrival(recipe, rows) for rows in logged], [fingerprint(rows) for rows in logged])


def unclocked(file: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows that a run has logged, without the clock."""
    for line in file.read_text(encoding="utf-8").splitlines():
        yield {key: value for key, value in json.loads(line).items() if not key.startswith(CLOCK)}


def arrival(recipe: Recipe, rows: Sequence[dict[str, Any]]) -> int | None:
    """Return the completions sampled by the first row in which the world is learned; None if none is such.

    All that were sampled for training count: those that dynamic sampling has discarded, those of a buffer, and greedy
    ones that a baseline asks for. Those of evaluations do not.
    """
    world = recipe.world
    for row in rows:
        value = row.get(world.metric)
        if value is not None and value >= world.target:
            return int(row["progress/completions"]) + int(row["step"]) * recipe.uncounted
    return None
