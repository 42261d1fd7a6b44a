"""Training what a declared question asks for, and answering it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rlexp.analysis.stats.question import QUESTION_FILE, Answer, answer
from rlexp.analysis.stats.rates import extend
from rlexp.api import mistakes_as_config_errors
from rlexp.core.errors import ConfigError, format_value
from rlexp.question import new_folder
from rlexp.question.declare import APART, Question, declare, first_runs
from rlexp.question.spec import asked_elsewhere, read_question
from rlexp.question.sweep import Run, read_before, runs_of, train_arms, write_down

WIDTH = 1 / 3
"""Seeds are added, up to ``most_seeds``, until the standard error is at most this part of the smallest effect."""


def ask(question: str | Path | Mapping[str, Any], *overrides: str, folder: str | Path | None = None) -> Answer:
    """Declare a question, train what it asks for, and answer it.

    Args:
        question: a YAML file, the name of one in conf/study/questions, or a mapping with its keys (docs/ask.md).
        overrides: what all runs share, in place of what the question's ``with`` says of the same (``asked_elsewhere``).
        folder: where the runs go, runs/<time> unless given. The same call goes on there.

    Returns:
        A word for each assertion, with effects and what was dropped; see ``Answer``.

    Raises:
        ConfigError: a wrong question, in a line, before anything is trained.
        RunFailed: runs that did not complete.
    """
    asked = checked(question, overrides)
    file = Path(folder or new_folder("question")) / QUESTION_FILE
    state = read_before(file, asked.declared) or started(file, asked)
    key = (asked.declared["tune"] or {}).get("key")
    trained: set[Run] = set()
    while True:
        train(file, asked, state, trained)
        found = answer(file.parent)
        changed = False
        for condition in found.conditions:
            if key:
                grown = {value for grid in condition.grids.values() for value in extend(grid, condition.smallest).rates}
                changed |= bool(grown - {*state["values"][condition.name]})
                state["values"][condition.name] = sorted({*state["values"][condition.name], *grown})
        if not changed and asked.declared["most_seeds"]:
            changed = add_seeds(found, state["seeds"], asked.declared["most_seeds"])
        if not changed:
            return found


def checked(question: str | Path | Mapping[str, Any], overrides: Sequence[str] = ()) -> Question:
    """Read and check a question; ConfigError if no run can answer it."""
    written, overrides = asked_elsewhere(read_question(question), overrides)
    with mistakes_as_config_errors([*written.shared, *overrides]):
        return declare(written, overrides)


def plan_text(asked: Question) -> str:
    """Say what a question would train at first."""
    declared = asked.declared
    starts, seeds = declared.get("starts") or (), len(declared["seeds"])
    arms = list(dict.fromkeys(cell.arm for cell in asked.cells))
    tuned = f", at {len(next(iter(asked.grids.values())))} values of {declared['tune']['key']}" if asked.grids else ""
    over = f"{len(starts)} starts with {seeds} seeds each" if starts else f"{seeds} seeds"
    more = " to begin with" if asked.grids or declared["most_seeds"] else ""
    return (
        f"{len(declared['conditions'])} conditions, {len(arms)} arms ({', '.join(arms)}), {over}{tuned}: "
        f"{first_runs(declared)} runs{more}."
    )


def started(file: Path, asked: Question) -> dict[str, Any]:
    """Return the grids and seeds that a question begins with; ConfigError where its runs would be older than it."""
    if next(file.parent.glob("*/config.yaml"), None):
        raise ConfigError([f"{file.parent}: has runs that are older than the question; name another --folder"])
    units = asked.declared.get("starts") or asked.declared["seeds"]
    return {
        "declared_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "values": asked.grids,
        "seeds": {
            condition["name"]: [APART * place + unit for unit in units]
            for place, condition in enumerate(asked.declared["conditions"])
        },
    }


def train(file: Path, asked: Question, state: Mapping[str, Any], trained: set[Run]) -> None:
    """Write down what is trained, and train what is not there yet."""
    key = (asked.declared["tune"] or {}).get("key")
    cells = []
    for cell in asked.cells:
        values = state["values"].get(cell.condition) or []
        points = [[*cell.overrides, f"{key}={format_value(value)}"] for value in values] or [[*cell.overrides]]
        cells.append({"condition": cell.condition, "arm": cell.arm, "budget": cell.budget, "points": points})
    rest = {name: state[name] for name in ("declared_at", "values", "seeds")}
    write_down(file, asked.declared, rest | {"cells": cells})
    seeds = asked.declared["seeds"] if asked.declared.get("starts") else None
    wanted = [
        run
        for cell in cells
        for point in cell["points"]
        for run in runs_of(point, state["seeds"][cell["condition"]], seeds)
    ]
    train_arms(file, asked.of_sweep, wanted, trained, "the same command with resume=failed trains them again")


def add_seeds(found: Answer, seeds: dict[str, list[int]], most: int) -> bool:
    """Add the seeds that bring each valid condition's standard errors down to the width; tell whether there are any.

    Only the width of an interval is looked at, never where it lies.
    """
    added = False
    for place, condition in enumerate(found.conditions):
        n, needed = len(seeds[condition.name]), 0
        for assertion in found.assertions:
            effect = assertion.effects[place]
            ratio = effect.found.error / (WIDTH * assertion.smallest)
            if not effect.fails and ratio > 1:
                needed = max(needed, math.ceil(n * ratio**2))
        goal = min(most, needed)
        if goal > n:
            first = max(seeds[condition.name]) + 1
            seeds[condition.name] = [*seeds[condition.name], *range(first, first + goal - n)]
            added = True
    return added
