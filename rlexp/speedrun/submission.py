"""A submission, and the second draw that makes it a record: a recipe and the one before, trained on the same seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from secrets import token_hex

from rlexp.speedrun.race import Race, race
from rlexp.speedrun.recipe import Recipe
from rlexp.speedrun.records import FORMAT, Draw, Record, SecondDraw, bits, build, second_seeds
from rlexp.speedrun.seeds import fingerprint
from rlexp.speedrun.verdict import judge


def measure(recipe: Recipe, before: Recipe | None, seeds: list[int], folder: Path, threads: int | None) -> Draw:
    """Train a recipe, and that of the record before, on seeds, below ``folder``.

    What was trained there already by the same code on such a machine is not trained again.
    """
    place = folder / f"{recipe.world.name}-{fingerprint([recipe.overrides, seeds, bits()])[:12]}"
    ours = race(recipe, seeds, place / "ours", threads)
    theirs = race(before, seeds, place / "before", threads) if before else Race(None, None)
    return Draw(
        date=date.today().isoformat(),
        seeds=seeds,
        completions=ours.completions,
        rows=ours.rows,
        before_completions=theirs.completions,
        before_rows=theirs.rows,
        p=judge(ours.completions, theirs.completions).p,
        build=build(),
    )


def new_record(recipe: Recipe, known: Sequence[Record], before: Record | None, draw: Draw) -> Record:
    """Return the candidate that a submission is, which no second draw has confirmed yet."""
    return Record(
        **vars(draw),
        format=FORMAT,
        world=recipe.world.name,
        number=len(known) + 1,
        recipe=list(recipe.overrides),
        changes=recipe.changes,
        after=before.mark if before else None,
        config=recipe.config,
        draws=[],
    )


def draw_again(record: Record, by: str) -> Record:
    """Return a record with one more second draw, of seeds by chance, which is to be trained."""
    entropy = token_hex(16)
    nothing = dict(completions=[], rows=[], before_completions=None, before_rows=None, p=None, build={})
    seeds = second_seeds(record.mark, record.draws, entropy)
    draw = SecondDraw(by=by, entropy=entropy, date=date.today().isoformat(), seeds=seeds, **nothing)
    return replace(record, draws=[*record.draws, draw])
