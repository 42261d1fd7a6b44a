"""Saturating curves through the evaluations of a run, and whether a fit foretells what comes after it."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rlexp.analysis.data.errors import AnalysisError
from rlexp.analysis.data.run_values import FEWEST_DONE, LEAST_RISE, REASONS, saturation
from rlexp.analysis.stats.curve_numbers import SHARE, Array, final_value, known

FORMS = ("exponential", "sigmoid")


class CurveFit(NamedTuple):
    """A saturating curve, or why there is none."""

    form: str
    start: float = np.nan
    asymptote: float = np.nan
    half: float = np.nan
    """What half of the rise costs (C_mid of the sigmoid); NaN for an exponential that had risen at once."""
    steepness: float = np.nan
    """B of the sigmoid."""
    missing: str = ""
    """One of `run_values.REASONS` if it does not tell; of a sigmoid the numbers are then there all the same."""
    origin: float = 0.0
    """Where an exponential begins."""

    def predict(self, x: Array) -> Array:
        """The height of the curve at `x [n]`."""
        x = np.asarray(x, dtype=float)
        if self.form == "sigmoid":
            done = _done(x, np.log(self.half), np.log(self.steepness))
        elif np.isnan(self.half):
            done = np.where(x > self.origin, 1.0, 0.0)
        else:
            done = -np.expm1(-np.log(2) * (x - self.origin) / self.half)
        return self.start + (self.asymptote - self.start) * done


def fit_curve(x: Array, values: Array, form: str = "exponential", sign: int = 0) -> CurveFit:
    """Fit one of `FORMS` to the curve of a run.

    Args:
        x: Cumulative cost at each evaluation `[n]`, at least 0.
        values: Of each evaluation `[n]`.
        form: `exponential` is `run_values.saturation` (least squares); `sigmoid` is `fit_sigmoid`.
        sign: Whether it must rise (1) or fall (−1); 0 for either.
    """
    if form == "sigmoid":
        return fit_sigmoid(x, values, sign)
    x, values = known(x, values)
    x, values = _without_repeats(x, values)
    found = saturation(x, values, sign)
    return CurveFit(form, found.start, found.asymptote, found.half, np.nan, found.missing, float(x[0]) if x.size else 0)


FEWEST_SIGMOID = 8  # evaluations: twice as many as the sigmoid has parameters
STEEPNESS = (0.3, 10.0)  # bounds of B: ScaleRL's fits lie between 1 and 3
MIDS, STEEPNESSES, STARTS = 24, np.array([0.5, 0.8, 1.2, 1.8, 2.7, 4.0, 7.0]), 3


def fit_sigmoid(x: Array, values: Array, sign: int = 0) -> CurveFit:
    """Fit ScaleRL's curve of compute, robustly.

        R(C) = R₀ + (A − R₀) / (1 + (C_mid / C)^B)

    Source: Khatri et al. 2025 (arXiv 2510.13786), equation 1. They hold R₀ at the reward of the start, search A and
    C_mid on a grid, and leave out the beginning of the curve; here all four are fitted to all evaluations, with a soft
    L1 loss (Huber-like) whose scale is the MAD of the best grid point's residuals, from the three best grid points of
    different B. Bounds: R₀ and A within one range of the values beyond them, B in [0.3, 10], C_mid between a fifth of
    the first distance between evaluations and ten times the last x.

    Args:
        x: Cumulative cost at each evaluation `[n]`, at least 0.
        values: Of each evaluation `[n]`.
        sign: Whether it must rise (1) or fall (−1); 0 for either.

    Returns:
        The fit; `missing` says why it does not tell: too few evaluations (below 8), no rise, or less than two thirds of
        the rise done by the last evaluation, by the rules of `run_values.saturation`.
    """
    from scipy.optimize import least_squares  # slow to import, and only fits need it

    x, values = _without_repeats(*known(x, values))
    if values.size < FEWEST_SIGMOID:
        return CurveFit("sigmoid", missing=REASONS[0])
    if x[0] < 0:
        raise AnalysisError(f"a sigmoid of compute begins at 0 or later, and not at {x[0]:g}")
    spread = np.ptp(values)
    if spread <= 1e-12 * np.abs(values).max():
        return CurveFit("sigmoid", missing=REASONS[1])
    low_mid, high_mid = np.log(0.2 * np.diff(x).min()), np.log(10 * x[-1])
    mids, steeps = np.linspace(low_mid, high_mid, MIDS + 2)[1:-1], np.log(STEEPNESSES)
    done = _done(x[None, None, :], mids[:, None, None], steeps[None, :, None])  # [mids, steeps, n]
    start, rise, residuals = _linear(done, values)
    errors = (residuals**2).sum(-1)
    best = errors.argmin(0)  # the best C_mid of each B
    order = np.argsort(errors[best, np.arange(steeps.size)])[:STARTS]
    residual = residuals[best[order[0]], order[0]]
    scale = max(1.4826 * float(np.median(np.abs(residual - np.median(residual)))), 1e-6 * spread)
    ends = [values.min() - spread, values.max() + spread]
    bounds = np.array([ends, ends, [low_mid, high_mid], np.log(STEEPNESS)]).T

    def difference(parameters: Array) -> Array:
        return parameters[0] + (parameters[1] - parameters[0]) * _done(x, *parameters[2:]) - values

    def slopes(parameters: Array) -> Array:
        part = _done(x, *parameters[2:])
        steep = np.exp(parameters[3])
        with np.errstate(divide="ignore"):
            logs = np.where(x > 0, np.log(x), 0.0) - parameters[2]
        bend = (parameters[1] - parameters[0]) * part * (1 - part) * steep
        return np.stack([1 - part, part, -bend, bend * logs], -1)

    fits = []
    for place in order:
        mid = best[place]
        first = [start[mid, place], start[mid, place] + rise[mid, place], mids[mid], steeps[place]]
        first = np.clip(first, bounds[0] + 1e-9, bounds[1] - 1e-9)
        fits.append(least_squares(difference, first, slopes, tuple(bounds), loss="soft_l1", f_scale=scale))
    fit = min(fits, key=lambda found: found.cost)
    start, asymptote, half, steepness = *fit.x[:2], *np.exp(fit.x[2:])
    done = float(_done(x[-1], *fit.x[2:]))
    error = np.sqrt((difference(fit.x) ** 2).sum() / (values.size - 4))
    rise, missing = asymptote - start, ""
    if abs(rise) * done <= LEAST_RISE * error or (sign and np.sign(rise) != sign):
        missing = REASONS[1]
    elif done < FEWEST_DONE:
        missing = REASONS[2]
    return CurveFit("sigmoid", float(start), float(asymptote), float(half), float(steepness), missing)


def _done(x: Array, mid: Array, steep: Array) -> Array:
    """The part of the rise that is done at x, `1 / (1 + (C_mid / C)^B)`, by the logarithms of C_mid and B."""
    with np.errstate(divide="ignore", over="ignore"):
        return 1 / (1 + np.exp(np.exp(steep) * (mid - np.log(x))))


def _linear(done: Array, values: Array) -> tuple[Array, Array, Array]:
    """Start, rise and residuals of least squares of `values [n]` on `done [..., n]`."""
    centered = done - done.mean(-1, keepdims=True)
    spread = (centered**2).sum(-1)
    rise = np.divide(centered @ values, spread, out=np.zeros_like(spread), where=spread > 1e-12)
    start = values.mean() - rise * done.mean(-1)
    return start, rise, values - start[..., None] - rise[..., None] * done


def _without_repeats(x: Array, values: Array) -> tuple[Array, Array]:
    """The last of the evaluations at the same x."""
    last = np.append(np.diff(x) > 0, True) if x.size else np.zeros(0, dtype=bool)
    return x[last], values[last]


class Forecast(NamedTuple):
    """How well a curve that was fitted to the first part of a run foretells the rest."""

    error: float
    """Root mean square over the rest; NaN where the first part cannot be fitted."""
    carried: float
    """The same of the last value carried forward: the late mean of the first part."""
    believed: bool
    """Whether the fit is no worse."""


def check_forecast(
    x: Array, values: Array, form: str = "exponential", share: float = 0.5, late: float = SHARE, sign: int = 0
) -> Forecast:
    """Fit the first part of a curve, predict the rest, and compare with the last value carried forward.

    Args:
        x: Cumulative cost at each evaluation `[n]`.
        values: Of each evaluation `[n]`.
        form: One of `FORMS`.
        share: Of the range of x that is fitted.
        late: The last value of the first part is the mean of this late share of it; one evaluation is easily beaten.
        sign: Whether the curve must rise (1) or fall (−1); 0 for either.

    Returns:
        Not believed where the first part has too few evaluations or does not determine a curve.
    """
    if not 0 < share < 1:
        raise AnalysisError(f"the share that is fitted is above 0 and below 1, and not {share:g}")
    x, values = known(x, values)
    if not x.size:
        return Forecast(np.nan, np.nan, False)
    first = x <= x[0] + share * (x[-1] - x[0])
    rest = values[~first]
    carried = _rms(rest - final_value(values[first], late))
    fit = fit_curve(x[first], values[first], form, sign)
    error = _rms(rest - fit.predict(x[~first])) if np.isfinite(fit.asymptote) else np.nan
    return Forecast(error, carried, bool(error <= carried))


def pool_forecasts(forecasts: Sequence[Forecast]) -> Forecast:
    """The check of several runs at once, by the root mean squares over all that could be fitted.

    One run tells little: where a curve has long ended both forecasts are right, and luck says which is nearer. Of the
    runs of an arm the better forecast wins. Not believed where fewer than half of the runs could be fitted.
    """
    checked = np.array([(each.error, each.carried) for each in forecasts if np.isfinite(each.error)])
    if not checked.size or 2 * len(checked) < len(forecasts):
        return Forecast(np.nan, np.nan, False)
    error, carried = np.sqrt((checked**2).mean(0))
    return Forecast(float(error), float(carried), bool(error <= carried))


def _rms(errors: Array) -> float:
    return float(np.sqrt(np.mean(errors**2))) if errors.size else np.nan
