"""How often looking at seeds as they come misleads, and how many it takes: `python -m benchmarks.coverage`.

Simulates paired differences, adds them in the turns of `until_decided`, and counts what is decided: wrong decisions,
and seeds until there is one. Bets on signs are those of `analysis/stats/significance.py`. Waudby-Smith and
Ramdas (arXiv 2010.09686) bet on bounded differences, which need not be symmetric: a difference of two shares lies in
[−1, 1], and with so wide a range one seed says little. The third way stops as soon as sign flips say p < 0.05, which
holds for one look only.
"""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rich.console import Console

from rlexp.analysis.data.errors import AnalysisError, CommandParser, ends_in_a_line
from rlexp.analysis.report.tables import Terminal, TextTable, print_table
from rlexp.analysis.stats.estimates import Interval
from rlexp.analysis.stats.significance import ALPHA, confidence_sequence, decide, look_schedule, sign_flip_p

SPREAD = 0.03  # standard deviation of a paired difference of two accuracies, as in the studies of docs/studies.md
MARGIN = 0.03
MOST = 40  # seeds
CENTRES = 4104  # means that are tried
MEANS = (0.0, 0.015, 0.03, 0.06)
SHAPES: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "normal": lambda rng, n: rng.normal(size=n),
    "t, 3 degrees": lambda rng, n: rng.standard_t(3, n) / np.sqrt(3),
    "skewed": lambda rng, n: 1 - rng.exponential(size=n),
}


def hedged_capital(differences: np.ndarray, bound: float = 1.0, alpha: float = ALPHA) -> Interval:
    """Confidence sequence of the mean of `differences [n]` in [−bound, bound] after all n, symmetric or not.

    Source: Waudby-Smith & Ramdas (arXiv 2010.09686), Theorem 3 (the mean of both capitals in place of the larger),
    with the predictable plug-in bets and c = 1/2.
    """
    x = (np.asarray(differences, dtype=float) / bound + 1) / 2
    count = np.arange(1, x.size + 1)
    mean = (0.5 + np.cumsum(x)) / (count + 1)
    spread = (0.25 + np.cumsum((x - mean) ** 2)) / (count + 1)
    before = np.concatenate([[0.25], spread[:-1]])
    bets = np.sqrt(2 * np.log(2 / alpha) / (before * count * np.log(count + 1)))
    centres = np.linspace(0, 1, CENTRES)[1:-1, None]
    up = np.cumsum(np.log1p(np.minimum(bets, 0.5 / centres) * (x - centres)), -1)
    down = np.cumsum(np.log1p(-np.minimum(bets, 0.5 / (1 - centres)) * (x - centres)), -1)
    kept = centres[(np.logaddexp(up, down) - np.log(2)).max(-1) < np.log(1 / alpha), 0]
    low, high = (kept.min(), kept.max()) if kept.size else (np.nan, np.nan)
    return Interval(np.array(bound * (2 * low - 1)), np.array(bound * (2 * high - 1)))


class Outcome(NamedTuple):
    """Decisions of many simulated sweeps, and their seeds on average."""

    way: str
    shape: str
    mean: float
    shares: dict[str, float]
    wrong: float
    seeds: float


def by_sign_flips(differences: np.ndarray) -> str:
    """Decide by sign flips at each look, which does not hold the level."""
    if sign_flip_p(differences) >= ALPHA:
        return "open"
    return "higher" if differences.mean() > 0 else "lower"


WAYS = {
    "signs": lambda differences: decide(confidence_sequence(differences), MARGIN),
    "bounded": lambda differences: decide(hedged_capital(differences), MARGIN),
    "peeking": by_sign_flips,
}


def is_wrong(decided: str, mean: float) -> bool:
    """Whether a decision is false of the true mean."""
    return {"higher": mean <= 0, "lower": mean >= 0, "equal": abs(mean) >= MARGIN, "open": False}[decided]


def simulate(way: str, shape: str, mean: float, sweeps: int) -> Outcome:
    """Add seeds until something is decided, in so many sweeps, each with its own random stream."""
    ends, seeds = [], []
    for sweep in range(sweeps):
        noise = SHAPES[shape](np.random.default_rng([sweep, sorted(SHAPES).index(shape)]), MOST)
        differences = np.clip(mean + SPREAD * noise, -1, 1)
        for n in look_schedule(MOST):
            decided = WAYS[way](differences[:n])
            if decided != "open":
                break
        ends.append(decided)
        seeds.append(n)
    shares = {end: ends.count(end) / sweeps for end in ("higher", "equal", "lower", "open")}
    wrong = sum(is_wrong(end, mean) for end in ends) / sweeps
    return Outcome(way, shape, mean, shares, wrong, float(np.mean(seeds)))


def print_outcomes(outcomes: Sequence[Outcome], console: Console) -> None:
    """A row per way, shape and true mean."""
    headers = ["decided by", "differences", "mean/SD", "higher", "equal", "lower", "open", "wrong", "seeds"]
    rows = [
        [each.way, each.shape, f"{each.mean / SPREAD:g}", *(f"{share:.3f}" for share in each.shares.values())]
        + [f"{each.wrong:.3f}", f"{each.seeds:.1f}"]
        for each in outcomes
    ]
    listed = ", ".join(map(str, look_schedule(MOST)))
    print_table(TextTable(headers, rows), console, f"margin 1 SD, at most {MOST} seeds, looked at after {listed}")


@ends_in_a_line
def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; prints the table, and writes it as JSON if asked."""
    parser = CommandParser(prog="python -m benchmarks.coverage", description=__doc__.split("\n")[0])
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--sweeps", type=int, default=1000, help="simulated sweeps a row")
    parser.add_argument("--out", type=Path, help="file for the numbers as JSON")
    options = parser.parse_args(arguments)
    if options.sweeps < 1:
        raise AnalysisError(f"--sweeps {options.sweeps}: must be at least 1")
    cases = [(way, shape, mean) for way in WAYS for shape in SHAPES for mean in MEANS if shape == "normal" or not mean]
    outcomes = [simulate(*case, options.sweeps) for case in cases]
    print_outcomes(outcomes, Terminal())
    if options.out:
        content = {"sweeps": options.sweeps, "outcomes": [each._asdict() for each in outcomes]}
        options.out.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
