"""Figures with one row per variant: an estimate, its interval, the seeds, and the numbers in words at the right."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from analysis.comparison import ALPHA, MIN_SEEDS, Comparison
from analysis.direction import told
from analysis.labels import wrap_all
from analysis.layout import GAP, LINE, at, captioned, right_of, top_of, write_caption, write_title
from analysis.style import BASELINE, FONT, NOTE, TICK, WIDTH, light_grid, set_margins, style, text_size, variant_colours
from analysis.tables import corrected_p, decimals, interval

TICK_LABEL = 0.3  # inches that half a label of the x axis may stick out at the left

MOST_PANELS = 24  # of one figure; of more variants only those farthest from the baseline get one


class Row(NamedTuple):
    """One row: wrapped name, (estimate, low, high), the seeds' values, colour, and whether the mark is filled."""

    name: str
    estimate: tuple[float, float, float]
    seeds: np.ndarray
    colour: str
    filled: bool


def names_of(comparison: Comparison, variants: Iterable[str], width: int, lines: int = 3) -> dict[str, str]:
    """The wrapped label of each variant, unlike that of any other variant of the comparison."""
    wrapped = wrap_all(comparison.labels.values(), width, lines)
    return {variant: wrapped[comparison.labels[variant]] for variant in variants}


def farthest(comparison: Comparison, variants: Iterable[str]) -> tuple[list[str], str]:
    """Of variants beside the baseline, those to draw a panel each for, in the table's order, and what to say of it."""
    others = [variant for variant in variants if variant != comparison.baseline]
    if len(others) <= MOST_PANELS:
        return others, ""
    size = comparison.table.loc[others, "difference"].abs().fillna(-1.0)
    chosen = set(size.sort_values(ascending=False, kind="stable").index[:MOST_PANELS])
    shown = [variant for variant in others if variant in chosen]
    return shown, f" Shown: the {MOST_PANELS} of {len(others)} variants that differ most from the baseline."


def span(counts) -> str:
    """`n = 10`, or `n = 8 to 10`."""
    counts = list(counts)
    low, high = int(min(counts)), int(max(counts))
    return f"n = {low}" if low == high else f"n = {low} to {high}"


def unless_few(counts) -> str:
    """What a caption adds if there are too few seeds for any interval, and nothing otherwise."""
    return f" No interval is drawn: fewer than {MIN_SEEDS} seeds." if max(counts) < MIN_SEEDS else ""


def effects_caption(comparison: Comparison) -> str:
    """What the marks of `effects` mean, and from how many seeds."""
    pairs = comparison.table.loc[comparison.others, "n_pairs"]
    return (
        f"Dot and line: mean difference over paired seeds to {comparison.labels[comparison.baseline]} with its 95 % "
        f"paired t interval (not adjusted); small ticks: the seeds, {span(pairs)} per variant. Filled: p < {ALPHA:g} "
        f"by sign flips, corrected by Holm over the variants shown.{unless_few(pairs)}"
    )


def effects(comparison: Comparison) -> Figure:
    """The headline: per variant, best effect first, the paired difference, its interval, the seeds, the numbers."""
    table = comparison.table.loc[comparison.others]
    table = table.sort_values("difference", ascending=comparison.better == "lower")
    colours = variant_colours(list(comparison.table.index), comparison.baseline)
    names = names_of(comparison, table.index, 34)
    ends = list(zip(table["difference"], table["difference_low"], table["difference_high"], strict=True))
    rows = [
        Row(names[variant], estimate, comparison.differences(variant), colours[variant], p < ALPHA)
        for variant, estimate, p in zip(table.index, ends, table["p_holm"], strict=True)
    ]
    digits = decimals(comparison.scores.to_numpy().ravel())
    columns = [
        ["difference [95 %]", *(interval(*row, digits, sign=True) for row in ends)],
        ["p (Holm)", *corrected_p(comparison, table)],
    ]
    title = "Difference to " + names_of(comparison, [comparison.baseline], 60, 1)[comparison.baseline]
    title += told(comparison.better)
    label = f"paired difference in {comparison.metric}"
    return forest(rows, columns, title, label, effects_caption(comparison), zero=True)


def intervals_caption(comparison: Comparison) -> str:
    """What the marks of `intervals` mean, and from how many seeds."""
    return (
        "Dot and line: interquartile mean of the score over seeds with its 95 % percentile bootstrap interval; small "
        f"ticks: the seeds, {span(comparison.table['n'])} per variant. Grey: {comparison.labels[comparison.baseline]}."
        + unless_few(comparison.table["n"])
    )


def intervals(comparison: Comparison) -> Figure:
    """Final scores, best first: interquartile mean, its interval, the seeds, the numbers."""
    table = comparison.table[comparison.table["n"] > 0].sort_values("iqm", ascending=comparison.better == "lower")
    colours = variant_colours(list(comparison.table.index), comparison.baseline)
    names = names_of(comparison, table.index, 34)
    ends = list(zip(table["iqm"], table["iqm_low"], table["iqm_high"], strict=True))
    rows = [
        Row(names[name], estimate, comparison.scores[name].dropna().to_numpy(), colours[name], True)
        for name, estimate in zip(table.index, ends, strict=True)
    ]
    digits = decimals(comparison.scores.to_numpy().ravel())
    columns = [
        ["IQM [95 %]", *(interval(*row, digits) for row in ends)],
        ["n", *(f"{n:g}" for n in table["n"])],
    ]
    title = "Final scores" + told(comparison.better)
    return forest(rows, columns, title, comparison.metric, intervals_caption(comparison))


def forest(
    rows: Sequence[Row], columns: Sequence[Sequence[str]], title: str, label: str, caption: str, zero: bool = False
) -> Figure:
    """Rows from top to bottom, columns of text at the right; margins are measured from the texts."""
    with style():
        figure = Figure(figsize=(WIDTH, 3))
        axes = figure.add_subplot()
        for place, row in enumerate(rows):
            _draw(axes, place, row)
        names = [row.name for row in rows]
        if zero:
            axes.axvline(0, color=BASELINE, linewidth=0.8, linestyle="--", zorder=1)
        axes.set(yticks=range(len(rows)), yticklabels=names, ylim=(len(rows) - 0.4, -0.6), xlabel=label)
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        axes.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
        light_grid(axes)
        _lay_out(figure, axes, names, columns, title, caption)
    return figure


def _draw(axes: Axes, place: int, row: Row) -> None:
    middle, low, high = row.estimate
    axes.plot([low, high], [place, place], color=row.colour, linewidth=1.6, zorder=2)
    face = row.colour if row.filled else "white"
    axes.plot(middle, place, "o", color=row.colour, markerfacecolor=face, markersize=5, zorder=3)
    ticks = np.full(row.seeds.size, place + 0.31)
    axes.plot(row.seeds, ticks, "|", color=row.colour, markersize=4, markeredgewidth=0.7, alpha=0.7)


def _lay_out(figure, axes: Axes, names: Sequence[str], columns: Sequence[Sequence[str]], title: str, caption: str):
    left = max(TICK_LABEL, *(text_size(figure, name, TICK)[0] + GAP for name in names)) + GAP
    widths = [max(text_size(figure, text, NOTE)[0] for text in column) + GAP for column in columns]
    width = max(WIDTH, left + sum(widths) + GAP + 2.4, text_size(figure, title, FONT, weight="bold")[0] + 2 * GAP)
    row_height = max(0.26, max(name.count("\n") + 1 for name in names) * LINE + 0.04)
    caption, bottom = captioned(caption, width)
    top = 0.25 + 2 * LINE
    figure.set_size_inches(width, top + row_height * len(names) + bottom)
    set_margins(figure, left, sum(widths) + GAP, bottom, top)
    _write_columns(figure, axes, columns, widths)
    write_title(figure, title)
    write_caption(figure, caption)


def _write_columns(figure: Figure, axes: Axes, columns: Sequence[Sequence[str]], widths: Sequence[float]) -> None:
    x = right_of(axes) + GAP
    for column, width in zip(columns, widths, strict=True):
        for place, text in enumerate(column):
            y = axes.transData.transform((0, place - 1))[1] / figure.dpi if place else top_of(axes) + LINE / 2
            at(figure, text, x, y, size=NOTE, weight="normal" if place else "bold", va="center")
        x += width
