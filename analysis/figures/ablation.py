"""What each part of a recipe is worth, a row a part, a mark for each way to ask."""

from collections.abc import Sequence

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from rlexp.analysis.figures.layout import (
    BASELINE,
    COLORS,
    GAP,
    INK,
    LINE,
    NOTE,
    TICK,
    WIDTH,
    light_grid,
    set_frame,
    text_size,
    theme,
    wrap_label,
)

ROW, MARK = 0.12, 0.13  # inches between rows, and of a mark
LABEL = 26  # characters of a part's name in a line


def ablation_figure(effects: pd.DataFrame, kinds: Sequence[str], label: str, caption: str) -> Figure:
    """Draw the effects of parts with their intervals, each on a band of the effects that do not count.

    Args:
        effects: rows with ``kind``, ``parts``, ``difference``, ``low``, ``high``, ``margin_low`` and ``margin_high``.
        kinds: the kinds that are drawn, in the order of the legend.
        label: of the x axis.
        caption: below the figure.
    """
    shown = effects[effects["kind"].isin(kinds)]
    parts = list(dict.fromkeys(shown["parts"]))
    names = {part: wrap_label(part, LABEL, 2) for part in parts}
    colors = dict(zip(kinds, (INK, *COLORS), strict=False))
    with theme():
        figure = Figure(figsize=(WIDTH, 3))
        axes = figure.add_subplot()
        left = max(text_size(figure, name, TICK)[0] for name in names.values()) + 2 * GAP
        top, places, y = 0.3 + LINE * ((len(kinds) + 1) // 2), {}, 0.0
        for part in parts:
            rows = shown[shown["parts"] == part]
            height = max(len(rows) * MARK, LINE * (names[part].count("\n") + 1))
            start = y + (height - len(rows) * MARK) / 2
            for place, kind in enumerate(kind for kind in kinds if kind in set(rows["kind"])):
                row = rows[rows["kind"] == kind].iloc[0]
                at = start + (place + 0.5) * MARK
                margins = [(row["margin_low"], row["margin_high"] - row["margin_low"])]
                axes.broken_barh(margins, (at - MARK / 2, MARK), color=BASELINE, alpha=0.15, linewidth=0, zorder=1)
                axes.plot([row["low"], row["high"]], [at, at], color=colors[kind], linewidth=1.5, zorder=3)
                axes.plot(row["difference"], at, "o", color=colors[kind], markersize=4.2, zorder=4)
            places[part] = y + height / 2
            y += height + ROW
            axes.axhline(y - ROW / 2, color="#EBEBEB", linewidth=0.6, zorder=0)
        set_frame(figure, (max(WIDTH, left + 2.6), y), left, 2 * GAP, top, caption)
        axes.axvline(0, color=BASELINE, linewidth=0.9, linestyle="--", zorder=2)
        axes.set(ylim=(y - ROW / 2, -ROW / 2), xlabel=wrap_label(label, 34, 2))
        axes.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
        axes.set_yticks([*places.values()], [names[part] for part in places])
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        light_grid(axes)
        marks = [Line2D([], [], color=colors[kind], marker="o", markersize=4.2, linewidth=1.5) for kind in kinds]
        figure.legend(
            marks, kinds, loc="upper left", ncols=2, frameon=False, fontsize=NOTE, borderaxespad=0.4, columnspacing=1.2
        )
    return figure
