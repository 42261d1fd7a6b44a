"""Figure of sweeps in order of size: how many pairs a smaller one decides, and the effects of all side by side."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator

from rlexp.analysis.figures.effects import NAME_WIDTH, draw_mark, finish_forest
from rlexp.analysis.figures.layout import (
    BASELINE,
    COLORS,
    FONT,
    GAP,
    INK,
    LEFT,
    LINE,
    TICK,
    TITLE,
    WIDTH,
    add_text,
    set_frame,
    text_size,
    theme,
    wrap_label,
)
from rlexp.analysis.stats.decision import CHANCE
from rlexp.analysis.stats.significance import ALPHA
from rlexp.analysis.stats.transfer import EffectRow, Transfer

MARK, HEADING, ROW = 0.11, 0.24, 0.09  # inches of a sweep's mark, of a stratum's name, and between rows
ACCURACY, BELOW = 1.2, 0.62  # inches of the upper panel, and from it to the lower one's title
SIZE_WIDTH = 12  # characters of a tick


def transfer_figure(found: Transfer) -> Figure:
    """Draw decision accuracy by size above a row per arm with its differences in all sweeps; y is in inches there."""
    strata = list(dict.fromkeys(row.stratum for row in found.differences))
    lines: list[str | EffectRow] = []
    for stratum in strata:
        lines += [stratum] if stratum else []
        lines += [row for row in found.differences if row.stratum == stratum]
    heights = [HEADING if isinstance(line, str) else max(MARK * len(found.names), LINE) + ROW for line in lines]
    with theme():
        figure = Figure(figsize=(WIDTH, 3))
        axes = figure.add_subplot()
        names = {row.label: wrap_label(row.label, NAME_WIDTH, 1) for row in found.differences}
        left = max(text_size(figure, name, TICK)[0] for name in [*names.values(), *strata]) + 2 * GAP
        edges = np.cumsum([0.0, *heights])
        rows_of_legend, columns = _legend_shape(figure, found.names)
        own = 0.3 + LINE * (rows_of_legend + 0.5)  # above the lower panel
        above = ACCURACY + BELOW + 0.3 if found.decisions else 0.0
        set_frame(figure, (WIDTH + 0.8, edges[-1]), left, GAP, own + above, caption_text(found))
        add_text(figure, f"Difference to {found.baseline}", GAP, -GAP - above, FONT, "top", weight="bold", gid=TITLE)
        _draw_effects(axes, lines, edges, left, found, names)
        marks = [
            Line2D([], [], color=color, marker="o", markersize=5) for color, _ in zip(COLORS, found.names, strict=False)
        ]
        width, height = figure.get_size_inches()
        anchor = (GAP / width, 1 - (above + 0.28) / height)
        look = {"frameon": False, "fontsize": TICK, "borderaxespad": 0.0, "columnspacing": 1.2}
        figure.legend(marks, found.names, loc="upper left", bbox_to_anchor=anchor, ncols=columns, **look)
        if found.decisions:
            title = f"Share of pairs of arms in the order of {found.names[-1]}"
            add_text(figure, title, GAP, -GAP, FONT, "top", weight="bold", gid=TITLE)
            box = LEFT / width, 1 - (0.3 + ACCURACY) / height, 1 - (LEFT + 2 * GAP) / width, ACCURACY / height
            _draw_accuracy(figure.add_axes(box), found)
    return figure


def caption_text(found: Transfer) -> str:
    """Return what the marks are."""
    accuracy = (
        "Above: filled, decision accuracy over all pairs; open, over those that both sweeps tell apart "
        f"(p < {ALPHA:g}); lines, 95 % bootstrap intervals over the units of both; dashed, chance. Below: m"
    )
    margin = f" Grey: differences below {found.margin:g}, which count as none." if found.margin else ""
    return (
        f"{accuracy if found.decisions else 'M'}ean difference to {found.baseline} with its 95 % paired interval. "
        f"Filled: shown by p (Holm) < {ALPHA:g}.{margin}"
    )


def _legend_shape(figure: Figure, names: Sequence[str]) -> tuple[int, int]:
    """Rows and columns of a legend that fits the figure's width."""
    widest = max(text_size(figure, name, TICK)[0] for name in names) + 0.45
    columns = int(np.clip((WIDTH + 0.8 - 2 * GAP) // widest, 1, len(names)))
    return -(-len(names) // columns), columns


def _draw_effects(
    axes: Axes,
    lines: Sequence[str | EffectRow],
    edges: np.ndarray,
    left: float,
    found: Transfer,
    names: dict[str, str],
) -> None:
    if found.margin:
        axes.axvspan(-found.margin, found.margin, color="#F0F0F0", linewidth=0, zorder=0)
    axes.axvline(0, linestyle="--", color=BASELINE, linewidth=0.8, zorder=1)
    look = {"transform": axes.get_yaxis_transform(), "va": "center", "ha": "left", "fontsize": TICK}
    x = (GAP - left) / (axes.get_position().width * axes.figure.get_figwidth())
    for line, top, end in zip(lines, edges, edges[1:], strict=False):
        middle = (top + end) / 2
        if isinstance(line, str):
            axes.text(x, middle + 0.03, line, weight="bold", **look)
            continue
        axes.text(x, middle, names[line.label], **look)
        for place, (one, color) in enumerate(zip(line.found, COLORS, strict=False)):
            y, ends = middle + (place - (len(line.found) - 1) / 2) * MARK, (one.difference, one.low, one.high)
            draw_mark(axes, y, ends, color, one.says in ("higher", "lower"), 1.6, 4.5)
    finish_forest(axes, edges[-1], f"paired difference in {found.metrics[-1]}")


def _draw_accuracy(axes: Axes, found: Transfer) -> None:
    """Draw the accuracy of each smaller sweep over its weights, or in order where these are not known."""
    count = len(found.decisions)
    known = all(weights is not None for weights in found.weights)
    x = (
        np.log10([float(weights or 0) for weights in found.weights])
        if known
        else np.arange(len(found.names), dtype=float)
    )
    apart = 0.03 * (x[-1] - x[0])
    axes.axhline(CHANCE, linestyle="--", color=BASELINE, linewidth=0.8, zorder=1)
    axes.plot(x[:count], [each.accuracy for each in found.decisions], color=INK, linewidth=0.8, alpha=0.5, zorder=2)
    for place, (one, color) in enumerate(zip(found.decisions, COLORS, strict=False)):
        both = (one.accuracy, one.low, one.high), (one.decided_accuracy, one.decided_low, one.decided_high)
        for side, (middle, low, high) in enumerate(both):
            at = x[place] + side * apart
            axes.plot([at, at], [low, high], color=color, linewidth=1.6, alpha=1 - 0.5 * side, zorder=3)
            axes.plot(
                at, middle, "o", color=color, markerfacecolor="white" if side else color, markersize=4.5, zorder=4
            )
    texts = [f"{weights:,.0f}" if known else name for weights, name in zip(found.weights, found.names, strict=True)]
    axes.set_xticks(x, [wrap_label(text, SIZE_WIDTH, 2) for text in texts])
    axes.xaxis.set_minor_locator(NullLocator())
    margin = 0.12 * (x[-1] - x[0])
    axes.set(xlim=(x[0] - margin, x[-1] + margin), ylim=(-0.03, 1.05), yticks=[0, 0.5, 1], ylabel="accuracy")
    axes.set_xlabel("weights of the model" if known else "sweep, in order of size")
