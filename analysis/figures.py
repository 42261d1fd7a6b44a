"""The figures of a comparison. Each function draws one and returns it; nothing is written here."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from analysis.comparison import ALPHA, Comparison
from analysis.curves import Curve
from analysis.labels import paragraph, spread, within, wrap
from analysis.style import (
    BAND,
    BASELINE,
    COLOURS,
    FONT,
    FULL_WIDTH,
    MAX_COLOURS,
    NOTE,
    OTHERS,
    TICK,
    WIDTH,
    dark,
    light_grid,
    set_margins,
    style,
    text_size,
    variant_colours,
)
from analysis.tables import corrected_p, decimals, interval

GAP = 0.12  # inches between a text and what it belongs to
LINE = 1.3 * FONT / 72  # inches per line of text
CAPTION_GAP = 0.6  # inches from the axes to the caption: tick labels and the axis label
CAPTION_DENSITY = 19  # characters per inch
Curves = dict[str, Curve]


def effects_caption(comparison: Comparison) -> str:
    """What the marks of `effects` mean, and from how many seeds."""
    pairs = comparison.table.loc[comparison.others, "n_pairs"]
    return (
        f"Dot and line: mean difference over paired seeds to {comparison.labels[comparison.baseline]} with its 95 % "
        f"paired t interval (not adjusted); small ticks: the seeds, {_span(pairs)} per variant. Filled: p < {ALPHA:g} "
        "by sign flips, corrected by Holm over the variants shown."
    )


def effects(comparison: Comparison) -> Figure:
    """The headline: per variant, largest effect first, the paired difference, its interval, the seeds, the numbers."""
    table = comparison.table.loc[comparison.others].sort_values("difference", ascending=False)
    with style():
        figure = Figure(figsize=(WIDTH, 3))
        axes = figure.add_subplot()
        colours = variant_colours(list(comparison.table.index), comparison.baseline)
        for place, (variant, row) in enumerate(table.iterrows()):
            _effect_row(axes, place, row, comparison.differences(variant), colours[variant])
        names = [wrap(comparison.labels[variant], 34) for variant in table.index]
        axes.axvline(0, color=BASELINE, linewidth=0.8, linestyle="--", zorder=1)
        axes.set(yticks=range(len(table)), yticklabels=names, ylim=(len(table) - 0.4, -0.6))
        axes.set_xlabel(f"paired difference in {comparison.metric}")
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        axes.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
        light_grid(axes)
        _effects_layout(figure, axes, comparison, table, names)
    return figure


def _effect_row(axes: Axes, place: int, row, differences: np.ndarray, colour: str) -> None:
    axes.plot([row["difference_low"], row["difference_high"]], [place, place], color=colour, linewidth=1.6, zorder=2)
    face = colour if row["p_holm"] < ALPHA else "white"
    axes.plot(row["difference"], place, "o", color=colour, markerfacecolor=face, markersize=5, zorder=3)
    ticks = np.full(differences.size, place + 0.31)
    axes.plot(differences, ticks, "|", color=colour, markersize=4, markeredgewidth=0.7, alpha=0.7)


def _effects_layout(figure: Figure, axes: Axes, comparison: Comparison, table, names: Sequence[str]) -> None:
    """Numbers at the right, a title, a caption; margins are measured from the texts, so that nothing is cut."""
    digits = decimals(comparison.scores.to_numpy().ravel())
    ends = zip(table["difference"], table["difference_low"], table["difference_high"], strict=True)
    columns = [
        ["difference [95 %]", *(interval(*row, digits, sign=True) for row in ends)],
        ["p (Holm)", *corrected_p(comparison, table)],
    ]
    left = max(text_size(figure, name, TICK)[0] for name in names) + 2 * GAP
    widths = [max(text_size(figure, text, NOTE)[0] for text in column) + GAP for column in columns]
    width = max(WIDTH, left + sum(widths) + GAP + 2.4)
    row_height = max(0.26, max(name.count("\n") + 1 for name in names) * LINE + 0.04)
    caption = paragraph(effects_caption(comparison), int(width * CAPTION_DENSITY))
    bottom = CAPTION_GAP + (caption.count("\n") + 1) * LINE
    top = 0.25 + 2 * LINE
    figure.set_size_inches(width, top + row_height * len(table) + bottom)
    set_margins(figure, left, sum(widths) + GAP, bottom, top)
    _text_columns(figure, axes, columns, widths)
    title = f"Difference to {wrap(comparison.labels[comparison.baseline], 60, 1)}"
    _at(figure, title, GAP, -GAP, size=FONT, weight="bold", va="top")
    _at(figure, caption, GAP, GAP, size=NOTE, color="#666666", va="bottom")


def _text_columns(figure: Figure, axes: Axes, columns: Sequence[Sequence[str]], widths: Sequence[float]) -> None:
    x = axes.get_position().x1 * figure.get_figwidth() + GAP
    for column, width in zip(columns, widths, strict=True):
        for place, text in enumerate(column):
            y = axes.transData.transform((0, place - 1))[1] / figure.dpi if place else _top(axes) + LINE / 2
            _at(figure, text, x, y, size=NOTE, weight="normal" if place else "bold", va="center")
        x += width


def _top(axes: Axes) -> float:
    return axes.get_position().y1 * axes.figure.get_figheight()


def _at(figure: Figure, text: str, x: float, y: float, size: float, va: str, **look) -> None:
    """Text at a place in inches from the lower left, or (negative) from the upper edge."""
    width, height = figure.get_size_inches()
    figure.text(x / width, (y if y >= 0 else height + y) / height, text, fontsize=size, va=va, **look)


def curves_caption(comparison: Comparison) -> str:
    """What the lines and bands of `curves` mean, and from how many seeds."""
    return (
        f"Line: interquartile mean over seeds at each evaluation ({_span(comparison.table['n'])} per variant, "
        "completed runs); band: pointwise 95 % bootstrap interval; no smoothing. Dashed: "
        f"{comparison.labels[comparison.baseline]}."
    )


def curves(comparison: Comparison, lines: Curves) -> Figure:
    """Learning curves of the metric: one panel with names at the line ends, or one small panel per variant if many."""
    with style():
        return _one_panel(comparison, lines) if len(lines) <= MAX_COLOURS else _small_multiples(comparison, lines)


def _one_panel(comparison: Comparison, lines: Curves) -> Figure:
    figure = Figure(figsize=(WIDTH, 3))
    axes = figure.add_subplot()
    colours = variant_colours(list(comparison.table.index), comparison.baseline)
    if len(lines) == 1:
        colours = dict.fromkeys(lines, COLOURS[0])
    for variant, line in lines.items():
        _draw(axes, line, colours[variant], dashed=variant == comparison.baseline and len(lines) > 1)
    axes.set(xlabel="step", ylabel=comparison.metric)
    axes.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10], integer=True))
    names = {variant: wrap(comparison.labels[variant], 26) for variant in lines}
    _curves_layout(figure, comparison, list(names.values()), panel_height=2.3)
    _end_labels(figure, axes, lines, names, colours)
    return figure


def _draw(axes: Axes, line: Curve, colour: str, dashed: bool) -> None:
    marker = "o" if line.steps.size == 1 else None
    axes.fill_between(line.steps, line.low, line.high, color=colour, alpha=BAND, linewidth=0)
    axes.plot(line.steps, line.iqm, color=colour, linestyle="--" if dashed else "-", marker=marker, markersize=4)


def _curves_layout(figure: Figure, comparison: Comparison, names: Sequence[str], panel_height: float) -> None:
    """Room at the right for the names, and as much height as they need."""
    sizes = [text_size(figure, name, TICK) for name in names]
    right = max(width for width, _ in sizes) + 3 * GAP
    width = max(WIDTH, right + 3.6)
    caption = paragraph(curves_caption(comparison), int(width * CAPTION_DENSITY))
    bottom, top = 0.5 + (caption.count("\n") + 2) * LINE, 0.2
    height = max(panel_height, sum(height + 0.04 for _, height in sizes))
    figure.set_size_inches(width, top + height + bottom)
    set_margins(figure, 0.7, right, bottom, top)
    _at(figure, caption, GAP, GAP, size=NOTE, color="#666666", va="bottom")


def _end_labels(figure: Figure, axes: Axes, lines: Curves, names: dict[str, str], colours: dict[str, str]) -> None:
    """Each name beside the end of its line, pushed apart where lines end close together; thin leaders."""
    axes.margins(x=0.01)
    axes.set_ylim(axes.get_ylim())  # what is placed below refers to these limits
    to_inches = axes.transData.transform
    ends = {variant: to_inches((line.steps[-1], line.iqm[-1])) / figure.dpi for variant, line in lines.items()}
    heights = [text_size(figure, names[variant], TICK)[1] + 0.04 for variant in lines]
    bottom = axes.get_position().y0 * figure.get_figheight()
    places = within(spread([y for _, y in ends.values()], heights), heights, bottom, _top(axes))
    edge = axes.get_position().x1 * figure.get_figwidth()
    width, height = figure.get_size_inches()
    for (variant, (x, y)), place in zip(ends.items(), places, strict=True):
        leader = Axes.plot(axes, [x / width, (edge + 1.5 * GAP) / width], [y / height, place / height])[0]
        leader.set(transform=figure.transFigure, color=colours[variant], linewidth=0.5, clip_on=False, alpha=0.7)
        _at(figure, names[variant], edge + 2 * GAP, place, size=TICK, va="center", color=dark(colours[variant]))


def _small_multiples(comparison: Comparison, lines: Curves, columns: int = 4) -> Figure:
    shown = [variant for variant in lines if variant != comparison.baseline]
    names = [wrap(comparison.labels[variant], 36, 2) for variant in shown]
    rows = -(-len(shown) // columns)
    title = (max(name.count("\n") for name in names) + 1) * LINE
    caption = curves_caption(comparison) + " Light grey: all other variants."
    caption = paragraph(caption, int(FULL_WIDTH * CAPTION_DENSITY))
    bottom, top = 0.5 + (caption.count("\n") + 2) * LINE, 0.1 + title
    height = bottom + top + rows * 1.25 + (rows - 1) * (title + 0.15)
    figure = Figure(figsize=(FULL_WIDTH, height))
    panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel()
    for variant, name, axes in zip(shown, names, panels, strict=False):
        _highlight(axes, lines, variant, comparison.baseline)
        axes.set_title(name, fontsize=TICK, pad=3)
    for axes in panels[len(shown) :]:
        axes.remove()
    for axes in panels[len(shown) - columns : len(shown)]:
        axes.tick_params(labelbottom=True)  # also above an empty place
    set_margins(figure, 0.6, GAP, bottom, top)
    figure.subplots_adjust(wspace=0.08, hspace=(title + 0.15) / 1.25)
    figure.supxlabel("step", fontsize=FONT, y=(bottom - 0.42) / height)
    figure.supylabel(comparison.metric, fontsize=FONT, x=GAP / FULL_WIDTH)
    _at(figure, caption, GAP, GAP, size=NOTE, color="#666666", va="bottom")
    return figure


def _highlight(axes: Axes, lines: Curves, variant: str, baseline: str) -> None:
    for other, line in lines.items():
        if other not in (variant, baseline):
            axes.plot(line.steps, line.iqm, color=OTHERS, linewidth=0.6)
    if baseline in lines:
        _draw(axes, lines[baseline], BASELINE, dashed=True)
    _draw(axes, lines[variant], COLOURS[0], dashed=False)
    axes.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10], integer=True))


def _span(counts) -> str:
    low, high = int(min(counts)), int(max(counts))
    return f"n = {low}" if low == high else f"n = {low} to {high}"
