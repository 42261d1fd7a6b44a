"""What every figure must hold: no text on another, none cut, none on the data."""

from itertools import combinations

from matplotlib.figure import Figure
from matplotlib.text import Text


def check(figure: Figure) -> None:
    """Draw the figure and look at where its texts are."""
    found = [(text, text.get_window_extent()) for text in texts(figure)]
    width, height = figure.bbox.width, figure.bbox.height
    cut = [text for text, box in found if box.x0 < 0 or box.y0 < 0 or box.x1 > width or box.y1 > height]
    assert cut == []
    covered = [(a[0], b[0]) for a, b in combinations(found, 2) if a[1].padded(-0.5).overlaps(b[1].padded(-0.5))]
    assert covered == []
    panels = [axes.get_window_extent().padded(-1) for axes in figure.axes]
    outside = [(text, box) for text, box in found if text.axes is None]
    assert [text for text, box in outside for panel in panels if panel.overlaps(box)] == []


def texts(figure: Figure) -> list[Text]:
    """All texts that are drawn; ticks outside the limits belong to a figure but are not."""
    figure.draw_without_rendering()
    ticks = [tick for axes in figure.axes for axis in (axes.xaxis, axes.yaxis) for tick in axis.majorTicks]
    drawn = {id(t) for axes in figure.axes for axis in (axes.xaxis, axes.yaxis) for t in _inside(axis)}
    hidden = {id(label) for tick in ticks if id(tick) not in drawn for label in (tick.label1, tick.label2)}
    return [t for t in figure.findobj(Text) if t.get_visible() and t.get_text().strip() and id(t) not in hidden]


def _inside(axis) -> list:
    low, high = sorted(axis.get_view_interval())
    return [tick for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
