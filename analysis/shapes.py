"""Figures of formulas: what a clip, a length penalty, a vote or a normalisation does, whatever a policy makes of it.

`python -m analysis.shapes <folder>` draws the four of the documents that this project started from, with their numbers.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from itertools import product
from math import comb
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.labels import wrap_all
from analysis.layout import GAP, LINE, Point, at, captioned, one_panel, two_panels, write_caption
from analysis.style import BASELINE, COLOURS, OTHERS, WIDTH, save, set_margins, style, text_size

Array = np.ndarray
PALETTE = (BASELINE, *COLOURS)
VOTES = (1, 3, 5, 7, 9, 11, 15, 21)


def binary_majority(accuracy: float, votes: int) -> float:
    """P(more than half of the votes are right), ties count one half: Σ_k C(m, k) aᵏ(1 − a)^(m − k)."""
    shares = [comb(votes, k) * accuracy**k * (1 - accuracy) ** (votes - k) for k in range(votes + 1)]
    return sum(p * (1.0 if 2 * k > votes else 0.5 if 2 * k == votes else 0.0) for k, p in enumerate(shares))


def plurality(accuracy: float, votes: int) -> float:
    """P(the right one of three answers has the most votes), ties broken fairly; errors fall on the others alike."""
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
    """min(ρA, clip(ρ, 1 − low, 1 + high)·A): PPO's objective for one token."""
    return np.minimum(ratio * advantage, ratio.clip(1 - low, 1 + high) * advantage)


def overlong(lengths: Array, cap: float, cache: float, factor: float = 1.0, power: int = 1) -> Array:
    """0 up to cap − cache, −factor from cap on, linear (or the square of that) in between."""
    return -factor * ((lengths - cap + cache) / cache).clip(0, 1) ** power


def normalised(rewards: Array) -> Array:
    """(r − mean) / SD with n − 1, over the last axis; 0 where all rewards are equal."""
    centred = rewards - rewards.mean(-1, keepdims=True)
    sd = rewards.std(-1, ddof=1, keepdims=True)
    return np.divide(centred, sd, out=np.zeros_like(centred), where=sd > 0)


def voting_figure(accuracies: Sequence[float] = (0.7,)) -> Figure:
    """Accuracy of a judge that votes, by number of votes."""
    lines = {}
    for accuracy in accuracies:
        lines[f"three answers, {accuracy:g}"] = [plurality(accuracy, m) for m in VOTES]
        lines[f"two answers, {accuracy:g}"] = [binary_majority(accuracy, m) for m in VOTES]
    caption = (
        "Exact probability that a vote is right when each vote is right with the probability named, independently: the "
        "most votes among three answers (wrong ones equally likely, ties broken fairly), or a majority of two. No "
        "interval: nothing is sampled, n does not apply."
    )
    figure = _figure(lines, VOTES, ("votes", "probability that the vote is right"), caption)
    figure.axes[0].set_xticks(VOTES)
    return figure


def clip_figure(bounds: Sequence[tuple[float, float]] = ((0.2, 0.2), (0.2, 0.28))) -> Figure:
    """PPO's objective for one token over the probability ratio, for a positive and a negative advantage."""
    ratios = np.linspace(0.3, 2, 200)
    caption = (
        "min(ρA, clip(ρ)A), the objective of one token: where a line is flat, the token's gradient is 0. Left: A = +1; "
        "right: A = −1. Dotted: no clip. A formula: there is no interval, n does not apply."
    )
    names = {bound: f"1 − {bound[0]:g}, 1 + {bound[1]:g}" for bound in bounds}
    colours = dict(zip(names, PALETTE * (1 + len(bounds) // len(PALETTE)), strict=False))

    def draw(axes: Axes, place: int) -> dict[tuple[float, float], Point]:
        advantage = (1.0, -1.0)[place]
        axes.plot(ratios, advantage * ratios, ":", color=OTHERS, zorder=1)
        lines = {bound: clipped(ratios, advantage, *bound) for bound in bounds}
        for bound, line in lines.items():
            axes.plot(ratios, line, color=colours[bound])
        axes.margins(x=0.01)
        return {bound: (ratios[-1], line[-1]) for bound, line in lines.items()}

    with style():
        return two_panels(draw, ("A = +1", "A = −1"), names, colours, ("ratio ρ", "objective"), caption)


def overlong_figure(settings: Sequence[tuple[float, float, float, int]] = ((1000, 200, 1, 1),)) -> Figure:
    """The penalty for length, with its zones for the first setting: free, soft, and the full penalty."""
    reach = max(cap for cap, *_ in settings) * 1.3
    lengths = np.linspace(0, reach, 400)
    lines = {_penalty_name(*each): overlong(lengths, *each) for each in settings}
    caption = (
        "What shaping adds to the reward of a completion of that length: nothing, a growing penalty over the last "
        "tokens before the cap (shaded for the first line), then all of it. A formula: there is no interval, n does "
        "not apply."
    )
    figure = _figure(lines, lengths, ("tokens", "added to the reward"), caption)
    cap, cache, *_ = settings[0]
    figure.axes[0].axvspan(cap - cache, cap, color=OTHERS, alpha=0.5, linewidth=0, zorder=0)
    return figure


def _penalty_name(cap: float, cache: float, factor: float, power: int) -> str:
    return f"cap {cap:g}, cache {cache:g}" + f", × {factor:g}" * (factor != 1) + ", squared" * (power == 2)


def advantage_figure(values: Mapping[str, Array], colours: Mapping[str, str], caption: str, label: str) -> Figure:
    """One small histogram per name above a common axis, each as high as its row; the spread is printed beside it."""
    with style():
        figure = Figure(figsize=(WIDTH, 3))
        names = list(wrap_all(values, 34).values())
        notes = [f"SD {v.std():.2f}   largest {abs(v).max():.2f}   n = {v.size:,}" for v in values.values()]
        left = max(text_size(figure, name, 7)[0] for name in names) + 2 * GAP
        right = max(text_size(figure, note, 6.5)[0] for note in notes) + 2 * GAP
        width = max(WIDTH, left + right + 2.4)
        text, bottom = captioned(caption, width)
        height = max(0.4, max(name.count("\n") + 1 for name in names) * LINE + 0.06)
        figure.set_size_inches(width, bottom + len(names) * height + 0.2)
        axes = figure.add_subplot()
        set_margins(figure, left, right, bottom, 0.2)
        _histograms(axes, values, colours)
        axes.set(yticks=[len(names) - 0.6 - i for i in range(len(names))], yticklabels=names, ylim=(0, len(names)))
        axes.set_xlabel(label)
        write_caption(figure, text)
        for place, note in enumerate(notes):
            y = axes.transData.transform((0, len(names) - 0.6 - place))[1] / figure.dpi
            at(figure, note, width - right + GAP, y, size=6.5, va="center")
    return figure


def _histograms(axes: Axes, values: Mapping[str, Array], colours: Mapping[str, str]) -> None:
    """One row per name, from the top, each as high as its row."""
    reach = max(abs(own).max() for own in values.values()) or 1.0
    edges = np.linspace(-reach, reach, 42)
    for base, (name, own) in zip(reversed(range(len(values))), values.items(), strict=True):
        counts, _ = np.histogram(own, edges)
        axes.stairs(base + 0.85 * counts / counts.max(), edges, baseline=base, fill=True, color=colours[name])
    axes.axvline(0, color=BASELINE, linewidth=0.6, linestyle="--", zorder=3)
    axes.set_xlim(-1.05 * reach, 1.05 * reach)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)


def _figure(lines: Mapping[str, Sequence[float]], x: Sequence[float], labels: tuple[str, str], caption: str) -> Figure:
    colours = dict(zip(lines, PALETTE * (1 + len(lines) // len(PALETTE)), strict=False))

    def draw(axes: Axes) -> dict[str, Point]:
        for name, y in lines.items():
            axes.plot(x, y, "o-" if len(x) < 20 else "-", color=colours[name], markersize=3.5)
        axes.margins(x=0.02)
        return {name: (x[-1], y[-1]) for name, y in lines.items()}

    with style():
        return one_panel(draw, wrap_all(lines, 26), colours, labels, caption, height=2.0)


def groups_figure(groups: int = 500, size: int = 8) -> Figure:
    """Advantages of random groups whose rewards are −1, 0 or 1: divided by their deviation, and centred only."""
    rewards = np.random.default_rng(0).choice([-1.0, 0.0, 1.0], size=(groups, size))
    values = {
        "(r − mean) / SD": normalised(rewards).ravel(),
        "r − mean": (rewards - rewards.mean(-1, keepdims=True)).ravel(),
    }
    caption = (
        f"Advantages of {groups} random groups of {size} whose rewards are −1, 0 or 1 with equal probability (one "
        "fixed draw): histograms, each scaled to its row. No interval: the distribution itself is shown."
    )
    return advantage_figure(values, dict(zip(values, COLOURS, strict=False)), caption, "advantage")


FIGURES = {
    "voting": voting_figure,
    "clip": clip_figure,
    "overlong": overlong_figure,
    "advantages": groups_figure,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line: the four figures as SVG, PDF and PNG in a folder."""
    parser = argparse.ArgumentParser(prog="python -m analysis.shapes", description=__doc__.split("\n")[0])
    parser.add_argument("folder", help="where the figures are written")
    folder = Path(parser.parse_args(arguments).folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, draw in FIGURES.items():
            print(*save(draw(), folder / name), sep="\n")
    except OSError as error:
        print(f"error: cannot write to '{folder}': {error.strerror or error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
