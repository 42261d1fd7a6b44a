"""Do the intervals of tuned arms hold the truth? `python -m benchmarks.rates`.

Simulates two arms over a grid of rates with known curves: flat, peaked, broad, rising to the end of the grid (steep,
mild, or so little that it counts as flat: faint), and a cliff, where runs collapse at the highest rate. Scores scatter
normally over seeds and correlate over rates and arms within a seed. Four ways to report an arm at its best rate:

    used            `best_value` and `best_difference` of `analysis/stats/rates.py`
    redone          best mean less its optimism; the error is the SD over bootstrap draws that choose anew
    cross-fitted    four fifths of the seeds choose, the others report; paired t interval of what they report
    ignored         t interval at the chosen rate, as if it had not been chosen

Beside them: how often the mark of a best rate at the end of the grid is wrong, and the width of the plateau.
"""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rich.console import Console
from scipy.special import stdtrit

from rlexp.analysis.data.errors import AnalysisError, CommandParser, ends_in_a_line
from rlexp.analysis.report.tables import Terminal, TextTable, print_table
from rlexp.analysis.stats import rates as tuned

Array = np.ndarray

DELTA = 0.03  # smallest difference that counts
COLLAPSED, COLLAPSES = -0.5, 0.3  # what a collapsed run loses, and how many do at the highest rate of a cliff
FOLDS, DRAWS = 5, 500
SEEDS, CORRELATIONS, SPREADS, RATES = (5, 10, 20), (0.0, 0.5, 0.85), (0.02, 0.1), (3, 9)
PLATEAUS = 10  # of so many simulated sweeps one looks at the plateau


def _around(count: int) -> Array:
    return np.arange(count) - float(count // 2)


CURVES: dict[str, Callable[[int], Array]] = {
    "flat": np.zeros,
    "peaked": lambda count: -0.05 * _around(count) ** 2,
    "broad": lambda count: -0.01 * _around(count) ** 2,
    "steep": lambda count: 0.05 * np.arange(count),
    "mild": lambda count: 0.02 * np.arange(count),
    "faint": lambda count: 0.01 * np.arange(count),
    "cliff": lambda count: 0.02 * np.arange(count),  # before anything collapses
}
PAIRS = (("flat", "flat"), ("peaked", "peaked"), ("broad", "flat"), ("steep", "flat"), ("mild", "broad"))
PAIRS += (("faint", "peaked"), ("cliff", "mild"))
WAYS = ("used", "redone", "cross-fitted", "ignored")


class Case(NamedTuple):
    """What is simulated."""

    curve: str
    baseline: str
    rates: int
    seeds: int
    sd: float
    """Of a score over seeds."""
    correlation: float
    """Of the scores of a seed, over rates and arms."""


class Outcome(NamedTuple):
    """What many simulated sweeps of a case gave; shares are of sweeps."""

    case: Case
    best: dict[str, float]
    """Share of intervals that hold the arm's true best value, by way."""
    difference: dict[str, float]
    """The same of the difference of both arms at their best."""
    bias: dict[str, float]
    """Mean error of the best value, in standard deviations of a score: `used` and `ignored`."""
    difference_bias: float
    half_width: dict[str, float]
    """Mean half width of the interval of the difference, in standard deviations of a score, by way."""
    at_end: str
    """Which end the true best is at, unless the true curve is flat there."""
    marked: float
    """Share that is marked as the truth is."""
    false_marks: float
    """Share with a mark where the truth has none, or at the wrong end."""
    plateau: float
    """Share of intervals that hold the true width."""
    plateau_bias: float
    """Octaves."""


def true_means(curve: str, rates: int) -> Array:
    """The mean score at each rate, `[rates]`."""
    means = CURVES[curve](rates)
    if curve == "cliff":
        means[-1] += COLLAPSED * COLLAPSES
    return means


def draw(case: Case, rng: np.random.Generator, sweeps: int) -> list[Array]:
    """Scores of both arms, `[sweeps, rates, seeds]` each."""
    common = rng.normal(size=(sweeps, 1, case.seeds)) * np.sqrt(case.correlation)
    arms = []
    for curve in (case.curve, case.baseline):
        own = rng.normal(size=(sweeps, case.rates, case.seeds)) * np.sqrt(1 - case.correlation)
        scores = CURVES[curve](case.rates)[:, None] + case.sd * (common + own)
        if curve == "cliff":
            scores[:, -1] += COLLAPSED * (rng.random(size=(sweeps, case.seeds)) < COLLAPSES)
        arms.append(scores)
    return arms


def at_best(scores: Array) -> Array:
    """Scores `[sweeps, seeds]` at the rate with the best mean."""
    best = scores.mean(-1).argmax(-1)
    return np.take_along_axis(scores, best[:, None, None], 1)[:, 0]


def cross_fitted(scores: Array) -> Array:
    """Scores `[sweeps, seeds]` of each seed at the rate that is best by the seeds of the other folds."""
    reported = np.empty((len(scores), scores.shape[-1]))
    for fold in range(FOLDS):
        judges = np.arange(scores.shape[-1]) % FOLDS == fold
        best = scores[..., ~judges].mean(-1).argmax(-1)
        reported[:, judges] = np.take_along_axis(scores[..., judges], best[:, None, None], 1)[:, 0]
    return reported


def redone(scores: Array) -> tuple[Array, Array]:
    """Best mean less its optimism `[sweeps]`, and the best of each bootstrap draw `[sweeps, DRAWS]`."""
    n = scores.shape[-1]
    picked = np.random.default_rng(1).integers(n, size=(DRAWS, n))
    means, drawn = scores.mean(-1), np.stack([scores[..., each].mean(-1) for each in picked], 1)
    best = drawn.argmax(-1)
    return means.max(-1) - (drawn.max(-1) - np.take_along_axis(means, best, -1)).mean(-1), drawn.max(-1)


def t_interval(values: Array) -> tuple[Array, Array]:
    """Mean and half width of the t interval of `values [sweeps, seeds]`."""
    n = values.shape[-1]
    return values.mean(-1), stdtrit(n - 1, 0.975) * values.std(-1, ddof=1) / np.sqrt(n)


def drawn_interval(estimate: Array, draws: Array, n: int) -> tuple[Array, Array]:
    """An estimate, and the half width from the standard deviation of its bootstrap draws."""
    return estimate, stdtrit(n - 1, 0.975) * draws.std(-1) * np.sqrt(n / (n - 1))


def simulate(case: Case, sweeps: int) -> Outcome:
    """Simulate so many sweeps of a case with one random stream."""
    stream = [list(CURVES).index(case.curve), case.rates, case.seeds, int(1000 * case.sd), int(100 * case.correlation)]
    arms = draw(case, np.random.default_rng(stream), sweeps)
    means = [true_means(curve, case.rates) for curve in (case.curve, case.baseline)]
    truth, true_difference = means[0].max(), means[0].max() - means[1].max()
    rates = 2.0 ** np.arange(case.rates)
    grids = [[tuned.rate_grid(rates, scores) for scores in arm] for arm in arms]

    found = [tuned.best_value(grid) for grid in grids[0]]
    values = {"used": (np.array([each.value for each in found]), np.array([each.high - each.value for each in found]))}
    pairs = [tuned.best_difference(*both) for both in zip(*grids, strict=True)]
    differences = {
        "used": (
            np.array([each.difference for each in pairs]),
            np.array([each.high - each.difference for each in pairs]),
        )
    }
    (first, first_draws), (second, second_draws) = (redone(arm) for arm in arms)
    values["redone"] = drawn_interval(first, first_draws, case.seeds)
    differences["redone"] = drawn_interval(first - second, first_draws - second_draws, case.seeds)
    for way, report in (("cross-fitted", cross_fitted), ("ignored", at_best)):
        reported = [report(arm) for arm in arms]
        values[way], differences[way] = t_interval(reported[0]), t_interval(reported[0] - reported[1])

    side = tuned.edge(tuned.rate_grid(rates, means[0][:, None]), DELTA).side
    marks = [tuned.edge(grid, DELTA).side for grid in grids[0]]
    width = tuned.plateau(tuned.rate_grid(rates, means[0][:, None]), DELTA).octaves
    plateaus = [tuned.plateau(grid, DELTA) for grid in grids[0][::PLATEAUS]]
    inside = [each.octaves_low - 1e-9 <= width <= each.octaves_high + 1e-9 for each in plateaus]
    return Outcome(
        case,
        {way: float((abs(values[way][0] - truth) <= values[way][1]).mean()) for way in WAYS},
        {way: float((abs(differences[way][0] - true_difference) <= differences[way][1]).mean()) for way in WAYS},
        {way: float((values[way][0] - truth).mean() / case.sd) for way in ("used", "ignored")},
        float((differences["used"][0] - true_difference).mean() / case.sd),
        {way: float(differences[way][1].mean() / case.sd) for way in WAYS},
        side,
        float(np.mean([mark == side for mark in marks])),
        float(np.mean([mark not in ("", side) for mark in marks])),
        float(np.mean(inside)),
        float(np.mean([each.octaves for each in plateaus]) - width),
    )


def pooled(outcomes: Sequence[Outcome], fields: Sequence[str]) -> dict[tuple, list[Outcome]]:
    """The outcomes by some fields of their case, over all others."""
    found: dict[tuple, list[Outcome]] = {}
    for each in outcomes:
        found.setdefault(tuple(getattr(each.case, field) for field in fields), []).append(each)
    return found


def print_ways(outcomes: Sequence[Outcome], console: Console, sweeps: int) -> None:
    """A row per way: coverage over all cases, the lowest one, and the width against `ignored`."""
    groups = pooled(outcomes, ("curve", "baseline", "rates", "seeds")).values()
    rows = []
    for way in WAYS:
        texts = []
        for what in ("best", "difference"):
            shares = [np.mean([getattr(each, what)[way] for each in group]) for group in groups]
            texts += [f"{np.mean(shares):.3f}", f"{np.min(shares):.3f}"]
        width = np.median([each.half_width[way] / each.half_width["ignored"] for each in outcomes])
        rows.append([way, *texts, f"{width:.2f}"])
    headers = ["way", "best", "lowest", "difference", "lowest", "width"]
    note = f"intervals that hold the truth, {len(outcomes)} cases of {sweeps} sweeps"
    print_table(TextTable(headers, rows), console, note)


def print_cases(outcomes: Sequence[Outcome], console: Console) -> None:
    """A row per pair of curves and number of seeds: means over numbers of rates, correlations and spreads."""
    rows = []
    for (curve, baseline, seeds), group in pooled(outcomes, ("curve", "baseline", "seeds")).items():
        shares = [np.mean([getattr(each, what)["used"] for each in group]) for what in ("best", "difference")]
        biases = [np.mean([each.bias[way] for each in group]) for way in ("ignored", "used")]
        marks = [np.mean([getattr(each, what) for each in group]) for what in ("marked", "false_marks", "plateau")]
        texts = [f"{share:.3f}" for share in shares] + [f"{bias:+.2f}".replace("-", "−") for bias in biases]
        rows.append([f"{curve}/{baseline}", str(seeds), *texts, *(f"{share:.2f}" for share in marks)])
    headers = ["curves", "seeds", "best", "difference", "bias", "after", "mark", "false", "plateau"]
    note = "the way that is used; bias of the best mean, and after its optimism is off"
    print_table(TextTable(headers, rows), console, note)


@ends_in_a_line
def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; prints two tables, and writes all cases as JSON if asked."""
    parser = CommandParser(prog="python -m benchmarks.rates", description=__doc__.split("\n")[0])
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--sweeps", type=int, default=100, help="simulated sweeps a case")
    parser.add_argument("--quick", action="store_true", help="9 cases of 40 sweeps")
    parser.add_argument("--out", type=Path, help="file for the numbers as JSON")
    options = parser.parse_args(arguments)
    if options.sweeps < 1:
        raise AnalysisError(f"--sweeps {options.sweeps}: must be at least 1")
    sweeps = 40 if options.quick else options.sweeps
    grid = [Case(*pair, *rest) for pair, *rest in product(PAIRS, RATES, SEEDS, SPREADS, CORRELATIONS)]
    outcomes = [simulate(case, sweeps) for case in (grid[::29] if options.quick else grid)]
    print_ways(outcomes, Terminal(), sweeps)
    print_cases(outcomes, Terminal())
    if options.out:
        cases = [each.case._asdict() | {key: value for key, value in each._asdict().items() if key != "case"}
                 for each in outcomes]  # fmt: skip
        content = {"sweeps": sweeps, "delta": DELTA, "cases": cases}
        options.out.write_text(json.dumps(_rounded(content), indent=1) + "\n", encoding="utf-8")
    return 0


def _rounded(value):
    """The same with numbers to five digits."""
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_rounded(each) for each in value]
    return round(value, 5) if isinstance(value, float) else value


if __name__ == "__main__":
    sys.exit(main())
