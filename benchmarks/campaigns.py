"""How often a campaign of many questions finds luck, by simulation: `python -m benchmarks.campaigns`.

A campaign asks 64 questions of `rlexp better`, each of as many paired seeds. The differences of an arm without effect
are noise with a standard deviation of 1; those of the others have an effect in units of it. Three rules decide: each
question at 0.05, each at 0.05 / 64 (Bonferroni), and a ledger, which hands the level of a finding on.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from rlexp.analysis.data.errors import AnalysisError, CommandParser, ends_in_a_line
from rlexp.analysis.report.tables import Terminal, TextTable, print_table
from rlexp.analysis.stats.alpha_spending import next_level
from rlexp.analysis.stats.significance import ALPHA, sign_flip_p

QUESTIONS, SEEDS = 64, 14
REAL = {"none": (0, 0.0), "4 of 1.5": (4, 1.5), "16 of 1": (16, 1.0), "16 of 1.5": (16, 1.5)}
"""Questions with an effect, and its size in standard deviations of a paired difference."""
ORDERS = ("mixed", "first")

Array = np.ndarray


def ledger(p: Array) -> Array:
    """Return which questions a ledger answers, of their p in the order of asking."""
    rejected: list[bool] = []
    for each in p:
        rejected.append(bool(each < next_level(rejected, p.size, ALPHA)))
    return np.array(rejected)


RULES: dict[str, Callable[[Array], Array]] = {
    "each at 0.05": lambda p: p < ALPHA,
    "Bonferroni": lambda p: p < ALPHA / p.size,
    "ledger": ledger,
}


def simulate(campaigns: int) -> Iterator[dict[str, str | float]]:
    """Yield a row for each mix of questions, order and rule."""
    for number, (name, (real, size)) in enumerate(REAL.items()):
        for order in ORDERS if real else ORDERS[:1]:
            rng = np.random.default_rng(number)
            false, found = ({rule: [] for rule in RULES} for _ in range(2))
            for _ in range(campaigns if real else 10 * campaigns):
                effect = size * (np.arange(QUESTIONS) < real)
                effect = effect if order == "first" else rng.permutation(effect)
                p = np.array([sign_flip_p(each + rng.normal(size=SEEDS)) for each in effect])
                for rule, decide in RULES.items():
                    shown = decide(p)
                    false[rule].append(bool(shown[effect == 0].any()))
                    found[rule].append(float(shown[effect > 0].mean()) if real else np.nan)
            for rule in RULES:
                share = {"false": float(np.mean(false[rule])), "power": float(np.mean(found[rule]))}
                yield {"effects": name, "order": order if real else "–", "rule": rule} | share


@ends_in_a_line
def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; prints a table, and writes its numbers as JSON if asked."""
    parser = CommandParser(prog="python -m benchmarks.campaigns", description=__doc__.split("\n")[0])
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    about = "of each kind, and ten times as many without any effect (1000)"
    parser.add_argument("--campaigns", type=int, default=1000, help=about)
    parser.add_argument("--out", type=Path, help="file for the numbers as JSON")
    options = parser.parse_args(arguments)
    if options.campaigns < 1:
        raise AnalysisError(f"--campaigns {options.campaigns}: must be at least 1")
    rows = list(simulate(options.campaigns))
    cells = [[row["effects"], row["order"], row["rule"], f"{row['false']:.3f}", f"{row['power']:.2f}"] for row in rows]
    print_table(TextTable(["effects", "order", "rule", "a false finding", "power"], cells), Terminal(), "64 questions")
    if options.out:
        content = {"questions": QUESTIONS, "seeds": SEEDS, "campaigns": options.campaigns, "rows": rows}
        options.out.write_text(json.dumps(content, indent=1).replace("NaN", "null") + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
