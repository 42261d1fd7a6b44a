"""Does accuracy follow entropy as R = b − a·exp(H), run by run and over runs?

`python -m benchmarks.entropy_law` fits the law of The Entropy Mechanism (arXiv 2505.22617, section 2) by least squares.
It takes the stored curves of the questions that have both numbers at ten evaluations or more, but for the first policy:

run       one law for each run; runs in which accuracy hardly varies (a standard deviation below 2 points) say nothing
line      a straight line over steps in its place, which has two numbers, too
setting   one law for all runs that share task, start and updates on a rollout, whatever their clip, rate and seed
rate      one for those of them that share the learning rate
forecast  one for the first half of a run, given the entropies of the second; against the last accuracy of the first
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from benchmarks.asked import ASKED
from rlexp.analysis.data.errors import CommandParser, ends_in_a_line
from rlexp.analysis.report.tables import Terminal, TextTable, print_table

ENTROPY, ACCURACY, LEAST = "policy/entropy", "eval/greedy_accuracy", 10
FLAT = 0.02  # standard deviation of the accuracies of a run that say nothing
OUT = ASKED.parent / "statistics" / "entropy_law.json"

Array = np.ndarray


class Row(NamedTuple):
    """What the law says of the runs of one question."""

    question: str
    runs: int
    flat: int
    """Runs that were left out, as their accuracy hardly varies."""
    falling: float
    """Share of runs in which accuracy rises as entropy falls (a > 0)."""
    run: list[float]
    """Quartiles of R² of a run's own law."""
    line: list[float]
    """The same of a straight line over its steps."""
    setting: list[float]
    """R² of the law that a setting's runs share, lowest and highest of the settings."""
    rate: list[float]
    """The same of those that have one learning rate."""
    forecast: list[float]
    """Quartiles of the forecast's error, as a share of the error of the last accuracy before."""


def law(entropy: Array, accuracy: Array) -> tuple[float, float]:
    """Return a and b of R = b − a·exp(H) by least squares."""
    slope, intercept = np.polyfit(np.exp(entropy), accuracy, 1)
    return -float(slope), float(intercept)


def predict(entropy: Array, a: float, b: float) -> Array:
    return b - a * np.exp(entropy)


def explained(entropy: Array, accuracy: Array) -> float:
    """Return R² of the law that fits best."""
    rest = accuracy - predict(entropy, *law(entropy, accuracy))
    return 1 - float((rest**2).sum() / ((accuracy - accuracy.mean()) ** 2).sum())


def forecast_error(entropy: Array, accuracy: Array) -> float:
    """Return the RMS error of the second half by the law of the first, over that of the last value of the first."""
    half = len(accuracy) // 2
    known, later = slice(None, half), slice(half, None)
    by_law = accuracy[later] - predict(entropy[later], *law(entropy[known], accuracy[known]))
    by_last = accuracy[later] - accuracy[half - 1]
    with np.errstate(divide="ignore"):  # infinite where accuracy no longer moves, so that its last value is exact
        return float(np.sqrt((by_law**2).mean() / (by_last**2).mean()))


def row_of(question: str, curves: pd.DataFrame, runs: pd.DataFrame) -> Row:
    """Fit the laws to curves with a row an evaluation."""
    keys = ["folder", "seed"]
    told = curves.dropna(subset=[ENTROPY, ACCURACY]).merge(runs[[*keys, "condition", "lr"]], on=keys)
    by_run = numbers(told, keys)
    varied = [each for each in by_run if each[1].std() >= FLAT]
    shared, at_a_rate = (
        [explained(entropy, accuracy) for entropy, accuracy, _ in numbers(told, key)]
        for key in (["condition"], ["condition", "lr"])
    )
    return Row(
        question,
        len(varied),
        len(by_run) - len(varied),
        float(np.mean([law(entropy, accuracy)[0] > 0 for entropy, accuracy, _ in varied])),
        quartiles([explained(entropy, accuracy) for entropy, accuracy, _ in varied]),
        quartiles([float(np.corrcoef(steps, accuracy)[0, 1]) ** 2 for _, accuracy, steps in varied]),
        [min(shared), max(shared)],
        [min(at_a_rate), max(at_a_rate)],
        quartiles([forecast_error(entropy, accuracy) for entropy, accuracy, _ in varied]),
    )


def numbers(curves: pd.DataFrame, keys: list[str]) -> list[Array]:
    """Return entropy, accuracy and step of each group of evaluations in which accuracy varies at all, `[3, n]`."""
    groups = [group[[ENTROPY, ACCURACY, "step"]].to_numpy().T for _, group in curves.groupby(keys)]
    return [each for each in groups if each[1].std() > 0]


def quartiles(values: Sequence[float]) -> list[float]:
    return [float(each) for each in np.quantile(values, (0.25, 0.5, 0.75))]


def stored_rows() -> list[Row]:
    """Return the rows of all stored questions whose curves have both numbers often enough."""
    rows = []
    for folder in sorted(ASKED.iterdir()):
        if not (folder / "curves.parquet").is_file():
            continue
        curves = pd.read_parquet(folder / "curves.parquet")
        if {ENTROPY, ACCURACY} <= {*curves}:
            both = curves.dropna(subset=[ENTROPY, ACCURACY])
            if both.groupby(["folder", "seed"]).size().median() >= LEAST:
                rows.append(row_of(folder.name, curves, pd.read_parquet(folder / "runs.parquet")))
    return rows


def as_table(rows: Sequence[Row]) -> TextTable:
    headers = ["question", "runs", "flat", "a > 0", "run", "line", "setting", "rate", "forecast"]
    texts = [
        [each.question, f"{each.runs}", f"{each.flat}", f"{each.falling:.2f}"]
        + [f"{part[1]:.2f}" for part in (each.run, each.line)]
        + [f"{low:.2f} to {high:.2f}" for low, high in (each.setting, each.rate)]
        + [f"{each.forecast[1]:.2f}"]
        for each in rows
    ]
    return TextTable(headers, texts)


def as_json(rows: Sequence[Row]) -> list[dict[str, Any]]:
    return [
        {key: np.round(value, 4).tolist() if isinstance(value, list | float) else value for key, value in each.items()}
        for each in (row._asdict() for row in rows)
    ]


@ends_in_a_line
def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; prints the table, and writes it as JSON."""
    parser = CommandParser(prog="python -m benchmarks.entropy_law", description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=OUT, help="file for the numbers as JSON")
    options = parser.parse_args(arguments)
    rows = stored_rows()
    print_table(as_table(rows), Terminal(), "R = b − a·exp(H): medians of R² over runs, ranges over settings")
    options.out.write_text(json.dumps(as_json(rows), indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
