"""Sweeps in order of size, made of random numbers: as grids of scores, as folders, as ablations."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from analysis_fixtures import write_sweep

from rlexp.analysis.stats.rates import RateGrid


def grids_of(effects: Sequence[float], n: int, rng: np.random.Generator, noise: float = 1.0) -> list[RateGrid]:
    """Arms of one rate over so many units, which all arms share; ``noise`` is the SD of a difference of two arms."""
    scores = np.asarray(effects) + rng.normal(size=(n, 1)) + noise / np.sqrt(2) * rng.normal(size=(n, len(effects)))
    return [RateGrid(np.ones(1), row[None]) for row in scores.T]


def tuned_grids(arms: int, rates: int, n: int, rng: np.random.Generator) -> list[RateGrid]:
    """Arms of several rates over so many units."""
    return [RateGrid(2.0 ** np.arange(rates), rng.normal(size=(rates, n))) for _ in range(arms)]


def write_ablation(folder: Path, scores: Mapping[str, Mapping[float, Sequence[float]]], parts: Sequence[str]) -> Path:
    """Write an ablation with a tuned learning rate: scores by arm (`clip=higher,agg=token`, `` of none), by rate."""
    rates = sorted({rate for each in scores.values() for rate in each})
    arms, runs = [], {}
    for arm, by_rate in scores.items():
        on = [place for place, part in enumerate(parts) if part in arm.split(",")]
        points = [[*filter(None, arm.split(",")), f"lr={rate:g}"] for rate in rates]
        arms.append({"parts": on, "overrides": points})
        runs |= {",".join(point): list(by_rate[rate]) for point, rate in zip(points, rates, strict=True)}
    write_sweep(folder, runs, steps=4)
    declared = {"parts": [[part] for part in parts], "designs": ["factorial"], "order": None, "metric": None}
    declared |= {"against": [], "overrides": [], "budget": None, "smallest": None}
    declared |= {"tune": {"key": "lr", "values": rates}, "endpoint": "final"}
    declared |= {"seeds": [*range(len(next(iter(runs.values()))))]}
    (folder / "ablation.json").write_text(json.dumps({"declared": declared, "values": rates, "arms": arms}))
    return folder
