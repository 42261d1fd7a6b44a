"""The one theme of all figures: sizes in inches, fonts in points, the Okabe-Ito colors."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import seaborn
from cycler import cycler
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure

from rlexp.analysis.data.read import unlinked

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

THEME = {
    **seaborn.axes_style("ticks"),
    **seaborn.plotting_context("paper"),
    "axes.prop_cycle": cycler(color=COLORS),
    "patch.force_edgecolor": False,
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Arial", "Helvetica"],
    "font.size": FONT,
    "axes.labelsize": FONT,
    "axes.titlesize": FONT,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titley": 1.0,  # where it would be anyway; looking for it takes a fourth of the time of small panels
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "axes.unicode_minus": True,
    "xtick.labelsize": TICK,
    "ytick.labelsize": TICK,
    "xtick.direction": "out",
    "ytick.direction": "out",
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "lines.linewidth": 1.2,
    "savefig.dpi": 200,
    "svg.fonttype": "none",
    "svg.hashsalt": "analysis",  # the same data give the same file
    "pdf.fonttype": 42,
    "text.usetex": False,
    "text.parse_math": False,  # "$" in a variant's name is a dollar
}


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
