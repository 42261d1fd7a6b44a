"""Several tasks at once: the share of runs that score above each threshold."""

import numpy as np
from matplotlib.axes import Axes

from rlexp.analysis.data.load import SweepData
from rlexp.analysis.figures.inputs import Drawing, FigureInputs, NoData
from rlexp.analysis.figures.labels import LABEL_WIDTH, wrap_labels
from rlexp.analysis.figures.layout import Point, one_panel
from rlexp.analysis.figures.style import BAND, theme, variant_colors
from rlexp.analysis.stats.comparison import MIN_SEEDS
from rlexp.analysis.stats.curves import Curve, Curves
from rlexp.runfolder.variants import DEFAULT, parse_override, split_overrides

TASK = "task"
MIN_TASKS = 3
THRESHOLDS = 101
RESAMPLES = 2_000


def draw_profile(inputs: FigureInputs) -> Drawing:
    """Draw performance profiles of a sweep over tasks, one line per arm; higher is better."""
    data = inputs.all_data
    tasks = data.runs[TASK].dropna().unique() if TASK in data.axes else []
    if len(tasks) < MIN_TASKS:
        raise NoData(f"needs {MIN_TASKS} tasks or more, and this sweep varies {len(tasks) or 'none'}")
    lines = performance_profiles(data)
    if not lines:
        raise NoData("no run has a score")
    caption = (
        f"Share of runs whose score is above the threshold, mean over {len(tasks)} tasks "
        f"({(data.runs['status'] == 'completed').sum()} completed runs in all); band: 95 % percentile bootstrap "
        "over runs within each task, pointwise. Scores outside 0 to 1 are scaled to the range of their task."
    )
    alt_text = "; ".join(f"{name}: {line.iqm[len(line.iqm) // 2]:.2f} above 0.5" for name, line in lines.items())
    named = set(lines) <= set(inputs.colors)
    colors = inputs.colors if named else variant_colors(list(lines), _without_task(inputs.comparison.baseline))
    labels = {name: data.labels.get(name, name) for name in lines}
    wrapped = wrap_labels(labels.values(), LABEL_WIDTH)

    def draw(axes: Axes) -> dict[str, Point]:
        for name, (x, share, low, high) in lines.items():
            axes.fill_between(x, low, high, color=colors[name], alpha=BAND, linewidth=0, step="post")
            axes.step(x, share, where="post", color=colors[name])
        axes.set(xlim=(0, 1), ylim=(-0.02, 1.02))
        return {name: _half(line) for name, line in lines.items()}

    with theme():
        names = {name: wrapped[label] for name, label in labels.items()}
        figure = one_panel(draw, names, colors, ("threshold", "share of runs above it"), caption)
    return Drawing(caption, alt_text, figure)


def performance_profiles(data: SweepData) -> Curves:
    """Return the share of runs above each threshold per choice beside the task, tasks weighted equally.

    Scores outside [0, 1] are first scaled to the range that the task's runs span. The band resamples runs within each
    task (stratified percentile bootstrap). Source: performance profiles, Agarwal et al. 2021.
    """
    runs = data.runs[data.runs["status"] == "completed"].drop_duplicates([*data.axes, "seed"])
    runs = runs.dropna(subset=["score", TASK])
    scaled = runs["score"]
    if not scaled.between(0, 1).all():
        low, high = (runs.groupby(TASK)["score"].transform(kind) for kind in ("min", "max"))
        scaled = ((scaled - low) / (high - low).where(high > low, 1.0)).astype(float)
    runs = runs.assign(line=runs["variant"].map(_without_task), scaled=scaled)
    return {name: _profile([task_runs["scaled"].to_numpy() for _, task_runs in group.groupby(TASK)])
            for name, group in runs.groupby("line", sort=False)}  # fmt: skip


def _without_task(variant: str) -> str:
    """Return what a variant chooses beside the task: all of it where variants are arms within tasks."""
    return ",".join(part for part in split_overrides(variant) if parse_override(part)[0] != TASK) or DEFAULT


def _profile(tasks: list[np.ndarray]) -> Curve:
    thresholds = np.linspace(0, 1, THRESHOLDS)
    share = np.mean([_above(scores, thresholds) for scores in tasks], axis=0)
    rng = np.random.default_rng(0)
    resampled_scores = [scores[rng.integers(scores.size, size=(RESAMPLES, scores.size))] for scores in tasks]
    resampled = np.mean([_above(scores, thresholds) for scores in resampled_scores], axis=0)
    low, high = np.quantile(resampled, [0.025, 0.975], axis=0)
    few = min(scores.size for scores in tasks) < MIN_SEEDS
    return Curve(thresholds, share, *(np.full(THRESHOLDS, np.nan) if few else end for end in (low, high)))


def _above(scores: np.ndarray, thresholds: np.ndarray) -> np.ndarray:
    """Return the share of the last axis above each threshold, `[..., n] → [..., thresholds]`."""
    return (scores[..., None, :] > thresholds[:, None]).mean(-1)


def _half(line: Curve) -> Point:
    """Return the point of a label: the last threshold that half of the runs pass, so the median orders the labels."""
    place = int(np.flatnonzero(line.iqm >= min(0.5, line.iqm.max()))[-1])
    return line.steps[place], line.iqm[place]
