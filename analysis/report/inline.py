"""Figures as SVG inside a page: ids of their own, colors and captions of the page, and no more bytes than needed."""

import io
import re

import numpy as np
from markupsafe import Markup, escape
from matplotlib.figure import Figure
from matplotlib.text import Text

from rlexp.analysis.figures.layout import CAPTION, TITLE
from rlexp.analysis.figures.style import BASELINE, COLORS, INK, OTHERS, WIDTH, dark, lighter, theme

CURVE_WIDTH, CURVE_HEIGHT, POINTS = 150, 40, 60  # of a run's small curve
NEUTRAL = {INK: "ink", BASELINE: "baseline", OTHERS: "others", "#EBEBEB": "grid", "#FFFFFF": "paper"}
MARKS = {color: f"mark{place}" for place, color in enumerate(COLORS)}
TEXTS = {dark(color): f"text{place}" for place, color in enumerate(COLORS)} | {dark(BASELINE): "muted"}
VARIABLES = {color.lower(): name for color, name in (NEUTRAL | MARKS | TEXTS).items()}
_NUMBERS = re.compile(r'\b(d|x|y|x1|x2|y1|y2|width|height|points|transform|viewBox)="([^"]*)"')
_LONG = re.compile(r"(\d\.\d\d)\d+")
_ID = re.compile(r'\bid="([^"]*)"')
_STYLE = re.compile(r'style="[^"]*"')
_COLOR = re.compile(r"\b((?:fill|stroke): )(#[0-9a-fA-F]{6})\b")


def inline_svg(figure: Figure, name: str, text: str) -> Markup:
    """Return a figure as an `<svg>` element whose alternative is `text`, with ids that begin with `name`.

    Without its title and its caption, which the page has as text.
    """
    buffer = io.StringIO()
    outside = figure.findobj(lambda artist: artist.get_gid() in (TITLE, CAPTION))
    with theme():
        for text_of_page in outside:
            text_of_page.set_visible(False)
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None, "Type": None, "Format": None})
        frame = _frame(figure)
        for text_of_page in outside:
            text_of_page.set_visible(True)
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<!--.*?-->|<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = _NUMBERS.sub(lambda match: f'{match[1]}="{_LONG.sub(lambda n: n[1], match[2])}"', svg)
    svg = re.sub(r"<svg [^>]*>", f"<svg {frame}>", svg, count=1)
    used = set(re.findall(r'(?:url\(#|href="#)([^")]+)', svg))
    svg = _ID.sub(lambda match: f'id="{name}-{match[1]}"' if match[1] in used else "", svg)
    svg = re.sub(r'(url\(#|href="#)', rf"\g<1>{name}-", svg)
    svg = _STYLE.sub(lambda match: _COLOR.sub(_variable, match[0]), svg)
    svg = re.sub(r">\s+<", "><", re.sub(r"[ \n]+", " ", svg))
    return Markup(svg.replace("<svg", f'<svg role="img" aria-label="{escape(text)}"', 1))


def _frame(figure: Figure) -> str:
    """Crop the height to what is visible; give a figure that is wider than most a width at which it can be read."""
    width, height = figure.get_size_inches()
    seen = figure.get_tightbbox()
    top, bottom = max(height - seen.y1 - 0.04, 0.0), min(height - seen.y0 + 0.04, height)
    wide = f'style="min-width:{width:.2f}in" ' if width > 1.1 * WIDTH else ""
    box = f"0 {72 * top:.2f} {72 * width:.2f} {72 * (bottom - top):.2f}"
    return f'viewBox="{box}" {wide}xmlns:xlink="http://www.w3.org/1999/xlink"'


def text_outside(figure: Figure, gid: str) -> str:
    """Return the title or the caption, which `inline_svg` leaves out, in one line; empty if the figure has none."""
    return next((text.get_text().replace("\n", " ") for text in figure.findobj(Text) if text.get_gid() == gid), "")


def _variable(match: re.Match) -> str:
    """Replace a color of the theme by the page's own, which differs where the reader's screen is dark."""
    name = VARIABLES.get(match[2].lower())
    return f"{match[1]}var(--{name})" if name else match[0]


def color_variables(is_dark: bool) -> str:
    """Return the colors of marks and of small text as variables of a style sheet."""
    if is_dark:
        pairs = [(lighter(color, 3.0), lighter(color, 4.5)) for color in COLORS]
    else:
        pairs = [(color, dark(color)) for color in COLORS]
    return "".join(f"--mark{i}:{mark};--text{i}:{text};" for i, (mark, text) in enumerate(pairs))


def color_of(color: str) -> Markup:
    """Return a variant's color as the page's own variable."""
    return Markup("var(--{})").format(VARIABLES[color.lower()])


def sparkline(steps: np.ndarray, values: np.ndarray, name: str, color: str) -> Markup:
    """Draw a small curve of one run, with its first, last, lowest and highest value; at least one must be finite."""
    finite = np.isfinite(values)
    steps, values = steps[finite], values[finite]
    low, high = float(values.min()), float(values.max())
    places = np.unique(np.linspace(0, values.size - 1, min(values.size, POINTS)).round().astype(int))
    x = (CURVE_WIDTH * (steps[places] - steps[0]) / max(steps[-1] - steps[0], 1)).round().astype(int)
    y = (CURVE_HEIGHT - CURVE_HEIGHT * (values[places] - low) / ((high - low) or 1)).round(1)
    points = " ".join(f"{a},{b:g}" for a, b in zip(x, y, strict=True))
    text = f"{name}: {values[0]:.3g} at step {steps[0]}, {values[-1]:.3g} at step {steps[-1]}, {low:.3g} to {high:.3g}"
    return Markup(
        f'<svg role="img" aria-label="{escape(text)}" width="{CURVE_WIDTH}" height="{CURVE_HEIGHT + 4}" '
        f'viewBox="0 -2 {CURVE_WIDTH} {CURVE_HEIGHT + 4}">'
        f'<polyline fill="none" style="stroke:{color_of(color)}" points="{points}"/></svg>'
        f"<br>{values[-1]:.3g} ({low:.3g} to {high:.3g})"
    )
