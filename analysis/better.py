"""Is one variant better than another by at least so much? For programs: `rlexp better runs/<sweep> B A`.

One line on stdout and an exit code: 0 yes, 10 no, 11 open, with how many more seeds would tell; 2 for a wrong question.
"""

import json
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rlexp.analysis.data.errors import AnalysisError, CommandParser, ends_in_a_line
from rlexp.analysis.data.load import load
from rlexp.analysis.data.metric_spec import direction_sign, parse_option
from rlexp.analysis.data.readers.options import LOGS_HELP, add_column_options, say_origin, say_problems, take_columns
from rlexp.analysis.data.variants import resolve_variant
from rlexp.analysis.ledger import left
from rlexp.analysis.noise import noise_of_folder
from rlexp.analysis.report.tables import plain
from rlexp.analysis.stats.answer import Question, answer
from rlexp.analysis.stats.borrowed_noise import borrowed_difference
from rlexp.analysis.stats.comparison import Comparison, paired_differences
from rlexp.analysis.stats.endpoints import ENDPOINT_HELP, parse_endpoint
from rlexp.analysis.stats.formatting import decimal_places, format_interval
from rlexp.analysis.stats.ledger import Row, open_ledger
from rlexp.analysis.stats.noise import Noise
from rlexp.analysis.stats.significance import ALPHA, seeds_for_effect, seeds_for_p
from rlexp.analysis.stats.unpaired import permutation_p, runs_for_effect, runs_for_p, welch_difference

CODES = {"yes": 0, "no": 10, "open": 11}
EXAMPLES = """
examples:
  rlexp better runs/<sweep> norm=hybrid norm=local
  rlexp better runs/<sweep> norm=hybrid norm=local --by 0.02 || echo "not shown"
  rlexp better runs/<sweep> norm=hybrid norm=local --by 0.02 --json
  rlexp better runs/<sweep> norm=hybrid norm=local --ledger runs/ledger.jsonl
  rlexp better runs.csv dapo grpo --metric accuracy
"""


class Reply(NamedTuple):
    """The answer, and on what it rests. The difference is in the direction of better."""

    answer: str
    difference: float
    low: float
    high: float
    p: float
    n: int
    more_seeds: int | None
    """For 80 % power, if the difference is what it looks like; None where it is decided, or nothing can be said."""


def reply(comparison: Comparison, variant: str, versus: str, by: float, level: float = ALPHA) -> Reply:
    """Whether `variant` is better than `versus` by at least `by`, by a test of this level.

    yes: a difference of `by` or less is rejected. no: a difference of `by` or more is. By sign flips, or where seeds
    were added until something was decided by bets on signs; of runs that are not paired by permutation.
    """
    if comparison.better is None:
        raise AnalysisError(f"neither end of {comparison.metric} is better")
    if not comparison.paired:
        return _unpaired_reply(comparison, variant, versus, by, level)
    differences = direction_sign(comparison.better) * paired_differences(comparison.scores, variant, versus)
    n = differences.size
    if n < 2:
        raise AnalysisError(f"{variant} and {versus} share {n} seeds; it takes two to say anything")
    test = comparison.paired_test
    mean, low, high, sd, _ = map(float, test.estimate(differences))
    p = test.p(differences - by)
    if p < level:
        return Reply("yes" if test.side(differences - by) > 0 else "no", mean, low, high, p, n, None)
    needed = seeds_for_effect(abs(mean - by), sd, alpha=level) if sd > 0 and mean != by and np.isfinite(mean) else None
    more = max(needed or 0, seeds_for_p(1, level)) - n
    return Reply("open", mean, low, high, p, n, max(more, 1) if needed or sd == 0 else None)


def _unpaired_reply(comparison: Comparison, variant: str, versus: str, by: float, level: float) -> Reply:
    sign = direction_sign(comparison.better)
    first, second = sign * comparison.runs(variant), sign * comparison.runs(versus)
    n = min(first.size, second.size)
    if n < 2:
        counts = f"{variant} and {versus} have {first.size} and {second.size} runs"
        raise AnalysisError(f"{counts}; it takes two of each to say anything, or --noise FOLDER of other runs")
    found, p = welch_difference(first, second), permutation_p(first - by, second)
    if p < level:
        return Reply("yes" if found.mean > by else "no", found.mean, found.low, found.high, p, n, None)
    needed = runs_for_effect(abs(found.mean - by), found.sd, alpha=level) if found.sd > 0 and found.mean != by else None
    more = max(needed or 0, runs_for_p(1, level)) - n
    return Reply("open", found.mean, found.low, found.high, p, n, max(more, 1) if needed or found.sd == 0 else None)


def reply_by_noise(
    comparison: Comparison, variant: str, versus: str, by: float, noise: Noise, level: float = ALPHA
) -> Reply:
    """The same where the scatter of a run is that of other runs: for arms that have one."""
    if comparison.better is None:
        raise AnalysisError(f"neither end of {comparison.metric} is better")
    sign = direction_sign(comparison.better)
    first, second = sign * comparison.runs(variant), sign * comparison.runs(versus)
    if not first.size or not second.size:
        raise AnalysisError(f"no run of {variant if not first.size else versus} has a number")
    found, n = borrowed_difference(first, second, noise, by), min(first.size, second.size)
    said = "open" if found.p >= level else "yes" if found.difference > by else "no"
    apart, sd = abs(found.difference - by), noise.sd * 2**0.5
    needed = runs_for_effect(apart, sd, alpha=level) if apart else None
    more = max(needed - n, 1) if needed and said == "open" else None
    return Reply(said, found.difference, found.low, found.high, found.p, n, more)


def as_line(found: Reply, variant: str, versus: str, by: float) -> str:
    """`yes: norm=hybrid is better than norm=local by at least 0.02: +0.044 [+0.024, +0.064], p = 0.002, n = 10`."""
    numbers = format_interval(found.difference, found.low, found.high, decimal_places([found.difference]), signed=True)
    least = f" by at least {by:g}" if by else ""
    than = f"better than {versus}{least}"
    said = {"yes": f"{variant} is {than}", "no": f"{variant} is not {than}"}
    said["open"] = f"whether {variant} is {than} is not known"
    line = f"{found.answer}: {said[found.answer]}: {numbers}, p = {found.p:.2g}, n = {found.n}"
    if found.answer != "open":
        return line
    if found.more_seeds is None:
        return f"{line}; no number of seeds that one would run tells"
    return f"{line}; about {found.more_seeds} more seeds would tell"


def one_is_enough(level: float) -> int:
    """By the scatter of other runs a single run can answer, at any level."""
    return 1


@ends_in_a_line
def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; the exit code is the answer."""
    description = "Ask whether one variant is better than another. Exit code 0: yes, 10: no, 11: open."
    parser = CommandParser("rlexp better", description, EXAMPLES)
    parser.add_argument("sweep", help=LOGS_HELP)
    parser.add_argument("variant", help="which may be better, as norm=hybrid")
    parser.add_argument("versus", help="than which, as norm=local")
    parser.add_argument(
        "--by", type=float, default=0.0, help="by at least so much, in units of the score; 0 unless given"
    )
    parser.add_argument("--metric", help="another metric than the score")
    parser.add_argument("--endpoint", metavar="E", help=ENDPOINT_HELP)
    parser.add_argument("--json", action="store_true", help="print the numbers as JSON instead of the line")
    parser.add_argument("--ledger", type=Path, metavar="FILE", help="ask it of a campaign's budget (rlexp ledger)")
    parser.add_argument(
        "--noise", metavar="FOLDER", help="take the scatter over seeds of these runs, as of single runs"
    )
    add_column_options(parser)
    options = parser.parse_args(arguments)
    if not np.isfinite(options.by) or options.by < 0:
        raise AnalysisError(f"--by {options.by:g}: must be at least 0")
    named_endpoint = options.endpoint
    endpoint = options.endpoint = parse_option("--endpoint ", options.endpoint, parse_endpoint)
    columns = take_columns(vars(options))
    data = load(options.sweep, columns=columns)
    say_origin(data)
    say_problems(data)
    comparisons = answer(data, Question(None if data.origin else options.metric, endpoint=endpoint)).comparisons
    if len(comparisons) > 1:
        listed = "  ".join(each.stratum for each in comparisons)
        raise AnalysisError(f"this sweep has several strata ({listed}); compare one of them with rlexp compare --where")
    labels = comparisons[0].labels
    variant, versus = (resolve_variant(name, labels) for name in (options.variant, options.versus))
    if variant == versus:
        raise AnalysisError(f"{options.variant}: is both; name two variants")
    reply_at = partial(reply, comparisons[0], variant, versus, options.by)
    fewest = partial(seeds_for_p if comparisons[0].paired else runs_for_p, 1)
    if options.noise:
        noise = noise_of_folder(options.noise, comparisons[0].metric, columns)
        reply_at, fewest = partial(reply_by_noise, comparisons[0], variant, versus, options.by, noise), one_is_enough
    line_of = partial(as_line, variant=options.variant, versus=options.versus, by=options.by)
    numbers: dict[str, Any] = {"level": ALPHA}
    if options.ledger:
        place = Path(options.sweep)
        asked = {"folder": str(place.resolve()) if place.exists() else options.sweep, "metric": comparisons[0].metric}
        asked |= {"variant": variant, "versus": versus, "by": options.by, "endpoint": named_endpoint}
        asked |= {"noise": options.noise} if options.noise else {}
        row, questions = ask_of_ledger(options.ledger, asked, reply_at, line_of, fewest)
        numbers = {"level": row["level"], "question": row["number"], "questions": questions}
    found = reply_at(level=numbers["level"])
    line = line_of(found)
    if options.ledger:
        line += "; level {level:.2g}, question {question} of {questions}".format_map(numbers)
    print(json.dumps(plain(found._asdict() | numbers)) if options.json else line)
    return CODES[found.answer]


def ask_of_ledger(
    file: Path,
    asked: Row,
    reply_at: Callable[..., Reply],
    line_of: Callable[[Reply], str],
    fewest: Callable[[float], int],
) -> tuple[Row, int]:
    """Write a question and its answer into a ledger, unless it was asked of these runs before.

    Args:
        file: the ledger.
        asked: what tells the question from others.
        reply_at: answers it at a level.
        line_of: says the answer in a line.
        fewest: seeds, or runs an arm, with which a p below a level can come about.

    Returns:
        Its row, and how many questions the budget is for.

    Raises:
        AnalysisError: nothing is left, or too few seeds for the level that is left: nothing is spent then.
    """
    with open_ledger(file) as ledger:
        found = reply_at()
        asked = asked | {"n": found.n, "p": found.p}
        questions, level = ledger.budget["questions"], ledger.level
        if before := ledger.asked(asked):
            return before, questions
        if not level:
            raise AnalysisError(f"{file}: {left(ledger)}")
        if (needed := fewest(level)) > found.n:
            number = len(ledger.rows) + 1
            raise AnalysisError(
                f"{found.n} seeds cannot reach the level of question {number}, {level:.2g}: it takes {needed}"
            )
        found = reply_at(level=level)
        return ledger.add(asked, {"answer": found.answer, "said": line_of(found)}), questions


if __name__ == "__main__":
    sys.exit(main())
