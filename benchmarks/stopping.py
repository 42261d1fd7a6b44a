"""How sweeps over seeds that stop by themselves err, by simulation: `python -m benchmarks.stopping`.

Three tables: does the interval hold at the end of a sweep with `until_width`; what does one with `until_decided` say
of differences that are skewed, and how often are they called so; what does a race (`until_best`) get wrong, and how
many runs does it save.
Differences have a standard deviation of 1, and widths and margins are in units of it.
"""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from rich.console import Console

from benchmarks import coverage
from rlexp.analysis.data.errors import AnalysisError, CommandParser, ends_in_a_line
from rlexp.analysis.report.tables import Terminal, TextTable, print_table
from rlexp.analysis.stats.estimates import mean_difference
from rlexp.analysis.stats.racing import race, race_alpha
from rlexp.analysis.stats.significance import (
    ALPHA,
    WIDTH_SEEDS,
    fewest_seeds,
    is_above,
    look_schedule,
    sign_flip_p,
    symmetry_p,
    turns,
)

Shape = Callable[[np.random.Generator, int], np.ndarray]  # differences `[n]` with mean 0 and standard deviation 1
MOST = 40  # seeds
SYMMETRIC: dict[str, Shape] = {
    "normal": coverage.SHAPES["normal"],
    "t, 3 degrees": coverage.SHAPES["t, 3 degrees"],
    "uniform": lambda rng, n: rng.uniform(-np.sqrt(3), np.sqrt(3), n),
    "outliers": lambda rng, n: rng.normal(size=n) * np.where(rng.random(n) < 0.1, 2.5, 0.65),
}
SKEWED: dict[str, Shape] = {
    "skewed": coverage.SHAPES["skewed"],
    "lognormal": lambda rng, n: (np.exp(0.5) - rng.lognormal(size=n)) / np.sqrt(np.e * (np.e - 1)),
    "collapses": lambda rng, n: (0.1 - (rng.random(n) < 0.1) + 0.05 * rng.normal(size=n)) / np.sqrt(0.0925),
}
WIDTHS = (0.7, 0.5, 0.35)
CORRELATION = 0.85  # of two arms over seeds
TRUTHS: dict[str, Callable[[int], np.ndarray]] = {
    "all equal": np.zeros,
    "best by 0.5": lambda arms: np.eye(arms)[0] / 2,
    "best by 1": lambda arms: np.eye(arms)[0],
    "best by 2": lambda arms: 2 * np.eye(arms)[0],
    "half worse by 2": lambda arms: np.where(np.arange(arms) < arms / 2, 0.0, -2.0),
    "steps of 0.5": lambda arms: -np.arange(arms) / 2,
}
FEWER = ("all equal", "best by 1")

Row = dict[str, str | int | float]


def simulate_width(shape: str, width: float, sweeps: int) -> Row:
    """Add seeds until the t interval of a difference whose mean is 0 reaches no further than a width."""
    ends = []
    for sweep in range(sweeps):
        differences = (SYMMETRIC | SKEWED)[shape](np.random.default_rng([1, sweep]), MOST)
        for n in turns(WIDTH_SEEDS, MOST):
            found = mean_difference(differences[:n])
            if found.high - found.mean <= width:
                break
        p = sign_flip_p(differences[:n])
        ends.append((n, found.low <= 0 <= found.high, found.high - found.mean <= width, p < ALPHA))
    seeds, holds, narrow, false = np.array(ends, dtype=float).mean(0)
    fixed = []
    for sweep in range(sweeps):
        found = mean_difference((SYMMETRIC | SKEWED)[shape](np.random.default_rng([2, sweep]), round(seeds)))
        fixed.append(found.low <= 0 <= found.high)
    return {
        "differences": shape,
        "width": width,
        "seeds": seeds,
        "narrow": narrow,
        "holds": holds,
        "of fixed seeds": float(np.mean(fixed)),
        "p < 0.05": false,
    }


def simulate_symmetry(shape: str, sweeps: int) -> Row:
    """Count what is said of differences whose mean is 0, and how often they are called skewed."""
    ends = []
    for sweep in range(sweeps):
        differences = (SYMMETRIC | SKEWED)[shape](np.random.default_rng([3, sweep]), MOST)
        for n in look_schedule(MOST):
            if (decided := decision(differences[:n], 1.0)) != "open":
                break
        denied = (
            decision(differences, 0.0) != "open"
        )  # bounds only rise with seeds: at 40 they are where they ever were
        skewed = (symmetry_p(differences[:end]) < ALPHA for end in (n, 10, 20, 40))
        ends.append((denied, decided in ("higher", "lower"), *skewed))
    names = "denied", "denied by 1", "when decided", "10 seeds", "20 seeds", "40 seeds"
    return {"differences": shape} | dict(zip(names, map(float, np.array(ends, dtype=float).mean(0)), strict=True))


def decision(differences: np.ndarray, margin: float) -> str:
    """What `decide` says of the confidence sequence, found faster."""
    up, down = (partial(is_above, side * differences, alpha=ALPHA / 2) for side in (1, -1))
    if margin and up(center=-margin) and down(center=-margin):
        return "equal"
    return "higher" if up(center=0.0) else "lower" if down(center=0.0) else "open"


def simulate_race(shape: str, truth: str, arms: int, sweeps: int, margin: float = 1.0) -> Row:
    """Race arms whose scores share a part over seeds; the first is the best.

    Each arm's noise has the shape, so differences are symmetric whatever it is; "collapses" are of the second arm
    alone, and the others are normal.
    """
    ends = []
    means, alpha = TRUTHS[truth](arms), race_alpha(arms)
    own, shared = 1 / np.sqrt(2), np.sqrt(CORRELATION / (1 - CORRELATION) / 2)
    for sweep in range(sweeps):
        rng = np.random.default_rng([4, sweep, arms])
        of_arm = [SYMMETRIC["normal"]] * arms if shape == "collapses" else [(SYMMETRIC | SKEWED)[shape]] * arms
        of_arm[1] = (SYMMETRIC | SKEWED)[shape]
        noise = np.stack([each(rng, MOST) for each in of_arm], 1)
        scores = pd.DataFrame(means + own * noise + shared * rng.normal(size=(MOST, 1)))
        left, runs, done = [*range(arms)], 0, 0
        for n in turns(fewest_seeds(2 * alpha), MOST):
            runs, done = runs + (n - done) * len(left), n
            found = race(scores.loc[: n - 1, left], margin, arms)
            left = found.left
            if found.best is not None:
                break
        wrong = found.best is not None and means[found.best] <= means[0] - margin
        out = means[left].max() < means[0]
        ends.append((0 not in left, out or wrong, found.best == 0, done, runs / (MOST * arms)))
    names = "first out", "wrong", "first is best", "seeds", "runs"
    row = {"noise": shape, "truth": truth, "arms": arms}
    return row | dict(zip(names, map(float, np.array(ends, dtype=float).mean(0)), strict=True))


def print_rows(rows: Sequence[Row], title: str, console: Console) -> None:
    """A table whose headers are the keys."""
    cells = [[f"{value:.3f}" if isinstance(value, float) else str(value) for value in row.values()] for row in rows]
    print_table(TextTable(list(rows[0]), cells), console, title)


@ends_in_a_line
def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; prints the tables, and writes them as JSON if asked."""
    parser = CommandParser(prog="python -m benchmarks.stopping", description=__doc__.split("\n")[0])
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--sweeps", type=int, default=1000, help="simulated sweeps a row; of races a quarter")
    parser.add_argument("--workers", type=int, default=1, help="processes")
    parser.add_argument("--quick", action="store_true", help="four sweeps a row, of fewer rows")
    parser.add_argument("--out", type=Path, help="file for the numbers as JSON")
    options = parser.parse_args(arguments)
    if options.sweeps < 1:
        raise AnalysisError(f"--sweeps {options.sweeps}: must be at least 1")
    sweeps, races = (4, 4) if options.quick else (options.sweeps, -(-options.sweeps // 4))
    shapes = [*SYMMETRIC, *SKEWED][:: 3 if options.quick else 1]
    widths, arms = (WIDTHS[:1], (3,)) if options.quick else (WIDTHS, (4, 10))
    raced = [("normal", truth, n) for n in arms for truth in TRUTHS]
    raced += [(noise, truth, arms[0]) for noise in ("t, 3 degrees", "skewed", "collapses") for truth in FEWER]
    parts: dict[str, tuple[str, list[Callable[[], Row]]]] = {
        "width": (
            f"until_width, from {WIDTH_SEEDS} to {MOST} seeds",
            [partial(simulate_width, shape, width, sweeps) for shape in shapes for width in widths],
        ),
        "symmetry": (
            "until_decided, differences whose mean is 0",
            [partial(simulate_symmetry, shape, sweeps) for shape in shapes],
        ),
        "race": (
            f"until_best=1, at most {MOST} seeds, scores correlated by {CORRELATION}",
            [partial(simulate_race, *each, races) for each in raced],
        ),
    }
    found = {}
    with ProcessPoolExecutor(options.workers) as pool:
        rows = {part: [pool.submit(case) for case in cases] for part, (_, cases) in parts.items()}
        for part, (title, _) in parts.items():
            found[part] = [row.result() for row in rows[part]]
            print_rows(found[part], title, Terminal())
    if options.out:
        content = {"sweeps": sweeps, "races": races} | found
        options.out.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
