"""Small logs as other tools leave them."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np


def write_csv(path: Path, header: Sequence[str], rows: Sequence[Sequence[object]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])
    return path


def scores_csv(path: Path, scores: Mapping[str, Sequence[float]], first_seeds: Mapping[str, int] | None = None) -> Path:
    """A row a run: method, seed, accuracy."""
    starts = first_seeds or {}
    rows = [
        (arm, starts.get(arm, 0) + place, value) for arm, values in scores.items() for place, value in enumerate(values)
    ]
    return write_csv(path, ["method", "seed", "accuracy"], rows)


def scores(n: int, effect: float = 0.1, sd: float = 0.02, arms: Sequence[str] = ("grpo", "dapo")) -> dict[str, list]:
    """Independent scores of arms, each above the one before it."""
    rng = np.random.default_rng(0)
    return {arm: list(0.5 + effect * place + sd * rng.normal(size=n)) for place, arm in enumerate(arms)}


def curve(end: float, steps: int, seed: int) -> np.ndarray:
    """Values at steps 0 to `steps` - 1 of a curve that ends near a number."""
    rng = np.random.default_rng(seed)
    return end * (1 - np.exp(-5 * np.arange(steps) / steps)) + 0.01 * rng.normal(size=steps)
