"""The one theme of all figures, and their layout: text and panels are placed in inches, so that nothing overlaps.

Fonts are in points, the colors those of Okabe and Ito.
"""

import re
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np
import seaborn
from cycler import cycler
from matplotlib import rc_context, rc_params_from_file
from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text
from matplotlib.ticker import MaxNLocator
from scipy.optimize import isotonic_regression

from rlexp.analysis.data.read import unlinked
from rlexp.analysis.stats.comparison import MIN_SEEDS, Comparison

BASELINE = "#4D4D4D"
COLORS = ("#0072B2", "#E69F00", "#D55E00", "#009E73", "#CC79A7", "#56B4E9")  # Okabe-Ito
COLORS += ("#882255", "#999933", "#332288", "#44AA99", "#A6761D", "#AA4499", "#117733")  # Tol's muted, and brown
COLORS += ("#E7298A", "#6699CC", "#661100", "#66A61E", "#7570B3", "#DDAA33")
INK = "#262626"  # text, axes, and lines that belong to no single variant
DASHES = ("-", "--", "-.", ":", (0, (7, 2)), (0, (5, 1, 1, 1, 1, 1)), (0, (1, 3)))  # tell such lines apart
OTHERS = "#D9D9D9"  # every other variant, where one panel shows one variant
MAX_LINES = 7  # beyond this many variants: small multiples, not more lines in one panel

Colors = Mapping[str, str]  # of each variant

WIDTH = 3.9  # readable on a telephone, and three beside each other on a screen
FONT, TICK, NOTE = 8.5, 7.5, 7.2
BAND = 0.15
DARK_PAGE = 0.06  # luminance of a dark page, plus 0.05

THEME = seaborn.axes_style("ticks") | seaborn.plotting_context("paper")
THEME |= rc_params_from_file(Path(__file__).with_name("theme.mplstyle"), use_default_template=False)
THEME |= dict.fromkeys(("font.size", "axes.labelsize", "axes.titlesize"), FONT)
THEME |= {"xtick.labelsize": TICK, "ytick.labelsize": TICK, "axes.prop_cycle": cycler(color=COLORS)}


@contextmanager
def theme() -> Iterator[None]:
    """Set the theme for drawing and for saving; unlike `seaborn.set_theme` leave the process's own settings alone."""
    with rc_context(THEME), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)  # SVG and the page hold it as text
        yield


def variant_colors(variants: Sequence[str], baseline: str) -> dict[str, str]:
    """Return one color per variant, gray for the baseline; they repeat after nineteen others."""
    others = [variant for variant in variants if variant != baseline]
    return {baseline: BASELINE} | {variant: COLORS[i % len(COLORS)] for i, variant in enumerate(others)}


def dark(color: str) -> str:
    """Return the color for small text on white."""
    return to_hex([0.8 * channel for channel in to_rgb(color)])


def lighter(color: str, contrast: float) -> str:
    """Mix white into the color until it stands out from a nearly black page (contrast as WCAG defines it)."""
    channels = np.array(to_rgb(color))
    for white in np.linspace(0, 1, 21):
        mixed = channels + white * (1 - channels)
        linear = np.where(mixed <= 0.04045, mixed / 12.92, ((mixed + 0.055) / 1.055) ** 2.4)
        if (linear @ (0.2126, 0.7152, 0.0722) + 0.05) / DARK_PAGE >= contrast:
            break
    return to_hex(mixed)


def text_size(figure: Figure, text: str, size: float, **look: str) -> tuple[float, float]:
    """Return width and height of a text in inches."""
    artist = figure.text(0, 0, text, fontsize=size, **look)
    box = artist.get_window_extent()
    artist.remove()
    return box.width / figure.dpi, box.height / figure.dpi


def set_margins(figure: Figure, left: float, right: float, bottom: float, top: float) -> None:
    """Set the margins around the axes in inches."""
    width, height = figure.get_size_inches()
    figure.subplots_adjust(left / width, bottom / height, 1 - right / width, 1 - top / height)


def light_grid(axes: Axes) -> None:
    """Draw thin lines across x only, behind the data."""
    axes.grid(axis="x", color="#EBEBEB", linewidth=0.6)
    axes.set_axisbelow(True)


def save_figure(figure: Figure, stem: Path) -> list[Path]:
    """Save as SVG, PDF and PNG, without the date, so that nothing changes when the data do not."""
    undated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}
    paths = {stem.with_name(f"{stem.name}.{ending}"): metadata for ending, metadata in undated.items()}
    with theme():
        for path, metadata in paths.items():
            figure.savefig(unlinked(path), metadata=metadata)
    return list(paths)


GAP = 0.12  # inches between a text and what it belongs to
LINE = 1.3 * FONT / 72  # inches per line of text
CAPTION_GAP = 0.6  # inches from the axes to the caption: tick labels and the axis label
CAPTION_DENSITY = 17.5  # characters per inch
CAPTION, TITLE = "caption", "title"  # ids of their texts, by which a page finds them
LEFT = 0.66  # inches left of the axes: tick labels and the axis label
HANDLE = 0.36  # inches of a line in a legend, and of the gap to its name
PANEL = 0.85  # inches of height of a small panel
LABEL_WIDTH = 18  # characters of a name beside a line
PANEL_WIDTH = 15  # characters of a name above a small panel
MAX_PANELS = 24  # of one figure; of more variants only those farthest from the baseline get one
_CUTS = re.compile(r"[=_-]|\.(?=\D)")  # not inside a number

Point = tuple[float, float]
LineStyle = Mapping[str, Any]  # color, dash pattern, marker: what Line2D takes


def wrap_label(label: str, width: int, lines: int = 3) -> str:
    """Wrap a label at `width` characters, after `,` or `+` if possible, else after `=`, `_`, `.` or `-`; cut it by "…".

    One that has line breaks stays as it is.
    """
    if "\n" in label:
        return label
    wrapped = [""]
    for part in re.split(r"(?<=[,+])", label):
        pieces = []
        while len(part) > width:
            cut = max((m.end() for m in _CUTS.finditer(part, width // 2, width)), default=width)
            pieces.append(part[:cut])
            part = part[cut:]
        for piece in [*pieces, part]:
            if len(wrapped[-1]) + len(piece) <= width:
                wrapped[-1] += piece
            else:
                wrapped.append(piece)
    if len(wrapped) > lines:
        wrapped = [*wrapped[: lines - 1], wrapped[lines - 1][: width - 1] + "…"]
    return "\n".join(wrapped)


def wrap_labels(labels: Iterable[str], width: int, lines: int = 3) -> dict[str, str]:
    """Wrap each label; leave out first what those share that would be cut to the same text."""
    wrapped = {label: wrap_label(label, width, lines) for label in labels}
    for text in {text for text in wrapped.values() if text.endswith("…")}:
        same = [label for label in wrapped if wrapped[label] == text]
        shared = set.intersection(*(set(label.split(",")) for label in same))
        for label in same if len(same) > 1 else ():
            short = "…" + ",".join(part for part in label.split(",") if part not in shared)
            wrapped[label] = wrap_label(short, width, lines)
    return wrapped


def variant_names(
    comparison: Comparison, variants: Iterable[str], width: int = LABEL_WIDTH, lines: int = 3
) -> dict[str, str]:
    """Wrap the labels of variants, each unlike that of any other variant of the comparison."""
    wrapped = wrap_labels(comparison.labels.values(), width, lines)
    return {variant: wrapped[comparison.labels[variant]] for variant in variants}


def most_different(comparison: Comparison, variants: Iterable[str]) -> tuple[list[str], str]:
    """Choose the variants that get a panel, in the table's order without the baseline, and a note on the choice."""
    others = [variant for variant in variants if variant != comparison.baseline]
    if len(others) <= MAX_PANELS:
        return others, ""
    size = comparison.table.loc[others, "difference"].abs().fillna(-1.0)
    chosen = set(size.sort_values(ascending=False, kind="stable").index[:MAX_PANELS])
    shown = [variant for variant in others if variant in chosen]
    return shown, f" Shown: the {MAX_PANELS} of {len(others)} variants that differ most from the baseline."


def seed_count(counts) -> str:
    """Format the smallest and largest count: `n = 10`, or `n = 8 to 10`."""
    low, high = int(min(counts)), int(max(counts))
    return f"n = {low}" if low == high else f"n = {low} to {high}"


def few_seeds_note(counts) -> str:
    """Return what a caption adds if there are too few seeds for any interval, else nothing."""
    return f" No interval is drawn: fewer than {MIN_SEEDS} seeds." if max(counts) < MIN_SEEDS else ""


def add_text(figure: Figure, text: str, x: float, y: float, size: float, va: str, **look) -> Text:
    """Write text at a place in inches from the lower left, or (negative) from the upper edge."""
    width, height = figure.get_size_inches()
    return figure.text(x / width, (y if y >= 0 else height + y) / height, text, fontsize=size, va=va, **look)


def write_caption(figure: Figure, caption: str) -> None:
    add_text(figure, caption, GAP, GAP, size=NOTE, color="#666666", va="bottom", gid=CAPTION)


def caption_of(figure: Figure) -> str:
    """Return the caption of a figure in one line; empty if it has none."""
    return next((text.get_text().replace("\n", " ") for text in figure.texts if text.get_gid() == CAPTION), "")


def fit_caption(caption: str, width: float) -> tuple[str, float]:
    """Wrap a caption for a figure `width` inches wide; return also the inches that it and the axis label need."""
    text = fill(caption, int(width * CAPTION_DENSITY))
    return text, CAPTION_GAP + (text.count("\n") + 1) * LINE


def set_frame(
    figure: Figure,
    size: Point,
    left: float,
    right: float,
    top: float,
    caption: str,
    title: str = "",
    label_lines: int = 1,
) -> None:
    """Put axes of a size in inches, their height without what is below them, into margins with caption and title."""
    text, bottom = fit_caption(caption, size[0])
    bottom += (label_lines - 1) * LINE
    figure.set_size_inches(size[0], size[1] + bottom + top)
    set_margins(figure, left, right, bottom, top)
    if title:
        add_text(figure, title, GAP, -GAP, size=FONT, weight="bold", va="top", gid=TITLE)
    write_caption(figure, text)


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
    sizes = [text_size(figure, names[key], TICK) for key in points]
    heights = [up + 0.04 for _, up in sizes]
    right = max(across for across, _ in sizes) + 3 * GAP
    ticks_and_label = axes.yaxis.get_tightbbox()
    left = max(LEFT, (axes.bbox.x0 - ticks_and_label.x0) / figure.dpi + GAP / 2)
    width = max(WIDTH, left + right + 1.9)
    set_frame(figure, (width, max(height, sum(heights))), left, right, 0.2, caption)

    # Each name at the height of its point, pushed apart where they are close, with a thin leader.
    height = figure.get_figheight()
    axes.set(xlim=axes.get_xlim(), ylim=axes.get_ylim())  # what is placed below refers to these limits
    places = [axes.transData.transform(point) / figure.dpi for point in points.values()]
    box = axes.get_position()
    centers = spread_labels([y for _, y in places], heights, box.y0 * height, box.y1 * height)
    edge = box.x1 * width
    for key, (x, y), center in zip(points, places, centers, strict=True):
        leader = Axes.plot(axes, [x / width, (edge + 1.5 * GAP) / width], [y / height, center / height])[0]
        leader.set(transform=figure.transFigure, color=colors[key], linewidth=0.5, clip_on=False, alpha=0.7)
        add_text(figure, names[key], edge + 2 * GAP, center, size=TICK, va="center", color=dark(colors[key]))
    return figure


def spread_labels(wanted: Sequence[float], heights: Sequence[float], low: float, high: float) -> np.ndarray:
    """Return centers of labels `[n]` that do not overlap, in the order of `wanted` and nearest to it in least squares.

    With offsets o (the stacked heights up to each label) "no overlap" reads: center - o does not decrease. So this is
    isotonic regression of wanted - o. The outermost stacks are then moved as little as needed to lie in [low, high].
    """
    wanted, heights = np.asarray(wanted, dtype=float), np.asarray(heights, dtype=float)
    order = np.argsort(wanted, kind="stable")
    offsets = heights[order].cumsum() - heights[order] / 2
    apart = isotonic_regression(wanted[order] - offsets).x
    centers = np.empty_like(wanted)
    centers[order] = np.clip(apart, low, max(high - heights.sum(), low)) + offsets
    return centers


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
    height = bottom + 1.8 + top
    figure.set_size_inches(width, height)
    panels = figure.subplots(1, 2, sharey=True)
    set_margins(figure, LEFT, 2 * GAP, bottom, top)
    figure.subplots_adjust(wspace=0.08)
    for place, (axes, title) in enumerate(zip(panels, titles, strict=True)):
        draw(axes, place)
        axes.set_xlabel(labels[0])
        add_text(figure, title, axes.get_position().x0 * width, 0.5 * LINE - top, size=FONT, weight="bold", va="center")
    panels[0].set_ylabel(wrap_label(labels[1], 40, 2))
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
    heading: str = "",
) -> Figure:
    """Draw one small panel per name, by its key, all with the same axes, below a heading that says what lines mean.

    Not with seaborn: for 24 panels of two lines `seaborn.objects` takes five times as long, and `relplot` opens its
    figure in pyplot, which picks a window system for the whole process.
    """
    columns = min(3, max(len(names), 2))
    rows = -(-len(names) // columns)
    title = (max(name.count("\n") for name in names.values()) + 1) * LINE
    caption, bottom = fit_caption(caption, WIDTH)
    top = 0.1 + title + (heading.count("\n") + 1) * LINE * bool(heading)
    height = bottom + top + rows * PANEL + (rows - 1) * (title + 0.15)
    figure = Figure(figsize=(WIDTH, height))
    panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).ravel()
    for axes in panels:
        axes.set_autoscale_on(False)  # each line would make all panels look for new limits
    for (key, name), axes in zip(names.items(), panels, strict=False):
        draw(axes, key)
        axes.set_title(name, fontsize=TICK, pad=3)

    # The limits of what all panels show, with a margin of a twentieth.
    corners = np.concatenate([axes.dataLim.get_points() for axes in panels[: len(names)]])
    limits = []
    for axis, values in zip((panels[0].xaxis, panels[0].yaxis), corners.T, strict=True):
        scale, finite = axis.get_transform(), values[np.isfinite(values)]
        low, high = scale.transform([finite.min(), finite.max()])
        margin = 0.05 * (high - low) or 0.5
        limits.append(scale.inverted().transform([low - margin, high + margin]))
    panels[0].set(xlim=limits[0], ylim=limits[1])

    for axes in panels[len(names) :]:
        axes.remove()
    for axes in panels[max(len(names) - columns, 0) : len(names)]:
        axes.tick_params(labelbottom=True)  # also above an empty place
    set_margins(figure, LEFT, GAP, bottom, top)
    figure.subplots_adjust(wspace=0.08, hspace=(title + 0.15) / PANEL)
    figure.supxlabel(labels[0], fontsize=FONT, y=(bottom - 0.42) / height)
    figure.supylabel(labels[1], fontsize=FONT, x=GAP / WIDTH, y=(bottom + height - top) / 2 / height)
    write_caption(figure, caption)
    if heading:
        add_text(figure, heading, GAP, -GAP / 2, size=TICK, va="top")
    return figure


def few_or_many(
    comparison: Comparison,
    variants: Collection[str],
    colors: Colors,
    labels: tuple[str, str],
    caption: str,
    draw_all: Callable[[Axes], Mapping[str, Point]],
    draw_one: Callable[[Axes, str], None],
    background: str,
    height: float = 2.3,
) -> Figure:
    """Draw up to MAX_LINES variants in one panel, more in a small panel each before what `background` describes."""
    with theme():
        if len(variants) <= MAX_LINES:
            return one_panel(draw_all, variant_names(comparison, variants), colors, labels, caption, height)
        shown, note = most_different(comparison, variants)
        names = variant_names(comparison, shown, PANEL_WIDTH, 2)
        return small_multiples(draw_one, names, labels, caption + background + note)


def step_ticks(axes: Axes, count: int = 6) -> None:
    """Put the ticks of x at whole, round numbers."""
    axes.xaxis.set_major_locator(MaxNLocator(count, steps=[1, 2, 5, 10], integer=True))
