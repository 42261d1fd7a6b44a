"""Which part of a recipe matters? `rlexp ablate preset=dapo --against preset=grpo`."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from rlexp.analysis.data.errors import CommandParser
from rlexp.core.errors import ConfigError
from rlexp.core.exits import BAD_INPUT, FAILED, INTERRUPTED, RunFailed, describe_error, exit_with, safe_stdio
from rlexp.record.lock import released_at_the_end
from rlexp.sweep.interrupt import end_undisturbed, signals_as_ctrl_c

EXAMPLES = """
examples:
  rlexp ablate preset=dapo --against preset=grpo
  rlexp ablate preset=dapo --against preset=grpo --factorial --tune lr --seeds 8 --folder runs/dapo
  rlexp ablate --parts clip=higher,agg=token,entropy_coef=0 --ladder
  rlexp ablate --parts critic=ppo+norm=gae,agg=token --with task=bandit steps=200
"""
HELP = {
    "add-one": "the baseline, and it with each part alone (the default, with --leave-one-out)",
    "leave-one-out": "the recipe, and it without each part",
    "factorial": "all combinations; of more than six parts a fraction, whose aliases are named",
}


@safe_stdio()
@signals_as_ctrl_c()
@released_at_the_end()
def main(arguments: Sequence[str] | None = None) -> None:
    """Train the arms and print what each part is worth; exit code 2 for a wrong question."""
    parser = CommandParser(
        prog="rlexp ablate",
        description="Train a recipe with and without its parts, and say what each part is worth.",
        examples=EXAMPLES,
    )
    add = parser.add_argument
    add("recipe", nargs="*", help="overrides of the recipe, as preset=dapo")
    add(
        "--against",
        nargs="+",
        default=[],
        metavar="OVERRIDE",
        help="what it is compared with; the default run unless given",
    )
    add(
        "--parts",
        help="the parts, as clip=higher,agg=token; those joined by + go together; all differences unless given",
    )
    for design, text in HELP.items():
        add(f"--{design}", action="append_const", dest="designs", const=design, help=text)
    add(
        "--ladder",
        nargs="?",
        const="",
        metavar="ORDER",
        help="one part after another, in this order, as agg=token,clip=higher",
    )
    add(
        "--tune",
        metavar="KEY",
        help="judge each arm at its best value of a key: lr, or lr=3e-4,1e-3; the grid grows by itself",
    )
    add("--seeds", default="10", metavar="N", help="how many seeds, the same for all arms; 10 unless given")
    add("--budget", metavar="B", help="train each arm to it, with its own schedule: steps=200 or completions=20000")
    add("--metric", help="another metric than the score")
    add(
        "--endpoint",
        default="final",
        metavar="E",
        help="auc:completions, cost:METRIC>=VALUE:completions, … (docs/questions.md)",
    )
    add(
        "--smallest", type=float, help="the smallest effect that counts, on the metric's scale; .25 log-odds of a share"
    )
    add(
        "--with",
        nargs="+",
        default=[],
        dest="overrides",
        metavar="OVERRIDE",
        help="what all arms share, as task=bandit",
    )
    add("--folder", type=Path, help="where the runs go; the same command goes on there")
    options = parser.parse_args(arguments)
    designs = [*(options.designs or ()), *(["ladder"] if options.ladder is not None else [])]
    try:
        if not options.seeds.isdigit():
            raise ConfigError([f"--seeds {options.seeds}: must be a whole number"])
        from rlexp.ablation.train import ONE_AT_A_TIME, ablate
        from rlexp.analysis.report.ablation import publish

        result = ablate(
            *options.recipe,
            against=options.against,
            parts=options.parts,
            designs=designs or ONE_AT_A_TIME,
            order=options.ladder.split(",") if options.ladder else None,
            tune=options.tune,
            seeds=int(options.seeds),
            budget=options.budget,
            metric=options.metric,
            endpoint=options.endpoint,
            smallest=options.smallest,
            overrides=options.overrides,
            folder=options.folder,
        )
        publish(result)
    except KeyboardInterrupt as stop:
        end_undisturbed()
        given = [*(sys.argv[1:] if arguments is None else arguments)]
        folder = [f"--folder={place.partition('=')[2]}" for place in stop.args]
        again = [each for each in given if not each.startswith("--folder")] + folder
        exit_with(f"interrupted; go on with: rlexp ablate {shlex.join(again)}", INTERRUPTED)
    except RunFailed as error:
        exit_with(f"run failed: {describe_error(error)}", FAILED, error)
    except Exception as error:
        from rlexp.config.messages import explain

        exit_with(explain(error, [*options.recipe, *options.against, *options.overrides]), BAD_INPUT, error)


if __name__ == "__main__":
    main()
