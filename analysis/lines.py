"""Figures with steps along x: one panel with names at the line ends, or one small panel per variant if many."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.comparison import Comparison
from analysis.curves import POINTS, Curve, Curves
from analysis.forest import farthest, names_of, span, unless_few
from analysis.layout import GAP, LINE, Point, at, one_panel, small_panels, step_ticks
from analysis.style import (
    BAND,
    BASELINE,
    COLOURS,
    MAX_COLOURS,
    OTHERS,
    TICK,
    dark,
    style,
    variant_colours,
)

MOST_LINES = 20  # in the background of a panel; with more variants a grey band says where they are
RIGHT, WRONG = COLOURS[0], COLOURS[2]


def curves_caption(comparison: Comparison, lines: Curves) -> str:
    """What the lines and bands of `curves` mean, and from how many seeds."""
    counts = comparison.table.loc[list(lines), "n"]
    most = max(line.steps.size for line in lines.values())
    thinned = f" (at most {POINTS} of them are drawn)" if most >= POINTS else ""
    dashed = f" Dashed: {comparison.labels[comparison.baseline]}." if len(lines) > 1 else ""
    return (
        f"Line: interquartile mean over seeds at each logged step{thinned}, "
        f"{span(counts)} per variant, completed runs; "
        f"band: pointwise 95 % bootstrap interval; no smoothing.{dashed}{unless_few(counts)}"
    )


def curves(comparison: Comparison, lines: Curves, metric: str | None = None) -> Figure:
    """Curves of a metric (the comparison's) over steps."""
    return drawn(comparison, lines, ("step", metric or comparison.metric), curves_caption(comparison, lines))


def drawn(comparison: Comparison, lines: Curves, labels: tuple[str, str], caption: str) -> Figure:
    """Curves of any numbers, with the labels of both axes."""
    with style():
        draw = _one_panel if len(lines) <= MAX_COLOURS else _small_multiples
        return draw(comparison, lines, labels, caption)


def _one_panel(comparison: Comparison, lines: Curves, labels: tuple[str, str], caption: str) -> Figure:
    colours = variant_colours(list(comparison.table.index), comparison.baseline)
    if len(lines) == 1:
        colours = dict.fromkeys(lines, COLOURS[0])

    def draw(axes: Axes) -> dict[str, Point]:
        for variant, line in lines.items():
            _draw(axes, line, colours[variant], dashed=variant == comparison.baseline and len(lines) > 1)
        axes.margins(x=0.01)
        step_ticks(axes)
        return {variant: (line.steps[-1], line.iqm[-1]) for variant, line in lines.items()}

    return one_panel(draw, names_of(comparison, lines, 26), colours, labels, caption)


def _draw(axes: Axes, line: Curve, colour: str, dashed: bool) -> None:
    marker = "o" if line.steps.size == 1 else None
    axes.fill_between(line.steps, line.low, line.high, color=colour, alpha=BAND, linewidth=0)
    axes.plot(line.steps, line.iqm, color=colour, linestyle="--" if dashed else "-", marker=marker, markersize=4)


def _small_multiples(comparison: Comparison, lines: Curves, labels: tuple[str, str], caption: str) -> Figure:
    shown, chosen = farthest(comparison, lines)
    names = list(names_of(comparison, shown, 36, 2).values())
    many = len(lines) > MOST_LINES
    others = " Grey band: from the lowest to the highest variant." if many else " Light grey: all other variants."
    band = _range_of(lines) if many else None

    def draw(axes: Axes, place: int) -> None:
        _background(axes, lines, {shown[place], comparison.baseline}, band)
        if comparison.baseline in lines:
            _draw(axes, lines[comparison.baseline], BASELINE, dashed=True)
        _draw(axes, lines[shown[place]], COLOURS[0], dashed=False)
        step_ticks(axes, 4)

    return small_panels(names, draw, labels, caption + others + chosen)


def _background(axes: Axes, lines: Curves, without: set[str], band: Curve | None) -> None:
    if band:
        axes.fill_between(band.steps, band.low, band.high, color=OTHERS, linewidth=0, alpha=0.6)
        return
    for other, line in lines.items():
        if other not in without:
            axes.plot(line.steps, line.iqm, color=OTHERS, linewidth=0.6)


def _range_of(lines: Curves) -> Curve:
    """From the lowest to the highest line, on the steps of the first."""
    steps = next(iter(lines.values())).steps
    values = [np.interp(steps, line.steps, line.iqm) for line in lines.values()]
    return Curve(steps, np.mean(values, 0), np.min(values, 0), np.max(values, 0))


def lengths_caption(comparison: Comparison) -> str:
    """What the lines of `lengths` mean."""
    return (
        "Mean tokens of a sampled completion, correct (solid) and wrong (dashed): interquartile mean over seeds at "
        f"each logged step that has any, {span(comparison.table['n'])} per variant; band: pointwise 95 % bootstrap "
        f"interval.{unless_few(comparison.table['n'])}"
    )


def lengths(comparison: Comparison, right: Curves, wrong: Curves) -> Figure:
    """Length of correct and of wrong answers over steps, one panel per variant."""
    first = [comparison.baseline] if comparison.baseline in right or comparison.baseline in wrong else []
    others, chosen = farthest(comparison, [v for v in comparison.table.index if v in right or v in wrong])
    shown = first + others
    names = list(names_of(comparison, shown, 36, 2).values())

    def draw(axes: Axes, place: int) -> None:
        for lines, colour, dashed in ((right, RIGHT, False), (wrong, WRONG, True)):
            if shown[place] in lines:
                _draw(axes, lines[shown[place]], colour, dashed)
        step_ticks(axes, 4)

    with style():
        caption = lengths_caption(comparison) + chosen
        figure = small_panels(names, draw, ("step", "tokens"), caption, heading=LINE)
        at(figure, "correct", GAP, -GAP / 2, size=TICK, va="top", color=dark(RIGHT), weight="bold")
        at(figure, "wrong (dashed)", 6 * GAP, -GAP / 2, size=TICK, va="top", color=dark(WRONG), weight="bold")
    return figure
