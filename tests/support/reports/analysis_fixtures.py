"""Sweep folders made of random numbers, as the training code would leave them."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rlexp.analysis.data.load import SweepData, load
from rlexp.runfolder.variants import split_overrides

METRIC = "eval/greedy_accuracy"
NORMS, CLIPS = ("local", "hybrid", "global"), ("symmetric", "higher")


def write_lines(path: Path, rows: list[dict]) -> None:
    """Rows as JSON lines."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def curve(final: float, steps: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A learning curve that ends near its final value."""
    return final * (1 - np.exp(-4 * steps / steps[-1])) + 0.01 * rng.normal(size=steps.size)


def write_run(folder: Path, name: str, variant: str, seed: int, score: float, steps: int = 40) -> dict[str, Any]:
    """One completed run with an evaluation every second step; its line for the index."""
    path = folder / name
    path.mkdir(parents=True)
    rng = np.random.default_rng(seed)
    grid = np.arange(0, steps + 1)
    values = curve(score, np.maximum(grid, 1e-9), rng)
    spent = {"policy/entropy": -0.01, "progress/completions": 64, "progress/tokens": 512, "time/total": 0.5}
    rows = [{"step": step, "reward/mean": float(step)} for step in grid.tolist()]
    for row in rows:
        row |= {key: amount * row["step"] for key, amount in spent.items()}
    for row, value in list(zip(rows, values.tolist(), strict=True))[::2]:
        row |= {METRIC: value, "eval/reward": 2 * value}
    write_lines(path / "metrics.jsonl", rows)
    score = float(score)
    status = {"status": "completed", "reason": None, "score": score}
    facts = {"name": name, "variant": variant, "seed": seed, "score_metric": METRIC, "collapsed": score < 0.2}
    counts = {"steps": steps, "completions": 64 * steps, "tokens": 512 * steps, "wall_time_s": 1.5}
    (path / "summary.json").write_text(json.dumps({**status, **facts, **counts, "final": {}, "versions": {}}))
    (path / "config.yaml").write_text(f"seed: {seed}\nstudy: null\n")
    return {"name": name, "variant": variant, "seed": seed, **status}


def write_sweep(folder: Path, scores: dict[str, list[float]], steps: int = 40) -> Path:
    """A sweep from the scores of each variant (its overrides, joined by ","), seeds counted from 0."""
    jobs = []
    for variant, values in scores.items():
        for seed, score in enumerate(values):
            overrides = [*split_overrides(variant), f"seed={seed}"]
            job = write_run(folder, ",".join(overrides), variant, seed, score, steps)
            jobs.append({"job": len(jobs), "overrides": overrides, **job})
    write_lines(folder / "jobs.jsonl", jobs)
    return folder


def random_scores(variants: list[str], n: int, spread: float = 0.03, seed: int = 0) -> dict[str, list[float]]:
    """Scores with a seed effect that all variants share, and evenly spaced variant effects."""
    rng = np.random.default_rng(seed)
    shared = rng.normal(0, spread, n)
    effects = np.linspace(0, 0.15, len(variants))
    return {v: list(0.6 + e + shared + rng.normal(0, spread, n)) for v, e in zip(variants, effects, strict=True)}


def normal_scores(names: list[str], n: int, seed: int = 0) -> dict[str, list[float]]:
    """Independent scores around one half."""
    rng = np.random.default_rng(seed)
    return {name: (0.5 + 0.1 * rng.normal(size=n)).tolist() for name in names}


def runs_of(folder: Path, variant: str, seeds: Iterable[int]) -> list[Path]:
    """The folders of some runs of a variant."""
    return [folder / f"{variant},seed={seed}" for seed in seeds]


@pytest.fixture
def square() -> dict[str, list[float]]:
    """Scores of a sweep over two axes, six seeds each."""
    return normal_scores([f"norm={norm},clip={clip}" for norm in NORMS for clip in CLIPS], 6)


@pytest.fixture
def two_axes(tmp_path: Path, square: dict[str, list[float]]) -> SweepData:
    """That sweep, read."""
    return load(write_sweep(tmp_path / "square", square, steps=10))
