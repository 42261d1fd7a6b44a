"""How figures look: sizes in inches, fonts in points, the Okabe-Ito colours, and the formats they are saved in."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure

BASELINE = "#4D4D4D"
COLOURS = ("#0072B2", "#E69F00", "#D55E00", "#009E73", "#CC79A7", "#56B4E9")
OTHERS = "#D9D9D9"  # every other variant, where one panel shows one variant
MAX_COLOURS = 1 + len(COLOURS)  # beyond this many variants: small multiples, not more colours

WIDTH, FULL_WIDTH = 5.5, 10.2
FONT, TICK, NOTE = 8.0, 7.0, 6.5
BAND = 0.15
FORMATS = ("svg", "pdf", "png")

SETTINGS = {
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
def style() -> Iterator[None]:
    """These settings, for drawing and for saving; the process's own are left alone."""
    with rc_context(SETTINGS):
        yield


def variant_colours(variants: Sequence[str], baseline: str) -> dict[str, str]:
    """One colour per variant in all figures: grey for the baseline; beyond MAX_COLOURS variants one for all others."""
    others = [variant for variant in variants if variant != baseline]
    many = len(others) > len(COLOURS)
    return {baseline: BASELINE} | {v: COLOURS[0] if many else COLOURS[i] for i, v in enumerate(others)}


def dark(colour: str) -> str:
    """The colour for small text on white."""
    return to_hex([0.8 * channel for channel in to_rgb(colour)])


def text_size(figure: Figure, text: str, size: float, **look: str) -> tuple[float, float]:
    """Width and height of a text in inches."""
    artist = figure.text(0, 0, text, fontsize=size, **look)
    box = artist.get_window_extent()
    artist.remove()
    return box.width / figure.dpi, box.height / figure.dpi


def set_margins(figure: Figure, left: float, right: float, bottom: float, top: float) -> None:
    """Margins around the axes in inches."""
    width, height = figure.get_size_inches()
    figure.subplots_adjust(left / width, bottom / height, 1 - right / width, 1 - top / height)


def light_grid(axes: Axes) -> None:
    """Thin lines across x only, behind the data."""
    axes.grid(axis="x", color="#EBEBEB", linewidth=0.6)
    axes.set_axisbelow(True)


def save(figure: Figure, stem: Path) -> list[Path]:
    """The figure as SVG, PDF and PNG, without the date, so that nothing changes when the data do not."""
    paths = [stem.with_name(f"{stem.name}.{ending}") for ending in FORMATS]
    undated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {}}
    with style():
        for path, ending in zip(paths, FORMATS, strict=True):
            figure.savefig(path, metadata=undated[ending])
    return paths
