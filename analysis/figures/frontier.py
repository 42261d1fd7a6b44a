"""Figures over KL divergence from the reference: the score of a variant, or gold and proxy as it is trained."""

from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from rlexp.analysis.data.load import SweepData
from rlexp.analysis.data.metric_spec import Direction, direction_sign
from rlexp.analysis.data.run_values import late_means
from rlexp.analysis.figures import layout
from rlexp.analysis.figures.inputs import Drawing, FigureInputs, NoData, require_spread
from rlexp.analysis.stats.comparison import Comparison, iqm_with_interval
from rlexp.analysis.stats.curves import learning_curves

KL_METRICS = ("kl/ref_exact", "kl/ref_k3")
GOLD, PROXY = ("gold/mean", "gold/std"), ("reward/mean", "reward/std")  # logged by runs with a reward model
EXACT = {"gold": "eval/exact/gold", "proxy": "eval/exact/proxy"}  # of tasks that have both, where all can be counted
EXACT_KL = "eval/exact/kl"
SPREAD_FOR_LOG = 5  # largest over smallest KL from which the axis is logarithmic


class FrontierPoint(NamedTuple):
    """KL and score of each run of a variant `[n]`, and (estimate, low, high) of both."""

    kl: np.ndarray
    score: np.ndarray
    kl_interval: tuple[float, float, float]
    score_interval: tuple[float, float, float]

    @property
    def center(self) -> layout.Point:
        """Both estimates."""
        return self.kl_interval[0], self.score_interval[0]


FrontierPoints = dict[str, FrontierPoint]


def draw_frontier(inputs: FigureInputs) -> Drawing:
    """Draw score against KL, one cross per variant; small panels if there are many."""
    data, comparison, colors = inputs.data, inputs.comparison, inputs.colors
    if comparison.metric in KL_METRICS:
        raise NoData("the metric is the KL itself")
    metric = next((name for name in KL_METRICS if name in data.metrics and data.metrics[name].notna().any()), None)
    points = frontier_points(data, comparison, metric) if metric else {}
    if not points:
        raise NoData(f"no completed run has both a score and a value of {' or '.join(KL_METRICS)}")
    for place, what in enumerate((metric, comparison.metric)):
        values = np.concatenate([point[place] for point in points.values()])
        require_spread(values, f"{what} of every run", len(points) < 2)
    counts = [point.kl.size for point in points.values()]
    steps = " Grey steps: variants that no other beats on both." if len(points) <= layout.MAX_LINES else ""
    up = "Down" if comparison.better == "lower" else "Up"
    direction = f"{steps} {up} and left is better." if comparison.better else ""
    caption = (
        f"Cross: interquartile means over seeds of {metric} and of {comparison.metric}, both late in training, with "
        f"95 % percentile bootstrap intervals; pale dots: the seeds, {layout.seed_count(counts)} per variant."
        f"{direction}{layout.few_seeds_note(counts)}"
    )
    parts = [f"{comparison.labels[name]}: KL {point.center[0]:.3g}, score {point.center[1]:.3g}"
             for name, point in points.items()]  # fmt: skip
    front = [points[variant].center for variant in pareto_front(points, comparison.better)]
    kl = np.concatenate([point.kl for point in points.values()])

    def draw_points(axes: Axes, *variants: str) -> None:
        for variant in variants:
            (x, y), point, color = points[variant].center, points[variant], colors[variant]
            axes.plot(point.kl, point.score, "o", color=color, markersize=3, alpha=0.35, markeredgewidth=0, zorder=2)
            axes.plot(point.kl_interval[1:], [y, y], color=color, linewidth=1.2, zorder=3)
            axes.plot([x, x], point.score_interval[1:], color=color, linewidth=1.2, zorder=3)
            axes.plot(x, y, "o", color=color, markersize=5, zorder=4)
        if kl.min() > 0 and kl.max() / kl.min() > SPREAD_FOR_LOG:
            axes.set_xscale("log")
            axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
            axes.xaxis.set_minor_locator(NullLocator())

    def draw_all(axes: Axes) -> dict[str, layout.Point]:
        if front:
            axes.step(*zip(*front, strict=True), where="post", color=layout.OTHERS, linewidth=1.2, zorder=1)
        draw_points(axes, *points)
        return {variant: point.center for variant, point in points.items()}

    def draw_one(axes: Axes, variant: str) -> None:
        axes.plot(
            *np.array([point.center for point in points.values()]).T, "o", color=layout.OTHERS, markersize=3, zorder=1
        )
        draw_points(axes, *([comparison.baseline] if comparison.baseline in points else []), variant)

    labels = f"{metric} (nats a token)", comparison.metric
    note = f" Grey dots: all other variants; with its interval: {comparison.labels[comparison.baseline]}."
    figure = layout.few_or_many(comparison, points, colors, labels, caption, draw_all, draw_one, note, height=2.5)
    return Drawing(caption, "; ".join(parts), figure)


def frontier_points(data: SweepData, comparison: Comparison, metric: str) -> FrontierPoints:
    """Return late KL and score of every variant that has both on any seed."""
    runs = data.runs[(data.runs["status"] == "completed") & data.runs["seed"].notna()]
    runs = runs.set_index("name")
    runs = runs.assign(kl=late_means(data, metric).reindex(runs.index))
    points = {}
    scores = comparison.scores.where(np.isfinite(comparison.scores))
    for variant in comparison.table.index:
        variant_runs = runs[runs["variant"] == variant].set_index("seed")
        complete = variant_runs[["kl"]].assign(score=variant_runs.index.map(scores[variant])).dropna()
        if len(complete):
            kl, score = complete["kl"].to_numpy(dtype=float), complete["score"].to_numpy(dtype=float)
            points[variant] = FrontierPoint(kl, score, iqm_with_interval(kl), iqm_with_interval(score))
    return points


def pareto_front(points: FrontierPoints, better: Direction) -> list[str]:
    """Return the variants that no other beats on both sides, by increasing KL; none if the good side is not known."""
    value = {variant: direction_sign(better) * point.center[1] for variant, point in points.items()}
    ordered = sorted(points, key=lambda variant: (points[variant].center[0], -value[variant]))
    front: list[str] = []
    for variant in ordered if better else ():
        if not front or value[variant] > value[front[-1]]:
            front.append(variant)
    return front


def draw_proxies(inputs: FigureInputs) -> Drawing:
    """Draw gold and the reward that is trained on against KL, two lines a variant, a panel each."""
    comparison = inputs.comparison
    logged = inputs.data.metrics.columns
    if GOLD[0] not in logged and {EXACT_KL, *EXACT.values()} <= {*logged}:
        paths = {kind: exact_paths(inputs.data, comparison, name) for kind, name in EXACT.items()}
        what, x_label, y_label = "of a task that has both", f"{EXACT_KL} (nats)", "as the task has it"
        distances = "each in the task's own unit, exact"
    else:
        names = (("gold", GOLD), ("proxy", PROXY))
        paths = {kind: paths_over_kl(inputs.data, comparison, *metrics) for kind, metrics in names}
        what, x_label = "over the completions of a step", f"{KL_METRICS[0]} (nats a token)"
        y_label = "standard deviations"
        distances = (
            "each as its distance from the first logged step, in standard deviations over the completions of that step"
        )
    variants = [name for name in comparison.table.index if all(name in path for path in paths.values())]
    if not variants:
        raise NoData("no run has a judge beside the task")
    ends = {kind: [path[name][1][-1] for name in variants] for kind, path in paths.items()}
    parts = [f"{comparison.labels[name]}: gold {gold:+.2g}, proxy {proxy:+.2g}"
             for name, gold, proxy in zip(variants, *ends.values(), strict=True)]  # fmt: skip
    caption = (
        f"Mean of gold (solid) and of the reward that is trained on (dashed) {what}, {distances}; along x, how far the "
        "policy has moved. Both are interquartile means over seeds at each logged step. Where gold bends down while "
        "the proxy rises, the proxy is over-optimised (Gao et al., arXiv 2210.10760)."
    )
    shown, note = layout.most_different(comparison, variants) if len(variants) > layout.MAX_LINES else (variants, "")

    def draw(axes: Axes, variant: str) -> None:
        for kind, line in (("gold", "-"), ("proxy", "--")):
            axes.plot(*paths[kind][variant], line, color=inputs.colors[variant])

    with layout.theme():
        labels = x_label, y_label
        figure = layout.small_multiples(
            draw, layout.variant_names(comparison, shown, layout.PANEL_WIDTH, 2), labels, caption + note
        )
    return Drawing(caption, f"at the last logged step, {'; '.join(parts)}", figure)


def paths_over_kl(
    data: SweepData, comparison: Comparison, mean: str, deviation: str
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return KL, and a mean less its first value and over the first deviation, at each logged step, `[steps]` both."""
    paths = {}
    measured = [learning_curves(data, comparison, name) for name in (KL_METRICS[0], mean, deviation)]
    for variant in set.intersection(*map(set, measured)):
        kl, means, deviations = (curves[variant] for curves in measured)
        spread = deviations.iqm[0]
        if kl.steps.size == means.steps.size and spread > 0:
            paths[variant] = kl.iqm, (means.iqm - means.iqm[0]) / spread
    return paths


def exact_paths(data: SweepData, comparison: Comparison, metric: str) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return the exact KL and a metric of the policy at each evaluation, `[evaluations]` both."""
    kl, values = (learning_curves(data, comparison, name) for name in (EXACT_KL, metric))
    return {variant: (kl[variant].iqm, values[variant].iqm) for variant in kl.keys() & values.keys()}
