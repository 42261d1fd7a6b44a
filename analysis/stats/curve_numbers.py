"""Numbers of one learning curve: its final value, its area, what a target costs, its value where another is matched.

Functions take `x [n]` (cumulative cost at each evaluation) and `values [n]`; both may hold NaN, and such evaluations
are left out.

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

from typing import NamedTuple

import numpy as np

from rlexp.analysis.data.errors import AnalysisError
from rlexp.runfolder.rows import late_count

Array = np.ndarray
SHARE = 0.1  # of the evaluations that a late mean takes, unless the sweep says otherwise


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
    place, after = crossings(x, values[None], np.array([level]))
    return float(place[0]) if after[0] >= hold else np.inf


def crossings(x: Array, curves: Array, levels: Array) -> tuple[Array, Array]:
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
