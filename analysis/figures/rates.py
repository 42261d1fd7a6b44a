"""Figures of tuned arms: scores over learning rates, and performance against sensitivity.

Both take what `analysis/stats/rates.py` and `sensitivity.py` return, keyed by the name of the arm.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from rlexp.analysis.data.errors import AnalysisError
from rlexp.analysis.figures import layout
from rlexp.analysis.stats.formatting import short_number
from rlexp.analysis.stats.rates import (
    Best,
    Extension,
    Plateau,
    RateGrid,
    ResponseCurve,
    best_value,
    extend,
    plateau,
    response_curve,
)
from rlexp.analysis.stats.sensitivity import Sensitivity

MOST_SCORES, DIGITS = 5, 3  # ticks of a curved scale, about, and digits of their numbers
TRACK = 0.13  # inches of height of a plateau's bar and of the gap to the next
HEADING = 0.2  # inches of height of what stands above the bars
BAR = 3.5  # points
MOST_TICKS = 6
MOST_BANDS = 3  # in a panel; more cannot be told apart
DODGE = 0.012  # of the width of a panel, between the best rates of two arms


def score_ticks(natural: Callable[[float], float], low: float, high: float) -> dict[float, str]:
    """Round numbers between two scores, by the score at which each stands.

    Where the scale is curved a rounder number wins against its neighbors: .5, .8, .95 of log-odds.
    """
    scores = np.linspace(low, high, 513)
    numbers = np.array([natural(score) for score in scores])
    up = np.sign(numbers[-1] - numbers[0]) or 1.0
    least, most = sorted((numbers[0], numbers[-1]))
    steps = np.diff(numbers)
    if np.ptp(steps) <= 1e-6 * np.abs(steps).max():
        rounds = [MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]).tick_values(least, most)]
    else:
        digits = range(int(np.floor(np.log10(max(-least, most)))), -9, -1)
        units = [each * 10.0**digit for digit in digits for each in (5, 2, 1)][: 3 * DIGITS]
        rounds = [unit * np.arange(np.ceil(least / unit), np.floor(most / unit) + 1) for unit in units]
    found: dict[float, str] = {}
    for number in np.concatenate(rounds):
        place = float(np.interp(up * number, up * numbers, scores))
        apart = all(abs(place - other) >= (high - low) / MOST_SCORES for other in found)
        if least <= number <= most and (apart or len(rounds) == 1):
            found[place] = short_number(number)
    return dict(sorted(found.items())) or {low: short_number(natural(low))}


def response_figure(
    grids: Mapping[str, RateGrid],
    baseline: str,
    labels: tuple[str, str],
    delta: float,
    natural: Callable[[float], float] = float,
) -> Figure:
    """Draw the response curves of arms over a tuned key; see `draw_response`.

    Args:
        grids: of each arm, by its name.
        baseline: one of them.
        labels: of x, the key that is tuned, and of y.
        delta: the smallest effect that counts, which says what is near the best.
        natural: takes a score to the number that its tick shows.
    """
    return draw_response(
        {name: response_curve(grid) for name, grid in grids.items()},
        {name: best_value(grid) for name, grid in grids.items()},
        {name: plateau(grid, delta) for name, grid in grids.items()},
        {name: extend(grid, delta) for name, grid in grids.items()},
        baseline,
        labels,
        natural,
    )


def draw_response(
    curves: Mapping[str, ResponseCurve],
    best: Mapping[str, Best],
    plateaus: Mapping[str, Plateau],
    extensions: Mapping[str, Extension],
    baseline: str,
    labels: tuple[str, str] = ("learning rate", "score"),
    natural: Callable[[float], float] = float,
) -> Figure:
    """Draw the score over the rates of each arm; more than seven arms get a panel each.

    Line and band: mean and its 95 % t interval; of more than three arms in a panel only that at the best rate. Dot:
    the best rate. A triangle in its place: the best is at an end that could not be left. Bars below: the rates whose
    mean is less below the best value than counts; an arrowhead where they reach the end of the grid.

    Args:
        curves: of each arm, in the order in which they are listed.
        best: of the same arms.
        plateaus: of the same arms.
        extensions: of the same arms, after the last rate.
        baseline: the arm that is drawn dashed and gray.
        labels: of x and y.
        natural: takes a score to the number that its tick shows.

    Raises:
        AnalysisError: no arm, or arms that are not the same everywhere.
    """
    _check_arms(curves, best, plateaus, extensions)
    colors = layout.variant_colors(list(curves), baseline)
    drawing = _Response(curves, best, plateaus, extensions, colors, baseline, natural)
    caption = _response_caption(drawing)

    def draw_all(axes: Axes) -> dict[str, layout.Point]:
        for place, arm in enumerate(curves):
            drawing.draw_arm(axes, arm, place - (len(curves) - 1) / 2 if len(curves) > MOST_BANDS else None)
        drawing.draw_bars(axes, list(curves), height, "rates near the best value")
        last = {arm: int(np.flatnonzero(np.isfinite(curve.mean))[-1]) for arm, curve in curves.items()}
        return {arm: (curve.rates[last[arm]], curve.mean[last[arm]]) for arm, curve in curves.items()}

    def draw_one(axes: Axes, arm: str) -> None:
        for other, curve in curves.items():
            if other not in (arm, baseline):
                axes.plot(curve.rates, curve.mean, color=layout.OTHERS, linewidth=0.6)
        if baseline in curves:
            drawing.draw_arm(axes, baseline)
        drawing.draw_arm(axes, arm)
        drawing.draw_bars(axes, [arm], layout.PANEL)
        rate_ticks(axes, [each.rates for each in curves.values()], 2)

    with layout.theme():
        if len(curves) <= layout.MAX_LINES:
            height = 2.1 + HEADING + TRACK * len(curves)
            names = layout.wrap_labels(curves, layout.LABEL_WIDTH)
            return layout.one_panel(draw_all, names, colors, labels, caption, height)
        others = [arm for arm in curves if arm != baseline]
        names = layout.wrap_labels(others[: layout.MAX_PANELS], layout.PANEL_WIDTH, 2)
        note = f" Shown: the first {layout.MAX_PANELS} of {len(others)}." if len(others) > layout.MAX_PANELS else ""
        return layout.small_multiples(draw_one, names, labels, f"{caption} Thin grey: all other arms.{note}")


class _Response(NamedTuple):
    """What a response curve is drawn from."""

    curves: Mapping[str, ResponseCurve]
    best: Mapping[str, Best]
    plateaus: Mapping[str, Plateau]
    extensions: Mapping[str, Extension]
    colors: layout.Colors
    baseline: str
    natural: Callable[[float], float]

    def draw_arm(self, axes: Axes, arm: str, aside: float | None = None) -> None:
        """Draw line, mark of the best rate, and interval: a band, or a line at the best rate so many steps aside."""
        curve, color = self.curves[arm], self.colors[arm]
        dashed = arm == self.baseline and len(self.curves) > 1
        axes.plot(curve.rates, curve.mean, color=color, linestyle="--" if dashed else "-")
        lacking = curve.n < curve.n.max()
        axes.plot(curve.rates[lacking], curve.mean[lacking], "x", color=color, markersize=4.5, linestyle="none")
        place = int(abs(np.log(curve.rates / self.best[arm].rate)).argmin())
        at = curve.rates[place]
        if aside is None:
            axes.fill_between(curve.rates, curve.low, curve.high, color=color, alpha=layout.BAND, linewidth=0)
        else:
            rates = np.concatenate([each.rates for each in self.curves.values()])
            at *= (rates.max() / rates.min()) ** (DODGE * aside)
            axes.plot([at, at], [curve.low[place], curve.high[place]], color=color, linewidth=0.9, alpha=0.8)
        marker, size = ("^", 8) if self.extensions[arm].stuck else ("o", 5.5)
        (mark,) = axes.plot(at, curve.mean[place], marker, color=color, markersize=size, zorder=5)
        mark.set(markeredgecolor="white", markeredgewidth=0.8)

    def draw_bars(self, axes: Axes, arms: Sequence[str], height: float, heading: str = "") -> None:
        """Draw one bar below another, below all curves, in a panel that is so many inches high."""
        drawn = np.concatenate([part for curve in self.curves.values() for part in (curve.low, curve.high, curve.mean)])
        lowest, highest = np.nanmin(drawn), np.nanmax(drawn)
        top = HEADING if heading else 0.03
        share = (top + (len(arms) + 0.5) * TRACK) / height  # of the panel, for the bars
        unit = ((highest - lowest) or 1.0) / (1 - share - 0.05) / height  # of the score, an inch
        for row, arm in enumerate(arms):
            found, y, color = self.plateaus[arm], lowest - (top + (row + 0.6) * TRACK) * unit, self.colors[arm]
            axes.plot([found.low, found.high], [y, y], color=color, linewidth=BAR, solid_capstyle="butt")
            for x, open_end, marker in ((found.low, found.open_low, "<"), (found.high, found.open_high, ">")):
                if open_end:
                    axes.plot(x, y, marker, color=color, markersize=6, markeredgewidth=0)
        if heading:
            place = {"transform": axes.get_yaxis_transform(), "va": "center"}
            axes.text(0.03, lowest - 0.6 * top * unit, heading, fontsize=layout.TICK, color="#666666", **place)
        axes.set_ylim(lowest - share * height * unit, highest + 0.05 * height * unit)
        ticks = score_ticks(self.natural, lowest, highest)
        axes.set_yticks([*ticks], [*ticks.values()])
        rate_ticks(axes, [curve.rates for curve in self.curves.values()], MOST_TICKS)


def _response_caption(drawing: _Response) -> str:
    curves = drawing.curves
    counts = np.concatenate([curve.n for curve in curves.values()])
    bands = len(curves) <= MOST_BANDS or len(curves) > layout.MAX_LINES
    shown = "band: 95 % t interval; dot: the best rate" if bands else "dot: the best rate, with its 95 % t interval"
    caption = (
        f"Line: mean over seeds at each rate, {layout.seed_count(counts)}; {shown}. "
        "Bars: the rates at which less is lost than counts, with an arrow where they reach the end of the grid."
    )
    if any((curve.n < curve.n.max()).any() for curve in curves.values()):
        caption += " Cross: a rate at which runs have no score; it cannot be the best."
    if any(drawing.extensions[arm].stuck for arm in curves):
        caption += " ▲: the best is at an end of the grid that could not be left, so the arm may be better than shown."
    if drawing.baseline in curves and len(curves) > 1:
        caption += f" Dashed: {drawing.baseline}."
    return caption + layout.few_seeds_note(counts)


def draw_sensitivity(
    arms: Mapping[str, Sensitivity], baseline: str, tuned: str = "learning rate", tasks: int | None = None
) -> Figure:
    """Draw performance against sensitivity, one cross an arm: up and left is better.

    Lines of slope 1 are of equal score with one setting for all tasks: the diagonal through the baseline parts arms
    that are better than it without tuning per task from those that are worse. Source: Adkins, Bowling and White 2024
    (arXiv 2412.07165), figure 3.

    Args:
        arms: in the order in which they are listed.
        baseline: the arm that the diagonal goes through.
        tuned: what is tuned.
        tasks: how many tasks there are, for the caption.

    Raises:
        AnalysisError: no arm, or the baseline is none of them.
    """
    if baseline not in arms:
        raise AnalysisError(
            f"baseline '{baseline}': must be one of {', '.join(arms) or 'the arms, and there are none'}"
        )
    colors = layout.variant_colors(list(arms), baseline)
    over = f"{tasks} tasks" if tasks else "tasks"
    caption = (
        f"Cross: an arm with 95 % intervals over seeds. Up: its score with the {tuned} tuned on each task, mean over "
        f"{over}, 0 and 1 the 5th and 95th percentile of all runs of a task. Right: how much less it has with the one "
        f"{tuned} that is best over all tasks. Up and left is better. Shaded: better than {baseline} with one {tuned} "
        "for all tasks."
    )
    reference = arms[baseline]

    def draw(axes: Axes) -> dict[str, layout.Point]:
        for arm, found in arms.items():
            x, y, color = found.sensitivity, found.performance, colors[arm]
            axes.plot([found.low, found.high], [y, y], color=color, linewidth=1.2, zorder=3)
            axes.plot([x, x], [found.performance_low, found.performance_high], color=color, linewidth=1.2, zorder=3)
            axes.plot(x, y, "s" if arm == baseline else "o", color=color, markersize=5.5, zorder=4,
                      markeredgecolor="white", markeredgewidth=0.6)  # fmt: skip
        (_, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
        ends = np.array([0.0, right])
        diagonal = reference.performance + (ends - reference.sensitivity)
        axes.fill_between(ends, diagonal, max(top, diagonal.max()), color="#F1F1F1", linewidth=0, zorder=0)
        axes.plot(ends, diagonal, color="#A6A6A6", linewidth=0.8, zorder=1)
        axes.set(xlim=(-0.03 * right, right), ylim=(bottom, top))
        return {arm: (found.sensitivity, found.performance) for arm, found in arms.items()}

    with layout.theme():
        names = layout.wrap_labels(arms, layout.LABEL_WIDTH)
        labels = f"sensitivity: lost with one {tuned}", "performance: tuned on each task"
        return layout.one_panel(draw, names, colors, labels, caption, 2.6)


def rate_ticks(axes: Axes, grids: Sequence[np.ndarray], most: int) -> None:
    """Put rates on a logarithmic axis with ticks at rates that were trained, at most so many."""
    rates = np.unique(np.concatenate(grids))
    step = -(-len(rates) // most)
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(FixedLocator(rates[::step].tolist()))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: short_rate(value)))
    axes.xaxis.set_minor_locator(NullLocator())
    margin = (rates[-1] / rates[0]) ** 0.04 if len(rates) > 1 else 2.0
    axes.set_xlim(rates[0] / margin, rates[-1] * margin)


def short_rate(rate: float) -> str:
    """Two digits: `0.02`, `3e-4`."""
    if 0.001 <= rate < 1000:
        return f"{rate:.2g}" if rate < 100 else f"{rate:.0f}"
    digits, power = f"{rate:.1e}".split("e")
    return f"{float(digits):g}e{int(power)}"


def _check_arms(curves: Mapping[str, ResponseCurve], *others: Mapping[str, object]) -> None:
    if not curves or any(set(other) != set(curves) for other in others):
        raise AnalysisError("curves, best values, plateaus and extensions: must be of the same arms, one or more")
