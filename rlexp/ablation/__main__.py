"""Which part of a recipe matters? `rlexp ablate preset=dapo --against preset=grpo`."""

from __future__ import annotations

import argparse
import json
import re
import shlex
import sys
from collections.abc import Sequence
from functools import partial

from rlexp.analysis.data.errors import CommandParser
from rlexp.core.errors import ConfigError
from rlexp.core.exits import BAD_INPUT, FAILED, INTERRUPTED, RunFailed, describe_error, exit_with, safe_stdio
from rlexp.question import new_folder
from rlexp.record.lock import released_at_the_end
from rlexp.sweep.interrupt import end_undisturbed, signals_as_ctrl_c

EXAMPLES = """
examples:
  rlexp ablate preset=dapo --against preset=grpo
  rlexp ablate preset=dapo --against preset=grpo --factorial --tune lr --seeds 8 --folder runs/dapo
  rlexp ablate --parts clip=higher,agg=token,entropy_coef=0 --ladder
  rlexp ablate --parts critic=ppo+norm=gae,agg=token --with task=bandit steps=200
"""
DESIGNS = {
    "add-one": "the baseline, and it with each part alone (the default, with --leave-one-out)",
    "leave-one-out": "the recipe, and it without each part",
    "factorial": "all combinations; of more than six parts a fraction, whose aliases are named",
}
OPTIONS = {  # each with what stands for its value
    "tune": ("KEY", "judge each arm at its best value of a key: lr, or lr=3e-4,1e-3; the grid grows by itself"),
    "seeds": ("N", "how many seeds, the same for all arms, or which: 100,101,102; 10 unless given"),
    "starts": ("N", "how many starts (start.seed), each with --seeds seeds: intervals then count starts"),
    "budget": ("B", "train each arm to it, with its own schedule: steps=200 or completions=20000"),
    "metric": ("METRIC", "another metric than the score"),
    "endpoint": ("E", "auc:completions, cost:METRIC>=VALUE:completions, … (docs/questions.md)"),
}


def read(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line; exit with 2 and a line where it cannot be read."""
    what = "Train a recipe with and without its parts, and say what each part is worth."
    parser = CommandParser("rlexp ablate", what, EXAMPLES)
    add = partial(parser.add_argument, metavar="OVERRIDE")
    add("recipe", nargs="*", metavar="recipe", help="overrides of the recipe, as preset=dapo")
    add("--against", nargs="+", default=[], help="what it is compared with; the default run unless given")
    parts = "the parts, as clip=higher,agg=token; those joined by + go together; all differences unless given"
    add("--parts", metavar="PARTS", help=parts)
    for design, text in DESIGNS.items():
        parser.add_argument(f"--{design}", action="append_const", dest="designs", const=design, help=text)
    ladder = "one part after another, in this order, as agg=token,clip=higher"
    add("--ladder", nargs="?", const="", metavar="ORDER", help=ladder)
    for option, (metavar, text) in OPTIONS.items():
        add(f"--{option}", metavar=metavar, help=text)
    smallest = "the smallest effect that counts, on the metric's scale; .25 log-odds of a share"
    add("--smallest", type=float, metavar="SMALLEST", help=smallest)
    add("--with", nargs="+", default=[], dest="overrides", help="what all arms share, as task=bandit")
    add("--folder", metavar="FOLDER", help="where the runs go; the same command goes on there")
    parser.add_argument("--json", action="store_true", help="print effects and arms as JSON, and nothing else")
    return parser.parse_args(arguments)


def seeds_of(text: str) -> int | list[int]:
    """Return a number of seeds, or those that are listed."""
    if not re.fullmatch(r"\d+(,\d+)*", text):
        raise ConfigError([f"--seeds {text}: must be a whole number, or several, as 100,101,102"])
    return [int(each) for each in text.split(",")] if "," in text else int(text)


def number_of(option: str, text: str | None) -> int | None:
    """Return a whole number; ConfigError for another text."""
    if text is not None and not text.isdecimal():
        raise ConfigError([f"{option} {text}: must be a whole number"])
    return text and int(text)


@safe_stdio()
@signals_as_ctrl_c()
@released_at_the_end()
def main(arguments: Sequence[str] | None = None) -> None:
    """Train the arms and print what each part is worth; exit code 2 for a wrong question."""
    arguments = sys.argv[1:] if arguments is None else [*arguments]
    options = read(arguments)
    folder, ladder = options.folder or new_folder("ablation"), options.ladder
    try:
        from rlexp.ablation.train import ONE_AT_A_TIME, ablate
        from rlexp.analysis.report.ablation import as_json, publish, write_files

        result = ablate(
            *options.recipe,
            against=options.against,
            parts=options.parts,
            designs=[*(options.designs or ()), *["ladder"] * (ladder is not None)] or ONE_AT_A_TIME,
            order=ladder.split(",") if ladder else None,
            tune=options.tune,
            seeds=seeds_of(options.seeds or "10"),
            starts=number_of("--starts", options.starts),
            budget=options.budget,
            metric=options.metric,
            endpoint=options.endpoint or "final",
            smallest=options.smallest,
            overrides=options.overrides,
            folder=folder,
        )
        if options.json:
            write_files(result)
            print(json.dumps(as_json(result), ensure_ascii=False))
        else:
            publish(result)
    except KeyboardInterrupt:
        end_undisturbed()
        again = arguments if options.folder else [*arguments, "--folder", folder]
        exit_with(f"interrupted; go on with: rlexp ablate {shlex.join(again)}", INTERRUPTED)
    except RunFailed as error:
        exit_with(f"run failed: {describe_error(error)}", FAILED, error)
    except Exception as error:
        from rlexp.config.messages import explain

        exit_with(explain(error, [*options.recipe, *options.against, *options.overrides]), BAD_INPUT, error)


if __name__ == "__main__":
    main()
