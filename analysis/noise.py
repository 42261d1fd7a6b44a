"""By how much must two runs differ? The luck of the seeds in a sweep that is there: `rlexp noise runs/<sweep>`.

What a paired seed is worth, what means of n seeds must differ by, and what would settle a difference of a given size.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.text import Text

from rlexp.analysis.data.errors import AnalysisError, CommandParser, ends_in_a_line
from rlexp.analysis.data.load import load
from rlexp.analysis.data.readers.detect import holds_logs
from rlexp.analysis.data.readers.logs import Columns
from rlexp.analysis.data.readers.options import LOGS_HELP, add_column_options, say_origin, say_problems, take_columns
from rlexp.analysis.plan import seconds_a_run
from rlexp.analysis.report.tables import Terminal, TextTable, plain, print_table
from rlexp.analysis.stats.answer import Question, answer
from rlexp.analysis.stats.comparison import Comparison
from rlexp.analysis.stats.estimates import Interval
from rlexp.analysis.stats.formatting import DASH, decimal_places, format_interval, format_number
from rlexp.analysis.stats.noise import Noise, noise_of, noise_statement, statement
from rlexp.analysis.stats.significance import seeds_for_effect, seeds_until_decided

__all__ = ["main", "noise_statement"]
SEEDS = (1, 2, 3, 5, 10, 20, 40)
EXAMPLES = """
examples:
  rlexp noise runs/<sweep>
  rlexp noise runs/<sweep> --effect 0.02
  rlexp noise runs/<sweep> --metric eval/pass@8 --json
  rlexp noise runs.csv --metric accuracy
"""


def noise_of_folder(path: str | Path, metric: str, columns: Columns) -> Noise:
    """Noise of a metric in other runs.

    Args:
        path: of a sweep, or of logs of another tool.
        metric: that both have.
        columns: what of logs of another tool is the arm, the seed and the step.

    Raises:
        AnalysisError: They have no such metric, no two seeds of an arm, or several strata.
    """
    is_log = holds_logs(Path(path))
    data = load(path, columns=columns._replace(metric=metric) if is_log else Columns())
    comparisons = answer(data, Question(metric=None if is_log else metric)).comparisons
    if len(comparisons) > 1:
        raise AnalysisError(f"--noise {path}: has several strata, and so no one noise; name a sweep of one")
    return noise_of(comparisons[0])


class Settled(NamedTuple):
    """What would settle a difference of a given size."""

    effect: float
    seeds: int | None
    """Paired seeds that find it with 80 % power by the rule of `rlexp plan`; None beyond `significance.MOST`."""
    in_turns: float
    """Seeds that `until_decided` takes on average."""
    minutes: float | None
    """Of all arms at this sweep's speed; None where that is not known."""


def settled(noise: Noise, effect: float, family: int, seconds: float | None) -> Settled:
    """Seeds and minutes for an effect, one of `family` differences, at so many seconds a run."""
    seeds = seeds_for_effect(effect, noise.paired_sd, family)
    minutes = seeds * noise.arms * seconds / 60 if seeds and seconds else None
    return Settled(effect, seeds, seeds_until_decided(effect, noise.paired_sd, family), minutes)


def as_json(noise: Noise, comparison: Comparison, settles: Settled | None) -> dict[str, Any]:
    """The numbers of one stratum."""
    ends = {
        "two_runs": noise.must_differ(),
        "two_runs_interval": noise.two_runs_interval,
        "two_paired_runs": noise.must_differ(paired=True),
        "paired_worth": noise.paired_worth,
        "paired_worth_interval": noise.paired_worth_interval,
        "paired_worth_at_seeds": noise.paired_worth_at(noise.seeds),
    }
    means = [{"seeds": n, "unpaired": noise.must_differ(n), "paired": noise.must_differ(n, True)} for n in SEEDS]
    found = {
        "stratum": comparison.stratum,
        "metric": comparison.metric,
        "statement": statement([noise], comparison.metric),
    }
    found |= noise._asdict() | ends
    found = {key: list(value) if isinstance(value, Interval) else value for key, value in found.items()}
    return plain(found | {"means": means, "settled": settles and settles._asdict()})


def print_noise(noise: Noise, comparison: Comparison, settles: Settled | None, console: Console) -> None:
    """A sentence, what to differ by at each number of seeds, the SD of each arm, and what would settle the effect."""
    title = f"{comparison.stratum}: " if comparison.stratum else ""
    console.print(Text(title + statement([noise], comparison.metric)))
    console.print()
    digits = decimal_places([noise.must_differ()])
    rows = [[str(n), *(format_number(noise.must_differ(n, each), digits) for each in (False, True))] for n in SEEDS]
    console.print(Text(f"What two arms must differ by in {comparison.metric} (95 %), as means of"))
    print_table(TextTable(["seeds an arm", "other seeds", "the same seeds"], rows), console)
    console.print()
    single = format_interval(noise.must_differ(), *noise.two_runs_interval, digits)
    facts = [
        ["SD over seeds", format_interval(noise.sd, *noise.sd_interval, digits), f"{noise.df:.1f} df"],
        ["two single runs", single, "[1.96·√2·SD]"],
    ]
    if not np.isnan(noise.correlation):
        worth = format_interval(noise.paired_worth, *noise.paired_worth_interval, 1)
        at = f"{format_number(noise.paired_worth_at(noise.seeds), 1)} at {noise.seeds} seeds by df"
        sd = format_interval(noise.paired_sd, *noise.paired_sd_interval, digits)
        correlation = format_interval(noise.correlation, *noise.correlation_interval, 2)
        facts += [
            ["SD of a paired difference", sd, f"{noise.paired_df:g} df"],
            ["correlation of arms", correlation, f"{noise.arms} arms"],
            ["a paired seed is worth", worth, at],
        ]
    print_table(TextTable(["", "[95 %]", ""], facts), console)
    sds = comparison.scores.std(ddof=1)
    named = [f"{comparison.labels[arm]} {format_number(sd, digits)}" for arm, sd in sds.items() if sd == sd]
    left = int(comparison.scores.notna().any(axis=1).sum()) - noise.seeds
    left_out = f" {left} seeds that lack an arm are left out." if left and not np.isnan(noise.correlation) else ""
    console.print(Text(f"SD of each arm: {', '.join(named) or DASH}.{left_out}"))
    if settles:
        seeds = f"{settles.seeds} seeds" if settles.seeds else "More than 1000 seeds"
        minutes = f", about {settles.minutes:.0f} min at this sweep's speed" if settles.minutes else ""
        text = f"{seeds} of every arm would settle a difference of {settles.effect:g} (80 % power, paired){minutes}"
        console.print(Text(f"{text}; until_decided takes {settles.in_turns:.0f} on average."))


@ends_in_a_line
def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; 2 if the sweep says nothing."""
    parser = CommandParser(
        prog="rlexp noise",
        description="Say by how much two runs must differ, by the scatter over the seeds of a sweep.",
        examples=EXAMPLES,
    )
    parser.add_argument("sweep", help=f"with two seeds or more: {LOGS_HELP}")
    parser.add_argument("--metric", help="another metric than the score")
    parser.add_argument("--effect", type=float, help="also say what would settle a difference of this size")
    parser.add_argument("--json", action="store_true", help="print the numbers as JSON")
    add_column_options(parser)
    options = parser.parse_args(arguments)
    if options.effect is not None and not (np.isfinite(options.effect) and options.effect > 0):
        raise AnalysisError(f"--effect {options.effect:g}: must be above 0")
    data = load(options.sweep, columns=take_columns(vars(options)))
    say_origin(data)
    say_problems(data)
    comparisons = answer(data, Question(metric=None if data.origin else options.metric)).comparisons
    noises = [noise_of(comparison) for comparison in comparisons]
    settles: list[Settled | None] = [None] * len(noises)
    if options.effect is not None:
        if not all(noise.paired_sd > 0 for noise in noises):
            raise AnalysisError("--effect takes two arms on the same seeds, whose differences scatter")
        seconds = seconds_a_run(data)
        settles = [
            settled(noise, options.effect, comparison.family, seconds)
            for noise, comparison in zip(noises, comparisons, strict=True)
        ]
    found = list(zip(noises, comparisons, settles, strict=True))
    if options.json:
        print(json.dumps([as_json(*each) for each in found]))
        return 0
    console = Terminal()
    for place, each in enumerate(found):
        if place:
            console.print()
        print_noise(*each, console)
    return 0


if __name__ == "__main__":
    sys.exit(main())
