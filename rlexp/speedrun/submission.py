"""A submission: a recipe, the record that it wants to beat, and both trained on the seeds that follow from them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import NamedTuple

from rlexp.core.errors import ConfigError
from rlexp.speedrun.race import Race, race
from rlexp.speedrun.recipe import Recipe, read_recipe
from rlexp.speedrun.records import FORMAT, Record, bits, build
from rlexp.speedrun.seeds import draw_seeds, fingerprint
from rlexp.speedrun.verdict import Verdict, judge, typical
from rlexp.speedrun.worlds import World


class Result(NamedTuple):
    """A recipe and the one that it is compared with, on the same seeds."""

    seeds: list[int]
    ours: Race
    theirs: Race | None
    """None for a first record, which has nobody to beat."""

    @property
    def verdict(self) -> Verdict | None:
        """Whether ours beats theirs; None where there are none."""
        return None if self.theirs is None else judge(self.ours.completions, self.theirs.completions)

    @property
    def is_record(self) -> bool:
        """Whether the verdict says so; of a first record whether more than half of its runs arrive."""
        return typical(self.ours.completions) is not None if self.theirs is None else self.verdict.beats


def submitted(world: World, overrides: Sequence[str], earlier: Sequence[Record]) -> Recipe:
    """Return the recipe of a submission; ConfigError if it is no recipe, or that of the record that it would beat."""
    recipe = read_recipe(world, overrides)
    if earlier and recipe.changes == earlier[-1].changes:
        raise ConfigError([f"{recipe.text}: is the recipe of {earlier[-1].name}, which stands"])
    return recipe


def measure(
    recipe: Recipe, earlier: Sequence[Record], folder: Path, threads: int | None = None, draw: str = ""
) -> Result:
    """Train a recipe, and that of the last of ``earlier``, on the seeds of the submission, below ``folder``.

    What was trained there already by the same code on such a machine is not trained again. ``draw`` draws other seeds.
    """
    before = earlier[-1] if earlier else None
    seeds = draw_seeds(recipe.world, recipe.changes, before.mark if before else None, draw)
    place = folder / folder_name(recipe, seeds)
    ours = race(recipe, seeds, place / "ours", threads)
    theirs = race(read_recipe(recipe.world, before.recipe), seeds, place / "before", threads) if before else None
    return Result(seeds, ours, theirs)


def folder_name(recipe: Recipe, seeds: Sequence[int]) -> str:
    """Return the name of the folder of a submission: other recipes, seeds, code or machines have others."""
    return f"{recipe.world.name}-{fingerprint([recipe.overrides, list(seeds), bits()])[:12]}"


def new_record(recipe: Recipe, earlier: Sequence[Record], result: Result) -> Record:
    """Return the record that a result is."""
    theirs, verdict = result.theirs, result.verdict
    return Record(
        format=FORMAT,
        world=recipe.world.name,
        number=len(earlier) + 1,
        date=date.today().isoformat(),
        recipe=list(recipe.overrides),
        changes=recipe.changes,
        after=earlier[-1].mark if earlier else None,
        seeds=result.seeds,
        completions=result.ours.completions,
        rows=result.ours.rows,
        before_completions=theirs.completions if theirs else None,
        before_rows=theirs.rows if theirs else None,
        p=verdict.p if verdict else None,
        build=build(),
        config=recipe.config,
    )
