"""What each policy loss of a sweep makes of a token: the weight of its gradient, by the probability ratio.

Every such loss turns A · ∇log π of a token into weight · A · ∇log π, with a weight that depends on the ratio ρ and the
sign of A. So choices can be compared whose losses cannot: −A log π has no value at a ratio alone, its weight is 1. The
weights are not computed here: each run writes those of its own loss.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.data.kept.gradients import Gradient
from analysis.figures.inputs import Drawing, FigureInputs, NoData
from analysis.figures.labels import PANEL_WIDTH, wrap_labels
from analysis.figures.layout import GAP, LINE, Look, add_text, small_panels, two_panels
from analysis.figures.style import BASELINE, DASHES, INK, MAX_LINES, TICK, Colours, theme

AXIS_LABELS = "ratio ρ", "weight of the gradient"
TICKS = (-5, -2, -1, -0.5, 0, 0.5, 1, 2, 5)
Choice = tuple[str, tuple[tuple[str, Any], ...]]  # the name of a policy loss and its knobs


class WeightLine(NamedTuple):
    """The weights of one line where A > 0 and where A < 0, at some ratios, each `[ratios]`."""

    ratios: np.ndarray
    weights: tuple[np.ndarray, np.ndarray]


def draw_clips(inputs: FigureInputs) -> Drawing:
    """A line for each different policy loss; one that its runs do not describe is named in the caption."""
    gradients = choices(inputs.configs, inputs.gradients)
    lines = weight_lines(gradients)
    if not lines:
        raise NoData("no run holds the weights of its policy loss's gradient")
    caption = clips_caption(gradients)
    colours = choice_colours(inputs.configs, inputs.colours, gradients)
    return Drawing(caption, "weights of " + "; ".join(lines), clips_figure(lines, caption, colours))


def choices(
    configs: Mapping[str, Mapping[str, Any]], gradients: Mapping[str, Gradient]
) -> dict[Choice, Gradient | None]:
    """The different policy losses of flat configurations, in order of appearance, with their gradients."""
    chosen: dict[Choice, Gradient | None] = {}
    for variant, config in configs.items():
        if choice := _choice(config):
            chosen[choice] = chosen.get(choice) or gradients.get(variant)
    return chosen


def _choice(config: Mapping[str, Any]) -> Choice | None:
    knobs = {key.removeprefix("clip."): value for key, value in config.items() if key.startswith("clip.")}
    name = knobs.pop("name", None)
    return (str(name), tuple((knob, _hashable(value)) for knob, value in knobs.items())) if name else None


def choice_colours(
    configs: Mapping[str, Mapping[str, Any]], colours: Colours, gradients: Mapping[Choice, Gradient | None]
) -> dict[str, str]:
    """The colour of the variant, by label of a line, where a single variant has the choice, which has a single line."""
    users: dict[Choice | None, list[str]] = {}
    for variant, config in configs.items():
        users.setdefault(_choice(config), []).append(variant)
    return {
        _label(choice): colours[users[choice][0]]
        for choice, gradient in gradients.items()
        if gradient and len(gradient.lines) == 1 and len(users[choice]) == 1 and users[choice][0] in colours
    }


def _hashable(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def weight_lines(gradients: Mapping[Choice, Gradient | None]) -> dict[str, WeightLine]:
    """The lines of all choices, by label."""
    return {
        ", ".join(filter(None, [_label(choice), name])): WeightLine(gradient.ratios, weights)
        for choice, gradient in gradients.items()
        if gradient
        for name, weights in gradient.lines.items()
    }


def _label(choice: Choice) -> str:
    name, knobs = choice
    return ",".join([name, *(f"{knob}={_as_text(value)}" for knob, value in knobs)])


def _as_text(value: Any) -> str:
    return f"{value:g}" if isinstance(value, int | float) and not isinstance(value, bool) else str(value)


def clips_caption(gradients: Mapping[Choice, Gradient | None]) -> str:
    """What the lines of `clips_figure` mean."""
    notes = dict.fromkeys(gradient.note for gradient in gradients.values() if gradient and gradient.note)
    missing = dict.fromkeys(name for (name, _), gradient in gradients.items() if gradient is None)
    return " ".join([
        "What a token's A · ∇log π is multiplied by, at the probability ratio ρ of the token (of a completion of one "
        "token, where the choice has one ratio a completion): 0 is no gradient. Left: A > 0; right: A < 0. Dotted: no "
        "clip. Computed from the loss itself: there is no interval, n does not apply.",
        *notes,
        *([f"Not drawn, as its runs hold no weights: {', '.join(missing)}."] if missing else []),
    ])  # fmt: skip


def clips_figure(lines: Mapping[str, WeightLine], caption: str, colours: Colours) -> Figure:
    """The weights of all choices over the ratio, for a positive and a negative advantage; a panel for each if many.

    colours: of lines that belong to one variant; the others are black.
    """
    with theme():
        return (_panel_per_sign if len(lines) <= MAX_LINES else _panel_per_choice)(lines, caption, colours)


def _panel_per_sign(lines: Mapping[str, WeightLine], caption: str, colours: Colours) -> Figure:
    limits = _limits(lines.values())
    looks: dict[str, Look] = {}
    for order, (name, dash) in enumerate(zip(lines, DASHES, strict=False)):  # the later the thinner, as many coincide
        own = {"color": colours.get(name, INK), "linestyle": "-" if name in colours else dash}
        looks[name] = own | {"linewidth": 2.4 - 1.4 * order / len(lines)}

    def draw(axes: Axes, place: int) -> None:
        _prepare(axes, limits)
        for name, line in lines.items():
            axes.plot(line.ratios, line.weights[place], **looks[name])

    return two_panels(draw, ("A > 0", "A < 0"), wrap_labels(lines, 52, 1), looks, AXIS_LABELS, caption)


def _panel_per_choice(lines: Mapping[str, WeightLine], caption: str, colours: Colours) -> Figure:
    values, names = list(lines.values()), list(wrap_labels(lines, PANEL_WIDTH, 2).values())
    own = [colours.get(name, INK) for name in lines]
    limits = _limits(values)

    def draw(axes: Axes, place: int) -> None:
        _prepare(axes, limits)
        for weights, dash in zip(values[place].weights, ("-", "--"), strict=True):
            axes.plot(values[place].ratios, weights, dash, color=own[place])

    caption = caption.replace("Left: A > 0; right: A < 0", "Solid: A > 0; dashed: A < 0")
    figure = small_panels(names, draw, AXIS_LABELS, caption, heading=LINE)
    figure.axes[0].set_ylim(limits.low, limits.high)  # of all
    add_text(figure, "solid: A > 0   dashed: A < 0", GAP, -GAP / 2, size=TICK, va="top")
    return figure


class Limits(NamedTuple):
    """What the axes show: ratios up to `ratio`, weights from `low` to `high`."""

    first_ratio: float
    ratio: float
    low: float
    high: float


def _limits(lines: Iterable[WeightLine]) -> Limits:
    """All weights, but none beyond twice the largest ratio, so that one steep line does not flatten the others."""
    lines = list(lines)
    first, ratio = min(line.ratios.min() for line in lines), max(line.ratios.max() for line in lines)
    weights = np.concatenate([weights for line in lines for weights in line.weights])
    weights = weights[np.isfinite(weights)].clip(-2 * ratio, 2 * ratio)
    return Limits(first, ratio, min(0.0, weights.min()), max(ratio, weights.max()))


def _signed_root(values: np.ndarray) -> np.ndarray:
    return np.sign(values) * np.sqrt(np.abs(values))


def _signed_square(values: np.ndarray) -> np.ndarray:
    return np.sign(values) * np.square(values)


def _prepare(axes: Axes, limits: Limits) -> None:
    """Scales on which 0 and 6 can be told from their neighbours, and the line of no clip."""
    ratios = np.geomspace(limits.first_ratio, limits.ratio, 100)
    axes.plot(ratios, ratios, ":", color=BASELINE, linewidth=0.8, zorder=1)
    axes.set_xscale("log")
    axes.set_yscale("function", functions=(_signed_root, _signed_square))
    axes.set_xticks([0.5, 1, 2, 5], ["0.5", "1", "2", "5"])
    ticks = [tick for tick in TICKS if limits.low <= tick <= limits.high]
    axes.set_yticks(ticks, [f"{tick:g}".replace("-", "−") for tick in ticks])
    axes.minorticks_off()
    axes.set_ylim(limits.low, limits.high)
