"""What a variant pays for its score: KL divergence from the reference along x, score along y."""

from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from analysis.comparison import MIN_SEEDS, Comparison, late_means
from analysis.direction import Better, sign
from analysis.forest import farthest, names_of, span, unless_few
from analysis.layout import Point, one_panel, small_panels
from analysis.load import Data
from analysis.statistics import iqm, iqm_interval
from analysis.style import BASELINE, COLOURS, MAX_COLOURS, OTHERS, style, variant_colours

KL_METRICS = ("kl/ref_exact", "kl/ref_k3")
SPREAD_FOR_LOG = 5  # largest over smallest KL from which the axis is logarithmic


class Cross(NamedTuple):
    """One variant: KL and score of each run `[n]`, and (estimate, low, high) of both."""

    kl: np.ndarray
    score: np.ndarray
    kl_interval: tuple[float, float, float]
    score_interval: tuple[float, float, float]

    @property
    def centre(self) -> tuple[float, float]:
        """Both estimates."""
        return self.kl_interval[0], self.score_interval[0]


Crosses = dict[str, Cross]


def crosses(data: Data, comparison: Comparison, metric: str) -> Crosses:
    """Late KL and score of every variant that has both on any seed."""
    runs = data.runs[(data.runs["status"] == "completed") & data.runs["seed"].notna()]
    runs = runs.set_index("name")
    late = late_means(data, metric)
    runs = runs.assign(kl=late.reindex(runs.index))
    found = {}
    for variant in comparison.table.index:
        own = runs[runs["variant"] == variant].set_index("seed")
        both = own[["kl"]].assign(score=own.index.map(comparison.scores[variant])).dropna()
        if len(both):
            kl, score = both["kl"].to_numpy(dtype=float), both["score"].to_numpy(dtype=float)
            found[variant] = Cross(kl, score, _interval(kl), _interval(score))
    return found


def _interval(values: np.ndarray) -> tuple[float, float, float]:
    low, high = iqm_interval(values) if values.size >= MIN_SEEDS else (np.nan, np.nan)
    return float(iqm(values)), float(low), float(high)


def best(found: Crosses, better: Better) -> list[str]:
    """Variants that no other beats on both sides (Pareto), by increasing KL; none if the good side is not known."""
    worth = {variant: sign(better) * cross.centre[1] for variant, cross in found.items()}
    ordered = sorted(found, key=lambda variant: (found[variant].centre[0], -worth[variant]))
    front: list[str] = []
    for variant in ordered if better else ():
        if not front or worth[variant] > worth[front[-1]]:
            front.append(variant)
    return front


def frontier_caption(comparison: Comparison, found: Crosses, metric: str) -> str:
    """What the marks of `frontier` mean."""
    counts = [cross.kl.size for cross in found.values()]
    steps = " Grey steps: variants that no other beats on both." if len(found) <= MAX_COLOURS else ""
    up = "Down" if comparison.better == "lower" else "Up"
    good = f"{steps} {up} and left is better." if comparison.better else ""
    return (
        f"Cross: interquartile means over seeds of {metric} and of {comparison.metric}, both late in training, with "
        f"95 % percentile bootstrap intervals; pale dots: the seeds, {span(counts)} per variant."
        f"{good}{unless_few(counts)}"
    )


def frontier(comparison: Comparison, found: Crosses, metric: str) -> Figure:
    """Score against KL, one cross per variant; small panels if there are many."""
    with style():
        draw = _one_panel if len(found) <= MAX_COLOURS else _small_multiples
        return draw(comparison, found, metric)


def _one_panel(comparison: Comparison, found: Crosses, metric: str) -> Figure:
    colours = variant_colours(list(comparison.table.index), comparison.baseline)
    front = [found[variant].centre for variant in best(found, comparison.better)]

    def draw(axes: Axes) -> dict[str, Point]:
        if front:
            axes.step(*zip(*front, strict=True), where="post", color=OTHERS, linewidth=1.2, zorder=1)
        for variant, cross in found.items():
            _draw(axes, cross, colours[variant])
        _scale(axes, found)
        return {variant: cross.centre for variant, cross in found.items()}

    labels = f"{metric} (nats a token)", comparison.metric
    caption = frontier_caption(comparison, found, metric)
    return one_panel(draw, names_of(comparison, found, 26), colours, labels, caption, height=2.5)


def _draw(axes: Axes, cross: Cross, colour: str) -> None:
    x, y = cross.centre
    axes.plot(cross.kl, cross.score, "o", color=colour, markersize=3, alpha=0.35, markeredgewidth=0, zorder=2)
    axes.plot(cross.kl_interval[1:], [y, y], color=colour, linewidth=1.2, zorder=3)
    axes.plot([x, x], cross.score_interval[1:], color=colour, linewidth=1.2, zorder=3)
    axes.plot(x, y, "o", color=colour, markersize=5, zorder=4)


def _scale(axes: Axes, found: Crosses) -> None:
    values = np.concatenate([cross.kl for cross in found.values()])
    if values.min() > 0 and values.max() / values.min() > SPREAD_FOR_LOG:
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.xaxis.set_minor_locator(NullLocator())


def _small_multiples(comparison: Comparison, found: Crosses, metric: str) -> Figure:
    shown, chosen = farthest(comparison, found)
    names = list(names_of(comparison, shown, 36, 2).values())
    centres = np.array([cross.centre for cross in found.values()])

    def draw(axes: Axes, place: int) -> None:
        axes.plot(*centres.T, "o", color=OTHERS, markersize=3, zorder=1)
        if comparison.baseline in found:
            _draw(axes, found[comparison.baseline], BASELINE)
        _draw(axes, found[shown[place]], COLOURS[0])
        _scale(axes, found)

    caption = frontier_caption(comparison, found, metric)
    caption += f" Light grey: all other variants; dark grey: {comparison.labels[comparison.baseline]}.{chosen}"
    return small_panels(names, draw, (f"{metric} (nats a token)", comparison.metric), caption)
