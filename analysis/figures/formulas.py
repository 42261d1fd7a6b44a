"""Figures of formulas: what a clip, a length penalty, a vote or a normalisation does, whatever a policy makes of it.

`python -m rlexp.analysis.figures.formulas <folder>` draws the five of the documents that this project started from,
with their numbers. The advantages and the penalties of a sweep are drawn in the same way.

A sweep's policy losses are drawn by the weight that each gives to a token's gradient, by the probability ratio.
Every such loss turns A · ∇log π of a token into weight · A · ∇log π, with a weight that depends on the ratio ρ and the
sign of A. So choices can be compared whose losses cannot: −A log π has no value at a ratio alone, its weight is 1. The
weights are not computed here: each run writes those of its own loss.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from itertools import product
from math import comb
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.stats import binom

from rlexp.analysis.data.kept import Gradient, advantages
from rlexp.analysis.figures.inputs import Drawing, FigureInputs, NoData, require_spread
from rlexp.analysis.figures.layout import (
    BASELINE,
    COLORS,
    DASHES,
    GAP,
    INK,
    LABEL_WIDTH,
    LINE,
    MAX_LINES,
    NOTE,
    OTHERS,
    PANEL_WIDTH,
    TICK,
    WIDTH,
    Colors,
    LineStyle,
    Point,
    one_panel,
    save_figure,
    set_frame,
    small_multiples,
    theme,
    two_panels,
    wrap_labels,
)

Array = np.ndarray
POWERS = {"overlong": 1, "overlong_quadratic": 2}  # of the linear penalty
VOTES = (1, 3, 5, 7, 9, 11, 15, 21)
ROW = 0.45  # inches of height of a histogram


def binary_majority(accuracy: float, votes: int) -> float:
    """Return P(more than half of the votes are right), ties count one half."""
    right = binom(votes, accuracy)
    tie = right.pmf(votes // 2) / 2 if votes % 2 == 0 else 0.0
    return float(right.sf(votes // 2) + tie)


def plurality(accuracy: float, votes: int) -> float:
    """Return P(the right one of three answers has the most votes), ties broken fairly, wrong ones equally likely."""
    wrong, total = (1 - accuracy) / 2, 0.0
    for right, other in product(range(votes + 1), repeat=2):
        third = votes - right - other
        if third < 0 or right < max(other, third):
            continue
        ways = comb(votes, right) * comb(votes - right, other)
        tied = 1 + (other == right) + (third == right)
        total += ways * accuracy**right * wrong ** (other + third) / tied
    return total


def clipped(ratio: Array, advantage: float, low: float, high: float) -> Array:
    """Return min(ρA, clip(ρ, 1 − low, 1 + high)·A): PPO's objective for one token."""
    return np.minimum(ratio * advantage, ratio.clip(1 - low, 1 + high) * advantage)


def overlong(lengths: Array, cap: float, cache: float, factor: float = 1.0, power: int = 1) -> Array:
    """Return 0 up to cap − cache, −factor from cap on, linear (or the square of that) in between."""
    return -factor * ((lengths - cap + cache) / cache).clip(0, 1) ** power


def normalized(rewards: Array) -> Array:
    """Return (r − mean) / SD with n − 1, over the last axis; 0 where all rewards are equal."""
    centered = rewards - rewards.mean(-1, keepdims=True)
    sd = rewards.std(-1, ddof=1, keepdims=True)
    return np.divide(centered, sd, out=np.zeros_like(centered), where=sd > 0)


def voting_figure() -> Figure:
    """Draw the accuracy of a vote by the number of votes."""
    lines = {"three answers, 0.7": [plurality(0.7, votes) for votes in VOTES]}
    lines["two answers, 0.7"] = [binary_majority(0.7, votes) for votes in VOTES]
    caption = (
        "Exact probability that a vote is right when each vote is right with the probability named, independently: the "
        "most votes among three answers (wrong ones equally likely, ties broken fairly), or a majority of two. Thin: "
        "one vote. No interval: nothing is sampled, n does not apply."
    )
    figure = _lines_figure(lines, VOTES, ("votes", "probability that the vote is right"), caption)
    figure.axes[0].set_xticks(VOTES)
    figure.axes[0].axhline(0.7, color=BASELINE, linestyle="--", linewidth=0.8, zorder=1)
    return figure


def clip_figure(bounds: Sequence[tuple[float, float]] = ((0.2, 0.2), (0.2, 0.28))) -> Figure:
    """Draw PPO's objective for one token over the probability ratio, for a positive and a negative advantage."""
    ratios = np.linspace(0.3, 2, 200)
    caption = (
        "min(ρA, clip(ρ)A), the objective of one token: where a line is flat, the token's gradient is 0. Left: A = +1; "
        "right: A = −1. Dotted: no clip. A formula: there is no interval, n does not apply."
    )
    names = {bound: f"1 − {bound[0]:g}, 1 + {bound[1]:g}" for bound in bounds}
    styles = {bound: {"color": INK, "linestyle": DASHES[place % len(DASHES)]} for place, bound in enumerate(names)}

    def draw(axes: Axes, place: int) -> None:
        advantage = (1.0, -1.0)[place]
        axes.plot(ratios, advantage * ratios, ":", color=OTHERS, zorder=1)
        for bound, look in styles.items():
            axes.plot(ratios, clipped(ratios, advantage, *bound), **look)
        axes.margins(x=0.01)

    with theme():
        return two_panels(draw, ("A = +1", "A = −1"), names, styles, ("ratio ρ", "objective"), caption)


def draw_overlong(inputs: FigureInputs) -> Drawing:
    """Draw the length penalties of the variants' configurations."""
    chosen = [config for config in inputs.configs.values() if config.get("shaping.name") in POWERS]
    keys = ("shaping.cap", "shaping.cache", "shaping.factor")
    settings = sorted({(*(config[key] for key in keys), POWERS[config["shaping.name"]]) for config in chosen})
    if not settings:
        raise NoData("no variant has an overlong penalty")
    parts = [f"cap {cap:g}, cache {cache:g}, factor {factor:g}" for cap, cache, factor, _ in settings]
    return Drawing("What overlong shaping adds to the reward.", "; ".join(parts), overlong_figure(settings))


def overlong_figure(settings: Sequence[tuple[float, float, float, int]] = ((1000, 200, 1, 1),)) -> Figure:
    """Draw the penalty for length, with its zones for the first setting: free, soft, and the full penalty."""
    lengths = np.linspace(0, max(cap for cap, *_ in settings) * 1.3, 400)
    lines = {}
    for cap, cache, factor, power in settings:
        name = f"cap {cap:g}, cache {cache:g}" + f", × {factor:g}" * (factor != 1) + ", squared" * (power == 2)
        lines[name] = overlong(lengths, cap, cache, factor, power)
    caption = (
        "What shaping adds to the reward of a completion of that length: nothing, a growing penalty over the last "
        "tokens before the cap (shaded for the first line), then all of it. A formula: there is no interval, n does "
        "not apply."
    )
    figure = _lines_figure(lines, lengths, ("tokens", "added to the reward"), caption)
    cap, cache, *_ = settings[0]
    figure.axes[0].axvspan(cap - cache, cap, color=OTHERS, alpha=0.5, linewidth=0, zorder=0)
    return figure


def _lines_figure(
    lines: Mapping[str, Sequence[float]], x: Sequence[float], labels: tuple[str, str], caption: str
) -> Figure:
    """Draw black lines, as a formula belongs to no variant."""

    def draw(axes: Axes) -> dict[str, Point]:
        marker = "o" if len(x) < 20 else None
        for place, y in enumerate(lines.values()):
            axes.plot(x, y, marker=marker, markersize=3.5, color=INK, linestyle=DASHES[place % len(DASHES)])
        axes.margins(x=0.02)
        return {name: (x[-1], y[-1]) for name, y in lines.items()}

    with theme():
        return one_panel(draw, wrap_labels(lines, LABEL_WIDTH), dict.fromkeys(lines, INK), labels, caption, height=2.0)


def groups_figure(groups: int = 500, size: int = 8) -> Figure:
    """Draw advantages of random groups whose rewards are −1, 0 or 1: divided by their deviation, and centered only."""
    rewards = np.random.default_rng(0).choice([-1.0, 0.0, 1.0], size=(groups, size))
    values = {
        "(r − mean) / SD": normalized(rewards).ravel(),
        "r − mean": (rewards - rewards.mean(-1, keepdims=True)).ravel(),
    }
    caption = (
        f"Advantages of {groups} random groups of {size} whose rewards are −1, 0 or 1 with equal probability (one "
        "fixed draw): histograms, each scaled to its row. No interval: the distribution itself is shown."
    )
    return histograms(values, dict(zip(values, COLORS, strict=False)), caption, "advantage")


def kl_figure(completions: int = 5000, tokens: int = 15, vocabulary: int = 100) -> Figure:
    """Draw the estimates k1 and k3 of one KL from the tokens of a completion, over many completions."""
    random = np.random.default_rng(0)
    logits = random.normal(size=(2, vocabulary))
    logits[1] = logits[0] + 0.3 * logits[1]
    policy, reference = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    drawn = random.choice(vocabulary, size=(completions, tokens), p=np.exp(policy))
    ratios = (policy - reference)[drawn]
    k1, k3 = ratios.mean(-1), (np.expm1(-ratios) + ratios).mean(-1)
    values = {"k1 = log π − log π_ref": k1, "k3 = exp(−k1) − 1 + k1": k3}
    exact = (np.exp(policy) * (policy - reference)).sum()
    caption = (
        f"Two estimates of KL(π‖π_ref) = {exact:.3f} nats a token, each the mean over the {tokens} tokens of a "
        f"completion, for {completions} completions (one fixed draw): histograms, each scaled to its row. The mean of "
        f"k1 is {k1.mean():.3f}, that of k3 {k3.mean():.3f}; {100 * (k1 < 0).mean():.0f} % of the k1 are below 0, "
        "which no KL can be."
    )
    return histograms(values, dict(zip(values, COLORS, strict=False)), caption, "estimate (nats a token)")


def draw_advantages(inputs: FigureInputs) -> Drawing:
    """Draw the advantages in the sample completions of completed runs."""
    labels, found = inputs.comparison.labels, advantages(inputs.data, inputs.samples)
    variants = [variant for variant in inputs.comparison.table.index if variant in found]
    if not variants:
        raise NoData("no completed run has sample completions")
    values = {labels[variant]: found[variant] for variant in variants}
    require_spread(np.concatenate(list(values.values())), "every advantage")
    caption = (
        "Advantages of the sample completions of all completed runs, before training, half-way and at the end: "
        "histograms, each scaled to its row, with their SD, and largest size. No interval: "
        "the distribution itself is shown."
    )
    parts = [f"{label}: SD {numbers.std():.3g}, largest {abs(numbers).max():.3g}" for label, numbers in values.items()]
    colors = {labels[variant]: inputs.colors[variant] for variant in variants}
    return Drawing(caption, "; ".join(parts), histograms(values, colors, caption, "advantage"))


def histograms(values: Mapping[str, Array], colors: Colors, caption: str, label: str) -> Figure:
    """Draw one small histogram per name above a common axis, each as high as its row, below the name and the spread."""
    with theme():
        figure = Figure()
        axes = figure.add_subplot()
        set_frame(figure, (WIDTH, len(values) * ROW), 2 * GAP, GAP, 0.1, caption)
        reach = max(abs(numbers).max() for numbers in values.values()) or 1.0
        edges, top = np.linspace(-reach, reach, 42), 1 - 1.2 * LINE / ROW  # of a histogram in its row
        look = {"transform": axes.get_yaxis_transform(), "va": "center"}
        wrapped = wrap_labels(values, 30, 1)
        for place, (name, numbers) in enumerate(values.items()):
            base = len(values) - 1 - place
            counts, _ = np.histogram(numbers, edges)
            axes.stairs(base + top * counts / counts.max(), edges, baseline=base, fill=True, color=colors[name])
            note, y = f"SD {numbers.std():.2f}, largest {abs(numbers).max():.2f}", base + 1 - 0.5 * LINE / ROW
            axes.text(0, y, wrapped[name], fontsize=TICK, weight="bold", color=INK, **look)
            axes.text(1, y, note, fontsize=NOTE, ha="right", **look)
        for base in range(len(values)):
            axes.plot([0, 0], [base, base + top], "--", color=BASELINE, linewidth=0.6, zorder=2.9)
        axes.set(xlim=(-1.05 * reach, 1.05 * reach), yticks=[], ylim=(0, len(values)), xlabel=label)
        axes.spines["left"].set_visible(False)
    return figure


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


FIGURES = {
    "voting": voting_figure,
    "clip": clip_figure,
    "overlong": overlong_figure,
    "advantages": groups_figure,
    "kl": kl_figure,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Save the five figures as SVG, PDF and PNG in a folder."""
    program = "python -m rlexp.analysis.figures.formulas"
    parser = argparse.ArgumentParser(prog=program, description=__doc__.split("\n")[0])
    parser.add_argument("folder", help="where the figures are written")
    folder = Path(parser.parse_args(arguments).folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, draw in FIGURES.items():
            print(*save_figure(draw(), folder / name), sep="\n")
    except OSError as error:
        print(f"error: cannot write to '{folder}': {error.strerror or error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
