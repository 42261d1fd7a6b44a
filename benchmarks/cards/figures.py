"""Figures of a kept answer: its effects, then a panel a condition, with the arms of all assertions in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import accumulate

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullFormatter, NullLocator

from benchmarks.cards.asked import Asked
from rlexp.analysis.figures import layout
from rlexp.analysis.figures.rates import rate_ticks, score_ticks
from rlexp.analysis.report.question import effects_figure, told_apart
from rlexp.analysis.stats.endpoints import parse_endpoint
from rlexp.analysis.stats.estimates import iqm, iqm_interval
from rlexp.analysis.stats.rates import response_curve

NAME = 50  # characters of a line of an arm above the panels
POINTS = 25  # of a learning curve
LINES = 4  # of a panel's title


def figures(one: Asked) -> Iterator[tuple[str, Figure]]:
    """Yield the figures by the names of their files: effects, a metric's learning curves, scores over the tuned key.

    There are none where no arm is judged.
    """
    if not one.conditions:
        return
    for place, assertion in enumerate(one.assertions):
        figure = effects_figure(assertion, one.scale(one.conditions[0], place + 1)[0], one.number(place))
        yield f"assertion_{place + 1}", figure
    for number, metric in enumerate(one.metrics, 1):
        yield f"curves_{number}", learning_curves(one, metric)
    if one.tuned:
        yield "rates", rate_curves(one)


def learning_curves(one: Asked, metric: str) -> Figure:
    """Draw a metric over completions for the runs by which each arm is judged, on a log axis where costs are asked."""
    unit = "completions" if "completions" in one.curves else "step"
    judged = one.runs[one.runs["best"]].merge(one.curves.dropna(subset=[metric])[["folder", "step", unit, metric]])
    costs = any(parse_endpoint(each["endpoint"]).kind == "cost" for each in one.assertions)
    judged = judged[judged[unit] > 0] if costs else judged
    low, high = judged[unit].min(), judged[unit].max()
    inside = [10.0**power for power in range(1, 12) if 2 * low < 10**power < high / 2]

    def draw(axes: Axes, condition: str) -> None:
        for arm in one.arms:
            rows = judged[(judged["condition"] == condition) & (judged["arm"] == arm)]
            steps = sorted({*rows["step"]})
            every = 1 if costs else -(-len(steps) // POINTS)
            rows = rows[rows["step"].isin([*steps[::every], steps[-1]])]
            values = rows.pivot(index="step", columns="folder", values=metric).to_numpy(float)
            spent = rows.groupby("step")[unit].mean().to_numpy(float)
            low, high = iqm_interval(values)
            axes.fill_between(spent, low, high, color=color_of(one, arm), alpha=layout.BAND, linewidth=0)
            axes.plot(spent, iqm(values), **style_of(one, arm))
        if costs:
            axes.set_xscale("log")
            axes.xaxis.set_major_locator(FixedLocator(inside))
            axes.xaxis.set_minor_locator(NullLocator())
        else:
            axes.xaxis.set_major_locator(MaxNLocator(3, steps=[1, 2, 5, 10], prune="upper"))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / 1000:g}k" if value else "0"))

    at = f"Each arm at its best {one.tuned}: i" if one.tuned else "I"
    caption = f"{at}nterquartile mean over {seeds_of(one)}; band: 95 % bootstrap interval. k: thousand."
    return panels(one, draw, (unit, metric), caption)


def rate_curves(one: Asked) -> Figure:
    """Draw the question's number over the tuned key, on the scale of its effects with ticks in its own units."""
    (scale, sign), key = one.scale(one.conditions[0], 0), str(one.tuned)
    ends = {condition: one.ends(condition) for condition in one.conditions}
    tried = np.unique(one.runs[key].to_numpy(float))

    def draw(axes: Axes, condition: str) -> None:
        for arm in one.arms:
            grid = one.grid(condition, arm)
            curve, color, mark = response_curve(grid), color_of(one, arm), "^" if arm in ends[condition] else "o"
            axes.fill_between(curve.rates, curve.low, curve.high, color=color, alpha=layout.BAND, linewidth=0)
            axes.plot(curve.rates, curve.mean, **style_of(one, arm))
            axes.plot(grid.rates[grid.best], curve.mean[grid.best], mark, color=color, markersize=5)
        rate_ticks(axes, [tried], 2)
        axes.xaxis.set_major_locator(FixedLocator(tried[[0, -1]]))
        axes.xaxis.set_minor_locator(FixedLocator(tried[1:-1]))
        axes.xaxis.set_minor_formatter(NullFormatter())
        for tick, side in zip(axes.xaxis.get_major_ticks(), ("left", "right"), strict=False):
            tick.label1.set_horizontalalignment(side)  # in the middle it would run into the next panel's

    caption = (
        f"Mean over {seeds_of(one)} at each {key}; band: 95 % t interval; dot: the best, at which an arm is judged."
    )
    if any(ends.values()):
        caption += " Triangle: the best is at an end of the grid, and the curve still rises there."
    metric = one.package["scales"][one.conditions[0]][0]["metric"]
    endpoint = parse_endpoint(one.declared["endpoint"])
    if endpoint.kind == "cost":
        metric, caption = f"{endpoint.unit} to target", f"{caption} Target: {endpoint.label('').partition(' to ')[2]}."
    drawn = panels(one, draw, (key, metric), caption)
    ticks = score_ticks(lambda score: float(scale.inverse(sign * score)), *drawn.axes[0].get_ylim())
    drawn.axes[0].set_yticks([*ticks], [*ticks.values()])
    return drawn


def seeds_of(one: Asked) -> str:
    """Return `8 seeds`, or `8 to 20 seeds`."""
    counts = one.runs.groupby("condition")["seed"].nunique()
    return f"{' to '.join(map(str, sorted({counts.min(), counts.max()})))} seeds"


def color_of(one: Asked, arm: str) -> str:
    return layout.variant_colors(one.arms, one.arms[0])[arm]


def style_of(one: Asked, arm: str) -> dict[str, str]:
    return {"color": color_of(one, arm), "linestyle": "--" if arm == one.arms[0] else "-"}


def panels(one: Asked, draw: Callable[[Axes, str], None], labels: tuple[str, str], caption: str) -> Figure:
    """Draw a panel a condition, below lines that say how each arm is drawn."""
    arms = {arm: layout.wrap_label(arm, NAME) for arm in one.arms}
    starts = [*accumulate((name.count("\n") + 1 for name in arms.values()), initial=0)]
    with layout.theme():
        names = layout.wrap_labels(one.conditions, layout.PANEL_WIDTH, LINES)
        if any("…" in name for name in names.values()):
            moderators = [key["name"] for each in one.assertions for key in each["moderators"]]
            short = told_apart(one.conditions, moderators)
            names = {name: layout.wrap_label(each, layout.PANEL_WIDTH, LINES) for name, each in short.items()}
        drawn = layout.small_multiples(draw, names, labels, caption, "\n" * (starts[-1] - 1) + " ")
        width, height = drawn.get_size_inches()
        for start, (arm, name) in zip(starts, arms.items(), strict=False):
            y = height - layout.GAP / 2 - start * layout.LINE
            ends = [layout.GAP / width, (layout.GAP + layout.HANDLE - 0.06) / width]
            drawn.add_artist(Line2D(ends, [(y - layout.LINE / 2) / height] * 2, **style_of(one, arm)))
            layout.add_text(drawn, name, layout.GAP + layout.HANDLE, y, size=layout.TICK, va="top")
    return drawn
