"""The scales on which effects are measured, pooled and judged, and how they are shown in the units of the metric.

scale      of                            an effect is                      counts from  shown as
log-odds   shares: accuracies, pass@k    a difference of log-odds          0.25         points at a level
log        lengths, costs, entropy, KL   the log of a ratio                log 1.25     a ratio
start SD   rewards without known ends    a difference, in SDs at the start 0.2          units of the metric
identity   all else                      a difference                      none         the same

A point of accuracy is not worth the same everywhere: from .5 to .56 is as far in log-odds (.25) as from .9 to .92. On
its own scale one smallest effect serves all levels, and conditions with other baselines can be pooled. A share of m
completions, k of which are right, is log((k + ½) / (m − k + ½)), the empirical logit (Haldane 1955, Anscombe 1956): it
exists for 0 and m, and its bias is of order 1/m². Where m is not known it is taken to be 1,024, which is `eval.prompts`
times `eval.samples` unless they are set; for shares that are computed exactly, without completions, 10,000.
"""

from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.special import expit

from rlexp.analysis.data.errors import AnalysisError
from rlexp.analysis.stats.formatting import short_number

Array = np.ndarray
Name = Literal["log-odds", "log", "start SD", "identity"]

COUNT, EXACT_COUNT = 1024, 10_000
LEAST = 1e-3  # what smaller amounts count as on the log scale: an entropy of 0 has no log
RULE_OF_THREE = 3.0  # 0 of m say with 95 % that a share is below 3/m (Hanley & Lippman-Hand 1983)
SMALLEST = {"log-odds": 0.25, "log": float(np.log(1.25)), "start SD": 0.2, "identity": np.nan}

# By the beginnings of names, the first that fits; docs/metrics.md has the names with their units.
SHARES = (
    "eval/greedy_accuracy",
    "eval/sampled_accuracy",
    "eval/hinted_accuracy",
    "eval/pass@",
    "eval/exact/accuracy",
    "eval/exact/pass@",
)
SHARES += ("eval/exact/hard", "eval/exact/easy", "eval/exact/right", "eval/agreement", "eval/win_rate")
SHARES += ("gold/agreement", "pairs/accuracy", "pairs/groups", "length/truncated", "groups/", "filter/tokens", "clip/")
SHARES += ("mismatch/dropped", "ratio/bounded", "ratio/outside", "kl/stopped", "value/clipped", "data/ess_")
SHARES += ("repetition/bigrams",)
SIGNED = ("kl/ref_k1", "kl/coef")
AMOUNTS = ("length/", "eval/length", "eval/exact/length", "policy/entropy", "eval/exact/entropy", "eval/exact/kl")
AMOUNTS += ("kl/ref_k3", "kl/ref_exact", "kl/quarter_", "kl/old", "mismatch/kl", "data/drift", "progress/", "time/")
AMOUNTS += ("value/loss", "optim/grad_norm", "value/grad_norm", "steps", "updates", "rollouts", "tokens", "verdicts")
REWARDS = ("eval/reward", "eval/exact/reward", "eval/exact/gold", "eval/proxy", "reward/mean", "reward/shaped")
REWARDS += ("gold/mean",)


class Scale(NamedTuple):
    """A scale; made by `scale_of`, or by hand where a name says too little."""

    name: Name
    count: float = COUNT
    """Completions behind a share; its continuity correction is half of one."""
    attainable: float = 1.0
    """The largest share that can be had: log-odds are of the part of it."""
    start_sd: float = np.nan
    """SD over the prompts or completions of the start policy, of rewards."""

    @property
    def smallest(self) -> float:
        """The smallest effect that counts unless another is declared; NaN for identity: one must be declared."""
        return SMALLEST[self.name]

    def forward(self, values: Array) -> Array:
        """Take values of the metric to the scale, element by element; a difference there is an effect.

        Raises:
            AnalysisError: For a share outside [0, 1] (by more than rounding), or a negative amount.
        """
        values = np.asarray(values, dtype=float)
        if self.name == "log-odds":
            if (outside := (values < -1e-9) | (values > 1 + 1e-9)).any():
                raise AnalysisError(f"{float(values[outside].flat[0]):g} is no share: it must lie between 0 and 1")
            right = np.clip(values / self.attainable, 0.0, 1.0) * self.count
            return np.log((right + 0.5) / (self.count - right + 0.5))
        if self.name == "log":
            if (negative := values < 0).any():
                raise AnalysisError(f"{float(values[negative].flat[0]):g} has no log: amounts are not below 0")
            return np.log(np.maximum(values, LEAST))
        return values / self.start_sd if self.name == "start SD" else values

    def inverse(self, scaled: Array) -> Array:
        """Take numbers of the scale back to the units of the metric; of shares those that `forward` can reach."""
        scaled = np.asarray(scaled, dtype=float)
        if self.name == "log-odds":
            share = (expit(scaled) * (self.count + 1) - 0.5) / self.count
            return np.clip(share, 0.0, 1.0) * self.attainable
        if self.name == "log":
            return np.exp(scaled)
        return scaled * self.start_sd if self.name == "start SD" else scaled

    def change(self, effect: Array, level: float) -> Array:
        """By how much an effect changes the metric of a baseline at this level, in the metric's own units."""
        return self.inverse(self.forward(level) + np.asarray(effect, dtype=float)) - self.inverse(self.forward(level))

    def show(self, effect: float, low: float, high: float, level: float) -> str:
        """Say an effect and its interval in natural units, at a baseline that has this level.

        `+6.2 points [+2.4, +9.9] at .5`; of amounts a ratio, `×1.25 [1.10, 1.42]`; else a difference in the metric's
        units. A level outside a share's range, or an amount below 0: AnalysisError.
        """
        if self.name == "log":
            ratios = "×{:.2f} [{:.2f}, {:.2f}]".format(*np.exp([effect, low, high]))
            return f"{ratios} at {short_number(level)}"
        sizes = self.change(np.array([effect, low, high]), level)
        if self.name == "log-odds":
            least = np.abs(sizes).max()
            places = 1 if least >= 0.001 else 2
            told, ends = f"{100 * sizes[0]:+.{places}f}", ", ".join(f"{100 * each:+.{places}f}" for each in sizes[1:])
            return f"{told} points [{ends}] at {f'{level:.3g}'.removeprefix('0') or '0'}".replace("-", "−")
        return "{:+.3g} [{:+.3g}, {:+.3g}]".format(*sizes).replace("-", "−")


def scale_name(metric: str) -> Name:
    """The scale that a metric has by its name (`docs/metrics.md`), whatever budget or target is said after it.

    Numbers that can be below 0, those of unknown names, and fits (`curve/speed` is a log already) stay as they are.
    """
    name = metric.split(" at ")[0]
    if name.startswith(SIGNED):
        return "identity"
    return next((scale for scale, names in _BY_NAME.items() if name.startswith(names)), "identity")


_BY_NAME: dict[Any, tuple[str, ...]] = {"log-odds": SHARES, "log": AMOUNTS, "start SD": REWARDS}


def scale_of(metric: str, count: float | None = None, attainable: float = 1.0, start_sd: float | None = None) -> Scale:
    """The scale of a metric.

    Args:
        metric: Its name.
        count: Evaluation prompts times samples of each behind a share.
        attainable: The largest share that can be had, as that of the best policy at the sampling temperature.
        start_sd: Standard deviation of a reward under the start policy.

    Raises:
        AnalysisError: For a reward without a start SD above 0, a count below 1, or an attainable share outside (0, 1].
    """
    name = scale_name(metric)
    if name == "start SD" and not (start_sd is not None and np.isfinite(start_sd) and start_sd > 0):
        raise AnalysisError(f"{metric} is measured in SDs of the start policy, which must be above 0: {start_sd}")
    if count is not None and not count >= 1:
        raise AnalysisError(f"a share of {count} completions: at least 1")
    if not 0 < attainable <= 1:
        raise AnalysisError(f"an attainable share of {attainable}: above 0, at most 1")
    usual = EXACT_COUNT if metric.startswith("eval/exact/") else COUNT
    return Scale(name, count or usual, attainable, np.nan if start_sd is None else float(start_sd))


class Headroom(NamedTuple):
    """How far a baseline is from both ends, on the scale."""

    above: float
    below: float
    ceiling: bool
    """Whether an increase by twice the smallest effect that counts cannot be seen."""
    floor: bool
    """The same of a decrease."""


def headroom(
    scale: Scale, baseline: float, smallest: float, lowest: float | None = None, highest: float | None = None
) -> Headroom:
    """How much room effects have at a baseline, and whether it is less than two smallest effects that count.

    Args:
        scale: Of the metric.
        baseline: Its level, in units of the metric.
        smallest: Effect that counts, on the scale.
        lowest: End of what can be had, in units of the metric; None where there is none, as for rewards without bounds.
            A share ends at 0.
        highest: The other end. A share ends at its scale's `attainable`.

    A share that all m completions agree on may still be as far from its end as 3/m (Hanley & Lippman-Hand 1983), so
    the ends of shares are taken there: accuracies above 1 − 3/m cannot be told from 1.
    """
    level = float(scale.forward(baseline))
    if scale.name == "log-odds":
        gap = min(0.5, RULE_OF_THREE / scale.count) * scale.attainable
        lowest = max(gap, lowest or 0.0)
        highest = min(scale.attainable - gap, scale.attainable if highest is None else highest)
    above = np.inf if highest is None else float(scale.forward(highest)) - level
    below = np.inf if lowest is None else level - float(scale.forward(lowest))
    return Headroom(above, below, above < 2 * smallest, below < 2 * smallest)
