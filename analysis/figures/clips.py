"""The weight that each policy loss of a sweep gives to a token's gradient, by the probability ratio.

Every such loss turns A · ∇log π of a token into weight · A · ∇log π, with a weight that depends on the ratio ρ and the
sign of A. So choices can be compared whose losses cannot: −A log π has no value at a ratio alone, its weight is 1. The
weights are not computed here: each run writes those of its own loss.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rlexp.analysis.data.kept import Gradient
from rlexp.analysis.figures.inputs import Drawing, FigureInputs, NoData
from rlexp.analysis.figures.layout import PANEL_WIDTH, LineStyle, small_multiples, two_panels, wrap_labels
from rlexp.analysis.figures.style import BASELINE, DASHES, INK, MAX_LINES, Colors, theme

AXIS_LABELS = "ratio ρ", "weight of the gradient"
TICKS = (-5, -2, -1, -0.5, 0, 0.5, 1, 2, 5)


class WeightLine(NamedTuple):
    """The weights of one line where A > 0 and where A < 0, at some ratios, each `[ratios]`."""

    ratios: np.ndarray
    weights: tuple[np.ndarray, np.ndarray]


def draw_clips(inputs: FigureInputs) -> Drawing:
    """Draw a line for each different policy loss; the caption names those that their runs do not describe."""
    users: dict[str, list[str]] = {}
    for variant, config in inputs.configs.items():
        if label := loss_label(config):
            users.setdefault(label, []).append(variant)
    gradients = {
        label: next((each for each in map(inputs.gradients.get, variants) if each), None)
        for label, variants in users.items()
    }
    lines = weight_lines(gradients)
    if not lines:
        raise NoData("no run holds the weights of its policy loss's gradient")
    notes = dict.fromkeys(gradient.note for gradient in gradients.values() if gradient and gradient.note)
    missing = dict.fromkeys(label.partition(",")[0] for label, gradient in gradients.items() if gradient is None)
    caption = " ".join([
        "What a token's A · ∇log π is multiplied by, at the probability ratio ρ of the token (of a completion of one "
        "token, where the choice has one ratio a completion): 0 is no gradient. Left: A > 0; right: A < 0. Dotted: no "
        "clip. Computed from the loss itself: there is no interval, n does not apply.",
        *notes,
        *([f"Not drawn, as its runs hold no weights: {', '.join(missing)}."] if missing else []),
    ])  # fmt: skip
    colors = {
        label: inputs.colors[variants[0]]
        for label, variants in users.items()
        if label in lines and len(gradients[label].lines) == len(variants) == 1 and variants[0] in inputs.colors
    }
    return Drawing(caption, "weights of " + "; ".join(lines), clips_figure(lines, caption, colors))


def loss_label(config: Mapping[str, Any]) -> str:
    """Return a flat configuration's policy loss, as `ppo,low=0.2,high=0.28`; empty if it has none."""
    values = {key.removeprefix("clip."): value for key, value in config.items() if key.startswith("clip.")}
    name = values.pop("name", None)
    values = {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}
    texts = [f"{key}={value:g}" if type(value) in (int, float) else f"{key}={value}" for key, value in values.items()]
    return ",".join([str(name), *texts]) if name else ""


def weight_lines(gradients: Mapping[str, Gradient | None]) -> dict[str, WeightLine]:
    """Return the lines of all losses, by label; a loss may have several."""
    return {
        ", ".join(filter(None, [label, name])): WeightLine(gradient.ratios, weights)
        for label, gradient in gradients.items()
        if gradient
        for name, weights in gradient.lines.items()
    }


def clips_figure(lines: Mapping[str, WeightLine], caption: str, colors: Colors) -> Figure:
    """Draw the weights over the ratio, for a positive and a negative advantage; a panel for each choice if many.

    colors: of lines that belong to one variant; the others are black.
    """
    largest = max(line.ratios.max() for line in lines.values())
    ratios = np.geomspace(min(line.ratios.min() for line in lines.values()), largest, 100)
    # All weights are seen, up to twice the largest ratio: a steep line does not flatten the others.
    weights = np.concatenate([weights for line in lines.values() for weights in line.weights])
    weights = weights[np.isfinite(weights)].clip(-2 * largest, 2 * largest)
    low, high = min(0.0, weights.min()), max(largest, weights.max())
    root_and_square = (lambda y: np.sign(y) * np.sqrt(np.abs(y)), lambda y: np.sign(y) * np.square(y))
    ticks = [tick for tick in TICKS if low <= tick <= high]

    def prepare(axes: Axes) -> None:
        """Set scales on which 0 and 6 can be told from their neighbors, and draw the line of no clip."""
        axes.plot(ratios, ratios, ":", color=BASELINE, linewidth=0.8, zorder=1)
        axes.set_xscale("log")
        axes.set_yscale("function", functions=root_and_square)
        axes.set_xticks([0.5, 1, 2, 5], ["0.5", "1", "2", "5"])
        axes.set_yticks(ticks, [f"{tick:g}".replace("-", "−") for tick in ticks])
        axes.minorticks_off()
        axes.set_ylim(low, high)

    def draw_choice(axes: Axes, name: str) -> None:
        prepare(axes)
        for weights, dash in zip(lines[name].weights, ("-", "--"), strict=True):
            axes.plot(lines[name].ratios, weights, dash, color=colors.get(name, INK))

    def draw_sign(axes: Axes, place: int) -> None:
        prepare(axes)
        for name, line in lines.items():
            axes.plot(line.ratios, line.weights[place], **styles[name])

    with theme():
        if len(lines) > MAX_LINES:
            caption = caption.replace("Left: A > 0; right: A < 0", "Solid: A > 0; dashed: A < 0")
            names, heading = wrap_labels(lines, PANEL_WIDTH, 2), "solid: A > 0   dashed: A < 0"
            figure = small_multiples(draw_choice, names, AXIS_LABELS, caption, heading)
            figure.axes[0].set_ylim(low, high)  # of all
            return figure
        styles: dict[str, LineStyle] = {}
        for order, (name, dash) in enumerate(zip(lines, DASHES, strict=False)):  # the later the thinner: many coincide
            own = {"color": colors.get(name, INK), "linestyle": "-" if name in colors else dash}
            styles[name] = own | {"linewidth": 2.4 - 1.4 * order / len(lines)}
        return two_panels(draw_sign, ("A > 0", "A < 0"), wrap_labels(lines, 52, 1), styles, AXIS_LABELS, caption)
