"""The weight that a policy loss gives a token's gradient, as each run computed it (summary.json, `gradient`)."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rlexp.analysis.data.load import SweepData
from rlexp.analysis.data.read import read_object
from rlexp.runfolder.files import SUMMARY_FILE


class Gradient(NamedTuple):
    """Weights of A · ∇log π at ratios of the new to the old probability of a token; arrays `[ratios]`."""

    ratios: np.ndarray
    lines: dict[str, tuple[np.ndarray, np.ndarray]]
    """The weights where A > 0 and where A < 0, by name of a line; the name is empty if there is only one."""
    note: str
    """For the reader; may be empty."""


def variant_gradients(data: SweepData) -> dict[str, Gradient]:
    """The gradient of each variant's first run that holds one; older runs, and some losses, hold none."""
    gradients: dict[str, Gradient] = {}
    for folder, variant in zip(data.runs["folder"], data.runs["variant"], strict=True):
        if variant not in gradients:
            gradient = parse_gradient(read_object(Path(folder) / SUMMARY_FILE)[0].get("gradient"))
            if gradient is not None:
                gradients[variant] = gradient
    return gradients


def parse_gradient(value: Any) -> Gradient | None:
    """`{"ratios": […], "lines": {"": {"positive": […], "negative": […]}}, "note": ""}`; None for any other form."""
    try:
        ratios = _numbers(value["ratios"])
        lines = {str(name): (_numbers(line["positive"]), _numbers(line["negative"]))
                 for name, line in value["lines"].items()}  # fmt: skip
        note = str(value.get("note") or "")
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
        return None
    weights = [numbers for both in lines.values() for numbers in both]
    whole = all(numbers.shape == ratios.shape and np.isfinite(numbers).any() for numbers in weights)
    usable = ratios.ndim == 1 and ratios.size > 1 and np.isfinite(ratios).all() and (ratios > 0).all()
    return Gradient(ratios, lines, note) if lines and whole and usable else None


def _numbers(values: Any) -> np.ndarray:
    """An array in which null is NaN."""
    return np.array(values, dtype=float)
