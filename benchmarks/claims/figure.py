"""One row a claim: all its differences, towards the claim or against it, in units of the smallest that counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import shorten
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from benchmarks.claims.outcome import Finding
from rlexp.analysis.figures.layout import (
    BASELINE,
    COLORS,
    FONT,
    GAP,
    TICK,
    TITLE,
    add_text,
    fit_caption,
    light_grid,
    set_margins,
    text_size,
    theme,
    write_caption,
)

COLOR_OF = {
    "reproduced": COLORS[3],
    "reversed": COLORS[2],
    "practically equal": COLORS[0],
    "not reproduced": COLORS[1],
    "underpowered": "#9A9A9A",
}
ROW, WIDTH, NAME_WIDTH, TICKS = 0.2, 9.2, 88, (-30, -10, -3, -1, 0, 1, 3, 10, 30)


def signed_effect(verdict: Mapping[str, Any]) -> tuple[float, float, float] | None:
    """Difference and interval in units of the minimum effect, positive where the claim says so; None without either."""
    minimum, keys = verdict.get("minimum_effect"), ("estimate", "low", "high")
    known = all(isinstance(verdict.get(key), int | float) for key in keys)  # "inf" is that of what is never reached
    if not minimum or not known or verdict["direction"] not in SIGNS:
        return None
    middle, *ends = (SIGNS[verdict["direction"]] * verdict[key] / minimum for key in keys)
    return middle, min(ends), max(ends)


SIGNS = {"higher": 1, "lower": -1, "equal": 1}


def rows_figure(rows: Sequence[tuple[str, Sequence[Finding]]], title: str, intervals: bool) -> Figure:
    """A row for each name, in it a mark for each finding that is a difference, with its interval if asked."""
    with theme():
        figure = Figure(figsize=(WIDTH, 3))
        axes = figure.add_subplot()
        names = [shorten(name, NAME_WIDTH, placeholder=" …") for name, _ in rows]
        left = max(text_size(figure, name, TICK)[0] for name in names) + 4 * GAP
        caption, bottom = fit_caption(caption_text(intervals, all(drawn(found) for _, found in rows)), WIDTH)
        figure.set_size_inches(WIDTH, ROW * len(rows) + bottom + 0.8)
        set_margins(figure, left, 2 * GAP, bottom, 0.75)
        add_text(figure, title, GAP, -GAP, size=FONT, weight="bold", va="top", gid=TITLE)
        write_caption(figure, caption)
        axes.axvspan(-1, 1, color="#F0F0F0", linewidth=0, zorder=0)
        axes.axvline(0, linestyle="--", color=BASELINE, linewidth=0.8, zorder=1)
        for y, (_, found) in enumerate(rows):
            draw_row(axes, y, found, intervals)
        axes.set(yticks=range(len(rows)), yticklabels=names, ylim=(len(rows) - 0.4, -0.6), xlim=(-40, 40))
        axes.set_xscale("symlog", linthresh=1, linscale=1)
        axes.set_xticks(TICKS, [f"{tick:+d}".replace("-", "−") if tick else "0" for tick in TICKS], minor=False)
        axes.set_xticks([], minor=True)
        axes.set_xlabel("← against the claim · as the claim says →")
        axes.tick_params(axis="y", length=0)
        light_grid(axes)
        dot = {"marker": "o", "linestyle": "", "markersize": 4.5}
        marks = [Line2D([], [], color=color, **dot) for color in COLOR_OF.values()]
        figure.legend(marks, COLOR_OF, loc="upper right", ncols=5, frameon=False, fontsize=TICK, columnspacing=1,
                      handletextpad=0.1, bbox_to_anchor=(1, 1 - 0.26 / figure.get_figheight()))  # fmt: skip
    return figure


def caption_text(intervals: bool, every_row: bool) -> str:
    """What the marks mean, and what it means that a row has none."""
    lines = " Lines: 95 % paired t intervals." if intervals else ""
    without = "" if every_row else " A row without a mark names no smallest size, or was not judged."
    return (
        "Each mark is the mean difference of an expectation over paired seeds, in units of the smallest that counts, "
        f"which is the grey band. Where equality is claimed the sign is that of the difference.{lines} "
        f"Beyond 35 at the edge.{without}"
    )


def drawn(found: Sequence[Finding]) -> list[tuple[Finding, tuple[float, float, float]]]:
    """Return the findings that were judged and have a place in the figure, with it."""
    judged = [each for each in found if each.word in COLOR_OF]
    return [(each, place) for each in judged if (place := signed_effect(each.verdict)) is not None]


def draw_row(axes: Any, y: int, found: Sequence[Finding], intervals: bool) -> None:
    """The marks of one row, apart from each other where there are several."""
    marks = drawn(found)
    offsets = np.linspace(-0.25, 0.25, len(marks)) if len(marks) > 1 else [0.0] * len(marks)
    for offset, (each, place) in zip(offsets, marks, strict=True):
        middle, low, high = np.clip(place, -35, 35)
        color = COLOR_OF[each.word]
        if intervals:
            axes.plot([low, high], [y + offset] * 2, color=color, linewidth=1.2, zorder=3)
        axes.plot(middle, y + offset, "o", color=color, markersize=3.6, markeredgewidth=0, zorder=4)
