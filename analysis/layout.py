"""Placing text and panels on a figure in inches, so that nothing is cut and nothing lies on anything else."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from analysis.labels import paragraph, spread, within, wrap
from analysis.style import FONT, FULL_WIDTH, NOTE, TICK, WIDTH, dark, set_margins, text_size

GAP = 0.12  # inches between a text and what it belongs to
LINE = 1.3 * FONT / 72  # inches per line of text
CAPTION_GAP = 0.6  # inches from the axes to the caption: tick labels and the axis label
CAPTION_DENSITY = 19  # characters per inch
PANEL = 1.25  # inches of height of a small panel
CAPTION_COLOUR = "#666666"


def at(figure: Figure, text: str, x: float, y: float, size: float, va: str, **look) -> None:
    """Text at a place in inches from the lower left, or (negative) from the upper edge."""
    width, height = figure.get_size_inches()
    figure.text(x / width, (y if y >= 0 else height + y) / height, text, fontsize=size, va=va, **look)


def add_axes(figure: Figure, x: float, y: float, width: float, height: float) -> Axes:
    """Axes at a place in inches from the lower left."""
    across, up = figure.get_size_inches()
    return figure.add_axes((x / across, y / up, width / across, height / up))


def write_caption(figure: Figure, caption: str) -> None:
    """The caption at the lower left; it has been broken into lines."""
    at(figure, caption, GAP, GAP, size=NOTE, color=CAPTION_COLOUR, va="bottom")


def write_title(figure: Figure, title: str) -> None:
    """The title at the upper left."""
    at(figure, title, GAP, -GAP, size=FONT, weight="bold", va="top")


def captioned(caption: str, width: float) -> tuple[str, float]:
    """The caption in lines that fit a figure `width` inches wide, and the inches that it and the axis label need."""
    text = paragraph(caption, int(width * CAPTION_DENSITY))
    return text, CAPTION_GAP + (text.count("\n") + 1) * LINE


def top_of(axes: Axes) -> float:
    """Upper edge of the axes in inches."""
    return axes.get_position().y1 * axes.figure.get_figheight()


def right_of(axes: Axes) -> float:
    """Right edge of the axes in inches."""
    return axes.get_position().x1 * axes.figure.get_figwidth()


def room_for(figure: Figure, names: Sequence[str]) -> tuple[float, float]:
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
    centres = within(spread([y for _, y in places.values()], heights), heights, bottom, top_of(axes))
    edge = right_of(axes)
    width, height = figure.get_size_inches()
    for (key, (x, y)), centre in zip(places.items(), centres, strict=True):
        leader = Axes.plot(axes, [x / width, (edge + 1.5 * GAP) / width], [y / height, centre / height])[0]
        leader.set(transform=figure.transFigure, color=colours[key], linewidth=0.5, clip_on=False, alpha=0.7)
        at(figure, names[key], edge + 2 * GAP, centre, size=TICK, va="center", color=dark(colours[key]))


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
    axes.set(xlabel=labels[0], ylabel=wrap(labels[1], 40, 2))
    right, needed = room_for(figure, [names[key] for key in points])
    width = max(WIDTH, right + 3.6)
    caption, bottom = captioned(caption, width)
    figure.set_size_inches(width, 0.2 + max(height, needed) + bottom)
    set_margins(figure, 0.7, right, bottom, 0.2)
    write_caption(figure, caption)
    margin_labels(axes, points, names, colours)
    return figure


def two_panels(
    draw: Callable[[Axes, int], Mapping[str, Point]],
    titles: tuple[str, str],
    names: Mapping[str, str],
    colours: Mapping[str, str],
    labels: tuple[str, str],
    caption: str,
) -> Figure:
    """Two panels with one y axis; `draw` returns where names point to, those of the second are written beside it."""
    figure = Figure(figsize=(WIDTH, 3))
    right, needed = room_for(figure, list(names.values())) if any(names.values()) else (2 * GAP, 0)
    width = max(WIDTH, right + 5)
    caption, bottom = captioned(caption, width)
    figure.set_size_inches(width, bottom + max(2.0, needed) + 2 * LINE)
    panels = figure.subplots(1, 2, sharey=True)
    set_margins(figure, 0.7, right, bottom, 2 * LINE)
    figure.subplots_adjust(wspace=0.08)
    for place, (axes, title) in enumerate(zip(panels, titles, strict=True)):
        points = draw(axes, place)
        axes.set_xlabel(labels[0])
        at(figure, title, axes.get_position().x0 * width, -LINE, size=FONT, weight="bold", va="center")
    panels[0].set_ylabel(wrap(labels[1], 40, 2))
    write_caption(figure, caption)
    if any(names.values()):
        margin_labels(panels[1], points, names, colours)
    return figure


def small_panels(
    names: Sequence[str],
    draw: Callable[[Axes, int], None],
    labels: tuple[str, str],
    caption: str,
    heading: float = 0.0,
    columns: int = 4,
) -> Figure:
    """One small panel per name, all with the same axes; `heading` is room in inches above them."""
    columns = min(columns, max(len(names), 2))
    rows = -(-len(names) // columns)
    width = max(WIDTH, FULL_WIDTH * columns / 4)
    title = (max(name.count("\n") for name in names) + 1) * LINE
    caption, bottom = captioned(caption, width)
    top = 0.1 + title + heading
    height = bottom + top + rows * PANEL + (rows - 1) * (title + 0.15)
    figure = Figure(figsize=(width, height))
    panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel()
    _draw_panels(panels, names, draw, columns)
    set_margins(figure, 0.7, GAP + 0.1, bottom, top)
    figure.subplots_adjust(wspace=0.08, hspace=(title + 0.15) / PANEL)
    figure.supxlabel(labels[0], fontsize=FONT, y=(bottom - 0.42) / height)
    figure.supylabel(labels[1], fontsize=FONT, x=GAP / width)
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
        scale, known = axis.get_transform(), values[np.isfinite(values)]
        low, high = scale.transform([known.min(), known.max()])
        margin = 0.05 * (high - low) or 0.5
        limits.append(scale.inverted().transform([low - margin, high + margin]))
    panels[0].set(xlim=limits[0], ylim=limits[1])


def step_ticks(axes: Axes, count: int = 6) -> None:
    """Whole numbers at round places."""
    axes.xaxis.set_major_locator(MaxNLocator(count, steps=[1, 2, 5, 10], integer=True))
