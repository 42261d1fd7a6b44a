"""Lines with their bands: over steps and votes, over thresholds of the score (several tasks), over group sizes."""

import re
from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from rlexp.analysis.data.load import SweepData
from rlexp.analysis.data.run_values import late_means
from rlexp.analysis.figures import layout
from rlexp.analysis.figures.inputs import Drawing, FigureInputs, NoData, require_spread
from rlexp.analysis.stats.comparison import MIN_SEEDS, Comparison, iqm_with_interval
from rlexp.analysis.stats.curves import POINTS, VOTE_ACCURACY, Curve, Curves, learning_curves, voting_curves
from rlexp.runfolder.variants import DEFAULT, parse_override, split_overrides

MAX_BACKGROUND_LINES = 20  # in the background of a panel; with more variants a gray band says where they are
TASK, MIN_TASKS, THRESHOLDS, RESAMPLES = "task", 3, 101, 2_000  # of performance profiles
SIZE_KEYS, ROLLOUTS = ("group_size", "group_size.completions"), "progress/completions"


def draw_curves(inputs: FigureInputs, metric: str | None = None) -> Drawing:
    """Draw the curves of a metric (the comparison's unless named)."""
    comparison, name = inputs.comparison, metric or inputs.comparison.metric
    lines = learning_curves(inputs.data, comparison, metric)
    if not lines:
        raise NoData(f"no completed run has a value of {name}")
    require_spread(_all_values(lines), f"{name} of every run")
    counts = comparison.table.loc[list(lines), "n"]
    most = max(line.steps.size for line in lines.values())
    thinned = f" (at most {POINTS} of them are drawn)" if most >= POINTS else ""
    dashed = f" Dashed: {comparison.labels[comparison.baseline]}." if len(lines) > 1 else ""
    caption = (
        f"Line: interquartile mean over seeds at each logged step{thinned}, "
        f"{layout.seed_count(counts)} per variant, completed runs; "
        f"band: pointwise 95 % bootstrap interval; no smoothing.{dashed}{layout.few_seeds_note(counts)}"
    )
    return _line_drawing(inputs, lines, ("step", name), caption, _ends_as_text(comparison, lines))


def draw_votes(inputs: FigureInputs) -> Drawing:
    """Draw the accuracy of a vote by the number of completions that vote."""
    comparison = inputs.comparison
    lines = voting_curves(inputs.data, comparison, inputs.samples)
    if max((line.steps.size for line in lines.values()), default=0) < 2:
        raise NoData("no completed run has kept two completions of a prompt")
    require_spread(np.concatenate([line.iqm for line in lines.values()]), f"{VOTE_ACCURACY} of every variant")
    parts = [f"{comparison.labels[name]}: {line.iqm[0]:.3g} with 1 vote, {line.iqm[-1]:.3g} with {line.steps[-1]}"
             for name, line in lines.items()]  # fmt: skip
    counts = comparison.table.loc[list(lines), "n"]
    caption = (
        "Accuracy of the most common answer among that many of a prompt's completions, as runs kept them after the "
        "last step (training prompts; all choices of the completions, ties broken fairly): interquartile mean over "
        f"seeds, {layout.seed_count(counts)} per variant; band: 95 % bootstrap interval.{layout.few_seeds_note(counts)}"
    )
    return _line_drawing(inputs, lines, ("votes", VOTE_ACCURACY), caption, "; ".join(parts))


def draw_lengths(inputs: FigureInputs) -> Drawing:
    """Draw the length of correct and of wrong answers over steps, one panel per variant."""
    comparison, counts = inputs.comparison, inputs.comparison.table["n"]
    curves = {kind: learning_curves(inputs.data, comparison, f"length/{kind}") for kind in ("correct", "wrong")}
    if not any(curves.values()):
        raise NoData("no completed run has a value of length/correct or length/wrong")
    require_spread(np.concatenate([_all_values(lines) for lines in curves.values()]), "the length of every answer")
    alt_text = "; ".join(f"{kind} {_ends_as_text(comparison, lines)}" for kind, lines in curves.items() if lines)
    caption = (
        "Mean tokens of a sampled completion, correct (solid) and wrong (dashed): interquartile mean over seeds at "
        f"each logged step that has any, {layout.seed_count(counts)} per variant; band: pointwise 95 % "
        f"bootstrap interval.{layout.few_seeds_note(counts)}"
    )
    found = [name for name in comparison.table.index if any(name in lines for lines in curves.values())]
    others, note = layout.most_different(comparison, found)
    variants = [name for name in found if name == comparison.baseline] + others

    def draw(axes: Axes, variant: str) -> None:
        for kind, lines in curves.items():
            if variant in lines:
                _draw_line(axes, lines[variant], inputs.colors[variant], dashed=kind == "wrong")
        layout.step_ticks(axes, 3)

    with layout.theme():
        names = layout.variant_names(comparison, variants, layout.PANEL_WIDTH, 2)
        heading = "solid: correct   dashed: wrong"
        figure = layout.small_multiples(draw, names, ("step", "tokens"), caption + note, heading)
    return Drawing(caption, alt_text, figure)


def _all_values(lines: Curves) -> np.ndarray:
    """Return all that is drawn, bands included."""
    return np.concatenate([np.empty(0), *(np.ravel(line[1:]) for line in lines.values())])


def _ends_as_text(comparison: Comparison, lines: Curves) -> str:
    parts = [f"{comparison.labels[name]}: {line.iqm[0]:.3g} to {line.iqm[-1]:.3g}" for name, line in lines.items()]
    return "from first to last step, " + "; ".join(parts)


def _draw_line(axes: Axes, line: Curve, color: str, dashed: bool) -> None:
    marker = "o" if line.steps.size == 1 else None
    axes.fill_between(line.steps, line.low, line.high, color=color, alpha=layout.BAND, linewidth=0)
    axes.plot(line.steps, line.iqm, color=color, linestyle="--" if dashed else "-", marker=marker, markersize=4)


def _line_drawing(inputs: FigureInputs, lines: Curves, labels: tuple[str, str], caption: str, alt_text: str) -> Drawing:
    """Draw a line per variant; of many before thin lines of all variants, or a band of very many."""
    baseline, colors = inputs.comparison.baseline, inputs.colors
    many = len(lines) > MAX_BACKGROUND_LINES
    steps = next(iter(lines.values())).steps
    values = [np.interp(steps, line.steps, line.iqm) for line in lines.values()]

    def draw_all(axes: Axes) -> dict[str, layout.Point]:
        for variant, line in lines.items():
            _draw_line(axes, line, colors[variant], dashed=variant == baseline and len(lines) > 1)
        axes.margins(x=0.01)
        layout.step_ticks(axes)
        return {variant: (line.steps[-1], line.iqm[-1]) for variant, line in lines.items()}

    def draw_one(axes: Axes, variant: str) -> None:
        if many:
            axes.fill_between(steps, np.min(values, 0), np.max(values, 0), color=layout.OTHERS, linewidth=0, alpha=0.6)
        for other, line in lines.items() if not many else ():
            if other not in (variant, baseline):
                axes.plot(line.steps, line.iqm, color=layout.OTHERS, linewidth=0.6)
        if baseline in lines:
            _draw_line(axes, lines[baseline], colors[baseline], dashed=True)
        _draw_line(axes, lines[variant], colors[variant], dashed=False)
        layout.step_ticks(axes, 3)

    background = " Grey band: from the lowest to the highest variant." if many else " Thin grey: all other variants."
    figure = layout.few_or_many(inputs.comparison, lines, colors, labels, caption, draw_all, draw_one, background)
    return Drawing(caption, alt_text, figure)


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
    colors = inputs.colors if named else layout.variant_colors(list(lines), _without_task(inputs.comparison.baseline))
    labels = {name: data.labels.get(name, name) for name in lines}
    wrapped = layout.wrap_labels(labels.values(), layout.LABEL_WIDTH)

    def draw(axes: Axes) -> dict[str, layout.Point]:
        ends = {}
        for name, (x, share, low, high) in lines.items():
            axes.fill_between(x, low, high, color=colors[name], alpha=layout.BAND, linewidth=0, step="post")
            axes.step(x, share, where="post", color=colors[name])
            half = int(np.flatnonzero(share >= min(0.5, share.max()))[-1])  # so that medians order the names
            ends[name] = x[half], share[half]
        axes.set(xlim=(0, 1), ylim=(-0.02, 1.02))
        return ends

    with layout.theme():
        names = {name: wrapped[label] for name, label in labels.items()}
        figure = layout.one_panel(draw, names, colors, ("threshold", "share of runs above it"), caption)
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
    thresholds, profiles = np.linspace(0, 1, THRESHOLDS), {}

    def share(tasks: list[np.ndarray]) -> np.ndarray:
        """Return the mean over tasks of the share of the last axis above each threshold."""
        return np.mean([(scores[..., None, :] > thresholds[:, None]).mean(-1) for scores in tasks], axis=0)

    for name, group in runs.groupby("line", sort=False):
        tasks = [task_runs["scaled"].to_numpy() for _, task_runs in group.groupby(TASK)]
        rng = np.random.default_rng(0)
        resampled = [scores[rng.integers(scores.size, size=(RESAMPLES, scores.size))] for scores in tasks]
        band = np.quantile(share(resampled), [0.025, 0.975], axis=0)
        if min(scores.size for scores in tasks) < MIN_SEEDS:
            band[:] = np.nan
        profiles[name] = Curve(thresholds, share(tasks), *band)
    return profiles


def _without_task(variant: str) -> str:
    """Return what a variant chooses beside the task: all of it where variants are arms within tasks."""
    return ",".join(part for part in split_overrides(variant) if parse_override(part)[0] != TASK) or DEFAULT


class SizeLine(NamedTuple):
    """One line over group sizes: `[sizes]` each."""

    sizes: np.ndarray
    iqm: np.ndarray
    low: np.ndarray
    high: np.ndarray
    n: np.ndarray
    variants: list[str]
    """Of which variant each point is."""


class Scaling(NamedTuple):
    """Lines by name at equal steps and at equal rollouts, and what was equal."""

    steps: int
    rollouts: int
    at_steps: dict[str, SizeLine]
    at_rollouts: dict[str, SizeLine]


def draw_group_sizes(inputs: FigureInputs) -> Drawing:
    """Draw the score over group size, where nothing else varies with it, at equal steps and at equal rollouts."""
    scaling = compare_sizes(inputs.data, inputs.comparison)
    if scaling is None:
        raise NoData("needs variants that differ in group_size only, and runs that log completions and the metric")
    parts = [f"{name or 'group size'} {size:g}: {value:.3g}" for name, line in scaling.at_rollouts.items()
             for size, value in zip(line.sizes, line.iqm, strict=True)]  # fmt: skip
    require_spread(np.concatenate([line.iqm for line in scaling.at_steps.values()]), "the score at every size")
    counts = np.concatenate([line.n for line in scaling.at_steps.values()])
    caption = (
        f"Interquartile mean over seeds with its 95 % percentile bootstrap interval, {layout.seed_count(counts)} per "
        f"point. Left: all runs after {scaling.steps:,} steps. Right: all runs after {scaling.rollouts:,} completions, "
        "as many as the smallest run sampled. Where prompts a step shrink as the group grows, both panels are the same."
        + layout.few_seeds_note(counts)
    )
    names = layout.wrap_labels(scaling.at_steps, 52, 1)
    styles: dict[str, layout.LineStyle] = {
        name: {"color": layout.INK, "linewidth": 1.0, "linestyle": layout.DASHES[place % len(layout.DASHES)]}
        for place, name in enumerate(names)
    }

    def draw(axes: Axes, place: int) -> None:
        lines = (scaling.at_steps, scaling.at_rollouts)[place]
        for name, line in lines.items():  # it joins points of several variants, which have their variants' colors
            axes.fill_between(line.sizes, line.low, line.high, color=layout.INK, alpha=layout.BAND / 2, linewidth=0)
            axes.plot(line.sizes, line.iqm, **styles[name])
            axes.scatter(line.sizes, line.iqm, c=[inputs.colors[each] for each in line.variants], s=18, zorder=3)
        sizes = sorted({size for line in lines.values() for size in line.sizes})
        axes.set_xscale("log", base=2)
        axes.set_xticks(sizes, [f"{size:g}" for size in sizes], minor=False)
        axes.minorticks_off()

    with layout.theme():
        titles, labels = ("equal steps", "equal rollouts"), ("completions a prompt", inputs.comparison.metric)
        figure = layout.two_panels(draw, titles, names, styles, labels, caption)
    return Drawing(caption, "at equal rollouts, " + "; ".join(parts), figure)


def compare_sizes(data: SweepData, comparison: Comparison) -> Scaling | None:
    """Compare scores where the shortest run ends, in steps and in rollouts; None without two sizes to compare."""
    keys = [key for key in SIZE_KEYS if key in data.runs and pd.api.types.is_numeric_dtype(data.runs[key])]
    metric = comparison.metric
    if not keys or metric not in data.metrics or ROLLOUTS not in data.metrics:
        return None
    key = keys[0]
    runs = data.runs[(data.runs["status"] == "completed") & data.runs[key].notna()]
    rows = data.metrics.loc[data.metrics["name"].isin(runs["name"]), ["name", "step", ROLLOUTS, metric]].dropna()
    if rows.empty:
        return None

    def without_size(variant: str) -> str:
        label = data.labels[variant]
        rest = re.sub(rf"(^|,){re.escape(key)}=[^,]*", "", label).strip(",")
        return "" if rest == label and data.axis == key else rest

    ends = rows.groupby("name")[["step", ROLLOUTS]].max().min()
    found: list[dict[str, SizeLine]] = []
    for cost in ("step", ROLLOUTS):
        scores = runs["name"].map(late_means(data, metric, rows[rows[cost] <= ends[cost]]))
        scored = runs.assign(value=scores, line=runs["variant"].map(without_size)).dropna(subset="value")
        lines = {}
        for name, group in scored.groupby("line", sort=False):
            sizes = group.groupby(key)
            values = {size: sized["value"].to_numpy(dtype=float) for size, sized in sizes}
            points = [(size, *iqm_with_interval(each), each.size) for size, each in values.items()]
            lines[name] = SizeLine(*np.array(points, dtype=float).T, sizes["variant"].first().tolist())
        found.append(lines)
    if max(line.sizes.size for line in found[0].values()) < 2:
        return None
    return Scaling(int(ends["step"]), int(ends[ROLLOUTS]), *found)
