"""What KL divergence from the reference, along x, buys: the score of a variant, or gold and proxy as it is trained."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from analysis.data.direction import Direction, direction_sign
from analysis.data.load import SweepData
from analysis.data.run_values import late_means
from analysis.figures.inputs import Drawing, FigureInputs, NoData
from analysis.figures.labels import (
    LABEL_WIDTH,
    PANEL_WIDTH,
    few_seeds_note,
    most_different,
    require_spread,
    seed_count,
    short_names,
)
from analysis.figures.layout import Point, one_panel, small_panels
from analysis.figures.style import MAX_LINES, OTHERS, Colours, theme
from analysis.stats.columns import MIN_SEEDS
from analysis.stats.comparison import Comparison
from analysis.stats.curves import learning_curves
from analysis.stats.inference.estimates import iqm, iqm_interval

KL_METRICS = ("kl/ref_exact", "kl/ref_k3")
GOLD, PROXY = ("gold/mean", "gold/std"), ("reward/mean", "reward/std")  # what a judged run logs of its rollouts
SPREAD_FOR_LOG = 5  # largest over smallest KL from which the axis is logarithmic


class FrontierPoint(NamedTuple):
    """One variant: KL and score of each run `[n]`, and (estimate, low, high) of both."""

    kl: np.ndarray
    score: np.ndarray
    kl_interval: tuple[float, float, float]
    score_interval: tuple[float, float, float]

    @property
    def centre(self) -> tuple[float, float]:
        """Both estimates."""
        return self.kl_interval[0], self.score_interval[0]


FrontierPoints = dict[str, FrontierPoint]


def draw_frontier(inputs: FigureInputs) -> Drawing:
    """Score against KL, where runs log one."""
    data, comparison = inputs.data, inputs.comparison
    if comparison.metric in KL_METRICS:
        raise NoData("the metric is the KL itself")
    metric = next((name for name in KL_METRICS if name in data.metrics and data.metrics[name].notna().any()), None)
    points = frontier_points(data, comparison, metric) if metric else {}
    if not points:
        raise NoData(f"no completed run has both a score and a value of {' or '.join(KL_METRICS)}")
    for place, what in enumerate((metric, comparison.metric)):
        require_spread(
            np.concatenate([point[place] for point in points.values()]), f"{what} of every run", len(points) < 2
        )
    parts = [f"{comparison.labels[name]}: KL {point.centre[0]:.3g}, score {point.centre[1]:.3g}"
             for name, point in points.items()]  # fmt: skip
    caption = frontier_caption(comparison, points, metric)
    return Drawing(caption, "; ".join(parts), frontier_figure(comparison, inputs.colours, points, metric))


def frontier_points(data: SweepData, comparison: Comparison, metric: str) -> FrontierPoints:
    """Late KL and score of every variant that has both on any seed."""
    runs = data.runs[(data.runs["status"] == "completed") & data.runs["seed"].notna()]
    runs = runs.set_index("name")
    late = late_means(data, metric)
    runs = runs.assign(kl=late.reindex(runs.index))
    points = {}
    scores = comparison.scores.where(np.isfinite(comparison.scores))
    for variant in comparison.table.index:
        variant_runs = runs[runs["variant"] == variant].set_index("seed")
        complete = variant_runs[["kl"]].assign(score=variant_runs.index.map(scores[variant])).dropna()
        if len(complete):
            kl, score = complete["kl"].to_numpy(dtype=float), complete["score"].to_numpy(dtype=float)
            points[variant] = FrontierPoint(kl, score, _interval(kl), _interval(score))
    return points


def _interval(values: np.ndarray) -> tuple[float, float, float]:
    low, high = iqm_interval(values) if values.size >= MIN_SEEDS else (np.nan, np.nan)
    return float(iqm(values)), float(low), float(high)


def pareto_front(points: FrontierPoints, better: Direction) -> list[str]:
    """Variants that no other beats on both sides (Pareto), by increasing KL; none if the good side is not known."""
    value = {variant: direction_sign(better) * point.centre[1] for variant, point in points.items()}
    ordered = sorted(points, key=lambda variant: (points[variant].centre[0], -value[variant]))
    front: list[str] = []
    for variant in ordered if better else ():
        if not front or value[variant] > value[front[-1]]:
            front.append(variant)
    return front


def frontier_caption(comparison: Comparison, points: FrontierPoints, metric: str) -> str:
    """What the marks of `frontier` mean."""
    counts = [point.kl.size for point in points.values()]
    steps = " Grey steps: variants that no other beats on both." if len(points) <= MAX_LINES else ""
    up = "Down" if comparison.better == "lower" else "Up"
    direction = f"{steps} {up} and left is better." if comparison.better else ""
    return (
        f"Cross: interquartile means over seeds of {metric} and of {comparison.metric}, both late in training, with "
        f"95 % percentile bootstrap intervals; pale dots: the seeds, {seed_count(counts)} per variant."
        f"{direction}{few_seeds_note(counts)}"
    )


def frontier_figure(comparison: Comparison, colours: Colours, points: FrontierPoints, metric: str) -> Figure:
    """Score against KL, one cross per variant; small panels if there are many."""
    with theme():
        draw = _one_panel if len(points) <= MAX_LINES else _small_multiples
        return draw(comparison, colours, points, metric)


def _one_panel(comparison: Comparison, colours: Colours, points: FrontierPoints, metric: str) -> Figure:
    front = [points[variant].centre for variant in pareto_front(points, comparison.better)]

    def draw(axes: Axes) -> dict[str, Point]:
        if front:
            axes.step(*zip(*front, strict=True), where="post", color=OTHERS, linewidth=1.2, zorder=1)
        for variant, point in points.items():
            _draw(axes, point, colours[variant])
        _scale(axes, points)
        return {variant: point.centre for variant, point in points.items()}

    labels = f"{metric} (nats a token)", comparison.metric
    caption = frontier_caption(comparison, points, metric)
    return one_panel(draw, short_names(comparison, points, LABEL_WIDTH), colours, labels, caption, height=2.5)


def _draw(axes: Axes, point: FrontierPoint, colour: str) -> None:
    x, y = point.centre
    axes.plot(point.kl, point.score, "o", color=colour, markersize=3, alpha=0.35, markeredgewidth=0, zorder=2)
    axes.plot(point.kl_interval[1:], [y, y], color=colour, linewidth=1.2, zorder=3)
    axes.plot([x, x], point.score_interval[1:], color=colour, linewidth=1.2, zorder=3)
    axes.plot(x, y, "o", color=colour, markersize=5, zorder=4)


def _scale(axes: Axes, points: FrontierPoints) -> None:
    values = np.concatenate([point.kl for point in points.values()])
    if values.min() > 0 and values.max() / values.min() > SPREAD_FOR_LOG:
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.xaxis.set_minor_locator(NullLocator())


def _small_multiples(comparison: Comparison, colours: Colours, points: FrontierPoints, metric: str) -> Figure:
    variants, selection_note = most_different(comparison, points)
    names = list(short_names(comparison, variants, PANEL_WIDTH, 2).values())
    centres = np.array([point.centre for point in points.values()])

    def draw(axes: Axes, place: int) -> None:
        axes.plot(*centres.T, "o", color=OTHERS, markersize=3, zorder=1)
        if comparison.baseline in points:
            _draw(axes, points[comparison.baseline], colours[comparison.baseline])
        _draw(axes, points[variants[place]], colours[variants[place]])
        _scale(axes, points)

    caption = frontier_caption(comparison, points, metric)
    caption += (
        f" Grey dots: all other variants; with its interval: {comparison.labels[comparison.baseline]}.{selection_note}"
    )
    return small_panels(names, draw, (f"{metric} (nats a token)", comparison.metric), caption)


def draw_proxies(inputs: FigureInputs) -> Drawing:
    """Gold and the judge's reward against KL, where a judge stands in the place of the task."""
    comparison = inputs.comparison
    paths = {kind: paths_over_kl(inputs.data, comparison, *names) for kind, names in (("gold", GOLD), ("proxy", PROXY))}
    variants = [name for name in comparison.table.index if all(name in path for path in paths.values())]
    if not variants:
        raise NoData("no run has a judge beside the task")
    ends = {kind: [path[name][1][-1] for name in variants] for kind, path in paths.items()}
    parts = [f"{comparison.labels[name]}: gold {gold:+.2g}, proxy {proxy:+.2g}"
             for name, gold, proxy in zip(variants, *ends.values(), strict=True)]  # fmt: skip
    figure = proxies_figure(comparison, inputs.colours, paths, variants)
    return Drawing(PROXIES_CAPTION, f"at the last logged step, {'; '.join(parts)}", figure)


Path = tuple[np.ndarray, np.ndarray]
PROXIES_CAPTION = (
    "Mean of gold (solid) and of the reward that is trained on (dashed) over the completions of a step, each as its "
    "distance from the first logged step, in standard deviations over the completions of that step; along x, how far "
    "the policy has moved. Both are interquartile means over seeds at each logged step. Where gold bends down while "
    "the proxy rises, the proxy is over-optimised (Gao et al., arXiv 2210.10760)."
)


def paths_over_kl(data: SweepData, comparison: Comparison, mean: str, deviation: str) -> dict[str, Path]:
    """KL and a mean, less its first value and over the first deviation, at each logged step, `[steps]` both."""
    paths = {}
    measured = [learning_curves(data, comparison, name) for name in (KL_METRICS[0], mean, deviation)]
    for variant in set.intersection(*map(set, measured)):
        kl, means, deviations = (curves[variant] for curves in measured)
        spread = deviations.iqm[0]
        if kl.steps.size == means.steps.size and spread > 0:
            paths[variant] = kl.iqm, (means.iqm - means.iqm[0]) / spread
    return paths


def proxies_figure(
    comparison: Comparison, colours: Colours, paths: Mapping[str, Mapping[str, Path]], variants: Sequence[str]
) -> Figure:
    """Two lines a variant, a panel each."""
    shown, note = most_different(comparison, variants) if len(variants) > MAX_LINES else (list(variants), "")
    names = list(short_names(comparison, shown, PANEL_WIDTH, 2).values())

    def draw(axes: Axes, place: int) -> None:
        for kind, line in (("gold", "-"), ("proxy", "--")):
            axes.plot(*paths[kind][shown[place]], line, color=colours[shown[place]])

    with theme():
        labels = f"{KL_METRICS[0]} (nats a token)", "standard deviations"
        return small_panels(names, draw, labels, PROXIES_CAPTION + note)
