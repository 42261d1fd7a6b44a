"""The pictures of the source documents that need a run: of rewards, objective and KL, gold and proxy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rlexp.analysis.figures.formulas import clipped, histograms, normalized, plurality
from rlexp.analysis.figures.layout import (
    COLORS,
    DASHES,
    GAP,
    INK,
    LEFT,
    LINE,
    NOTE,
    OTHERS,
    TICK,
    WIDTH,
    fit_caption,
    set_margins,
    theme,
    write_caption,
)

SMOOTHED = 10  # steps of a running mean, as in the notebook
FOUR, EIGHT = [1, -1, 1, 0], [1, -1, 1, 0, 1, -1, 0, 1]  # verdicts of the notebook's examples
Numbers = Sequence[float]


def running_mean(values: Numbers, width: int = SMOOTHED) -> np.ndarray:
    """Return the means of every ``width`` values that follow each other."""
    return np.convolve(values, np.ones(width) / width, mode="valid")


def panels(rows: int, columns: int, titles: Sequence[str], caption: str) -> tuple[Figure, list[Axes]]:
    """Return a figure of panels that share nothing, with titles above them and a caption below."""
    width, tall, between = WIDTH * (1.3 if columns > 1 else 1), 1.5, 0.75
    text, bottom = fit_caption(caption, width)
    top = 2.2 * LINE
    figure = Figure(figsize=(width, bottom + rows * tall + (rows - 1) * between + top))
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    set_margins(figure, LEFT, GAP, bottom, top)
    figure.subplots_adjust(wspace=0.42, hspace=between / tall)
    for each, title in zip(axes, titles, strict=True):
        each.set_title(title, fontsize=TICK, pad=4, loc="left")
    write_caption(figure, text)
    return figure, [*axes]


def draw_bars(axes: Axes, groups: Mapping[str, Numbers], ticks: Sequence[str], labels: tuple[str, str]) -> None:
    """Draw bars beside each other, a colour for each group, named above."""
    width = 0.8 / len(groups)
    for place, (name, values) in enumerate(groups.items()):
        at = np.arange(len(values)) + (place - (len(groups) - 1) / 2) * width
        axes.bar(at, values, width, color=COLORS[place], label=name)
    axes.axhline(0, color=INK, linewidth=0.6)
    axes.set_xticks(range(len(ticks)), ticks)
    axes.set(xlabel=labels[0], ylabel=labels[1])
    low, high = axes.get_ylim()
    axes.set_ylim(low, high + 0.35 * (high - low))
    axes.legend(fontsize=NOTE, frameon=False, loc="upper left", ncols=len(groups), handlelength=1, borderaxespad=0.1)


def draw_smoothed(axes: Axes, steps: Numbers, values: Numbers, label: str, color: str = COLORS[0]) -> None:
    """Draw what was logged in grey and its running mean."""
    axes.plot(steps, values, color=OTHERS, linewidth=0.8)
    axes.plot(steps[SMOOTHED - 1 :], running_mean(values), color=color)
    axes.set(xlabel="step", ylabel=label)


def advantage_bars(verdicts: Numbers) -> dict[str, Numbers]:
    """Return verdicts and their advantages, by what they are called."""
    return {"reward": verdicts, "advantage": normalized(np.array(verdicts, dtype=float)).tolist()}


def bars_figure() -> Figure:
    """Draw the rewards of four completions beside their advantages."""
    caption = "A group of four verdicts and their advantages, (r − mean) / SD with n − 1. A formula: n does not apply."
    with theme():
        figure, (axes,) = panels(1, 1, [""], caption)
        draw_bars(axes, advantage_bars(FOUR), ["1", "2", "3", "4"], ("completion", ""))
    return figure


def verdict_chances(votes: int, accuracy: float = 0.7) -> list[float]:
    """Return how likely −1, 0 and 1 are as the verdict on a good response."""
    right = plurality(accuracy, votes)
    return [(1 - right) / 2, (1 - right) / 2, right]


def loop_figure(run: Mapping[str, Any]) -> Figure:
    """Draw the four panels at the end of the GRPO-TCR notebook."""
    caption = (
        "The notebook's last figure. Judge: chances of the verdicts on a good response, one vote and seven of a judge "
        "right in 70 % (exact). Advantages of eight verdicts. Clip: min(ρA, clip(ρ)A) for A = 1. Objective of "
        f"{run['command']}: each step (grey), mean of {SMOOTHED} (blue). It sums advantages of mean 0, so it says "
        "nothing of how far the run is."
    )
    ratios = np.linspace(0.3, 2, 200)
    with theme():
        figure, (judge, bars, clip, curve) = panels(
            2, 2, ("judge on a good response", "advantages", "clip", "objective"), caption
        )
        chances = {"1 vote": verdict_chances(1), "7 votes": verdict_chances(7)}
        draw_bars(judge, chances, ["−1", "0", "1"], ("verdict", "probability"))
        draw_bars(bars, advantage_bars(EIGHT), [str(place) for place in range(1, 9)], ("completion", ""))
        for high, dash in ((0.2, "-"), (0.28, "--")):
            clip.plot(ratios, clipped(ratios, 1.0, 0.2, high), dash, color=INK, label=f"1 + {high:g}")
        clip.plot(ratios, ratios, ":", color=OTHERS, zorder=1)
        clip.set(xlabel="ratio ρ", ylabel="objective", ylim=(0.2, 1.6))
        clip.legend(fontsize=NOTE, frameon=False, loc="lower right")
        draw_smoothed(curve, run["steps"], run["objective"], "objective")
    return figure


def objective_figure(run: Mapping[str, Any]) -> Figure:
    """Draw objective, reward and KL of the notebook's loop over its steps."""
    caption = (
        f"{run['command']}, one seed. Grey: each step; colour: mean of {SMOOTHED} steps. The objective is minus the "
        "policy's loss and penalty. Reward: what the judge says, before the penalty for length. KL: exact, over the "
        "vocabulary, to the policy at the start."
    )
    with theme():
        figure, axes = panels(3, 1, ("objective", "reward of the judge", "KL to the start"), caption)
        for each, key, label, color in zip(
            axes, ("objective", "reward", "kl"), ("", "", "nats a token"), COLORS, strict=False
        ):
            draw_smoothed(each, run["steps"], run[key], label, color)
    return figure


def kl_figure(run: Mapping[str, Any]) -> Figure:
    """Draw the estimates k1 and k3 of the trained policy's KL to its start, each of a completion of its own."""
    k1, k3 = np.array(run["k1"]), np.array(run["k3"])
    caption = (
        f"The policy that {run['command']} ends with, and {len(k1)} completions of its own: estimates of its KL to "
        f"the policy at the start, each the mean over a completion's tokens. The mean of k1 is {k1.mean():.3f}, that "
        f"of k3 {k3.mean():.3f}, the exact KL at these places {run['exact']:.3f}. {100 * (k1 < 0).mean():.0f} % of the "
        "k1 are below 0, no k3 is. Histograms, each scaled to its row."
    )
    values = {"k1 = log π − log π_ref": k1, "k3 = exp(−k1) − 1 + k1": k3}
    return histograms(values, dict(zip(values, COLORS, strict=False)), caption, "estimate (nats a token)")


def lecture_figure(run: Mapping[str, Any]) -> Figure:
    """Draw loss and mean reward of the lecture's arms over its epochs, side by side."""
    caption = (
        f"{run['command']}, one seed: the two plots of the lecture, of its four rules. A loss of centered advantages "
        "is near 0 whatever is learned; only the reward says how far a run is."
    )
    with theme():
        figure, axes = panels(1, 2, ("loss", "mean reward, of 5"), caption)
        for (name, arm), color, dash in zip(run["arms"].items(), COLORS, DASHES, strict=False):
            for each, key in zip(axes, ("loss", "reward"), strict=True):
                each.plot(arm["steps"], arm[key], color=color, linestyle=dash, label=name, linewidth=1)
                each.set(xlabel="epoch")
        axes[1].legend(fontsize=NOTE, frameon=False, loc="lower right", ncols=2)
    return figure


def proxies_figure(run: Mapping[str, Any]) -> Figure:
    """Draw gold and the proxy that is trained on against the distance from the start."""
    caption = (
        f"{run['command']}, one seed, exact: gold (solid) and the proxy that is trained on (dashed) over the KL to "
        "the start. The proxy looks at 1, 2 or 3 symbols together, gold at 3. With 1 it is over-optimised: it goes on "
        "rising and gold falls below the start. The world is one of the 28 in 100 in which gold falls."
    )
    with theme():
        figure, axes = panels(1, len(run["features"]), [f"{n} of 3 symbols" for n in run["features"]], caption)
        for each, (line, color) in zip(axes, zip(run["features"].values(), COLORS, strict=False), strict=True):
            each.plot(line["kl"], line["gold"], color=color)
            each.plot(line["kl"], line["proxy"], "--", color=color)
            each.axhline(0, color=OTHERS, linewidth=0.8, zorder=0)
            each.set(xlabel="KL (nats)", ylim=(-1, 3))
        axes[0].set_ylabel("in SD at the start")
    return figure
