"""A forecast of a larger sweep by smaller ones, and how good it was.

A difference of two arms at a size is the one that they have at any size and a deviation of each arm at this size, as in
a two-way table of arms and sizes with random interactions (Scheffé 1959). The forecast is the mean of the differences
over the S smaller sizes. Its error, which is also that of what the target will show, has the variance

    2 σ² (1 + 1/S)  +  Σ error² / S²  +  error_T²

where σ is the SD of an arm's deviation, and error_T is the largest smaller sweep's own, for as many units as the target
will have. σ² is the mean square of the interactions less the noise in it, at least 0, the same for all arms; the
interval has the t distribution with the degrees of freedom of that mean square, (S − 1) Σ (arms − 1). Of one smaller
sweep σ is not known: the interval is then of sampling error alone, with n − 1 degrees of freedom. Sizes count as drawn
at random: a trend with size is not extrapolated, and is in σ. Where sizes are so, .93 to 1 of the intervals hold what
the target shows (1 to 3 smaller sweeps of 3 to 8 arms and 5 or 10 units, σ of 0 to 3 errors, 120 simulations each).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import stdtr, stdtrit

from rlexp.analysis.stats.decision import Pairs, agreement_of_orders
from rlexp.analysis.stats.estimates import TAILS

Array = np.ndarray
FORECAST, COPY, NOTHING = "forecast", "copy", "no effect"
"""Names of a forecast and of the two naive ones: the largest smaller sweep alone, and that nothing differs."""


class Prediction(NamedTuple):
    """Differences of pairs of arms that a larger sweep will show, `[pairs]` each."""

    difference: Array
    spread: Array
    """Of what will be shown around it; NaN where nothing is known of it."""
    degrees: float
    """Of the t distribution."""
    between: float
    """SD of an arm's deviation at a size, σ; NaN of one sweep."""

    def interval(self) -> tuple[Array, Array]:
        """Return both ends of the 95 % prediction intervals."""
        half = stdtrit(self.degrees, TAILS[1]) * self.spread
        return self.difference - half, self.difference + half

    def probability(self) -> Array:
        """Return the probability that the first arm of a pair will have the higher mean."""
        with np.errstate(invalid="ignore", divide="ignore"):
            ratio = np.where(self.difference == 0, 0.0, self.difference / self.spread)
        return stdtr(self.degrees, ratio)


def predict(sweeps: Sequence[Pairs], arms: Sequence[int], units: float | None = None) -> Prediction:
    """Forecast what a larger sweep will show, from all pairs of the smaller ones.

    Args:
        sweeps: in order of size.
        arms: how many each stratum has.
        units: how many the target will have; as many as the last sweep unless given.
    """
    count, last = len(sweeps), sweeps[-1]
    sizes = np.repeat(arms, [k * (k - 1) // 2 for k in arms])
    free = sum(k - 1 for k in arms)
    differences = np.array([each.difference for each in sweeps])
    squared = np.array([each.error**2 for each in sweeps])
    between, degrees = np.nan, float(max(last.n.min() - 1, 1))
    if count > 1:
        square = (differences.var(0, ddof=1) / sizes).sum() / free
        noise = (squared.mean(0) / sizes).sum() / free
        between, degrees = float(np.sqrt(max(square - noise, 0.0))), float((count - 1) * free)
    own = squared[-1] * last.n / (units or last.n)
    variance = 2 * np.nan_to_num(between) ** 2 * (1 + 1 / count) + squared.sum(0) / count**2 + own
    return Prediction(differences.mean(0), np.sqrt(variance), degrees, between)


class Score(NamedTuple):
    """How good a forecast was."""

    forecast: str
    accuracy: float
    """Share of all pairs in the order that was forecast."""
    decided_accuracy: float
    """Of those that the target tells apart."""
    brier: float
    """Mean over pairs of (probability − outcome)², where the outcome is 1, 0 or ½ for a tie (Brier 1950)."""
    covered: int
    """Effects inside their prediction intervals."""
    intervals: int
    """Effects that have one."""
    error: float
    """Mean absolute error of the effects, on the scale."""


def score(name: str, forecast: Prediction, target: Pairs, effects: Array) -> Score:
    """Score a forecast of pairs on what the target shows of them.

    Args:
        name: of the forecast.
        forecast: of the same pairs.
        target: what was shown.
        effects: which pairs are of an arm and the baseline, whose differences are effects, `[pairs]`.
    """
    shown = target.difference
    agree = agreement_of_orders(forecast.difference, shown)
    decided = target.decided(shown)
    low, high = forecast.interval()
    known = effects & ~np.isnan(forecast.spread)
    return Score(
        forecast=name,
        accuracy=float(agree.mean()),
        decided_accuracy=float(agree[decided].mean()) if decided.any() else np.nan,
        brier=float(((forecast.probability() - (np.sign(shown) + 1) / 2) ** 2).mean()),
        covered=int(((low <= shown) & (shown <= high))[known].sum()),
        intervals=int(known.sum()),
        error=float(np.abs(forecast.difference - shown)[effects].mean()),
    )


def no_effect(pairs: int) -> Prediction:
    """Return the forecast that nothing differs: every order has probability ½."""
    return Prediction(np.zeros(pairs), np.full(pairs, np.nan), 1.0, np.nan)
