"""What each choice of clip makes of a token: the weight of its gradient, by the probability ratio.

Every clip turns A · ∇log π of a token into weight · A · ∇log π, with a weight that depends on the ratio ρ and the sign
of A. So choices can be compared whose losses cannot: −A log π has no value at a ratio alone, its weight is 1. Where a
choice has one ratio a completion, it is that of a completion of one token.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.labels import wrap_all
from analysis.layout import GAP, LINE, Point, at, small_panels, two_panels
from analysis.style import BASELINE, COLOURS, MAX_COLOURS, TICK, dark, style

Array = np.ndarray
Knobs = Mapping[str, float]
RATIOS = np.geomspace(0.3, 6, 400)
LABELS = "ratio ρ", "weight of the gradient"
SIGNS = {"A > 0": COLOURS[0], "A < 0": COLOURS[2]}
OLD_PROBABILITY = 0.1  # of the token, for the choices whose bounds are distances between probabilities


def ppo(ratio: Array, positive: bool, low: float, high: float) -> Array:
    """ρ up to 1 + high where A > 0, from 1 − low on where A < 0, else 0."""
    return np.where(ratio <= 1 + high if positive else ratio >= 1 - low, ratio, 0.0)


def dual(ratio: Array, positive: bool, low: float, high: float, c: float) -> Array:
    """As `ppo`, and 0 above c where A < 0."""
    return np.where(positive | (ratio <= c), ppo(ratio, positive, low, high), 0.0)


def two_sided(ratio: Array, positive: bool, low: float, high: float, delta: float) -> Array:
    """As `ppo`, and 0 above delta."""
    return np.where(ratio <= delta, ppo(ratio, positive, low, high), 0.0)


def opsm(ratio: Array, positive: bool, low: float, high: float, delta: float) -> Array:
    """As `ppo`, and 0 below e^−delta where A < 0."""
    return np.where(positive | (-np.log(ratio) <= delta), ppo(ratio, positive, low, high), 0.0)


def sapo(ratio: Array, positive: bool, tau_positive: float, tau_negative: float) -> Array:
    """4 σ(1 − σ) ρ with σ = 1 / (1 + e^(−τ(ρ − 1)))."""
    gate = 1 / (1 + np.exp(-(tau_positive if positive else tau_negative) * (ratio - 1)))
    return 4 * gate * (1 - gate) * ratio


def gmpo(ratio: Array, positive: bool, low: float, high: float) -> Array:
    """ρ up to e^high where A > 0, from e^−low on where A < 0, else 0."""
    return np.where(np.log(ratio) <= high if positive else np.log(ratio) >= -low, ratio, 0.0)


def vespo(
    ratio: Array,
    positive: bool,
    k_positive: float,
    lambda_positive: float,
    k_negative: float,
    lambda_negative: float,
) -> Array:
    """ρ^k e^(λ(1 − ρ))."""
    k, rate = (k_positive, lambda_positive) if positive else (k_negative, lambda_negative)
    return ratio**k * np.exp(rate * (1 - ratio))


def dppo_tv(ratio: Array, positive: bool, low: float, high: float, upper: float) -> Array:
    """min(ρ, upper), and 0 where π − π_old > high (A > 0) or < −low (A < 0)."""
    moved = OLD_PROBABILITY * (ratio - 1)
    return np.where(moved <= high if positive else moved >= -low, ratio.clip(max=upper), 0.0)


def dppo_kl(ratio: Array, positive: bool, low: float, high: float, upper: float) -> Array:
    """The same with KL(π_old‖π) between this token and any other as the distance."""
    old, new = OLD_PROBABILITY, OLD_PROBABILITY * ratio
    distance = old * np.log(old / new) + (1 - old) * np.log((1 - old + 1e-8) / (1 - new + 1e-8))
    near = (distance <= high) | (ratio <= 1) if positive else (distance <= low) | (ratio >= 1)
    return np.where(near, ratio.clip(max=upper), 0.0)


WEIGHTS: dict[str, Callable[..., Array]] = {
    "naive": lambda ratio, positive: np.ones_like(ratio),
    "unclipped": lambda ratio, positive: ratio,
    "ppo": ppo,
    "dual": dual,
    "two_sided": two_sided,
    "opsm": opsm,
    "sapo": sapo,
    "cispo": lambda ratio, positive, lower, upper: ratio.clip(lower, upper),
    "topr": lambda ratio, positive: np.ones_like(ratio) if positive else ratio.clip(max=1),
    "dro": lambda ratio, positive, beta: 1 - (beta if positive else -beta) * np.log(ratio),
    "dppo_tv": dppo_tv,
    "dppo_kl": dppo_kl,
    "gspo": ppo,
    "gspo_token": ppo,
    "gmpo": gmpo,
    "vespo": vespo,
    "clip_cov": lambda ratio, positive, low, high, share, lb, ub: ppo(ratio, positive, low, high),
    "kl_cov": lambda ratio, positive, share, coef: ratio,
}
REMARKS = {
    "clip_cov": "clip_cov: of tokens that are not drawn.",
    "kl_cov": "kl_cov: of tokens that are not drawn.",
    "scheduled": "scheduled: at the start and at the end.",
    **dict.fromkeys(("dppo_tv", "dppo_kl"), f"dppo: of a token whose probability was {OLD_PROBABILITY:g}."),
}
Choice = tuple[str, tuple[tuple[str, Any], ...]]  # the name of a function and its knobs


def choices(configs: Iterable[Mapping[str, Any]]) -> list[Choice]:
    """The different clips of flat configurations, in order of appearance."""
    found = []
    for config in configs:
        knobs = {key.removeprefix("clip."): value for key, value in config.items() if key.startswith("clip.")}
        if name := knobs.pop("name", None):
            found.append((name, tuple(knobs.items())))
    return list(dict.fromkeys(found))


def weights(choice: Choice) -> dict[str, tuple[Array, Array]]:
    """By label, the weights at RATIOS where A > 0 and where A < 0; empty if the choice is not known here."""
    name, knobs = choice[0], dict(choice[1])
    if name == "scheduled":
        ends = {"start": knobs["high"], "end": knobs["high_final"]}
        return {f"scheduled, {end}": _both(ppo, {"low": knobs["low"], "high": high}) for end, high in ends.items()}
    return {_label(choice): _both(WEIGHTS[name], knobs)} if name in WEIGHTS else {}


def _both(weight: Callable[..., Array], knobs: Knobs) -> tuple[Array, Array]:
    return weight(RATIOS, True, **knobs), weight(RATIOS, False, **knobs)


def _label(choice: Choice) -> str:
    return ",".join([choice[0], *(f"{knob}={value:g}" for knob, value in choice[1])])


def clips_caption(found: Iterable[Choice]) -> str:
    """What the lines of `clips_figure` mean."""
    names = dict.fromkeys(name for name, _ in found)
    unknown = [name for name in names if name not in (*WEIGHTS, "scheduled")]
    remarks = dict.fromkeys(REMARKS[name] for name in names if name in REMARKS)
    return " ".join([
        "What a token's A · ∇log π is multiplied by, at the probability ratio ρ of the token (of a completion of one "
        "token, where the choice has one ratio a completion): 0 is no gradient. Left: A > 0; right: A < 0. Dotted: no "
        "clip. A formula: there is no interval, n does not apply.",
        *remarks,
        *([f"Not drawn, as no formula is known here: {', '.join(unknown)}."] if unknown else []),
    ])  # fmt: skip


def clips_figure(lines: Mapping[str, tuple[Array, Array]], caption: str) -> Figure:
    """The weights of all clips over the ratio, for a positive and a negative advantage; a panel for each if many."""
    with style():
        return (_one_panel_a_sign if len(lines) <= MAX_COLOURS else _one_panel_a_clip)(lines, caption)


def _one_panel_a_sign(lines: Mapping[str, tuple[Array, Array]], caption: str) -> Figure:
    colours = dict(zip(lines, (BASELINE, *COLOURS), strict=False))

    def draw(axes: Axes, place: int) -> dict[str, Point]:
        _prepare(axes)
        for order, (name, both) in enumerate(lines.items()):  # the later the thinner, as many lines coincide
            axes.plot(RATIOS, both[place], color=colours[name], linewidth=2.4 - 1.4 * order / len(lines))
        return {name: (RATIOS[-1], both[place][-1]) for name, both in lines.items()}

    return two_panels(draw, ("A > 0", "A < 0"), wrap_all(lines, 26), colours, LABELS, caption)


def _one_panel_a_clip(lines: Mapping[str, tuple[Array, Array]], caption: str) -> Figure:
    values, names = list(lines.values()), list(wrap_all(lines, 36, 2).values())

    def draw(axes: Axes, place: int) -> None:
        _prepare(axes)
        for both, colour, dash in zip(values[place], SIGNS.values(), ("-", "--"), strict=True):
            axes.plot(RATIOS, both, dash, color=colour)

    caption = caption.replace("Left: A > 0; right: A < 0", "Solid: A > 0; dashed: A < 0")
    figure = small_panels(names, draw, LABELS, caption, heading=LINE)
    figure.axes[0].set_ylim(0, RATIOS[-1])  # of all
    for place, (name, colour) in enumerate(SIGNS.items()):
        at(figure, name, (1 + 5 * place) * GAP, -GAP / 2, size=TICK, va="top", color=dark(colour), weight="bold")
    return figure


def _prepare(axes: Axes) -> None:
    """Scales on which 0 and 6 can be told from their neighbours, and the line of no clip."""
    axes.plot(RATIOS, RATIOS, ":", color=BASELINE, linewidth=0.8, zorder=1)
    axes.set_xscale("log")
    axes.set_yscale("function", functions=(np.sqrt, np.square))
    axes.set_xticks([0.5, 1, 2, 5], ["0.5", "1", "2", "5"])
    axes.set_yticks([0, 0.5, 1, 2, 5], ["0", "0.5", "1", "2", "5"])
    axes.minorticks_off()
    axes.set_ylim(0, RATIOS[-1])
