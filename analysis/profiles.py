"""Several tasks at once: the share of runs that score above each threshold."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.comparison import MIN_SEEDS
from analysis.curves import Curve, Curves
from analysis.labels import wrap_all
from analysis.layout import Point, one_panel
from analysis.load import Data
from analysis.style import BAND, style, variant_colours
from analysis.variants import DEFAULT, key_value, split

TASK = "task"
MIN_TASKS = 3
THRESHOLDS = 101
RESAMPLES = 2_000


def tasks_of(data: Data) -> list[str]:
    """The tasks of a sweep over tasks."""
    return list(dict.fromkeys(data.runs[TASK].dropna())) if TASK in data.axes else []


def profiles(data: Data) -> Curves:
    """Per choice on the axes beside the task, the share of runs above each threshold, tasks weighted equally.

    Scores outside [0, 1] are first scaled to the range that the task's runs span. The band resamples runs within each
    task (stratified percentile bootstrap). Source: performance profiles, Agarwal et al. 2021.
    """
    runs = data.runs[data.runs["status"] == "completed"].drop_duplicates([*data.axes, "seed"])
    runs = runs.dropna(subset=["score", TASK])
    runs = runs.assign(line=runs["variant"].map(_without_task), scaled=_scaled(runs))
    return {name: _profile([own["scaled"].to_numpy() for _, own in group.groupby(TASK)])
            for name, group in runs.groupby("line", sort=False)}  # fmt: skip


def _without_task(variant: str) -> str:
    """What a variant chooses beside the task: all of it where variants are arms within tasks."""
    return ",".join(part for part in split(variant) if key_value(part)[0] != TASK) or DEFAULT


def _scaled(runs: pd.DataFrame) -> pd.Series:
    if runs["score"].between(0, 1).all():
        return runs["score"]
    low, high = (runs.groupby(TASK)["score"].transform(kind) for kind in ("min", "max"))
    return ((runs["score"] - low) / (high - low).where(high > low, 1.0)).astype(float)


def _profile(tasks: list[np.ndarray]) -> Curve:
    thresholds = np.linspace(0, 1, THRESHOLDS)
    share = np.mean([_above(scores, thresholds) for scores in tasks], axis=0)
    rng = np.random.default_rng(0)
    drawn = [scores[rng.integers(scores.size, size=(RESAMPLES, scores.size))] for scores in tasks]
    resampled = np.mean([_above(scores, thresholds) for scores in drawn], axis=0)
    low, high = np.quantile(resampled, [0.025, 0.975], axis=0)
    few = min(scores.size for scores in tasks) < MIN_SEEDS
    return Curve(thresholds, share, *(np.full(THRESHOLDS, np.nan) if few else end for end in (low, high)))


def _above(scores: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
    """Share of the last axis above each threshold, `[..., n] → [..., thresholds]`."""
    return (scores[..., None, :] > thresholds[:, None]).mean(-1)


def profile_caption(data: Data, lines: Curves) -> str:
    """What the lines of `profile` mean."""
    return (
        f"Share of runs whose score is above the threshold, mean over {len(tasks_of(data))} tasks "
        f"({(data.runs['status'] == 'completed').sum()} completed runs in all); band: 95 % percentile bootstrap "
        "over runs within each task, pointwise. Scores outside 0 to 1 are scaled to the range of their task."
    )


def profile(data: Data, lines: Curves, baseline: str) -> Figure:
    """One line per arm; higher is better."""
    colours = variant_colours(data.variants if baseline in lines else list(lines), baseline)
    labels = {name: data.labels.get(name, name) for name in lines}
    wrapped = wrap_all(labels.values(), 26)

    def draw(axes: Axes) -> dict[str, Point]:
        for name, (x, share, low, high) in lines.items():
            axes.fill_between(x, low, high, color=colours[name], alpha=BAND, linewidth=0, step="post")
            axes.step(x, share, where="post", color=colours[name])
        axes.set(xlim=(0, 1), ylim=(-0.02, 1.02))
        return {name: _half(line) for name, line in lines.items()}

    with style():
        names = {name: wrapped[label] for name, label in labels.items()}
        axes_labels = "threshold", "share of runs above it"
        return one_panel(draw, names, colours, axes_labels, profile_caption(data, lines))


def _half(line: Curve) -> Point:
    """Where a label points: the last threshold that half of the runs pass, so that labels are ordered by median."""
    place = int(np.flatnonzero(line.iqm >= min(0.5, line.iqm.max()))[-1])
    return line.steps[place], line.iqm[place]
