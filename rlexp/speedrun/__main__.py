"""`rlexp speedrun sort lr=3e-3`: does this recipe learn the world from fewer completions than the record?

It trains the recipe and the record on seeds that nobody chose, and ends with an exit code: 0 yes, 10 no, 11 open;
1 if a run failed, 2 for a wrong question. docs/speedrun.md has the rules and the records.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from rlexp.core.errors import ConfigError
from rlexp.core.exits import BAD_INPUT, FAILED, INTERRUPTED, RunFailed, describe_error, exit_with
from rlexp.core.output import unstoppable_output
from rlexp.sweep.interrupt import end_undisturbed, signals_as_ctrl_c

if TYPE_CHECKING:
    from rlexp.speedrun.records import Record
    from rlexp.speedrun.submission import Result
    from rlexp.speedrun.verify import Answer

EXAMPLES = """
examples:
  rlexp speedrun                                     # the worlds and their records
  rlexp speedrun sort lr=2e-3 entropy_coef=0         # is that better than the record of sort?
  rlexp speedrun sort lr=2e-3 entropy_coef=0 --record     # if it is, write it down
  rlexp speedrun --verify sort-2                     # train a record again and compare it bit by bit
  rlexp speedrun --verify sort-2 --draw "any text"   # does it beat the one before on other seeds, too?
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
    parser.add_argument("--record", action="store_true", help="write the record down, if it is one")
    parser.add_argument("--verify", metavar="RECORD", help="train a record, as sort-2, again and compare")
    parser.add_argument("--draw", metavar="TEXT", default="", help="with --verify: other seeds, drawn from this text")
    parser.add_argument("--table", action="store_true", help="write the tables of docs/speedrun.md anew")
    parser.add_argument("--threads", type=int, help="of the processor; they change no result")
    parser.add_argument("--records", type=Path, metavar="FOLDER", help="other records than docs/speedrun/records")
    parser.add_argument("--folder", type=Path, default=Path("runs/speedrun"), help="of the runs; runs/speedrun")
    options = parser.parse_intermixed_args(arguments)
    if options.threads is not None and options.threads < 1:
        parser.error(f"--threads {options.threads}: must be at least 1")
    if options.draw and not options.verify:
        parser.error("--draw: is for --verify; a submission's own seeds follow from it")
    if (options.verify or options.table) and (options.words or options.record):
        parser.error(f"{'--verify' if options.verify else '--table'}: takes no world, no recipe and no --record")
    return options


def run(options: argparse.Namespace) -> int:
    """Do what was asked; return the exit code."""
    from rlexp.speedrun import page, records

    options.records = options.records or records.FOLDER
    if options.verify:
        return verified(options)
    if options.table:
        page.rewrite(folder=options.records)
        return 0
    if not options.words:
        print(page.tables(options.records), end="")
        return 0
    return submit(options)


def submit(options: argparse.Namespace) -> Answer:
    """Measure a recipe against the record of its world, print both, and write it down if it is one and is to be."""
    from rlexp.speedrun import page, records, submission
    from rlexp.speedrun.verify import Answer
    from rlexp.speedrun.worlds import find_world

    name, *overrides = options.words
    world = find_world(name)
    earlier = records.records_of(world, options.records)
    recipe = submission.submitted(world, overrides, earlier)
    if options.record:
        records.check_committed()
    result = submission.measure(recipe, earlier, options.folder, options.threads)
    told = report(recipe.text, earlier, result)
    if result.is_record and options.record:
        record = submission.new_record(recipe, earlier, result)
        print(f"{told}; written: {records.write(record, options.records)}")
        if options.records == records.FOLDER:
            page.rewrite()
    else:
        print(f"{told}{'; --record writes it down' * result.is_record}")
    return Answer.YES if result.is_record else Answer.NO


def verified(options: argparse.Namespace) -> Answer:
    """Train a record again on its own seeds, or with ``--draw`` on others, and print what came of it."""
    from rlexp.speedrun import records, submission
    from rlexp.speedrun.verify import Answer, recipe_of, verify

    record, earlier = records.find_record(options.verify, options.records)
    if not options.draw:
        answer, lines = verify(record, earlier, options.folder, options.threads)
        print("\n".join(lines))
        return answer
    if not earlier:
        raise ConfigError([f"{record.name}: is the first of its world; there is none to compare it with"])
    for each in (record, earlier[-1]):
        if problem := recipe_of(each)[1]:
            print(f"open: {each.name}: {problem}")
            return Answer.OPEN
    recipe = recipe_of(record)[0]
    result = submission.measure(recipe, earlier, options.folder, options.threads, options.draw)
    print(report(recipe.text, earlier, result))
    return Answer.YES if result.is_record else Answer.NO


def report(recipe: str, earlier: Sequence[Record], result: Result) -> str:
    """Print what each seed took; return what that means, in a line."""
    from rlexp.speedrun.page import arrived, middle

    races = [result.ours.completions, *([result.theirs.completions] if result.theirs else [])]
    names = ["recipe", *[record.name for record in earlier[-1:]]]
    rows = [["seed", *names]]
    for place, seed in enumerate(result.seeds):
        rows.append([str(seed), *("never" if race[place] is None else f"{race[place]:,}" for race in races)])
    rows += [["median", *map(middle, races)], ["arrived", *map(arrived, races)]]
    print("\n".join("".join(f"{cell:>14}" for cell in row) for row in rows))
    if result.verdict is None:
        why = "it is the first of its world" if result.is_record else "half of its runs or more never arrive"
        return f"{'yes' if result.is_record else 'no'}: {recipe}: {why}"
    found = "beats" if result.is_record else "is not shown to beat"
    return f"{'yes' if result.is_record else 'no'}: {recipe} {found} {names[1]}: p = {result.verdict.p:.2g}"


@unstoppable_output()
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
