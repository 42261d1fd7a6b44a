"""The same differences in two sweeps, one below the other."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from rlexp.analysis.figures.labels import wrap_label
from rlexp.analysis.figures.layout import GAP, fit_caption, write_caption, write_title
from rlexp.analysis.figures.style import BASELINE, COLORS, TICK, WIDTH, light_grid, set_margins, text_size, theme
from rlexp.analysis.stats.inference.significance import ALPHA
from rlexp.analysis.stats.transfer import EffectPair, Transfer

ROW, HEADING, APART = 0.3, 0.24, 0.18  # inches of a row, of a stratum's name; rows between the two sweeps
NAME_WIDTH = 26  # characters


def transfer_figure(found: Transfer) -> Figure:
    """Draw a row per arm below the name of its stratum, in it the differences of both sweeps."""
    strata = list(dict.fromkeys(each.stratum for each in found.differences))
    lines: list[str | EffectPair] = []
    for stratum in strata:
        lines += [stratum] if stratum else []
        lines += [each for each in found.differences if each.stratum == stratum]
    margin = f" Grey: differences below {found.margin:g}, which count as none." if found.margin else ""
    caption = (
        f"Mean difference to {found.baseline} over paired seeds with its 95 % paired t interval, in {found.names[0]} "
        f"and in {found.names[1]}. Filled: p < {ALPHA:g} by sign flips, corrected by Holm.{margin}"
    )
    with theme():
        figure = Figure(figsize=(WIDTH, 3))
        axes = figure.add_subplot()
        names = {each.label: wrap_label(each.label, NAME_WIDTH, 1) for each in found.differences}
        left = max(text_size(figure, name, TICK)[0] for name in [*names.values(), *strata]) + 2 * GAP
        heights = [HEADING if isinstance(line, str) else ROW for line in lines]
        caption, bottom = fit_caption(caption, WIDTH + 0.8)
        figure.set_size_inches(WIDTH + 0.8, sum(heights) + bottom + 0.55)
        set_margins(figure, left, GAP, bottom, 0.55)
        write_title(figure, f"Difference to {found.baseline}")
        write_caption(figure, caption)
        _draw(axes, found, lines, np.cumsum([0.0, *heights]), names)
        marks = [Line2D([], [], color=color, marker="o", markersize=5) for color in COLORS[:2]]
        figure.legend(marks, found.names, loc="upper right", ncols=2, frameon=False, fontsize=TICK)
    return figure


def _draw(axes: Axes, found: Transfer, lines: list[str | EffectPair], edges: np.ndarray, names: dict[str, str]) -> None:
    """Draw everything within the axes, whose y is in inches from the top."""
    if found.margin:
        axes.axvspan(-found.margin, found.margin, color="#F0F0F0", linewidth=0, zorder=0)
    axes.axvline(0, linestyle="--", color=BASELINE, linewidth=0.8, zorder=1)
    across = {"transform": axes.get_yaxis_transform(), "va": "center", "ha": "left"}
    outside = -(axes.get_position().x0 * axes.figure.get_figwidth() - GAP)
    x = outside / (axes.get_position().width * axes.figure.get_figwidth())
    for line, top, end in zip(lines, edges, edges[1:], strict=False):
        middle = (top + end) / 2
        if isinstance(line, str):
            axes.text(x, middle + 0.03, line, fontsize=TICK, weight="bold", **across)
            continue
        axes.text(x, middle, names[line.label], fontsize=TICK, **across)
        for place, (one, color) in enumerate(zip(line.found, COLORS, strict=False)):
            y = middle + (place - 0.5) * APART * ROW * 2
            axes.plot([one.low, one.high], [y, y], color=color, linewidth=1.6, zorder=4)
            face = color if one.p_holm < ALPHA else "white"
            axes.plot(one.difference, y, "o", color=color, markerfacecolor=face, markersize=4.5, zorder=5)
    axes.set(ylim=(edges[-1], 0), yticks=[], xlabel=f"paired difference in {found.metrics[0]}")
    axes.spines["left"].set_visible(False)
    axes.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    light_grid(axes)
