"""One assertion over its conditions: a row a condition, then the pooled effect."""

import re
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Polygon
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from rlexp.analysis.figures.layout import (
    BASELINE,
    COLORS,
    FONT,
    GAP,
    INK,
    TICK,
    WIDTH,
    light_grid,
    set_frame,
    text_size,
    theme,
    wrap_label,
)

ROW, DIAMOND = 0.22, 0.055  # inches of a row, and of half the height of the pooled effect
LABEL = 25  # characters of a condition's name in a line


class ForestRow(NamedTuple):
    """An effect with its interval, in the units of the axis; effects between the margins do not count there."""

    name: str
    effect: float
    low: float
    high: float
    margins: tuple[float, float]
    valid: bool = True


def forest(
    rows: Sequence[ForestRow],
    pooled: ForestRow | None,
    predicted: tuple[float, float] | None,
    label: str,
    caption: str,
    none: float = 0.0,
) -> Figure:
    """Draw the effects of conditions, the pooled one as a diamond, and the prediction interval as a thin line.

    Args:
        rows: a row a condition, each on a band of its margins; those that are not valid are gray and open.
        pooled: the mean effect; None where nothing was pooled.
        predicted: ends of the interval of one more condition; None for none.
        label: of the x axis, in lines.
        caption: below the figure.
        none: no effect: 0 of differences, or 1 of ratios, which are drawn on a log axis.
    """
    names = [wrapped(row.name) for row in rows] + ["all conditions"] * (pooled is not None)
    with theme():
        figure = Figure(figsize=(WIDTH, 3))
        axes = figure.add_subplot()
        left = max(text_size(figure, name, TICK)[0] for name in names) + 2 * GAP
        edges = [0.0, *accumulate(ROW * (1 + 0.6 * name.count("\n")) for name in names)]
        places, y = [(start + end) / 2 for start, end in pairwise(edges)], edges[-1]
        size = max(WIDTH, left + 2.2), y + 0.1
        label = narrowed(label, lambda line: text_size(figure, line, FONT)[0] / (size[0] - 2 * GAP))
        set_frame(figure, size, left, 2 * GAP, 0.1, caption, label_lines=label.count("\n") + 1)
        for row, (start, end) in zip([*rows, *[pooled] * (pooled is not None)], pairwise(edges), strict=True):
            band = [(row.margins[0], row.margins[1] - row.margins[0])]
            axes.broken_barh(band, (start, end - start), color=BASELINE, alpha=0.1, linewidth=0, zorder=0)
        axes.axvline(none, color=BASELINE, linewidth=0.9, linestyle="--", zorder=2)
        for row, place in zip(rows, places, strict=False):
            color = COLORS[0] if row.valid else BASELINE
            axes.plot([row.low, row.high], [place, place], color=color, linewidth=1.5, zorder=3)
            face = color if row.valid else "white"
            axes.plot(row.effect, place, "o", color=color, markerfacecolor=face, markersize=4.2, zorder=4)
        if pooled is not None:
            place = places[-1]
            axes.axhline(place - ROW / 2, color="#D0D0D0", linewidth=0.6, zorder=0)
            if predicted is not None:
                axes.add_line(Line2D(predicted, [place, place], color=INK, linewidth=0.8, zorder=3))
            corners = [(pooled.low, place), (pooled.effect, place - DIAMOND), (pooled.high, place)]
            axes.add_patch(Polygon([*corners, (pooled.effect, place + DIAMOND)], color=INK, zorder=4))
        axes.autoscale_view()
        axes.set(ylim=(y + 0.05, -0.05))
        box = axes.get_position()
        axes.set_xlabel(label, x=(0.5 - box.x0) / box.width)  # in the middle of the figure: it is wider than the axes
        axes.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
        if none:
            ratio_axis(axes)
        axes.set_yticks(places, names)
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        light_grid(axes)
    return figure


def wrapped(name: str) -> str:
    return wrap_label(name, LABEL, 4)


def is_cut(name: str) -> bool:
    """Whether a condition's name is too long to stand beside its row."""
    return "…" in wrapped(name)


def narrowed(label: str, share: Callable[[str], float]) -> str:
    """Break the lines whose share of the width is above 1: between two arms, then between the parts of an arm."""
    lines = label.split("\n")
    lines = [part for line in lines for part in (re.split(r"(?<= [−/]) ", line) if share(line) > 1 else [line])]
    return "\n".join(wrap_label(line, int(len(line) / share(line)), 4) if share(line) > 1 else line for line in lines)


def ratio_axis(axes: Axes) -> None:
    """Put ratios on a log axis, with few ticks: ×0.5, ×1, ×2."""
    axes.set_xscale("log")
    low, high = axes.get_xlim()
    if high / low > 4:
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high / low < 30 else (1,), numticks=6))
    else:
        axes.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"×{value:g}"))
