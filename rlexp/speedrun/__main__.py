"""`rlexp speedrun sort lr=3e-3`: does this recipe learn the world from fewer completions than the record?

It trains the recipe and the record on seeds that nobody chose, and ends with an exit code: 0 yes, 10 no, 11 open;
1 if a run failed, 2 for a wrong question. docs/speedrun.md has the rules and the records.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from rlexp.core.errors import ConfigError
from rlexp.core.exits import BAD_INPUT, FAILED, INTERRUPTED, RunFailed, describe_error, exit_with, safe_stdio
from rlexp.sweep.interrupt import end_undisturbed, signals_as_ctrl_c

if TYPE_CHECKING:
    from rlexp.speedrun.records import Comparison, Draw, Record

EXAMPLES = """
examples:
  rlexp speedrun                                     # the worlds and their records
  rlexp speedrun sort lr=2e-3 entropy_coef=0         # is that better than the record of sort?
  rlexp speedrun sort lr=2e-3 entropy_coef=0 --record     # if it is, submit it: it is a candidate now
  rlexp speedrun --confirm sort-2 --by "your name"   # somebody else's second draw, which makes it a record or not
  rlexp speedrun --verify sort-2                     # train it again, with its draws, and compare bit by bit
"""


class Parser(argparse.ArgumentParser):
    """A parser that ends wrong arguments with one line and exit code 2."""

    def error(self, message: str) -> NoReturn:
        """End the process."""
        exit_with(f"{message} (rlexp speedrun --help)", BAD_INPUT)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    form = argparse.RawDescriptionHelpFormatter
    parser = Parser(
        prog="rlexp speedrun", description=__doc__, epilog=EXAMPLES, formatter_class=form, allow_abbrev=False
    )
    parser.add_argument("words", nargs="*", metavar="world override", help="a world, and the overrides of a recipe")
    parser.add_argument("--record", action="store_true", help="write the submission down, if it is better")
    parser.add_argument("--confirm", metavar="RECORD", help="train a submission, as sort-2, on seeds drawn now")
    parser.add_argument("--by", metavar="NAME", help="with --confirm: who makes the second draw")
    parser.add_argument("--verify", metavar="RECORD", help="train a record, as sort-2, again and compare")
    parser.add_argument("--table", action="store_true", help="write the tables of docs/speedrun.md anew")
    parser.add_argument("--threads", type=int, help="of the processor; they change no result")
    parser.add_argument("--records", type=Path, metavar="FOLDER", help="other records than docs/speedrun/records")
    parser.add_argument("--folder", type=Path, default=Path("runs/speedrun"), help="of the runs; runs/speedrun")
    options = parser.parse_intermixed_args(arguments)
    if options.threads is not None and options.threads < 1:
        parser.error(f"--threads {options.threads}: must be at least 1")
    if bool(options.by) != bool(options.confirm):
        parser.error("--confirm and --by: a second draw says who made it")
    asked = [name for name in ("verify", "confirm", "table") if getattr(options, name)]
    if len(asked) > 1 or asked and (options.words or options.record):
        parser.error(f"--{asked[0]}: takes no world, no recipe, no --record and no other question")
    return options


def run(options: argparse.Namespace) -> int:
    """Do what was asked; return the exit code."""
    from rlexp.speedrun import page, race, records

    options.records = options.records or records.FOLDER
    try:
        if options.verify:
            record, before, _ = records.find_record(options.verify, options.records)
            answer, lines = race.verify(record, before, options.folder, options.threads)
            print("\n".join(lines))
            return answer
        if options.confirm or options.words:
            return (confirm if options.confirm else submit)(options)
    except race.Outdated as error:
        print(f"open: {error}")
        return race.OPEN
    if options.table:
        page.rewrite(folder=options.records)
    else:
        print(page.tables(options.records), end="")
    return 0


def submit(options: argparse.Namespace) -> int:
    """Measure a recipe against the record of its world, print both, and write it down if it is better and is to be."""
    from rlexp.speedrun import race, records
    from rlexp.speedrun.recipe import find_world, read_recipe

    name, *overrides = options.words
    world = find_world(name)
    known = records.records_of(world, options.records)
    before = records.current_record(known)
    recipe = read_recipe(world, overrides)
    if same := [record.name for record in known if record.changes == recipe.changes]:
        raise ConfigError([f"{recipe.text}: is the recipe of {same[0]}"])
    if options.record:
        race.check_repeatable()
        if known and not known[-1].is_drawn:
            waiting = known[-1].name
            raise ConfigError([f"{waiting} comes first: rlexp speedrun --confirm {waiting} --by NAME"])
    after = before.mark if before else None
    theirs = race.recipe_of(before) if before else None
    seeds = records.draw_seeds(name, recipe.changes, after)
    draw = race.measure(recipe, theirs, seeds, options.folder, options.threads)
    comparison = records.compare(draw.completions, draw.before_completions)
    told = report(recipe.text, before, draw, comparison)
    if comparison.beats and options.record:
        record = race.candidate(recipe, known, after, draw)
        print(f"{told}; a record once somebody else has confirmed it: {keep(record, options)}")
    else:
        print(f"{told}{'; --record submits it' * comparison.beats}")
    return race.YES if comparison.beats else race.NO


def confirm(options: argparse.Namespace) -> int:
    """Make a second draw, or go on with one, keep it in the record, and print what all of them say."""
    from rlexp.speedrun import race, records

    record, before, later = records.find_record(options.confirm, options.records)
    if later:
        raise ConfigError([f"{record.name}: {later[-1].name} has followed it; only the last takes another draw"])
    recipes = [race.recipe_of(record), race.recipe_of(before) if before else None]
    race.check_repeatable()
    if record.is_drawn or not record.draws:
        race.check_committed(options.records / f"{record.name}.json")
        record = race.draw_again(record, options.by)
        records.write(record, options.records)
    *others, last = record.draws
    draw = race.measure(*recipes, last.seeds, options.folder, options.threads)
    record = replace(record, draws=[*others, replace(last, **vars(draw))])
    told = report(record.text, before, draw, record.comparison, len(record.draws))
    print(f"{told}; written: {keep(record, options)}")
    return race.YES if record.comparison.beats else race.NO


def keep(record: Record, options: argparse.Namespace) -> Path:
    """Write a record, and the page if it is one of this project; return its file."""
    from rlexp.speedrun import page, records

    file = records.write(record, options.records)
    if options.records == records.FOLDER:
        page.rewrite()
    return file


def report(recipe: str, before: Record | None, draw: Draw, comparison: Comparison, draws: int = 0) -> str:
    """Print what each seed of a draw took; return what that means, with the second draws before it, in a line."""
    from rlexp.speedrun.page import arrived, middle

    races = [each for each in (draw.completions, draw.before_completions) if each is not None]
    names = ["recipe", *([before.name] if before else [])]
    rows = [["seed", *names]]
    for place, seed in enumerate(draw.seeds):
        rows.append([str(seed), *("never" if race[place] is None else f"{race[place]:,}" for race in races)])
    rows += [["median", *map(middle, races)], ["arrived", *map(arrived, races)]]
    print("\n".join("".join(f"{cell:>14}" for cell in row) for row in rows))
    word, on = "yes" if comparison.beats else "no", f" on {draws} second draw{'s' * (draws > 1)}" * bool(draws)
    if before is None:
        why = "it is the first of its world" if comparison.beats else "half of its runs or more never arrive"
        return f"{word}: {recipe}: {why}{on}"
    found = "beats" if comparison.beats else "is not shown to beat"
    return f"{word}: {recipe} {found} {before.name}{on}: p = {comparison.p:.2g}"


@safe_stdio()
@signals_as_ctrl_c()
def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; whatever is wrong ends in one line."""
    options = parse(arguments)
    try:
        return run(options)
    except KeyboardInterrupt:
        end_undisturbed()
        exit_with("interrupted; the same command goes on", INTERRUPTED)
    except RunFailed as error:
        exit_with(describe_error(error), FAILED, error)
    except ConfigError as error:
        exit_with(str(error), BAD_INPUT, error)
    except OSError as error:
        exit_with(f"{error.filename or 'the output'}: {error.strerror or error}", FAILED, error)
    return FAILED


if __name__ == "__main__":
    sys.exit(main())
