"""What figures are drawn from, and what becomes of each: a figure with its caption, or a reason why there is none."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from matplotlib.figure import Figure

from analysis.data.kept.gradients import Gradient
from analysis.data.kept.samples import Records
from analysis.data.load import SweepData
from analysis.figures.style import Colours
from analysis.stats.comparison import Comparison


class FigureInputs(NamedTuple):
    """What figures are drawn from."""

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
    """What the policy loss of each variant makes of a token's gradient, where its runs say so."""
    colours: Colours
    """Of each variant, the same in all figures."""


class Drawing(NamedTuple):
    """A figure, what it says it shows, and its numbers in words for whoever cannot see it."""

    caption: str
    alt_text: str
    figure: Figure


class RenderedFigure(NamedTuple):
    """A drawing with its place in the gallery."""

    name: str
    title: str
    caption: str
    alt_text: str
    figure: Figure


class OmittedFigure(NamedTuple):
    """A figure that is left out, and why."""

    title: str
    reason: str


class NoData(Exception):
    """Why a figure is left out."""
