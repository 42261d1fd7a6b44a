"""Placing text and panels on a figure in inches, so that nothing is cut and nothing lies on anything else."""

from collections.abc import Callable, Mapping, Sequence
from textwrap import fill
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text
from matplotlib.ticker import MaxNLocator

from rlexp.analysis.figures.labels import spread_labels, wrap_label
from rlexp.analysis.figures.style import FONT, NOTE, TICK, WIDTH, dark, set_margins, text_size

GAP = 0.12  # inches between a text and what it belongs to
LINE = 1.3 * FONT / 72  # inches per line of text
CAPTION_GAP = 0.6  # inches from the axes to the caption: tick labels and the axis label
CAPTION_DENSITY = 17.5  # characters per inch
CAPTION, TITLE = "caption", "title"  # ids of their texts, by which a page finds them
LEFT = 0.66  # inches left of the axes: tick labels and the axis label
HANDLE = 0.36  # inches of a line in a legend, and of the gap to its name
PANEL = 0.85  # inches of height of a small panel
CAPTION_COLOR = "#666666"


def add_text(figure: Figure, text: str, x: float, y: float, size: float, va: str, **look) -> Text:
    """Write text at a place in inches from the lower left, or (negative) from the upper edge."""
    width, height = figure.get_size_inches()
    return figure.text(x / width, (y if y >= 0 else height + y) / height, text, fontsize=size, va=va, **look)


def write_caption(figure: Figure, caption: str) -> None:
    """Write a caption, broken into lines, at the lower left."""
    add_text(figure, caption, GAP, GAP, size=NOTE, color=CAPTION_COLOR, va="bottom", gid=CAPTION)


def write_title(figure: Figure, title: str) -> None:
    """Write the title at the upper left."""
    add_text(figure, title, GAP, -GAP, size=FONT, weight="bold", va="top", gid=TITLE)


def fit_caption(caption: str, width: float) -> tuple[str, float]:
    """Wrap a caption for a figure `width` inches wide; return also the inches that it and the axis label need."""
    text = fill(caption, int(width * CAPTION_DENSITY))
    return text, CAPTION_GAP + (text.count("\n") + 1) * LINE


Point = tuple[float, float]
LineStyle = Mapping[str, Any]  # color, dash pattern, marker: what Line2D takes


def one_panel(
    draw: Callable[[Axes], Mapping[str, Point]],
    names: Mapping[str, str],
    colors: Mapping[str, str],
    labels: tuple[str, str],
    caption: str,
    height: float = 2.3,
) -> Figure:
    """Draw one panel with names in its right margin; `draw` returns the point of each line that its name belongs to."""
    figure = Figure(figsize=(WIDTH, height))
    axes = figure.add_subplot()
    points = draw(axes)
    axes.set(xlabel=labels[0], ylabel=wrap_label(labels[1], 40, 2))
    sizes = {key: text_size(figure, names[key], TICK) for key in points}
    heights = [up + 0.04 for _, up in sizes.values()]
    right = max(across for across, _ in sizes.values()) + 3 * GAP
    width = max(WIDTH, LEFT + right + 1.9)
    caption, bottom = fit_caption(caption, width)
    figure.set_size_inches(width, 0.2 + max(height, sum(heights)) + bottom)
    set_margins(figure, LEFT, right, bottom, 0.2)
    write_caption(figure, caption)
    _write_names(axes, points, names, colors, heights)
    return figure


def _write_names(
    axes: Axes,
    points: Mapping[str, Point],
    names: Mapping[str, str],
    colors: Mapping[str, str],
    heights: Sequence[float],
) -> None:
    """Write each name at the height of its point, pushed apart where they are close, with a thin leader."""
    figure = axes.figure
    width, height = figure.get_size_inches()
    axes.set(xlim=axes.get_xlim(), ylim=axes.get_ylim())  # what is placed below refers to these limits
    places = {key: axes.transData.transform(point) / figure.dpi for key, point in points.items()}
    box = axes.get_position()
    centers = spread_labels([y for _, y in places.values()], heights, box.y0 * height, box.y1 * height)
    edge = box.x1 * width
    for (key, (x, y)), center in zip(places.items(), centers, strict=True):
        leader = Axes.plot(axes, [x / width, (edge + 1.5 * GAP) / width], [y / height, center / height])[0]
        leader.set(transform=figure.transFigure, color=colors[key], linewidth=0.5, clip_on=False, alpha=0.7)
        add_text(figure, names[key], edge + 2 * GAP, center, size=TICK, va="center", color=dark(colors[key]))


def two_panels(
    draw: Callable[[Axes, int], None],
    titles: tuple[str, str],
    names: Mapping[str, str],
    styles: Mapping[str, LineStyle],
    labels: tuple[str, str],
    caption: str,
) -> Figure:
    """Draw two panels with one y axis below a legend of the lines that have a name."""
    figure = Figure(figsize=(WIDTH, 3))
    texts = {key: name.replace("\n", "") for key, name in names.items() if name}
    needed = {key: HANDLE + text_size(figure, text, TICK)[0] + 2 * GAP for key, text in texts.items()}
    width = max(WIDTH, *needed.values(), 0)
    places: dict[str, tuple[int, float]] = {}  # in which row of the legend, and from where in inches
    row, x = -1, width
    for key, size in needed.items():
        if x + size > width or row < 0:
            row, x = row + 1, GAP
        places[key] = row, x
        x += size
    caption, bottom = fit_caption(caption, width)
    top = (row + 2.6) * LINE
    figure.set_size_inches(width, bottom + 1.8 + top)
    panels = figure.subplots(1, 2, sharey=True)
    set_margins(figure, LEFT, 2 * GAP, bottom, top)
    figure.subplots_adjust(wspace=0.08)
    for place, (axes, title) in enumerate(zip(panels, titles, strict=True)):
        draw(axes, place)
        axes.set_xlabel(labels[0])
        add_text(figure, title, axes.get_position().x0 * width, 0.5 * LINE - top, size=FONT, weight="bold", va="center")
    panels[0].set_ylabel(wrap_label(labels[1], 40, 2))
    height = figure.get_figheight()
    for key, (row, x) in places.items():
        y = height - (row + 0.75) * LINE
        ends = [x / width, (x + HANDLE - 0.06) / width]
        figure.add_artist(Line2D(ends, [y / height] * 2, **styles[key]))
        add_text(figure, texts[key], x + HANDLE, y, size=TICK, va="center")
    write_caption(figure, caption)
    return figure


def small_multiples(
    draw: Callable[[Axes, str], None],
    names: Mapping[str, str],
    labels: tuple[str, str],
    caption: str,
    heading: float = 0.0,
) -> Figure:
    """Draw one small panel per name, by its key, all with the same axes; `heading` is room in inches above them.

    Not with seaborn: for 24 panels of two lines `seaborn.objects` takes five times as long, and `relplot` opens its
    figure in pyplot, which picks a window system for the whole process.
    """
    columns = min(3, max(len(names), 2))
    rows = -(-len(names) // columns)
    title = (max(name.count("\n") for name in names.values()) + 1) * LINE
    caption, bottom = fit_caption(caption, WIDTH)
    top = 0.1 + title + heading
    height = bottom + top + rows * PANEL + (rows - 1) * (title + 0.15)
    figure = Figure(figsize=(WIDTH, height))
    panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel()
    for axes in panels:
        axes.set_autoscale_on(False)  # each line would make all panels look for new limits
    for (key, name), axes in zip(names.items(), panels, strict=False):
        draw(axes, key)
        axes.set_title(name, fontsize=TICK, pad=3)
    _set_limits(panels[: len(names)])
    for axes in panels[len(names) :]:
        axes.remove()
    for axes in panels[max(len(names) - columns, 0) : len(names)]:
        axes.tick_params(labelbottom=True)  # also above an empty place
    set_margins(figure, LEFT, GAP, bottom, top)
    figure.subplots_adjust(wspace=0.08, hspace=(title + 0.15) / PANEL)
    figure.supxlabel(labels[0], fontsize=FONT, y=(bottom - 0.42) / height)
    figure.supylabel(labels[1], fontsize=FONT, x=GAP / WIDTH, y=(bottom + height - top) / 2 / height)
    write_caption(figure, caption)
    return figure


def _set_limits(panels: Sequence[Axes]) -> None:
    """Set the limits of what all panels show, with a margin of a twentieth."""
    corners = np.concatenate([axes.dataLim.get_points() for axes in panels])
    limits = []
    for axis, values in zip((panels[0].xaxis, panels[0].yaxis), corners.T, strict=True):
        scale, finite = axis.get_transform(), values[np.isfinite(values)]
        low, high = scale.transform([finite.min(), finite.max()])
        margin = 0.05 * (high - low) or 0.5
        limits.append(scale.inverted().transform([low - margin, high + margin]))
    panels[0].set(xlim=limits[0], ylim=limits[1])


def step_ticks(axes: Axes, count: int = 6) -> None:
    """Put the ticks of x at whole, round numbers."""
    axes.xaxis.set_major_locator(MaxNLocator(count, steps=[1, 2, 5, 10], integer=True))
