"""How far from the truth are differences of endpoints, and how often do their intervals hold it?

`python -m benchmarks.endpoints` simulates pairs of learning curves whose truth is known (exponential or sigmoid, seeds
that two arms share, noise of evaluations), applies each endpoint of `analysis/stats/endpoints.py`, and compares paired
differences of 5, 10 and 20 seeds with the true difference: that of the curves without noise, over all seeds. Beside
them stands the cost by the first evaluation at the target, which is what noise shortens.
"""

import json
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from rich.console import Console

from rlexp.analysis.data.errors import AnalysisError, CommandParser, ends_in_a_line
from rlexp.analysis.report.tables import Terminal, TextTable, print_table
from rlexp.analysis.stats.curve_fits import CurveFit, check_forecast, fit_curve, pool_forecasts
from rlexp.analysis.stats.curve_numbers import area_under_curve, cost_to_target, final_value, value_at_match
from rlexp.analysis.stats.estimates import mean_difference
from rlexp.analysis.stats.speed_up import speed_up

Array = np.ndarray

X = np.linspace(0, 100, 41)
FINE = np.linspace(0, 100, 4001)
NOISE = 0.03  # SD of an evaluation
TARGET, LEVEL = 0.65, 0.3
START, HALF, STEEPNESS, ASYMPTOTE = 0.2, 15.0, 2.0, 0.75
TRUTHS = ("exponential", "sigmoid")
CASES = {"noisier": (1.0, 0.0, 3.0), "faster": (0.6, 0.0, 1.0), "higher": (1.0, 0.05, 1.0)}
"""The arm against the baseline: factor of the half-life, what is added to the asymptote, factor of the noise."""
SEEDS = (5, 10, 20)


class Curves(NamedTuple):
    """Runs of one arm, without noise on the fine grid, and as they were evaluated."""

    true: Array
    """`[runs, 4001]`."""
    seen: Array
    """`[runs, 41]`."""
    asymptote: Array
    half: Array
    true_kl: Array
    seen_kl: Array


def arm(rng: np.random.Generator, shared: Array, truth: str, slower: float, more: float, noisier: float) -> Curves:
    """Curves of so many seeds, whose luck `shared [runs, 3]` the baseline has too (four fifths of its variance)."""
    runs = len(shared)
    own = rng.normal(size=shared.shape)
    luck = np.sqrt(0.8) * shared + np.sqrt(0.2) * own
    asymptote = ASYMPTOTE + more + 0.05 * luck[:, 0]
    half = slower * HALF * np.exp(0.25 * luck[:, 1])
    rate = 0.01 * np.exp(0.2 * luck[:, 2])

    def height(x: Array) -> Array:
        if truth == "exponential":
            done = 1 - 2.0 ** (-x / half[:, None])
        else:
            with np.errstate(divide="ignore"):
                done = 1 / (1 + (half[:, None] / x) ** STEEPNESS)
        return START + (asymptote[:, None] - START) * done

    seen = height(X) + noisier * NOISE * rng.normal(size=(runs, X.size))
    kl = rate[:, None] * X + noisier * 0.02 * rng.normal(size=(runs, X.size))
    return Curves(height(FINE), seen, asymptote, half, rate[:, None] * FINE, kl)


def first_evaluation(x: Array, values: Array) -> float:
    """The cost by the first evaluation at the target, at most the budget."""
    met = np.flatnonzero(values >= TARGET)
    return float(x[met[0]]) if met.size else 100.0


@cache
def _fitted(form: str, values: bytes) -> CurveFit:
    return fit_curve(X, np.frombuffer(values), form, 1)


def _fit(form: str, speed: bool) -> Callable[[Array, Array, Array], float]:
    def value(x: Array, values: Array, kl: Array) -> float:
        fit = _fitted(form, values.tobytes())
        if fit.missing:
            return np.nan
        return -np.log2(fit.half) if speed else fit.asymptote

    return value


ENDPOINTS: dict[str, Callable[[Array, Array, Array], float]] = {
    "final": lambda x, values, kl: final_value(values),
    "auc": lambda x, values, kl: area_under_curve(x, values, 100.0),
    "cost": lambda x, values, kl: cost_to_target(x, values, TARGET, 100.0).cost,
    "cost, first evaluation": lambda x, values, kl: first_evaluation(x, values),
    "matched": lambda x, values, kl: value_at_match(x, kl, values, LEVEL),
    "asymptote:exponential": _fit("exponential", False),
    "asymptote:sigmoid": _fit("sigmoid", False),
    "speed:exponential": _fit("exponential", True),
    "speed:sigmoid": _fit("sigmoid", True),
}


def true_values(name: str, runs: Curves) -> Array:
    """The endpoint `[runs]` of curves without noise; a final value is the mean of the same last evaluations."""
    kind = name.partition(":")[0].partition(",")[0]
    if kind == "final":
        return runs.true[:, :: FINE.size // (X.size - 1)][:, -5:].mean(-1)  # 41 evaluations, the last tenth of them
    if kind == "auc":
        return (runs.true[:, 1:] + runs.true[:, :-1]).mean(-1) / 2
    if kind == "cost":
        met = runs.true >= TARGET
        return np.where(met.any(-1), FINE[met.argmax(-1)], 100.0)
    if kind == "matched":
        place = (runs.true_kl >= LEVEL).argmax(-1)
        return np.where(place > 0, runs.true[np.arange(len(place)), place], np.nan)
    return runs.asymptote if kind == "asymptote" else -np.log2(runs.half)


class Row(NamedTuple):
    """One endpoint of one truth and case at so many seeds."""

    endpoint: str
    truth: str
    case: str
    seeds: int
    difference: float
    """The true one."""
    bias: float
    rmse: float
    coverage: float
    """Of the 95 % paired t interval (of a speed-up: of its bootstrap)."""
    missing: float
    """Share of runs without a value."""


def rows_of(truth: str, case: str, bank: int, sweeps: int) -> list[Row]:
    """All endpoints: the values of a bank of paired seeds, from which sweeps are drawn."""
    rng = np.random.default_rng([TRUTHS.index(truth), list(CASES).index(case)])
    shared = rng.normal(size=(bank, 3))
    base = arm(rng, shared, truth, 1.0, 0.0, 1.0)
    other = arm(rng, shared, truth, *CASES[case])
    rows = []
    for name, endpoint in ENDPOINTS.items():
        seen = [np.array([endpoint(X, *run) for run in zip(a.seen, a.seen_kl, strict=True)]) for a in (other, base)]
        true = float(np.nanmean(true_values(name, other) - true_values(name, base)))
        differences = seen[0] - seen[1]
        missing = float(np.isnan(seen).mean())
        known = differences[~np.isnan(differences)]
        for n in SEEDS:
            found = mean_difference(known[rng.integers(known.size, size=(sweeps, n))]) if known.size else None
            rows.append(_row(name, truth, case, n, true, found, missing))
    target = float(base.true[:, :: FINE.size // (X.size - 1)].mean(0)[-5:].mean())
    places = [float(np.interp(target, each.true.mean(0), FINE)) for each in (base, other)]
    true = places[0] / places[1]
    for n in SEEDS:
        estimates = []
        for _ in range(max(1, sweeps // 4)):
            seeds = rng.integers(bank, size=n)
            estimates.append(speed_up(X, other.seen[seeds], base.seen[seeds], resamples=1000))
        log_ratio = np.log2([each.ratio for each in estimates])
        inside = np.mean([each.low <= true <= each.high for each in estimates])
        error = log_ratio - np.log2(true)
        bounds = float(np.mean([each.bound for each in estimates]))
        rmse = float(np.sqrt(np.nanmean(error**2)))
        rows.append(
            Row("speed-up (log₂)", truth, case, n, np.log2(true), float(np.nanmean(error)), rmse, float(inside), bounds)
        )
    return rows


def _row(name: str, truth: str, case: str, n: int, true: float, found: object, missing: float) -> Row:
    if found is None:
        return Row(name, truth, case, n, true, np.nan, np.nan, np.nan, missing)
    error = found.mean - true
    inside = float(((found.low <= true) & (true <= found.high)).mean())
    return Row(name, truth, case, n, true, float(error.mean()), float(np.sqrt((error**2).mean())), inside, missing)


class Belief(NamedTuple):
    """What the check says of fits of one form to curves of one truth, in arms of ten runs."""

    form: str
    truth: str
    noise: float
    run_believed: float
    """Share of runs whose fit to the first half foretells the second no worse than the last value carried forward."""
    arm_believed: float
    """The same of arms of ten runs."""
    error: float
    """Root mean square error of the asymptote of a run."""
    missing: float


def belief(form: str, truth: str, noisier: float, runs: int) -> Belief:
    """Check the fits of so many runs."""
    rng = np.random.default_rng([TRUTHS.index(truth), 7])
    curves = arm(rng, rng.normal(size=(runs, 3)), truth, 1.0, 0.0, noisier)
    fits = [fit_curve(X, values, form, 1) for values in curves.seen]
    known = np.flatnonzero([not fit.missing for fit in fits])
    checks = [check_forecast(X, curves.seen[place], form, sign=1) for place in known]
    arms = [pool_forecasts(checks[place : place + 10]).believed for place in range(0, len(checks) - 9, 10)]
    errors = np.array([fits[place].asymptote for place in known]) - curves.asymptote[known]
    believed, error = float(np.mean([each.believed for each in checks])), float(np.sqrt((errors**2).mean()))
    of_arms = float(np.mean(arms)) if arms else np.nan
    return Belief(form, truth, noisier * NOISE, believed, of_arms, error, 1 - len(known) / runs)


def print_rows(rows: Sequence[Row], beliefs: Sequence[Belief], console: Console) -> None:
    """A table per truth and case with a row per endpoint; then what the check of the fits says."""
    headers = ["endpoint", "difference", "bias", "error", *(f"n={n}" for n in SEEDS), "missing"]
    for truth in TRUTHS:
        for case in CASES:
            here = [row for row in rows if (row.truth, row.case) == (truth, case)]
            texts = []
            for last in here[len(SEEDS) - 1 :: len(SEEDS)]:
                coverage = [f"{row.coverage:.3f}" for row in here if row.endpoint == last.endpoint]
                numbers = [f"{last.difference:+.3f}", f"{last.bias:+.3f}", f"{last.rmse:.3f}"]
                texts.append([last.endpoint, *numbers, *coverage, f"{last.missing:.3f}"])
            title = f"{truth} curves, {case} arm: difference, its error at {SEEDS[-1]} seeds, coverage"
            print_table(TextTable(headers, texts), console, title)
    headers = ["fit", "curves", "noise", "runs believed", "arms", "error", "missing"]
    texts = [[each.form, each.truth, f"{each.noise:.2f}", *(f"{value:.3f}" for value in each[3:])] for each in beliefs]
    title = "fits that foretell the second half as well as the last value of the first"
    print_table(TextTable(headers, texts), console, title)


@ends_in_a_line
def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; prints the tables, and writes them as JSON if asked."""
    parser = CommandParser(prog="python -m benchmarks.endpoints", description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=400, help="simulated paired seeds of each truth and case")
    parser.add_argument("--sweeps", type=int, default=1000, help="sweeps drawn from them")
    parser.add_argument("--quick", action="store_true", help="10 seeds and 8 sweeps: whether it works")
    parser.add_argument("--out", type=Path, help="file for the numbers as JSON")
    options = parser.parse_args(arguments)
    runs, sweeps = (10, 8) if options.quick else (options.runs, options.sweeps)
    for name, value in (("runs", runs), ("sweeps", sweeps)):
        if value < 2:
            raise AnalysisError(f"--{name} {value}: must be at least 2")
    rows = [row for truth in TRUTHS for case in CASES for row in rows_of(truth, case, runs, sweeps)]
    beliefs = [
        belief(form, truth, noisier, max(10, runs // 2 // 10 * 10))
        for form in TRUTHS
        for truth in TRUTHS
        for noisier in (1.0, 3.0)
    ]
    print_rows(rows, beliefs, Terminal())
    if options.out:
        content = {"runs": runs, "sweeps": sweeps}
        content |= {"rows": [row._asdict() for row in rows], "beliefs": [each._asdict() for each in beliefs]}
        text = json.dumps(content, indent=1, default=float).replace("NaN", "null")
        options.out.write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
