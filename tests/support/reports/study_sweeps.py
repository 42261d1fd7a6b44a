"""Folders of sweeps that are studies, and what came of them."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from analysis_fixtures import METRIC, write_lines, write_sweep

from rlexp.analysis import load
from rlexp.analysis.data.run_values import values_per_run
from rlexp.analysis.stats.answer import Answer, Question, answer


def study_sweep(
    folder: Path,
    scores: Mapping[str, Sequence[float]],
    expect: Sequence[Any],
    overrides: Sequence[str] = ("study=x",),
    **study: Any,
) -> Path:
    """A sweep that is a study, and the record of the command that started it."""
    write_sweep(folder, scores, steps=10)
    study = {"name": "x", "minimum_effect": 0.05, "baseline": "norm=a", "expect": list(expect)} | study
    for config in folder.glob("*/config.yaml"):
        config.write_text(yaml.safe_dump({"study": study}))
    record = {"hydra": {"overrides": {"task": list(overrides), "hydra": ["hydra.mode=MULTIRUN"]}}}
    (folder / "multirun.yaml").write_text(yaml.safe_dump(record))
    return folder


def write_curve(path: Path, steps: Sequence[float], values: Sequence[float], **spent: float) -> None:
    """The evaluations of a run at these steps; spent: what each step cost, as `tokens=512`."""
    rows = [
        {
            "step": int(step),
            METRIC: float(value),
            **{f"progress/{key}": cost * int(step) for key, cost in spent.items()},
        }
        for step, value in zip(steps, values, strict=True)
    ]
    write_lines(path / "metrics.jsonl", rows)


def arriving(folder: Path, arrivals: Mapping[str, Sequence[float]], last: int = 40) -> None:
    """Let each run of a variant reach an accuracy of 0.5 at its step, or never where that is infinite."""
    for variant, steps in arrivals.items():
        for seed, step in enumerate(steps):
            grid = np.arange(last + 1)
            write_curve(folder / f"{variant},seed={seed}", grid, np.where(grid >= step, 0.9, 0.1), tokens=10)


def change_summary(path: Path, **facts: Any) -> None:
    """Change what the summary of a run says."""
    summary = json.loads((path / "summary.json").read_text())
    (path / "summary.json").write_text(json.dumps(summary | facts))


def answered(folder: Path, **choices: Any) -> Answer:
    """The answer to a question about a sweep, its own unless told otherwise."""
    return answer(load(folder), Question(**choices))


def numbers_of(folder: Path, variant: str, **asked: Any) -> list[float]:
    """The number of each run of a variant."""
    data = load(folder)
    names = data.runs.loc[data.runs["variant"] == variant, "name"]
    return values_per_run(data, **asked).values.reindex(names).tolist()
