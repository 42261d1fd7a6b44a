"""Text on figures: wrapped names, labels pushed apart, the variants that get a panel, notes on seeds."""

import re
from collections.abc import Iterable, Sequence

import numpy as np
from scipy.optimize import isotonic_regression

from rlexp.analysis.stats.comparison import MIN_SEEDS, Comparison

Array = np.ndarray
LABEL_WIDTH = 18  # characters of a name beside a line
PANEL_WIDTH = 15  # characters of a name above a small panel
MAX_PANELS = 24  # of one figure; of more variants only those farthest from the baseline get one
_CUTS = re.compile(r"[=_-]|\.(?=\D)")  # not inside a number


def wrap_label(label: str, width: int, lines: int = 3) -> str:
    """Wrap a label at `width` characters, after commas if possible, else after `=`, `_`, `.` or `-`; cut it by "…"."""
    wrapped = [""]
    for part in re.split(r"(?<=,)", label):
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


def spread_labels(wanted: Sequence[float], heights: Sequence[float], low: float, high: float) -> Array:
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


def line_names(
    comparison: Comparison, variants: Iterable[str], width: int = LABEL_WIDTH, lines: int = 3
) -> dict[str, str]:
    """Wrap the labels of variants for beside a line, each unlike that of any other variant of the comparison."""
    wrapped = wrap_labels(comparison.labels.values(), width, lines)
    return {variant: wrapped[comparison.labels[variant]] for variant in variants}


def panel_names(comparison: Comparison, variants: Iterable[str]) -> dict[str, str]:
    """Wrap the labels of variants for above a small panel."""
    return line_names(comparison, variants, PANEL_WIDTH, 2)


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
