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


def write_examples(folder: Path) -> None:
    """The tables of docs/your_runs.md: methods over seeds, two single runs, answers to items, names with seeds."""
    rng = np.random.default_rng(0)
    levels = {"grpo": 0.612, "dapo": 0.655}
    seeds = {arm: (end + 0.02 * rng.normal(size=6)).round(3).tolist() for arm, end in levels.items()}
    scores_csv(folder / "runs.csv", seeds)
    scores_csv(folder / "other_seeds.csv", {"grpo": seeds["grpo"], "dapo": seeds["dapo"][:4]}, {"dapo": 10})
    write_csv(folder / "pair.csv", ["method", "accuracy"], [["grpo", 0.61], ["dapo", 0.65]])
    easy = rng.uniform(0.2, 0.9, size=40)
    rows = [
        [arm, seed, item, int(rng.random() < easy[item] + 0.1 * (arm == "dapo"))]
        for arm in levels
        for seed in range(5)
        for item in range(40)
    ]
    write_csv(folder / "items.csv", ["arm", "seed", "item", "correct"], rows)
    rows = [
        [f"{arm}_s{seed}", step, round(value, 4), round(2 - value, 4)]
        for arm, end in levels.items()
        for seed in range(6)
        for step, value in enumerate(curve(end, 30 + 5 * (seed == 0), seed))
    ]
    write_csv(folder / "log.csv", ["run", "step", "reward", "loss"], rows)
