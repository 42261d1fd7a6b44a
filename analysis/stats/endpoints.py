"""Endpoints: the one number of a run's learning curve that a comparison is about, declared before the runs.

    final                                     late mean, as the score has it
    auc, auc:completions, auc:tokens=5000     mean height of the curve up to a budget
    cost:eval/greedy_accuracy>=0.8:completions  what the target costs; a run that never arrives counts with the budget
    asymptote, asymptote:sigmoid:tokens       where a fitted curve ends
    speed, speed:sigmoid                      −log₂ of what half of its rise costs
    matched:kl/ref_k3=0.5                     the value where another metric gets there

Budgets are `UNITS`. Functions of one run take `x [n]` (cumulative cost at each evaluation) and `values [n]`; both may
hold NaN, and such evaluations are left out. `endpoint_values` applies an endpoint to every run of a sweep.

**When has a noisy curve arrived?** The first evaluation at the target rewards noise: the more a curve scatters, the
sooner one of its evaluations is high enough. Here a curve arrives at the k that best divides it into evaluations below
and above the target c, the minimum of Sₖ = Σ_{i≤k} (yᵢ − c). This is where the isotonic regression of the curve crosses
c (the switch relation: Groeneboom 1985; Barlow et al. 1972). Noise moves it as often later as earlier: mirrored in time
and around c, a curve has the mirrored crossing. It asks for no bandwidth. A curve that gets there and falls back for
longer than it stayed has not arrived.

**How are costs compared?** By the restricted mean: the mean over all seeds of min(cost, budget), with one budget for
all runs (Royston & Parmar 2013). As every run is followed to the budget, censoring is the same for all, and the area
below the Kaplan-Meier curve is this plain mean: paired differences, their t interval and sign flips hold as for scores.
It has a unit, and no seed is left out. A rank test has no size, and its interval asks for six seeds. The price: where
runs do not arrive a difference of restricted means is smaller than that of the costs, so arrivals are reported.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.special import ndtr, stdtrit

from rlexp.analysis.data.errors import AnalysisError, NothingLeft
from rlexp.analysis.data.load import SweepData
from rlexp.analysis.data.metric_spec import better_direction, direction_sign
from rlexp.analysis.data.run_values import (
    FEWEST_DONE,
    LEAST_RISE,
    REASONS,
    RunValues,
    cumulative_cost,
    resolve_metric,
    saturation,
    values_per_run,
)
from rlexp.runfolder.rows import late_count

Array = np.ndarray

UNITS = {
    "steps": "steps",
    "updates": "updates",
    "completions": "rollouts",
    "tokens": "tokens",
    "verdicts": "verdicts",
    "seconds": "time",
}
"""Budgets of an endpoint, and what `--at` calls them."""
FORMS = ("exponential", "sigmoid")
KINDS = ("final", "auc", "cost", "asymptote", "speed", "matched")
ALLOWED = (
    "final  auc[:BUDGET]  cost:METRIC>=VALUE[:BUDGET]  asymptote[:FORM][:BUDGET]  speed[:FORM][:BUDGET]  "
    f"matched:METRIC=VALUE, with FORM {' or '.join(FORMS)} and BUDGET {', '.join(UNITS)} or tokens=5000"
)
SHARE = 0.1  # of the evaluations that a late mean takes, unless the sweep says otherwise
RESAMPLES = 2_000


class Endpoint(NamedTuple):
    """What is compared of a run. `parse_endpoint` reads it, `str` writes it."""

    kind: str = "final"
    """One of `KINDS`."""
    unit: str = "steps"
    """Of the horizontal axis, one of `UNITS`."""
    budget: float | None = None
    """Up to where on it; as far as all completed runs have come unless given."""
    metric: str | None = None
    """Of the target (`cost`), or of what is matched."""
    value: float | None = None
    """How high it has to be (`cost`), or where it is matched."""
    below: bool = False
    """Whether a target is met from above, as `kl<=0.1`."""
    form: str = "exponential"
    """Of the fitted curve, one of `FORMS`."""

    def __str__(self) -> str:
        """As `parse_endpoint` takes it, without what is understood."""
        parts = [self.kind]
        if self.metric is not None:
            sign = "=" if self.kind == "matched" else "<=" if self.below else ">="
            parts.append(f"{self.metric}{sign}{_shortest(self.value)}")
        if self.form != FORMS[0]:
            parts.append(self.form)
        if self.budget is not None:
            parts.append(f"{self.unit}={_shortest(self.budget)}")
        elif self.unit != "steps":
            parts.append(self.unit)
        return ":".join(parts)


def parse_endpoint(text: str) -> Endpoint:
    """Read an endpoint as a command line has it; `ALLOWED` is the grammar.

    Raises:
        AnalysisError: it is none, in one line that lists what is allowed.
    """
    kind, *parts = text.strip().split(":")
    asks, takes_form = kind in ("cost", "matched"), kind in ("asymptote", "speed")
    found = Endpoint(kind)
    target = re.fullmatch(r"(.+?)(>=|<=|=)([^<>=]+)", parts[0]) if asks and parts else None
    if target and (target[2] == "=") == (kind == "matched"):
        value = _number(target[3])
        found = found._replace(metric=target[1], value=value, below=target[2] == "<=")
        parts = parts[1:]
    if takes_form and parts and parts[0] in FORMS:
        found = found._replace(form=parts[0])
        parts = parts[1:]
    if parts and kind not in ("final", "matched"):
        unit, equals, amount = parts[0].partition("=")
        if unit in UNITS and not (equals and takes_form):  # a curve is fitted to all that a run has
            budget = _number(amount) if equals else None
            found = found._replace(unit=unit, budget=budget)
            parts = parts[1:]
    numbers = [each for each in (found.value, found.budget) if each is not None]
    missing = asks and found.metric is None
    if (
        kind not in KINDS
        or parts
        or missing
        or not np.isfinite(numbers).all()
        or (found.budget is not None and found.budget <= 0)
    ):
        raise AnalysisError(f"'{text}' is no endpoint; allowed: {ALLOWED}")
    return found


def _shortest(value: float) -> str:
    """The number with all its digits, and no more."""
    return repr(float(value)).removesuffix(".0")


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return np.nan


# --- of one run -------------------------------------------------------------------------------------------------------


def known(x: Array, values: Array) -> tuple[Array, Array]:
    """The evaluations `[m]` where both `x [n]` and `values [n]` are finite, in the order of x.

    Raises:
        AnalysisError: they are not of the same length.
    """
    x, values = np.asarray(x, dtype=float), np.asarray(values, dtype=float)
    if x.shape != values.shape or x.ndim != 1:
        raise AnalysisError(f"a curve has as many x as values: {x.shape} and {values.shape} are not [n] and [n]")
    there = np.isfinite(x) & np.isfinite(values)
    order = np.argsort(x[there], kind="stable")
    return x[there][order], values[there][order]


def final_value(values: Array, share: float = SHARE) -> float:
    """Mean of the last max(1, ⌈share · m⌉) of the m finite values `[n]`, as a score is; none: NaN."""
    values = np.asarray(values, dtype=float)
    values = values[np.isfinite(values)]
    return float(values[-late_count(values.size, share) :].mean()) if values.size else np.nan


def area_under_curve(x: Array, values: Array, budget: float, start: float | None = None) -> float:
    """Mean height of the curve between `start` and `budget`: its area by trapezoids, divided by the range.

    Args:
        x: Cumulative cost at each evaluation `[n]`.
        values: Of each evaluation `[n]`.
        budget: The right end; the curve is interpolated there.
        start: The left end; the first evaluation unless given.

    Returns:
        In the unit of the values. NaN where the curve does not span the range: nothing is extrapolated.
    """
    x, values = known(x, values)
    if not x.size:
        return np.nan
    start = x[0] if start is None else start
    if x[0] > start or x[-1] < budget or budget <= start:
        return np.nan
    inside = (x > start) & (x < budget)
    points = np.concatenate([[start], x[inside], [budget]])
    heights = np.concatenate([np.interp([start], x, values), values[inside], np.interp([budget], x, values)])
    trapezoids = np.diff(points) * (heights[1:] + heights[:-1]) / 2  # numpy.trapezoid is of NumPy 2
    return float(trapezoids.sum() / (budget - start))


def crossing(x: Array, values: Array, level: float, hold: int = 1) -> float:
    """Where a rising curve passes a level: the crossing of its isotonic regression, interpolated between evaluations.

    Args:
        x: Cumulative cost at each evaluation `[n]`.
        values: Of each evaluation `[n]`; negate those that fall.
        level: To be passed from below.
        hold: So many evaluations have to be at or beyond the crossing; one that is high by luck is then no arrival.

    Returns:
        In the unit of x; −inf where no evaluation is left before it, inf where fewer than `hold` come after it.
    """
    x, values = known(x, values)
    place, after = _crossings(x, values[None], np.array([level]))
    return float(place[0]) if after[0] >= hold else np.inf


def _crossings(x: Array, curves: Array, levels: Array) -> tuple[Array, Array]:
    """Where each curve `[m, n]` passes its level `[m]`, and how many evaluations come after, both `[m]`."""
    m, n = curves.shape
    sums = np.concatenate([np.zeros((m, 1)), np.cumsum(curves - levels[:, None], -1)], -1)
    below = sums.argmin(-1)  # so many evaluations are below
    place = np.where(below == 0, -np.inf, np.inf)
    rows = np.flatnonzero((below > 0) & (below < n))
    first = below[rows] - 1
    before, after = curves[rows, first], curves[rows, first + 1]  # the level lies between them, or sums had gone on
    part = np.divide(levels[rows] - before, after - before, out=np.zeros(rows.size), where=after > before)
    place[rows] = x[first] + part * (x[first + 1] - x[first])
    return place, n - below


class Cost(NamedTuple):
    """What a target cost a run."""

    cost: float
    """In the unit of x; the budget where the run has not arrived by then."""
    arrived: bool


def cost_to_target(
    x: Array, values: Array, target: float, budget: float, below: bool = False, share: float = SHARE
) -> Cost:
    """What it costs until the curve is at its target, at most the budget. The rule and its reasons: top of this file.

    Args:
        x: Cumulative cost at each evaluation `[n]`.
        values: Of each evaluation `[n]`.
        target: How high (low) the curve has to be.
        budget: What a run that has not arrived counts as; evaluations beyond it are not looked at.
        below: Whether the curve has to fall to the target.
        share: It has to stay for as many evaluations as this late share has, which is what a score averages.

    Returns:
        A curve that is there from its first evaluation costs what that one does. No evaluations: NaN, not arrived.
    """
    x, values = known(x, values)
    inside = x <= budget
    x, values = x[inside], values[inside]
    if not x.size:
        return Cost(np.nan, False)
    sign = -1 if below else 1
    place = crossing(x, sign * values, sign * target, late_count(x.size, share))
    return Cost(float(np.clip(place, x[0], budget)), bool(place <= budget))


def value_at_match(x: Array, quantity: Array, values: Array, level: float, falling: bool = False) -> float:
    """The value where another quantity of the same run passes a level, both interpolated; NaN where it never does.

    Args:
        x: Cumulative cost at each evaluation `[n]`.
        quantity: What is matched, `[n]`.
        values: What is measured, `[n]`.
        level: Where the quantity is matched.
        falling: Whether it comes from above.

    Returns:
        In the unit of the values. NaN too where the quantity is past the level from the first evaluation on, or where
        no value is known on both sides.
    """
    sign = -1 if falling else 1
    place = crossing(x, sign * np.asarray(quantity, dtype=float), sign * level)
    x, values = known(x, values)
    if not x.size or not x[0] <= place <= x[-1]:
        return np.nan
    return float(np.interp(place, x, values))


# --- fitted curves ----------------------------------------------------------------------------------------------------


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
    bounds = np.array(
        [
            [values.min() - spread, values.max() + spread],
            [values.min() - spread, values.max() + spread],
            [low_mid, high_mid],
            np.log(STEEPNESS),
        ]
    ).T

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


# --- against a baseline -----------------------------------------------------------------------------------------------


class SpeedUp(NamedTuple):
    """How many times less of the budget an arm takes to get to where the baseline ends."""

    ratio: float
    """Cost of the baseline divided by that of the arm; where the arm never gets there the largest it can be."""
    low: float
    high: float
    target: float
    """Final value of the baseline, the mean over seeds."""
    cost: float
    """Of the arm; inf where its mean curve never gets there."""
    baseline_cost: float
    reached: float
    """Share of the bootstrap draws in which the arm gets there."""

    @property
    def bound(self) -> bool:
        """Whether the ratio is only an upper bound."""
        return bool(np.isinf(self.cost))


def speed_up(
    x: Array, curves: Array, baseline: Array, sign: int = 1, share: float = SHARE, resamples: int = RESAMPLES
) -> SpeedUp:
    """Effective speed-up of an arm: cost of the baseline's final value, of the baseline divided by of the arm.

    Both costs are crossings of mean curves by the same rule, so that an arm that is the baseline has 1. (The whole
    budget divided by the arm's cost would give any arm, the baseline itself too, more than 1 where it has a plateau.)
    Seeds are resampled in pairs, the target anew in each draw. The interval is the percentile bootstrap, expanded for
    few seeds: tails of Φ(−t(n−1)·√(n/(n−1))) in place of 2.5 % (Hesterberg 2015, section 5.3). A draw in which the arm
    does not get there counts as 0 at the low end, and as its upper bound at the high one.

    Args:
        x: Cumulative cost at each evaluation `[n]`, the same of all runs.
        curves: Of the arm `[seeds, n]`.
        baseline: Of the baseline, on the same seeds `[seeds, n]`.
        sign: −1 where lower is better.
        share: Of the evaluations that make the final value.
        resamples: Bootstrap draws, of a fixed random stream; the order of the seeds does not matter.

    Returns:
        NaN ratio where the baseline does not rise; NaN ends for fewer than two seeds.
    """
    x, curves, baseline = (np.asarray(each, dtype=float) for each in (x, curves, baseline))
    if curves.shape != baseline.shape or curves.ndim != 2 or curves.shape[-1] != x.size or not x.size:
        raise AnalysisError(f"curves {curves.shape} and {baseline.shape} are not [seeds, {x.size}] and of one shape")
    curves, baseline = sign * curves, sign * baseline
    order = np.lexsort(np.concatenate([curves, baseline], -1).T)
    curves, baseline = curves[order], baseline[order]
    n = len(curves)
    cost, own, target = _costs(x, curves.mean(0)[None], baseline.mean(0)[None], share)
    ratio = float(_ratios(cost, own, x[-1])[0])
    low = high = reached = np.nan
    if n > 1:
        draws = np.random.default_rng(0).multinomial(n, np.full(n, 1 / n), resamples) / n
        costs, owns, _ = _costs(x, draws @ curves, draws @ baseline, share)
        upper = _ratios(costs, owns, x[-1])
        lower = np.where(np.isinf(costs), 0.0, upper)
        tail = float(ndtr(-stdtrit(n - 1, 0.975) * np.sqrt(n / (n - 1))))
        known_draws = ~np.isnan(upper)
        if known_draws.mean() > 0.5:
            low = float(np.quantile(lower[known_draws], tail, method="lower"))
            high = float(np.quantile(upper[known_draws], 1 - tail, method="higher"))
        reached = float(np.isfinite(costs).mean())
    return SpeedUp(ratio, low, high, float(sign * target[0]), float(cost[0]), float(own[0]), reached)


def _costs(x: Array, curves: Array, baseline: Array, share: float) -> tuple[Array, Array, Array]:
    """Costs of the baseline's final value, of mean curves `[m, n]`: of the arm, of the baseline; and that value."""
    target = baseline[:, -late_count(x.size, share) :].mean(-1)
    cost, own = _crossings(x, curves, target)[0], _crossings(x, baseline, target)[0]
    return np.where(np.isneginf(cost), x[0], cost), np.minimum(own, x[-1]), target


def _ratios(cost: Array, own: Array, budget: float) -> Array:
    """Costs of the baseline divided by those of the arm, of which none is beyond the budget; NaN without a rise."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(np.isneginf(own) | (own <= 0), np.nan, own / np.minimum(cost, budget))


# --- of a sweep -------------------------------------------------------------------------------------------------------

NEVER, SHORT, NOTHING, DOUBTED = "never reached", "spent less than the budget", "no evaluations", "not to be believed"
STATUSES = {"cost": ("completed", "diverged")}
"""Of the runs that have an endpoint; a run that diverged never arrives. All others: completed."""


def endpoint_table(data: SweepData, endpoint: Endpoint, metric: str | None = None) -> pd.DataFrame:
    """The endpoint of each run that can have one.

    Args:
        data: Of a sweep, read with all metrics that are named.
        endpoint: As declared.
        metric: Whose curve it is; that of the score unless named. Costs and matched quantities name their own.

    Returns:
        By the runs' names: variant, seed, value, and a note: why the value is missing, that it is the budget (`never
        reached`, of a cost), or that the fits of this arm foretold the second halves of their curves worse than the
        last value carried forward (`not to be believed`: `pool_forecasts`). attrs: `budget`, in the endpoint's unit,
        where it has one.

    Raises:
        AnalysisError: a metric that no run logged, or that fits several. NothingLeft: no run has come so far.
    """
    runs = data.runs[data.runs["status"].isin(STATUSES.get(endpoint.kind, ("completed",)))].set_index("name")
    table = runs[["variant", "seed"]].copy()
    if endpoint.kind == "final":
        table["value"] = values_per_run(data, metric).values.reindex(table.index).astype(float)
        return table.assign(note=np.where(table["value"].isna(), NOTHING, ""))
    wanted = endpoint.metric if endpoint.kind == "cost" else metric or data.score_metric or "score"
    names = [resolve_metric(data, wanted)]
    if endpoint.kind == "matched":
        names.append(resolve_metric(data, endpoint.metric))
    columns = pd.DataFrame({"x": cumulative_cost(data, UNITS[endpoint.unit]).to_numpy(), "name": data.metrics["name"]})
    columns = columns.assign(**{f"y{place}": data.metrics[name] for place, name in enumerate(names)})
    columns = columns[np.isfinite(columns["x"]) & columns["name"].isin(table.index)]
    groups = {name: group.drop(columns="name").to_numpy(float).T for name, group in columns.groupby("name", sort=False)}
    curves = {name: groups.get(name, np.empty((1 + len(names), 0))) for name in table.index}
    lasts = {name: known(*curves[name][:2])[0] for name in table.index}
    ends = pd.Series({name: x[-1] if x.size else np.nan for name, x in lasts.items()}, dtype=float)
    ends = ends[(runs["status"] == "completed").reindex(ends.index)]
    if not ends.notna().any():
        raise NothingLeft(f"no completed run has logged {names[0]} and its {endpoint.unit}")
    budget = endpoint.budget or float(ends.min())
    if endpoint.kind in ("auc", "cost") and not (ends >= budget).any():
        raise NothingLeft(f"no completed run has come to {budget:,.6g} {endpoint.unit}; the most is {ends.max():,.6g}")
    measure = _measure(data, endpoint, names, curves, budget)
    completed = (runs["status"] == "completed").to_dict()
    found = {
        name: measure(curve, completed[name]) if lasts[name].size else (np.nan, NOTHING)
        for name, curve in curves.items()
    }
    values, notes = zip(*(found[name] for name in table.index), strict=True)
    table = table.assign(value=np.array(values, dtype=float), note=np.array(notes, dtype=object))
    if endpoint.kind in ("asymptote", "speed"):
        better = better_direction(names[0], data.score_metric)
        sign = direction_sign(better) if better else 0
        for _, group in table[table["value"].notna()].groupby("variant", sort=False):
            checks = [
                check_forecast(*curves[name], endpoint.form, late=data.score_share, sign=sign) for name in group.index
            ]
            if not pool_forecasts(checks).believed:
                table.loc[group.index, "note"] = DOUBTED
    if endpoint.kind in ("auc", "cost"):
        table.attrs["budget"] = budget
    return table


Measure = Callable[[Array, bool], tuple[float, str]]


def _measure(
    data: SweepData, endpoint: Endpoint, names: Sequence[str], curves: Mapping[str, Array], budget: float
) -> Measure:
    """How the curve `[2 or 3, n]` of one run becomes its value and note, given whether it completed."""
    share = data.score_share
    better = better_direction(names[0], data.score_metric)
    sign = direction_sign(better) if better else 0

    def auc(curve: Array, completed: bool) -> tuple[float, str]:
        area = area_under_curve(*curve[:2], budget, start)
        return area, SHORT if np.isnan(area) else ""

    def cost(curve: Array, completed: bool) -> tuple[float, str]:
        found = cost_to_target(*curve[:2], endpoint.value, budget, endpoint.below, share)
        if found.arrived:
            return found.cost, ""
        if completed and known(*curve[:2])[0][-1] < budget:
            return np.nan, SHORT
        return budget, NEVER

    def fit(curve: Array, completed: bool) -> tuple[float, str]:
        found = fit_curve(*curve[:2], endpoint.form, sign)
        if found.missing or (endpoint.kind == "speed" and np.isnan(found.half)):
            return np.nan, found.missing or "risen by the second evaluation"
        value = found.asymptote if endpoint.kind == "asymptote" else -np.log2(found.half)
        return value, ""

    def matched(curve: Array, completed: bool) -> tuple[float, str]:
        value = value_at_match(curve[0], curve[2], curve[1], endpoint.value, falling)
        return value, NEVER if np.isnan(value) else ""

    firsts = [known(curve[0], curve[-1]) for curve in curves.values()]
    firsts = [(x[0], y[0]) for x, y in firsts if x.size]
    start, first = max(x for x, _ in firsts), float(np.median([y for _, y in firsts]))
    falling = endpoint.kind == "matched" and first > endpoint.value  # one direction for all runs
    return {"auc": auc, "cost": cost, "asymptote": fit, "speed": fit, "matched": matched}[endpoint.kind]


def endpoint_values(data: SweepData, endpoint: Endpoint, metric: str | None = None) -> RunValues:
    """The endpoint of each run by its name, with remarks on who has none, as `compare(run_values=…)` takes it.

    A cost is restricted to the budget, so it is finite and not ranked. Arguments and errors: `endpoint_table`.
    """
    if endpoint.kind == "final":
        return values_per_run(data, metric)
    table = endpoint_table(data, endpoint, metric)
    if not table["value"].notna().any():
        reasons = ", ".join(f"{count} {note}" for note, count in table["note"].value_counts().items())
        raise NothingLeft(f"no run has {endpoint}: {reasons}")
    wanted = endpoint.metric if endpoint.kind == "cost" else metric or data.score_metric or "score"
    of = resolve_metric(data, wanted)
    better = better_direction(of, data.score_metric)
    remarks = []
    if "budget" in table.attrs:
        least = "as declared" if endpoint.budget else "as far as every completed run has come"
        remarks.append(f"Up to {table.attrs['budget']:,.6g} {endpoint.unit}, {least}.")
    if endpoint.kind == "cost":
        remarks.append(_arrivals(data, table))
    rest = table[table["note"].ne("") & ~((endpoint.kind == "cost") & table["note"].eq(NEVER))]
    for note, group in rest.groupby("note", sort=True):
        told = "Kept" if note == DOUBTED else "Without a value"
        remarks.append(f"{told} ({note}): {_counted(data, group)}.")
    if endpoint.unit == "seconds":
        remarks.append("Runs that trained as one batch share one clock: their times do not tell the arms apart.")
    match endpoint.kind:
        case "auc":
            how = f"mean height of its curve over {endpoint.unit}, by trapezoids"
        case "cost":
            how = f"{endpoint.unit} where its isotonic regression gets there, at most the budget"
            better = "lower"
        case "matched":
            how = f"where {resolve_metric(data, endpoint.metric)} passes {endpoint.value:g}, interpolated"
        case "asymptote":
            how = f"where the {endpoint.form} through its curve over {endpoint.unit} ends"
        case _:
            how = f"−log₂ of the {endpoint.unit} to half of the rise of the {endpoint.form} through its curve"
            better = "higher"
    statuses = STATUSES.get(endpoint.kind, ("completed",))
    title = f"{endpoint}" if endpoint.kind == "cost" else f"{of}, {endpoint}"
    return RunValues(table["value"], title, how, remarks, better, statuses=statuses)


def _arrivals(data: SweepData, table: pd.DataFrame) -> str:
    """`Arrived: local 8/10, hybrid 10/10. …`, of the runs that have a cost."""
    known_runs = table[table["value"].notna()]
    arrived = known_runs["note"].ne(NEVER).groupby(known_runs["variant"])
    counts = [f"{data.labels[arm]} {arrived.sum()[arm]}/{arrived.size()[arm]}" for arm in arrived.sum().index]
    ordered = sorted(counts, key=lambda text: list(data.labels.values()).index(text.rsplit(" ", 1)[0]))
    text = f"Arrived: {', '.join(ordered)}."
    if known_runs["note"].eq(NEVER).any():
        text += " The others count with the budget, so differences are smaller than those of the costs."
    return text


def _counted(data: SweepData, group: pd.DataFrame) -> str:
    """`local 2, hybrid 1`, in the order of the arms."""
    counts = group["variant"].value_counts()
    return ", ".join(f"{data.labels[arm]} {counts[arm]}" for arm in data.variants if arm in counts)


def speed_ups(data: SweepData, baseline: str, unit: str = "steps", metric: str | None = None) -> dict[str, SpeedUp]:
    """The speed-up of each other arm, over the seeds that it shares with the baseline.

    Args:
        data: Of a sweep.
        baseline: One of its variants.
        unit: One of `UNITS`.
        metric: Whose curve it is; that of the score unless named.

    Returns:
        By variant; an arm that shares no seed with the baseline is absent. Curves are interpolated to as many points,
        evenly spaced over what all runs span, as the run with the fewest evaluations has.
    """
    name = resolve_metric(data, metric or data.score_metric or "score")
    sign = direction_sign(better_direction(name, data.score_metric))
    if unit not in UNITS:
        raise AnalysisError(f"'{unit}' is no unit of a budget; choose one of: {'  '.join(UNITS)}")
    if baseline not in data.variants:
        raise AnalysisError(f"'{baseline}' is not a variant; choose one of: {'  '.join(data.variants)}")
    amounts = cumulative_cost(data, UNITS[unit])
    runs = data.runs[(data.runs["status"] == "completed") & data.runs["seed"].notna()]
    runs = runs.drop_duplicates(["variant", "seed"]).set_index(["variant", "seed"])["name"]
    rows = pd.DataFrame({"x": amounts, "y": data.metrics[name], "name": data.metrics["name"]})
    grouped = {run: known(group["x"], group["y"]) for run, group in rows.groupby("name", sort=False)}
    curves = {key: grouped[run] for key, run in runs.items() if run in grouped and grouped[run][0].size > 1}
    if not curves:
        raise NothingLeft(f"no completed run has logged {name} and its {unit}")
    low, high = max(x[0] for x, _ in curves.values()), min(x[-1] for x, _ in curves.values())
    if not low < high:
        raise NothingLeft(f"the curves of {name} have no range of {unit} in common")
    grid = np.linspace(low, high, min(x.size for x, _ in curves.values()))
    found = {}
    for arm in data.variants:
        seeds = sorted(seed for variant, seed in curves if variant == arm and (baseline, seed) in curves)
        if arm == baseline or not seeds:
            continue
        pairs = [[np.interp(grid, *curves[each, seed]) for seed in seeds] for each in (arm, baseline)]
        found[arm] = speed_up(grid, *map(np.array, pairs), sign, data.score_share)
    return found
