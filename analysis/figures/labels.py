"""Text on figures: wrapped names, labels pushed apart, which variants get a panel, what captions say of seeds."""

import re
from collections.abc import Iterable, Sequence
from textwrap import wrap as wrap_words

import numpy as np
from scipy.optimize import isotonic_regression

from analysis.figures.inputs import NoData
from analysis.stats.columns import MIN_SEEDS
from analysis.stats.comparison import Comparison

Array = np.ndarray
LABEL_WIDTH = 18  # characters of a name beside a line
PANEL_WIDTH = 15  # characters of a name above a small panel
MAX_PANELS = 24  # of one figure; of more variants only those farthest from the baseline get one
_CUTS = re.compile(r"[=_-]|\.(?=\D)")  # not inside a number


def wrap_label(label: str, width: int, lines: int = 3) -> str:
    """The label in lines of at most `width` characters, broken after commas if it can; too long, it ends in "…"."""
    parts = [piece for part in re.split(r"(?<=,)", label) for piece in _pieces(part, width)]
    wrapped: list[str] = []
    for part in parts:
        if wrapped and len(wrapped[-1]) + len(part) <= width:
            wrapped[-1] += part
        else:
            wrapped.append(part)
    if len(wrapped) > lines:
        wrapped = [*wrapped[: lines - 1], wrapped[lines - 1][: width - 1] + "…"]
    return "\n".join(wrapped)


def _pieces(part: str, width: int) -> list[str]:
    """The part in pieces that fit, cut after `=`, `_`, `.` or `-` where possible."""
    pieces = []
    while len(part) > width:
        cut = max((m.end() for m in _CUTS.finditer(part, width // 2, width)), default=width)
        pieces.append(part[:cut])
        part = part[cut:]
    return [*pieces, part]


def wrap_labels(labels: Iterable[str], width: int, lines: int = 3) -> dict[str, str]:
    """Each label wrapped; of those that would be cut to the same text, the parts that they share are left out first."""
    wrapped = {label: wrap_label(label, width, lines) for label in labels}
    for text in {text for text in wrapped.values() if text.endswith("…")}:
        same = [label for label in wrapped if wrapped[label] == text]
        if len(same) > 1:
            wrapped |= {label: wrap_label(short, width, lines) for label, short in zip(same, _apart(same), strict=True)}
    return wrapped


def _apart(labels: Sequence[str]) -> list[str]:
    parts = [label.split(",") for label in labels]
    shared = set.intersection(*map(set, parts))
    return ["…" + ",".join(part for part in own if part not in shared) for own in parts]


def wrap_text(text: str, width: int) -> str:
    """Running text in lines of at most `width` characters."""
    return "\n".join(wrap_words(text, width))


def spread_labels(wanted: Sequence[float], heights: Sequence[float]) -> Array:
    """Centres of labels `[n]` that do not overlap, in the order of `wanted` and nearest to it in least squares.

    With offsets o (the stacked heights up to each label) "no overlap" reads: centre - o does not decrease. So this is
    isotonic regression of wanted - o.
    """
    wanted, heights = np.asarray(wanted, dtype=float), np.asarray(heights, dtype=float)
    order = np.argsort(wanted, kind="stable")
    offsets = heights[order].cumsum() - heights[order] / 2
    centres = np.empty_like(wanted)
    centres[order] = isotonic_regression(wanted[order] - offsets).x + offsets
    return centres


def shift_inside(centres: Array, heights: Sequence[float], low: float, high: float) -> Array:
    """The centres after moving the whole outermost stack as little as needed to lie between low and high."""
    heights = np.asarray(heights, dtype=float)
    order = np.argsort(centres, kind="stable")
    offsets = heights[order].cumsum() - heights[order] / 2
    room = high - heights.sum()
    inside = np.empty_like(centres)
    inside[order] = np.clip(centres[order] - offsets, low, max(room, low)) + offsets
    return inside


def short_names(comparison: Comparison, variants: Iterable[str], width: int, lines: int = 3) -> dict[str, str]:
    """The wrapped label of each variant, unlike that of any other variant of the comparison."""
    wrapped = wrap_labels(comparison.labels.values(), width, lines)
    return {variant: wrapped[comparison.labels[variant]] for variant in variants}


def most_different(comparison: Comparison, variants: Iterable[str]) -> tuple[list[str], str]:
    """Of variants beside the baseline, those to draw a panel each for, in the table's order, and what to say of it."""
    others = [variant for variant in variants if variant != comparison.baseline]
    if len(others) <= MAX_PANELS:
        return others, ""
    size = comparison.table.loc[others, "difference"].abs().fillna(-1.0)
    chosen = set(size.sort_values(ascending=False, kind="stable").index[:MAX_PANELS])
    shown = [variant for variant in others if variant in chosen]
    return shown, f" Shown: the {MAX_PANELS} of {len(others)} variants that differ most from the baseline."


def seed_count(counts) -> str:
    """`n = 10`, or `n = 8 to 10`."""
    counts = list(counts)
    low, high = int(min(counts)), int(max(counts))
    return f"n = {low}" if low == high else f"n = {low} to {high}"


def require_spread(values: Array, what: str, allow_one: bool = False) -> None:
    """NoData if all values that are numbers are the same: a figure of them would show a single line or point."""
    finite = values[np.isfinite(values)]
    if finite.size > allow_one and not varies(finite):
        raise NoData(f"{what} is {finite[0]:.4g}")


def require_finite(comparison: Comparison) -> None:
    """NoData if some run never reached what its number is the cost of."""
    if np.isinf(comparison.scores.to_numpy(dtype=float)).any():
        raise NoData(f"{comparison.metric} is infinite for some runs")


def varies(values: Array) -> bool:
    """Whether the values that are numbers differ by more than rounding."""
    finite = values[np.isfinite(values)]
    return bool(finite.size and np.ptp(finite) > 1e-12 * abs(finite).max())


def few_seeds_note(counts) -> str:
    """What a caption adds if there are too few seeds for any interval, and nothing otherwise."""
    return f" No interval is drawn: fewer than {MIN_SEEDS} seeds." if max(counts) < MIN_SEEDS else ""
