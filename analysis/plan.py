"""How many seeds and minutes an effect needs, by a sweep that is there: `rlexp plan runs/<pilot>`.

The pilot says how much paired differences scatter from seed to seed, and how long a run takes on this machine.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.text import Text

from rlexp.analysis.data.errors import AnalysisError, CommandParser, ends_in_a_line
from rlexp.analysis.data.load import SweepData, load
from rlexp.analysis.data.readers.options import LOGS_HELP, add_column_options, say_origin, say_problems, take_columns
from rlexp.analysis.report.tables import Terminal, TextTable, plain, print_table
from rlexp.analysis.stats.answer import Question, answer
from rlexp.analysis.stats.formatting import decimal_places, format_number
from rlexp.analysis.stats.significance import ALPHA, seeds_for_effect, seeds_until_decided
from rlexp.analysis.stats.unpaired import runs_for_effect
from rlexp.runfolder.files import MULTIRUN_FILE

EXAMPLES = """
examples:
  rlexp plan runs/<pilot> --effect 0.02
  rlexp plan runs/<pilot> --effect 0.02 --metric eval/pass@8
  rlexp plan runs.csv --effect 0.02 --metric accuracy
"""


class Need(NamedTuple):
    """Seeds that find an effect in the difference of an arm to the baseline."""

    label: str
    sd: float
    """Of the paired differences in the pilot, or of the difference of two runs where these are not paired."""
    seeds: int | None
    """For 80 % power by the rule of evidence; None beyond `power.MOST`."""
    in_turns: float
    """Seeds that `until_decided` takes on average, if the true difference is the effect; NaN of unpaired runs."""


def needs(data: SweepData, effect: float, metric: str | None = None) -> list[Need]:
    """Seeds for each difference of a pilot; AnalysisError where none has a spread."""
    found = []
    for comparison in answer(data, Question(metric=None if data.origin else metric)).comparisons:
        for arm in comparison.others:
            sd = float(comparison.table.loc[arm, "difference_sd"])
            if sd > 0:
                label = ", ".join(filter(None, (comparison.labels[arm], comparison.stratum)))
                if not comparison.paired:
                    found.append(Need(label, sd, runs_for_effect(effect, sd, comparison.family), float("nan")))
                    continue
                seeds = seeds_for_effect(effect, sd, comparison.family)
                found.append(Need(label, sd, seeds, seeds_until_decided(effect, sd, comparison.family)))
    if not found:
        raise AnalysisError(
            "no two seeds of this sweep differ in their difference to the baseline, so nothing scatters"
        )
    return found


def minutes_of_all(data: SweepData, found: Sequence[Need]) -> float | None:
    """Of all arms with the seeds that the largest need has, at this sweep's speed; None where that is not known."""
    known, seconds = [need.seeds for need in found if need.seeds], seconds_a_run(data)
    return max(known) * len(data.variants) * seconds / 60 if known and seconds else None


def as_json(data: SweepData, found: Sequence[Need], effect: float) -> dict[str, object]:
    """The numbers, by `plan.schema.json`."""
    needs = [need._asdict() for need in found]
    minutes = minutes_of_all(data, found)
    return plain({"effect": effect, "alpha": ALPHA, "arms": len(data.variants), "needs": needs, "minutes": minutes})


def print_needs(data: SweepData, found: Sequence[Need], effect: float, console: Console) -> None:
    """A row per difference, and how long the largest of them takes."""
    digits = decimal_places([need.sd for need in found])
    rows = [
        [need.label, format_number(need.sd, digits), str(need.seeds or "more"), format_number(need.in_turns, 0)]
        for need in found
    ]
    headers = ["difference of", "SD over seeds", "seeds for 80 %", "until_decided"]
    print_table(TextTable(headers, rows), console, f"seeds to find a difference of {effect:g}, p (Holm) < {ALPHA:g}")

    if minutes := minutes_of_all(data, found):
        seeds, arms = max(need.seeds for need in found if need.seeds), len(data.variants)
        text = f"{seeds} seeds of {arms} variants take about {minutes:.0f} min at the {seconds_a_run(data):.1f} s a run"
        console.print(Text(f"{text} of this sweep."))


def seconds_a_run(data: SweepData) -> float | None:
    """Machine time of a run, shared by those that trained side by side; None of files that were copied."""
    ends = [path.stat().st_mtime for path in data.folder.glob("*/summary.json")]
    begin = data.folder / MULTIRUN_FILE
    if not (ends and begin.is_file()):
        return None
    elapsed = max(ends) - begin.stat().st_mtime
    return elapsed / len(ends) if elapsed >= data.runs["wall_time_s"].max() else None


@ends_in_a_line
def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; 2 if the pilot says nothing."""
    description = "Say how many seeds and minutes an effect needs, by the scatter and the speed of an earlier sweep."
    parser = CommandParser("rlexp plan", description, EXAMPLES)
    parser.add_argument("pilot", type=Path, help=f"of the same variants, with five seeds or so: {LOGS_HELP}")
    parser.add_argument(
        "--effect", type=float, required=True, help="difference that should be found, in units of the score"
    )
    parser.add_argument("--metric", help="another metric than the score")
    parser.add_argument("--json", action="store_true", help="print the numbers as JSON")
    add_column_options(parser)
    options = parser.parse_args(arguments)
    if not options.effect > 0:
        raise AnalysisError(f"--effect {options.effect:g}: must be above 0")
    data = load(options.pilot, columns=take_columns(vars(options)))
    say_origin(data)
    say_problems(data)
    found = needs(data, options.effect, options.metric)
    if options.json:
        print(json.dumps(as_json(data, found, options.effect), ensure_ascii=False))
    else:
        print_needs(data, found, options.effect, Terminal())
    return 0


if __name__ == "__main__":
    sys.exit(main())
