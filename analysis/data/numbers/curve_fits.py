"""A saturating curve through the evaluations of a run: where it ends, and how fast it gets there.

    y(t) = start + (asymptote − start) · (1 − exp(−t / τ))

Half of the rise is done after τ · ln 2 steps. For each τ of a grid start and asymptote are those of least squares; the
best τ is then refined between its neighbours (variable projection: Golub and Pereyra 1973).
"""

from typing import NamedTuple

import numpy as np

Array = np.ndarray

FEWEST = 6  # evaluations: twice as many as the curve has parameters
FEWEST_DONE = 2 / 3  # of the rise, by the last evaluation: beyond that an asymptote is a guess
LEAST_RISE = 3.0  # standard deviations of the residuals
GRID, ROUNDS = 61, 3
FASTEST = 0.2  # of the first distance between evaluations: a half-life below it looks like a jump
REASONS = ("too few evaluations", "no rise", "too far from its asymptote")


class Fit(NamedTuple):
    """A curve, or why there is none."""

    start: float = np.nan
    asymptote: float = np.nan
    half: float = np.nan
    """Steps until half of the rise is done; NaN if it was by the second evaluation."""
    missing: str = ""
    """One of `REASONS`, if start, asymptote and half are not known."""


def saturation(steps: Array, values: Array, sign: int = 0) -> Fit:
    """The curve through `values [n]` at `steps [n]`.

    sign: whether it must rise (1) or fall (-1) to be one; 0 for either.
    """
    known = np.isfinite(values)
    steps, values = np.asarray(steps, dtype=float)[known], np.asarray(values, dtype=float)[known]
    if values.size < FEWEST:
        return Fit(missing=REASONS[0])
    span, gap = steps[-1] - steps[0], np.diff(steps).min()
    times = steps - steps[0]
    slowest, fastest = 10 * span, FASTEST * gap / np.log(2)
    tau = _best_tau(times, values, fastest, slowest)
    start, rise, error = (float(each[0]) for each in _lines(times, values, np.array([tau])))
    done = 1 - np.exp(-span / tau)
    if abs(rise) * done <= LEAST_RISE * error or (sign and np.sign(rise) != sign):
        return Fit(missing=REASONS[1])
    if done < FEWEST_DONE:
        return Fit(missing=REASONS[2])
    jumped = tau <= fastest * 1.001
    return Fit(start, start + rise, np.nan if jumped else tau * np.log(2))


def _best_tau(times: Array, values: Array, low: float, high: float) -> float:
    """The τ with the smallest residuals, on a grid that is made closer around the best."""
    for _ in range(ROUNDS):
        taus = np.geomspace(low, high, GRID)
        best = int(_lines(times, values, taus)[2].argmin())
        low, high = taus[max(best - 1, 0)], taus[min(best + 1, GRID - 1)]
    return float(taus[best])


def _lines(times: Array, values: Array, taus: Array) -> tuple[Array, Array, Array]:
    """Start, rise and the residuals' standard deviation, of least squares at each τ `[m]`."""
    done = -np.expm1(-times / taus[:, None])
    centred = done - done.mean(-1, keepdims=True)
    spread = (centred**2).sum(-1)
    rise = np.divide(centred @ values, spread, out=np.zeros_like(spread), where=spread > 0)
    start = values.mean() - rise * done.mean(-1)
    residuals = values - start[:, None] - rise[:, None] * done
    return start, rise, np.sqrt((residuals**2).sum(-1) / (values.size - 3))
