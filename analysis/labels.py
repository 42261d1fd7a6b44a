"""Where text goes so that it can be read: wrapping of long names, and labels pushed apart."""

import re
from collections.abc import Iterable, Sequence
from textwrap import wrap as wrap_words

import numpy as np

Array = np.ndarray
_CUTS = re.compile(r"[=_-]|\.(?=\D)")  # not inside a number


def wrap(label: str, width: int, lines: int = 3) -> str:
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


def wrap_all(labels: Iterable[str], width: int, lines: int = 3) -> dict[str, str]:
    """Each label wrapped; of those that would be cut to the same text, the parts that they share are left out first."""
    wrapped = {label: wrap(label, width, lines) for label in labels}
    for text in {text for text in wrapped.values() if text.endswith("…")}:
        same = [label for label in wrapped if wrapped[label] == text]
        if len(same) > 1:
            wrapped |= {label: wrap(short, width, lines) for label, short in zip(same, _apart(same), strict=True)}
    return wrapped


def _apart(labels: Sequence[str]) -> list[str]:
    parts = [label.split(",") for label in labels]
    shared = set.intersection(*map(set, parts))
    return ["…" + ",".join(part for part in own if part not in shared) for own in parts]


def paragraph(text: str, width: int) -> str:
    """Running text in lines of at most `width` characters."""
    return "\n".join(wrap_words(text, width))


def spread(wanted: Sequence[float], heights: Sequence[float]) -> Array:
    """Centres of labels `[n]` that do not overlap, in the order of `wanted` and nearest to it in least squares.

    With offsets o (the stacked heights up to each label) "no overlap" reads: centre - o does not decrease. So this is
    isotonic regression of wanted - o. Source: pool adjacent violators, Ayer et al. 1955.
    """
    wanted, heights = np.asarray(wanted, dtype=float), np.asarray(heights, dtype=float)
    order = np.argsort(wanted, kind="stable")
    offsets = heights[order].cumsum() - heights[order] / 2
    centres = np.empty_like(wanted)
    centres[order] = _isotonic(wanted[order] - offsets) + offsets
    return centres


def _isotonic(values: Array) -> Array:
    """The nearest non-decreasing sequence: neighbouring blocks in the wrong order are replaced by their mean."""
    blocks: list[tuple[float, int]] = []
    for value in values:
        mean, count = float(value), 1
        while blocks and blocks[-1][0] > mean:
            before, more = blocks.pop()
            mean, count = (mean * count + before * more) / (count + more), count + more
        blocks.append((mean, count))
    return np.repeat([mean for mean, _ in blocks], [count for _, count in blocks])


def within(centres: Array, heights: Sequence[float], low: float, high: float) -> Array:
    """The centres after moving the whole outermost stack as little as needed to lie between low and high."""
    heights = np.asarray(heights, dtype=float)
    order = np.argsort(centres, kind="stable")
    offsets = heights[order].cumsum() - heights[order] / 2
    room = high - heights.sum()
    inside = np.empty_like(centres)
    inside[order] = np.clip(centres[order] - offsets, low, max(room, low)) + offsets
    return inside
