"""Placing text and panels on a figure in inches, so that nothing is cut and nothing lies on anything else."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text
from matplotlib.ticker import MaxNLocator

from analysis.figures.labels import shift_inside, spread_labels, wrap_label, wrap_text
from analysis.figures.style import FONT, NOTE, TICK, WIDTH, dark, set_margins, text_size

GAP = 0.12  # inches between a text and what it belongs to
LINE = 1.3 * FONT / 72  # inches per line of text
CAPTION_GAP = 0.6  # inches from the axes to the caption: tick labels and the axis label
CAPTION_DENSITY = 17.5  # characters per inch
CAPTION, TITLE = "caption", "title"  # ids of their texts, by which a page finds them
LEFT = 0.66  # inches left of the axes: tick labels and the axis label
HANDLE = 0.36  # inches of a line in a legend, and of the gap to its name
PANEL = 0.85  # inches of height of a small panel
CAPTION_COLOUR = "#666666"


def add_text(figure: Figure, text: str, x: float, y: float, size: float, va: str, **look) -> Text:
    """Text at a place in inches from the lower left, or (negative) from the upper edge."""
    width, height = figure.get_size_inches()
    return figure.text(x / width, (y if y >= 0 else height + y) / height, text, fontsize=size, va=va, **look)


def add_axes(figure: Figure, x: float, y: float, width: float, height: float) -> Axes:
    """Axes at a place in inches from the lower left."""
    across, up = figure.get_size_inches()
    return figure.add_axes((x / across, y / up, width / across, height / up))


def write_caption(figure: Figure, caption: str) -> None:
    """The caption at the lower left; it has been broken into lines."""
    add_text(figure, caption, GAP, GAP, size=NOTE, color=CAPTION_COLOUR, va="bottom", gid=CAPTION)


def write_title(figure: Figure, title: str) -> None:
    """The title at the upper left."""
    add_text(figure, title, GAP, -GAP, size=FONT, weight="bold", va="top", gid=TITLE)


def fit_caption(caption: str, width: float) -> tuple[str, float]:
    """The caption in lines that fit a figure `width` inches wide, and the inches that it and the axis label need."""
    text = wrap_text(caption, int(width * CAPTION_DENSITY))
    return text, CAPTION_GAP + (text.count("\n") + 1) * LINE


def top_edge(axes: Axes) -> float:
    """Upper edge of the axes in inches."""
    return axes.get_position().y1 * axes.figure.get_figheight()


def right_edge(axes: Axes) -> float:
    """Right edge of the axes in inches."""
    return axes.get_position().x1 * axes.figure.get_figwidth()


def label_margin(figure: Figure, names: Sequence[str]) -> tuple[float, float]:
    """Inches at the right that names beside the axes need, and inches of height that they need together."""
    sizes = [text_size(figure, name, TICK) for name in names]
    return max(width for width, _ in sizes) + 3 * GAP, sum(height + 0.04 for _, height in sizes)


Point = tuple[float, float]


def margin_labels(
    axes: Axes, points: Mapping[str, Point], names: Mapping[str, str], colours: Mapping[str, str]
) -> None:
    """Each name in the right margin at the height of its point, pushed apart where they are close; thin leaders."""
    figure = axes.figure
    axes.set(xlim=axes.get_xlim(), ylim=axes.get_ylim())  # what is placed below refers to these limits
    places = {key: axes.transData.transform(point) / figure.dpi for key, point in points.items()}
    heights = [text_size(figure, names[key], TICK)[1] + 0.04 for key in points]
    bottom = axes.get_position().y0 * figure.get_figheight()
    centres = shift_inside(spread_labels([y for _, y in places.values()], heights), heights, bottom, top_edge(axes))
    edge = right_edge(axes)
    width, height = figure.get_size_inches()
    for (key, (x, y)), centre in zip(places.items(), centres, strict=True):
        leader = Axes.plot(axes, [x / width, (edge + 1.5 * GAP) / width], [y / height, centre / height])[0]
        leader.set(transform=figure.transFigure, color=colours[key], linewidth=0.5, clip_on=False, alpha=0.7)
        add_text(figure, names[key], edge + 2 * GAP, centre, size=TICK, va="center", color=dark(colours[key]))


def one_panel(
    draw: Callable[[Axes], Mapping[str, Point]],
    names: Mapping[str, str],
    colours: Mapping[str, str],
    labels: tuple[str, str],
    caption: str,
    height: float = 2.3,
) -> Figure:
    """One panel; `draw` returns where the name of each line points from the right margin."""
    figure = Figure(figsize=(WIDTH, height))
    axes = figure.add_subplot()
    points = draw(axes)
    axes.set(xlabel=labels[0], ylabel=wrap_label(labels[1], 40, 2))
    right, needed = label_margin(figure, [names[key] for key in points])
    width = max(WIDTH, LEFT + right + 1.9)
    caption, bottom = fit_caption(caption, width)
    figure.set_size_inches(width, 0.2 + max(height, needed) + bottom)
    set_margins(figure, LEFT, right, bottom, 0.2)
    write_caption(figure, caption)
    margin_labels(axes, points, names, colours)
    return figure


Look = Mapping[str, Any]  # colour, dash pattern, marker: what Line2D takes


def _legend_rows(figure: Figure, names: Sequence[str], width: float) -> list[list[tuple[int, float]]]:
    """Which names are in which row of a legend that is `width` inches wide, and where each begins."""
    rows: list[list[tuple[int, float]]] = []
    x = width
    for place, name in enumerate(names):
        needed = HANDLE + text_size(figure, name, TICK)[0] + 2 * GAP
        if x + needed > width or not rows:
            rows.append([])
            x = GAP
        rows[-1].append((place, x))
        x += needed
    return rows


def _write_legend(figure: Figure, rows: Sequence[Sequence[tuple[int, float]]], names: Sequence[str], looks) -> None:
    """A line and a name for each entry, from the upper edge."""
    width, height = figure.get_size_inches()
    for row, entries in enumerate(rows):
        y = height - (row + 0.75) * LINE
        for place, x in entries:
            ends = [x / width, (x + HANDLE - 0.06) / width]
            figure.add_artist(Line2D(ends, [y / height] * 2, **looks[place]))
            add_text(figure, names[place], x + HANDLE, y, size=TICK, va="center")


def two_panels(
    draw: Callable[[Axes, int], None],
    titles: tuple[str, str],
    names: Mapping[str, str],
    looks: Mapping[str, Look],
    labels: tuple[str, str],
    caption: str,
) -> Figure:
    """Two panels with one y axis below a legend of the lines that have a name."""
    figure = Figure(figsize=(WIDTH, 3))
    named = [key for key in names if names[key]]
    texts = [names[key].replace("\n", "") for key in named]
    width = max(WIDTH, *(HANDLE + text_size(figure, text, TICK)[0] + 2 * GAP for text in texts), 0)
    rows = _legend_rows(figure, texts, width)
    caption, bottom = fit_caption(caption, width)
    top = (len(rows) + 1.6) * LINE
    figure.set_size_inches(width, bottom + 1.8 + top)
    panels = figure.subplots(1, 2, sharey=True)
    set_margins(figure, LEFT, 2 * GAP, bottom, top)
    figure.subplots_adjust(wspace=0.08)
    for place, (axes, title) in enumerate(zip(panels, titles, strict=True)):
        draw(axes, place)
        axes.set_xlabel(labels[0])
        add_text(figure, title, axes.get_position().x0 * width, 0.5 * LINE - top, size=FONT, weight="bold", va="center")
    panels[0].set_ylabel(wrap_label(labels[1], 40, 2))
    _write_legend(figure, rows, texts, [looks[key] for key in named])
    write_caption(figure, caption)
    return figure


def small_panels(
    names: Sequence[str],
    draw: Callable[[Axes, int], None],
    labels: tuple[str, str],
    caption: str,
    heading: float = 0.0,
    columns: int = 3,
) -> Figure:
    """One small panel per name, all with the same axes; `heading` is room in inches above them.

    Not with seaborn: for 24 panels of two lines `seaborn.objects` takes five times as long, and `relplot` opens its
    figure in pyplot, which picks a window system for the whole process.
    """
    columns = min(columns, max(len(names), 2))
    rows = -(-len(names) // columns)
    title = (max(name.count("\n") for name in names) + 1) * LINE
    caption, bottom = fit_caption(caption, WIDTH)
    top = 0.1 + title + heading
    height = bottom + top + rows * PANEL + (rows - 1) * (title + 0.15)
    figure = Figure(figsize=(WIDTH, height))
    panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel()
    _draw_panels(panels, names, draw, columns)
    set_margins(figure, LEFT, GAP, bottom, top)
    figure.subplots_adjust(wspace=0.08, hspace=(title + 0.15) / PANEL)
    figure.supxlabel(labels[0], fontsize=FONT, y=(bottom - 0.42) / height)
    figure.supylabel(labels[1], fontsize=FONT, x=GAP / WIDTH, y=(bottom + height - top) / 2 / height)
    write_caption(figure, caption)
    return figure


def _draw_panels(panels: np.ndarray, names: Sequence[str], draw: Callable[[Axes, int], None], columns: int) -> None:
    """Draw into the first panels, as many as there are names, and remove the others."""
    for axes in panels:
        axes.set_autoscale_on(False)  # each line would make all panels look for new limits
    for place, (name, axes) in enumerate(zip(names, panels, strict=False)):
        draw(axes, place)
        axes.set_title(name, fontsize=TICK, pad=3)
    _fit(panels[: len(names)])
    for axes in panels[len(names) :]:
        axes.remove()
    for axes in panels[max(len(names) - columns, 0) : len(names)]:
        axes.tick_params(labelbottom=True)  # also above an empty place


def _fit(panels: Sequence[Axes]) -> None:
    """Limits for what all panels show, with a margin of a twentieth."""
    corners = np.concatenate([axes.dataLim.get_points() for axes in panels])
    limits = []
    for axis, values in zip((panels[0].xaxis, panels[0].yaxis), corners.T, strict=True):
        scale, finite = axis.get_transform(), values[np.isfinite(values)]
        low, high = scale.transform([finite.min(), finite.max()])
        margin = 0.05 * (high - low) or 0.5
        limits.append(scale.inverted().transform([low - margin, high + margin]))
    panels[0].set(xlim=limits[0], ylim=limits[1])


def step_ticks(axes: Axes, count: int = 6) -> None:
    """Whole numbers at round places."""
    axes.xaxis.set_major_locator(MaxNLocator(count, steps=[1, 2, 5, 10], integer=True))
