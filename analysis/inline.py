"""Figures as SVG inside a page: ids of their own, a text for whoever cannot see them, and no more bytes than needed."""

import io
import re

import numpy as np
from markupsafe import Markup, escape
from matplotlib.figure import Figure

from analysis.style import style

SCALE = 1.35  # figures are made for paper; a screen is farther away
WIDTH, HEIGHT, POINTS = 180, 48, 60  # of a run's small curve
_NUMBERS = re.compile(r'\b(d|x|y|x1|x2|y1|y2|width|height|points|transform|viewBox)="([^"]*)"')
_LONG = re.compile(r"(\d\.\d\d)\d+")
_ID = re.compile(r'\bid="([^"]*)"')


def inline(figure: Figure, name: str, text: str) -> Markup:
    """A figure as an `<svg>` element whose alternative is `text`; ids begin with `name`, as a page has many figures."""
    buffer = io.StringIO()
    with style():
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None, "Type": None, "Format": None})
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<!--.*?-->|<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = _NUMBERS.sub(lambda found: f'{found[1]}="{_LONG.sub(lambda n: n[1], found[2])}"', svg)
    svg = re.sub(r'<svg [^>]*?(viewBox="[^"]*")[^>]*>', rf"<svg \1 {_size(figure)}>", svg, count=1)
    svg = _only_used_ids(svg, name)
    svg = re.sub(r">\s+<", "><", re.sub(r"[ \n]+", " ", svg))
    return Markup(svg.replace("<svg", f'<svg role="img" aria-label="{escape(text)}"', 1))


def _size(figure: Figure) -> str:
    return (
        f'style="width:{SCALE * figure.get_figwidth():.2f}in;min-width:{figure.get_figwidth():.2f}in" '
        'xmlns:xlink="http://www.w3.org/1999/xlink"'
    )


def _only_used_ids(svg: str, name: str) -> str:
    used = set(re.findall(r'(?:url\(#|href="#)([^")]+)', svg))
    svg = _ID.sub(lambda found: f'id="{name}-{found[1]}"' if found[1] in used else "", svg)
    return re.sub(r'(url\(#|href="#)', rf"\g<1>{name}-", svg)


def spark(steps: np.ndarray, values: np.ndarray, name: str) -> Markup:
    """A small curve of one run, with its first, last, lowest and highest value; empty if there is no value."""
    known = np.isfinite(values)
    steps, values = steps[known], values[known]
    if not values.size:
        return Markup("no value")
    low, high = float(values.min()), float(values.max())
    places = np.unique(np.linspace(0, values.size - 1, min(values.size, POINTS)).round().astype(int))
    x = (WIDTH * (steps[places] - steps[0]) / max(steps[-1] - steps[0], 1)).round().astype(int)
    y = (HEIGHT - HEIGHT * (values[places] - low) / ((high - low) or 1)).round(1)
    points = " ".join(f"{a},{b:g}" for a, b in zip(x, y, strict=True))
    text = f"{name}: {values[0]:.3g} at step {steps[0]}, {values[-1]:.3g} at step {steps[-1]}, {low:.3g} to {high:.3g}"
    return Markup(
        f'<svg role="img" aria-label="{escape(text)}" width="{WIDTH}" height="{HEIGHT + 4}" '
        f'viewBox="0 -2 {WIDTH} {HEIGHT + 4}"><polyline fill="none" stroke="#0072B2" points="{points}"/></svg>'
        f"<br>{values[-1]:.3g} ({low:.3g} to {high:.3g})"
    )
