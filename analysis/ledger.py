"""All questions of a campaign, with one budget of errors: `rlexp ledger runs/ledger.jsonl`.

`rlexp better … --ledger runs/ledger.jsonl` asks a question of it.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from rlexp.analysis.data.errors import AnalysisError, CommandParser, ends_in_a_line
from rlexp.analysis.stats.ledger import Ledger, begin, open_ledger
from rlexp.analysis.stats.significance import ALPHA, EXACT_SEEDS, min_p, seeds_for_p

EXAMPLES = """
examples:
  rlexp ledger runs/ledger.jsonl --questions 64        begin one: at most 64 questions share an error of 0.05
  rlexp better runs/<sweep> norm=hybrid norm=local --ledger runs/ledger.jsonl
  rlexp ledger runs/ledger.jsonl                       what was asked, what was found, what is left
"""


def as_lines(ledger: Ledger) -> list[str]:
    """Say what was asked and found, a line each, and what is left."""
    said = [f"{row['number']}. {row['said']} (level {row['level']:.2g})" for row in ledger.rows]
    return [*said, left(ledger)]


def left(ledger: Ledger) -> str:
    """Say what is left of a budget."""
    alpha, questions, asked = ledger.budget["alpha"], ledger.budget["questions"], len(ledger.rows)
    begins = f"{asked} of {questions} questions asked, alpha {alpha:g} over all of them"
    if not ledger.level:
        return f"{begins}; the budget is spent"
    return f"{begins}; the next one has level {ledger.level:.2g} and needs {seeds_for_p(1, ledger.level)} seeds"


@ends_in_a_line
def main(arguments: Sequence[str] | None = None) -> int:
    """Command line."""
    parser = CommandParser("rlexp ledger", "Show or begin a ledger: all questions of a campaign.", EXAMPLES)
    parser.add_argument("ledger", type=Path, help="its file")
    parser.add_argument("--questions", type=int, metavar="N", help="begin it: how many questions share alpha")
    parser.add_argument("--alpha", type=float, help=f"of the whole campaign ({ALPHA:g}); with --questions")
    parser.add_argument("--json", action="store_true", help="print the budget and all rows as JSON")
    options = parser.parse_args(arguments)
    if options.questions is None:
        if options.alpha is not None:
            raise AnalysisError("--alpha: belongs to a new ledger; give --questions, too")
        with open_ledger(options.ledger) as ledger:
            show(ledger, options.json)
        return 0
    alpha = ALPHA if options.alpha is None else options.alpha
    if options.questions < 1:
        raise AnalysisError(f"--questions {options.questions}: must be at least 1")
    if not 0 < alpha < 1:
        raise AnalysisError(f"--alpha {alpha:g}: must be above 0 and below 1")
    if (most := int(alpha / min_p(EXACT_SEEDS))) < options.questions:
        raise AnalysisError(f"--questions {options.questions}: too many for any p to reach their level; at most {most}")
    show(begin(options.ledger, options.questions, alpha), options.json)
    return 0


def show(ledger: Ledger, as_json: bool) -> None:
    """Print a ledger."""
    if as_json:
        print(json.dumps(ledger.budget | {"asked": ledger.rows, "level": ledger.level}))
    else:
        print(*as_lines(ledger), sep="\n")


if __name__ == "__main__":
    sys.exit(main())
