"""The weight that each policy loss of a sweep gives to a token's gradient, by the probability ratio.

Every such loss turns A · ∇log π of a token into weight · A · ∇log π, with a weight that depends on the ratio ρ and the
sign of A. So choices can be compared whose losses cannot: −A log π has no value at a ratio alone, its weight is 1. The
weights are not computed here: each run writes those of its own loss.
"""

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rlexp.analysis.data.kept import Gradient
from rlexp.analysis.figures.inputs import Drawing, FigureInputs, NoData
from rlexp.analysis.figures.labels import PANEL_WIDTH, wrap_labels
from rlexp.analysis.figures.layout import GAP, LINE, LineStyle, add_text, small_multiples, two_panels
from rlexp.analysis.figures.style import BASELINE, DASHES, INK, MAX_LINES, TICK, Colors, theme

AXIS_LABELS = "ratio ρ", "weight of the gradient"
TICKS = (-5, -2, -1, -0.5, 0, 0.5, 1, 2, 5)
Choice = tuple[str, tuple[tuple[str, Any], ...]]  # the name of a policy loss and its hyperparameters


class WeightLine(NamedTuple):
    """The weights of one line where A > 0 and where A < 0, at some ratios, each `[ratios]`."""

    ratios: np.ndarray
    weights: tuple[np.ndarray, np.ndarray]


def draw_clips(inputs: FigureInputs) -> Drawing:
    """Draw a line for each different policy loss; the caption names those that their runs do not describe."""
    gradients = choices(inputs.configs, inputs.gradients)
    lines = weight_lines(gradients)
    if not lines:
        raise NoData("no run holds the weights of its policy loss's gradient")
    caption = clips_caption(gradients)
    colors = choice_colors(inputs.configs, inputs.colors, gradients)
    return Drawing(caption, "weights of " + "; ".join(lines), clips_figure(lines, caption, colors))


def choices(
    configs: Mapping[str, Mapping[str, Any]], gradients: Mapping[str, Gradient]
) -> dict[Choice, Gradient | None]:
    """Return the different policy losses of flat configurations, in order of appearance, with their gradients."""
    chosen: dict[Choice, Gradient | None] = {}
    for variant, config in configs.items():
        if choice := _choice(config):
            chosen[choice] = chosen.get(choice) or gradients.get(variant)
    return chosen


def _choice(config: Mapping[str, Any]) -> Choice | None:
    hyperparameters = {
        key.removeprefix("clip."): tuple(value) if isinstance(value, list) else value
        for key, value in config.items()
        if key.startswith("clip.")
    }
    name = hyperparameters.pop("name", None)
    return (str(name), tuple(hyperparameters.items())) if name else None


def choice_colors(
    configs: Mapping[str, Mapping[str, Any]], colors: Colors, gradients: Mapping[Choice, Gradient | None]
) -> dict[str, str]:
    """Return by label of a line the color of its variant, where no other variant and no other line has the choice."""
    users: dict[Choice | None, list[str]] = {}
    for variant, config in configs.items():
        users.setdefault(_choice(config), []).append(variant)
    return {
        _label(choice): colors[users[choice][0]]
        for choice, gradient in gradients.items()
        if gradient and len(gradient.lines) == 1 and len(users[choice]) == 1 and users[choice][0] in colors
    }


def weight_lines(gradients: Mapping[Choice, Gradient | None]) -> dict[str, WeightLine]:
    """Return the lines of all choices, by label."""
    return {
        ", ".join(filter(None, [_label(choice), name])): WeightLine(gradient.ratios, weights)
        for choice, gradient in gradients.items()
        if gradient
        for name, weights in gradient.lines.items()
    }


def _label(choice: Choice) -> str:
    name, hyperparameters = choice
    texts = [
        f"{hyperparameter}={value:g}" if type(value) in (int, float) else f"{hyperparameter}={value}"
        for hyperparameter, value in hyperparameters
    ]
    return ",".join([name, *texts])


def clips_caption(gradients: Mapping[Choice, Gradient | None]) -> str:
    """Describe the lines of `clips_figure`, and name the choices without any."""
    notes = dict.fromkeys(gradient.note for gradient in gradients.values() if gradient and gradient.note)
    missing = dict.fromkeys(name for (name, _), gradient in gradients.items() if gradient is None)
    return " ".join([
        "What a token's A · ∇log π is multiplied by, at the probability ratio ρ of the token (of a completion of one "
        "token, where the choice has one ratio a completion): 0 is no gradient. Left: A > 0; right: A < 0. Dotted: no "
        "clip. Computed from the loss itself: there is no interval, n does not apply.",
        *notes,
        *([f"Not drawn, as its runs hold no weights: {', '.join(missing)}."] if missing else []),
    ])  # fmt: skip


def clips_figure(lines: Mapping[str, WeightLine], caption: str, colors: Colors) -> Figure:
    """Draw the weights over the ratio, for a positive and a negative advantage; a panel for each choice if many.

    colors: of lines that belong to one variant; the others are black.
    """
    with theme():
        return (_panel_per_sign if len(lines) <= MAX_LINES else _panel_per_choice)(lines, caption, colors)


def _panel_per_sign(lines: Mapping[str, WeightLine], caption: str, colors: Colors) -> Figure:
    styles: dict[str, LineStyle] = {}
    for order, (name, dash) in enumerate(zip(lines, DASHES, strict=False)):  # the later the thinner, as many coincide
        own = {"color": colors.get(name, INK), "linestyle": "-" if name in colors else dash}
        styles[name] = own | {"linewidth": 2.4 - 1.4 * order / len(lines)}

    def draw(axes: Axes, place: int) -> None:
        _prepare(axes, lines.values())
        for name, line in lines.items():
            axes.plot(line.ratios, line.weights[place], **styles[name])

    return two_panels(draw, ("A > 0", "A < 0"), wrap_labels(lines, 52, 1), styles, AXIS_LABELS, caption)


def _panel_per_choice(lines: Mapping[str, WeightLine], caption: str, colors: Colors) -> Figure:
    def draw(axes: Axes, name: str) -> None:
        _prepare(axes, lines.values())
        for weights, dash in zip(lines[name].weights, ("-", "--"), strict=True):
            axes.plot(lines[name].ratios, weights, dash, color=colors.get(name, INK))

    caption = caption.replace("Left: A > 0; right: A < 0", "Solid: A > 0; dashed: A < 0")
    figure = small_multiples(draw, wrap_labels(lines, PANEL_WIDTH, 2), AXIS_LABELS, caption, heading=LINE)
    figure.axes[0].set_ylim(*_weight_limits(lines.values()))  # of all
    add_text(figure, "solid: A > 0   dashed: A < 0", GAP, -GAP / 2, size=TICK, va="top")
    return figure


def _weight_limits(lines: Collection[WeightLine]) -> tuple[float, float]:
    """Return the range of all weights, at most twice the largest ratio: a steep line does not flatten the others."""
    ratio = max(line.ratios.max() for line in lines)
    weights = np.concatenate([weights for line in lines for weights in line.weights])
    weights = weights[np.isfinite(weights)].clip(-2 * ratio, 2 * ratio)
    return min(0.0, weights.min()), max(ratio, weights.max())


def _prepare(axes: Axes, lines: Collection[WeightLine]) -> None:
    """Set scales on which 0 and 6 can be told from their neighbors, and draw the line of no clip."""
    low, high = _weight_limits(lines)
    ratios = np.geomspace(min(line.ratios.min() for line in lines), max(line.ratios.max() for line in lines), 100)
    axes.plot(ratios, ratios, ":", color=BASELINE, linewidth=0.8, zorder=1)
    axes.set_xscale("log")
    root_and_square = (lambda y: np.sign(y) * np.sqrt(np.abs(y)), lambda y: np.sign(y) * np.square(y))
    axes.set_yscale("function", functions=root_and_square)
    axes.set_xticks([0.5, 1, 2, 5], ["0.5", "1", "2", "5"])
    ticks = [tick for tick in TICKS if low <= tick <= high]
    axes.set_yticks(ticks, [f"{tick:g}".replace("-", "−") for tick in ticks])
    axes.minorticks_off()
    axes.set_ylim(low, high)
