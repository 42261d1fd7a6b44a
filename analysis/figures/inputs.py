"""Inputs of figures, and their results: a figure with its caption, or the reason why it is left out."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from rlexp.analysis.data.kept import Gradient, Records
from rlexp.analysis.data.load import SweepData
from rlexp.analysis.figures.layout import Colors
from rlexp.analysis.stats.comparison import Comparison


class FigureInputs(NamedTuple):
    """Data that figures are drawn from."""

    data: SweepData
    """The runs that are compared."""
    comparison: Comparison
    all_data: SweepData
    """The runs of all tasks."""
    configs: Mapping[str, Mapping[str, Any]]
    """Flat configuration of each variant."""
    samples: Mapping[str, Records]
    """Sample completions of each run."""
    gradients: Mapping[str, Gradient]
    """Weights of the policy loss's gradient of each variant, where its runs hold them."""
    colors: Colors
    """Of each variant, the same in all figures."""
    interactions: pd.DataFrame | None = None
    """Of two axes, with q over all that is secondary."""


class Drawing(NamedTuple):
    """A figure, its caption, and its numbers in words."""

    caption: str
    alt_text: str
    figure: Figure


class RenderedFigure(NamedTuple):
    """A drawing with its place on the page."""

    name: str
    """Unlike that of any other figure of the page."""
    title: str
    caption: str
    alt_text: str
    figure: Figure
    kind: str
    """Its name in `gallery.FIGURES`."""
    section: str
    stratum: str


class OmittedFigure(NamedTuple):
    """A figure that is left out, and the reason."""

    title: str
    reason: str


class NoData(Exception):
    """Why a figure is left out."""


def require_spread(values: np.ndarray, what: str, allow_one: bool = False) -> None:
    """Raise NoData if all finite values are the same, up to rounding: a figure would show a single line or point."""
    finite = values[np.isfinite(values)]
    if finite.size > allow_one and np.ptp(finite) <= 1e-12 * abs(finite).max():
        raise NoData(f"{what} is {finite[0]:.4g}")


def require_different_scores(comparison: Comparison, allow_one: bool = False) -> None:
    """Raise NoData if all scores are the same, or some run never reached what its number is the cost of."""
    scores = comparison.scores.to_numpy(dtype=float)
    if np.isinf(scores).any():
        raise NoData(f"{comparison.metric} is infinite for some runs")
    require_spread(scores, f"{comparison.metric} of every run", allow_one)
