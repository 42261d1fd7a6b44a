"""`rlexp speedrun sort lr=3e-3`: does this recipe learn the world from fewer completions than the record?

It trains the recipe and the record on seeds that nobody chose, and ends with an exit code: 0 yes, 10 no, 11 open;
1 if a run failed, 2 for a wrong question. docs/speedrun.md has the rules and the records.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rlexp.core.errors import ConfigError
from rlexp.core.exits import BAD_INPUT, FAILED, INTERRUPTED, RunFailed, describe_error, exit_with, safe_stdio
from rlexp.sweep.interrupt import end_undisturbed, signals_as_ctrl_c

EXAMPLES = """
examples:
  rlexp speedrun                                     # the worlds and their records
  rlexp speedrun sort lr=2e-3 entropy_coef=0         # is that better than the record of sort?
  rlexp speedrun sort lr=2e-3 entropy_coef=0 --record     # if it is, submit it: it is a candidate now
  rlexp speedrun --confirm sort-2 --by "your name"   # somebody else's second draw, which makes it a record or not
  rlexp speedrun --verify sort-2                     # train it again, with its draws, and compare bit by bit
"""


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line; end the process with one line and exit code 2 where it is wrong."""
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog="rlexp speedrun", description=__doc__, epilog=EXAMPLES, formatter_class=form, allow_abbrev=False
    )
    parser.error = lambda message: exit_with(f"{message} (rlexp speedrun --help)", BAD_INPUT)
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
    from rlexp.speedrun import race, records

    options.records = options.records or records.FOLDER
    if options.table:
        records.rewrite_page(folder=options.records)
    elif not (options.verify or options.confirm or options.words):
        print(records.tables(options.records), end="")
    else:
        answer = race.verify if options.verify else race.confirm if options.confirm else race.submit
        try:
            return answer(options)
        except race.Outdated as error:
            print(f"open: {error}")
            return race.OPEN
    return 0


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


if __name__ == "__main__":
    sys.exit(main())
