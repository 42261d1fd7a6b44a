"""Learning-rate curves: an arm's score over a grid of rates, its best with the choice inside the uncertainty.

What is said of rates holds for any number that is tuned on a geometric grid. Higher scores are better: whoever wants a
low metric turns its sign. All seeds are trained at all rates, so a rate is not chosen by some seeds and judged by
others. The best of several means is too high, by luck. `best_value` counts how much, by choosing anew in each bootstrap
draw of the seeds, and takes it off: the optimism of Efron and Tibshirani (An Introduction to the Bootstrap, 1993,
section 17.6). Two standard errors then compete, and the larger one counts:

- that of the seeds at the chosen rate, as if nobody had chosen;
- the standard deviation over bootstrap draws of the best, chosen anew in each.

`python -m benchmarks.rates` measures four ways against the truth, for 3 and 9 rates, 5 to 20 seeds, seven curves and
three correlations over rates. Share of nominal 95 % intervals that hold it (lowest: of curves by rates by seeds),
without the curve whose runs collapse, which is below:

                                               best value  lowest    difference  lowest
    larger error, optimism taken off (used)          .951    .927          .956    .928
    SD of the draws, optimism taken off              .940    .918          .936    .878
    cross-fitted over five folds, t interval         .913    .877          .887    .833
    t interval at the chosen rate                    .946    .868          .955    .873

On flat curves of nine uncorrelated rates cross-fitting holds .85 and .82: folds choose different rates by each other's
seeds, so what they report is correlated in a way that no t interval sees. No way survives rare large losses with few
seeds: where runs collapse at the rate beside the best, .86 of the intervals of five seeds hold, and .94 of ten.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln, ndtri, stdtr, stdtrit

from rlexp.analysis.data.errors import AnalysisError
from rlexp.analysis.stats.estimates import iqm, iqm_interval, mean_difference

Array = np.ndarray

RESAMPLES = 2_000
MOST_RATES = 9  # of a grid that grows by itself
CONFIDENCE = 0.95


class RateGrid(NamedTuple):
    """One arm at several rates."""

    rates: Array
    """Increasing, `[rates]`."""
    values: Array
    """A score per rate and seed, `[rates, seeds]`; NaN where a run has none. The rate is chosen by them."""
    read: Array | None = None
    """Another number of the same runs, of which the value at the chosen rate is asked; None: that of the score."""

    @property
    def complete(self) -> Array:
        """Whether each rate has both numbers on all seeds, and may be chosen, `[rates]`."""
        return ~np.isnan(self._both).any((0, 2))

    @property
    def best(self) -> int:
        """The place of the highest mean of those that may be chosen; of equal ones the lowest rate."""
        return int(np.where(self.complete, self.values.mean(-1), -np.inf).argmax())

    @property
    def _both(self) -> Array:
        """`[1 or 2, rates, seeds]`: what is chosen by, and last what is read."""
        return np.stack([self.values] if self.read is None else [self.values, self.read])


def rate_grid(rates: Sequence[float] | Array, values: Array, floor: float | None = None) -> RateGrid:
    """Check and sort the scores of one arm.

    A run that collapsed has a score, and it counts like any other. A run without a score, as it diverged or is missing,
    counts as `floor`, the score of a collapsed run (0 for an accuracy). Without a floor its rate cannot be the best:
    the mean of the seeds that survived would favor rates that are too high.

    Args:
        rates: above 0, each once, `[rates]`, in any order.
        values: higher is better, `[rates, seeds]`; NaN where a run has no score.
        floor: what a run without a score counts as; None: its rate is left out of every choice.

    Raises:
        AnalysisError: shapes do not fit, rates repeat or are not above 0, a score is infinite, or no rate has a score
            on all seeds.
    """
    rates, values = np.asarray(rates, dtype=float), np.asarray(values, dtype=float)
    if rates.ndim != 1 or values.ndim != 2 or len(rates) != len(values) or not values.size:
        raise AnalysisError(f"rates {rates.shape}, scores {values.shape}: must be [rates] and [rates, seeds]")
    if not (np.isfinite(rates) & (rates > 0)).all() or len(set(rates.tolist())) < len(rates):
        raise AnalysisError(f"rates {rates.tolist()}: must be numbers above 0, each once")
    if np.isinf(values).any():
        raise AnalysisError("a score is infinite: must be a number, or NaN for a run without one")
    order = np.argsort(rates)
    values = values[order] if floor is None else np.where(np.isnan(values[order]), float(floor), values[order])
    grid = RateGrid(rates[order], values)
    if not grid.complete.any():
        raise AnalysisError("no rate has a score on all seeds: give the score of a run without one as `floor`")
    return grid


class ResponseCurve(NamedTuple):
    """Score over rates: mean and interquartile mean with their 95 % intervals, `[rates]` each."""

    rates: Array
    mean: Array
    low: Array
    high: Array
    iqm: Array
    iqm_low: Array
    iqm_high: Array
    n: Array
    """Runs with a score."""


def response_curve(grid: RateGrid) -> ResponseCurve:
    """Mean with the t interval and IQM with the bootstrap interval at each rate, pointwise, of runs with a score.

    Fewer than two runs: NaN ends.
    """
    ordered = np.sort(grid.values, axis=-1)
    counts = (~np.isnan(ordered)).sum(-1)
    means = np.array([mean_difference(row[:n])[:3] for row, n in zip(ordered, counts, strict=True)]).T
    return ResponseCurve(grid.rates, *means, iqm(ordered), *iqm_interval(ordered), counts)


@lru_cache(maxsize=64)
def bootstrap_weights(n: int, stream: int = 0) -> Array:
    """How often each of n seeds is in each bootstrap draw, over n: `[RESAMPLES, n]`.

    All draws together have each seed equally often, so a mean that nobody chose has no optimism at all: the balanced
    bootstrap of Davison, Hinkley and Schechtman (1986).
    """
    drawn = np.random.default_rng([stream, n]).permutation(np.repeat(np.arange(n), RESAMPLES)).reshape(RESAMPLES, n)
    places = (drawn + n * np.arange(RESAMPLES)[:, None]).ravel()
    return np.bincount(places, minlength=RESAMPLES * n).reshape(RESAMPLES, n) / n


def sorted_seeds(*numbers: Array) -> list[Array]:
    """Seeds in an order that depends on their numbers `[..., rates, seeds]` only; two arms, in either order, are
    sorted alike.
    """
    rows = [each.reshape(-1, each.shape[-1]) for each in numbers]
    means = [np.where(np.isnan(each), 0.0, each).mean(0) for each in rows]
    keys = [row for each in rows for row in each] + [abs(means[0] - means[-1]), means[0] + means[-1]]
    order = np.lexsort(keys)  # the last key first
    return [each[..., order] for each in numbers]


class _Ranked(NamedTuple):
    """Weighted means of ranked rates, with what the ranking adds to them by luck, `[k]` each."""

    mean: Array
    optimism: Array
    by_seed: Array
    """`[k, seeds]`: the rates as ranked by all seeds."""
    draws: Array
    """`[RESAMPLES, k]`: ranked anew in each draw."""


def _ranked(numbers: Array, weights: Array, stream: int = 0) -> _Ranked:
    """Rank the rates of `numbers [1 or 2, rates, seeds]` by their first means, and weigh the last ones by rank.

    weights: `[k, rates]`.
    """
    values, read = numbers[0], numbers[-1]
    drawn_seeds = bootstrap_weights(values.shape[-1], stream)
    ranks = np.argsort(-(drawn_seeds @ values.T), axis=-1, kind="stable")[:, ::-1]  # the best last; of equal the lowest
    mean = read.mean(-1)
    drawn = np.take_along_axis(drawn_seeds @ read.T, ranks, -1) @ weights.T
    luck = (drawn - mean[ranks] @ weights.T).mean(0)
    order = np.argsort(-values.mean(-1), kind="stable")[::-1]
    return _Ranked(weights @ mean[order], luck, weights @ read[order], drawn)


def _interval(estimate: Array, by_seed: Array, draws: Array) -> tuple[Array, Array, Array]:
    """Ends of the t interval by the larger of two standard errors, and that error, `[k]` each; one seed: NaN.

    The SD of the draws is set against that of the same draws of the plain mean, whose standard error is known exactly:
    few draws then add no noise, and with one rate the interval is that of the t test.

    Args:
        estimate: `[k]`.
        by_seed: what each seed has at the chosen rates, `[k, seeds]`.
        draws: chosen anew in each draw, `[RESAMPLES, k]`.
    """
    n = by_seed.shape[-1]
    if n < 2:
        return (np.full_like(estimate, np.nan),) * 3
    plain = by_seed.std(-1, ddof=1) / np.sqrt(n)
    plain = np.where(plain <= 1e-12 * np.abs(by_seed).max(-1), 0.0, plain)
    drawn = (bootstrap_weights(n) @ by_seed.T).std(0)
    scale = np.divide(plain, drawn, out=np.full_like(plain, np.sqrt(n / (n - 1))), where=plain > 0)
    error = np.maximum(plain, draws.std(0) * scale)
    error = np.where(error <= 1e-12 * np.abs(by_seed).max(-1), 0.0, error)
    half = stdtrit(n - 1, (1 + CONFIDENCE) / 2) * error
    return estimate - half, estimate + half, error


def _top(count: int) -> Array:
    """All weight on the best of so many rates."""
    return np.eye(count)[-1:]


class Best(NamedTuple):
    """An arm at its best rate, with the 95 % interval of the value."""

    rate: float
    """Of the highest mean; of equal ones the lowest rate."""
    value: float
    """That mean, less its optimism."""
    low: float
    high: float
    optimism: float
    """By how much the mean is too high because it was chosen, as counted over bootstrap draws."""
    chosen: Array
    """Share of bootstrap draws in which each rate is the best, `[rates]`."""


def best_value(grid: RateGrid) -> Best:
    """The score of an arm at the best rate of its grid, max over rates of the true mean; the choice is uncertain too.

    Where the grid has another number that is read, that one's, at the rate of the best score.

    Optimism: mean over bootstrap draws of the seeds of (best mean in the draw − mean of that rate over all seeds).
    Interval: value ± t(n−1) · the larger error (see the head of the file, also for why not cross-fitting). Where many
    rates are truly equal the count finds half to two thirds of the optimism: a flat curve of nine uncorrelated rates
    and five seeds is still .3 standard deviations of a seed's score too high, and its interval holds the truth.
    """
    complete = grid.complete
    (numbers,) = sorted_seeds(grid._both[:, complete])
    values = numbers[0]
    found = _ranked(numbers, _top(len(values)))
    estimate = found.mean - found.optimism
    low, high, _ = _interval(estimate, found.by_seed, found.draws)
    chosen = np.zeros(len(grid.rates))
    draws = (bootstrap_weights(values.shape[-1]) @ values.T).argmax(-1)
    chosen[complete] = np.bincount(draws, minlength=len(values)) / RESAMPLES
    numbers = (grid.rates[grid.best], estimate[0], low[0], high[0], found.optimism[0])
    return Best(*map(float, numbers), chosen)


class BestDifference(NamedTuple):
    """Two arms, each at its best rate: the difference of their values with its 95 % interval and p."""

    difference: float
    low: float
    high: float
    p: float
    rate: float
    baseline_rate: float


def best_difference(grid: RateGrid, baseline: RateGrid) -> BestDifference:
    """The value of an arm at its best rate less that of the baseline at its own, paired over seeds.

    Both choices are redone in each bootstrap draw, which has the same seeds of both arms; the optimism of each is taken
    off. p is two-sided, of the t statistic with n − 1 degrees of freedom whose error is that of the interval: p < .05
    exactly where the interval leaves 0 out. Errors by seed are of the paired differences at the chosen rates.

    Args:
        grid: the arm.
        baseline: the other arm; its seeds are those of the arm, in the same order. Rates may be others.

    Raises:
        AnalysisError: the arms have different numbers of seeds.
    """
    (found,) = best_contrasts([grid, baseline], np.array([[1.0, -1.0]]))
    rates = (each.rates[each.best] for each in (grid, baseline))
    return BestDifference(found.value, *found.interval(), found.p, *map(float, rates))


class BestContrast(NamedTuple):
    """A weighted sum of arms, each at its best rate, with the error that its interval is made of."""

    value: float
    error: float
    """Standard error; the t distribution has n − 1 degrees of freedom."""
    p: float
    """Two-sided, of no effect."""
    n: int
    """Seeds."""

    def interval(self, confidence: float = CONFIDENCE) -> tuple[float, float]:
        """Return the ends of the t interval; NaN for fewer than two seeds."""
        half = float(stdtrit(max(self.n - 1, 1), (1 + confidence) / 2)) * self.error
        return self.value - half, self.value + half


def best_contrasts(grids: Sequence[RateGrid], weights: Array) -> list[BestContrast]:
    """Weighted sums of the values of arms at their best rates, paired over seeds; of those that are read, if there are.

    All sums have the same bootstrap draws, in each of which the rate of each arm is chosen anew, so sums of sums are
    sums. Arms of one rate have no choice and no optimism: theirs is the mean of paired values with its t interval.

    Args:
        grids: the arms, all on the same seeds in the same order. Rates may differ.
        weights: `[sums, arms]`.

    Raises:
        AnalysisError: the arms have different numbers of seeds.
    """
    counts = sorted({grid.values.shape[-1] for grid in grids})
    if len(counts) > 1:
        raise AnalysisError(f"the arms have {' and '.join(map(str, counts))} seeds: must be the same, in one order")
    arms = sorted_seeds(*(grid._both[:, grid.complete] for grid in grids))
    ranked = [_ranked(numbers, _top(numbers.shape[1])) for numbers in arms]
    estimate = _weighted(weights, np.array([each.mean - each.optimism for each in ranked]))[:, 0]
    by_seed = _weighted(weights, np.array([each.by_seed[0] for each in ranked]))
    draws = _weighted(weights, np.array([each.draws[:, 0] for each in ranked])).T
    _, _, errors = _interval(estimate, by_seed, draws)
    return [
        BestContrast(float(value), float(error), _p(value, error, by_seed), counts[0])
        for value, error in zip(estimate, errors, strict=True)
    ]


def best_draws(grids: Sequence[RateGrid], stream: int = 0) -> Array:
    """Values of arms at their best rates in bootstrap draws of the seeds, all arms of a seed together.

    Each draw chooses the rates anew. Draws lie around the values of `best_contrasts`, and are √(n/(n − 1)) times as
    far from them as drawn: as far as values scatter, where the means of a bootstrap scatter too little.

    Args:
        grids: the arms, all on the same seeds in the same order.
        stream: of random numbers. The same one draws the same places of seeds, another one independent ones.

    Returns:
        `[RESAMPLES, arms]`; fewer than two seeds: NaN.
    """
    n = grids[0].values.shape[-1]
    ranked = [_ranked(grid._both[:, grid.complete], _top(int(grid.complete.sum())), stream) for grid in grids]
    values = np.array([each.mean[0] - each.optimism[0] for each in ranked])
    drawn = np.stack([each.draws[:, 0] for each in ranked], -1)
    return values + (drawn - drawn.mean(0)) * (np.sqrt(n / (n - 1)) if n > 1 else np.nan)


def _weighted(weights: Array, values: Array) -> Array:
    """Weighted sums of `values [arms, n]`, `[sums, n]`; one that is only rounding error is 0, as of equal arms."""
    sums = weights @ values
    return np.where(np.abs(sums) <= 1e-12 * (np.abs(weights) @ np.abs(values)), 0.0, sums)


def _p(estimate: float, error: float, values: Array) -> float:
    """Two-sided p of the t statistic; without any scatter 1 for no difference, else 0."""
    if np.isnan(error):
        return np.nan
    if error == 0:
        return 1.0 if estimate == 0 else 0.0
    return float(2 * stdtr(values.shape[-1] - 1, -abs(estimate) / error))


class Plateau(NamedTuple):
    """The rates around the best whose mean is within delta of it."""

    low: float
    high: float
    octaves: float
    """Its width, log2(high / low)."""
    octaves_low: float
    octaves_high: float
    open_low: bool
    """Whether it reaches the lowest rate of the grid: the width is then at least this."""
    open_high: bool


def plateau(grid: RateGrid, delta: float) -> Plateau:
    """The range of rates around the best whose mean is within delta of the best value, with the interval of its width.

    The best value is that of `best_value`: a level that hangs on the highest mean, which is too high by luck, would cut
    a flat curve into pieces. Between rates means are interpolated along log2(rate). A rate that may not be chosen ends
    the range. Interval: quantiles over bootstrap draws of the seeds, best and range found anew in each. What a draw's
    means differ by from those of all seeds is stretched by √(n/(n−1)) · t/z, as few seeds scatter too little in a
    bootstrap. For the low end no optimism is taken off a draw's best, for the high end twice that of the best value: a
    draw's best is lucky twice. Fewer than two seeds: NaN ends.

    Raises:
        AnalysisError: delta is not above 0.
    """
    _check_delta(delta)
    (values,) = sorted_seeds(grid.values)
    complete, n, x = grid.complete, values.shape[-1], np.log2(grid.rates)
    optimism = best_value(grid).optimism
    known = np.where(complete[:, None], values, 0.0)
    mean = known.mean(-1)
    left, right = (float(end[0]) for end in _range_around_best(x, mean[None], complete, delta + optimism))
    low = high = np.nan
    if n > 1:
        stretch = np.sqrt(n / (n - 1)) * stdtrit(n - 1, (1 + CONFIDENCE) / 2) / ndtri((1 + CONFIDENCE) / 2)
        drawn = mean + stretch * (bootstrap_weights(n) @ known.T - mean)
        tails = ((1 - CONFIDENCE) / 2, delta), ((1 + CONFIDENCE) / 2, delta + 2 * optimism)
        ranges = [(tail, _range_around_best(x, drawn, complete, below)) for tail, below in tails]
        low, high = (float(np.quantile(rights - lefts, tail)) for tail, (lefts, rights) in ranges)
    return Plateau(2**left, 2**right, right - left, low, high, bool(left == x[0]), bool(right == x[-1]))


def _check_delta(delta: float) -> None:
    if not delta > 0:
        raise AnalysisError(f"delta {delta}: must be above 0, the smallest difference that counts")


def _range_around_best(x: Array, curves: Array, complete: Array, below: float) -> tuple[Array, Array]:
    """Where `curves [k, rates]` over `x [rates]` fall to so much below their best, left and right of it, `[k]` each."""
    curves = np.where(complete, curves, -np.inf)
    right = _fall(x, curves, below)
    return -_fall(-x[::-1], curves[:, ::-1], below), right


def _fall(x: Array, curves: Array, below: float) -> Array:
    """The first x beyond the best of each curve at which it is so much lower; the last x if it never is, `[k]`."""
    rows, best = np.arange(len(curves)), curves.argmax(-1)
    level = curves[rows, best] - below
    lower = (curves < level[:, None]) & (np.arange(x.size) > best[:, None])
    found = lower.any(-1)
    after = np.where(found, lower.argmax(-1), x.size - 1)
    before = np.maximum(after - 1, 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = (curves[rows, before] - level) / (curves[rows, before] - curves[rows, after])  # 0 if the next is -inf
    return np.where(found, x[before] + share * (x[after] - x[before]), x[-1])


class Edge(NamedTuple):
    """Whether the best rate is an end of the grid beyond which the curve still rises."""

    side: str
    """`low` or `high`; empty if the best is inside, or the curve is flat at its end."""
    step: float
    """Mean at the end where the best is, less that of the rate next to it; NaN if the best is inside, or the rate next
    to it lacks a score."""
    low: float
    high: float
    """95 % paired t interval of the step."""


def edge(grid: RateGrid, delta: float) -> Edge:
    """Mark a best rate that is an end of the grid, unless its mean is less than delta/2 above that of the next rate.

    A rate next to the end that may not be chosen does not make the end flat. The mark goes by the means, not by their
    intervals: to train one rate more costs little, to stop too early costs the answer. An end that is lower than that
    is marked if the curve rises ever faster: the interval of its step is above 0, and the step is more than twice the
    one before. So begins the curve of an arm that learns at none of the rates so far, as SGD at rates of Adam.

    Raises:
        AnalysisError: delta is not above 0, or the grid has one rate.
    """
    _check_delta(delta)
    if len(grid.rates) < 2:
        raise AnalysisError("one rate: an end of a grid takes two rates or more")
    mean = np.where(grid.complete, grid.values.mean(-1), -np.inf)
    best, last = int(mean.argmax()), len(mean) - 1
    if 0 < best < last:
        return Edge("", np.nan, np.nan, np.nan)
    beside = 1 if best == 0 else last - 1
    step = mean_difference(np.sort(grid.values[best] - grid.values[beside]))
    flat = np.isfinite(mean[beside]) and mean[best] - mean[beside] < delta / 2
    if flat and last > 1:
        before = mean[beside] - mean[2 * beside - best]
        flat = not (step.low > 0 and step.mean > 2 * before)
    side = "" if flat else "low" if best == 0 else "high"
    return Edge(side, float(step.mean), float(step.low), float(step.high))


class Extension(NamedTuple):
    """What to train next for one arm."""

    rates: tuple[float, ...]
    """One factor of the grid beyond the end where the best is; none if the grid is wide enough, or may not grow."""
    side: str
    """`low`, `high` or empty, as `edge` says."""
    stuck: bool
    """Whether the best is at an end which the limits do not let it leave."""


def extend(
    grid: RateGrid, delta: float, lowest: float = 0.0, highest: float = np.inf, most_rates: int = MOST_RATES
) -> Extension:
    """The rate to train next: a factor of the grid beyond the end where the best is, if `edge` marks one.

    Asked again after each rate, it ends when the best is inside, the curve is flat at its end, or a limit is met.

    Args:
        grid: one arm at the rates so far.
        delta: smallest difference of scores that counts.
        lowest: no rate below this is trained.
        highest: no rate above this is trained.
        most_rates: a grid with so many rates does not grow.

    Raises:
        AnalysisError: as `edge`.
    """
    side = edge(grid, delta).side
    if not side:
        return Extension((), "", False)
    first, second = (grid.rates[0], grid.rates[1]) if side == "low" else (grid.rates[-1], grid.rates[-2])
    rate = float(f"{first * (first / second):.6g}")
    if lowest <= rate <= highest and len(grid.rates) < most_rates:
        return Extension((rate,), side, False)
    return Extension((), side, True)


def expected_maximum(values: Array) -> Array:
    """The expected best of k of N trials `[N]`, drawn without replacement, for k = 1 to N: `[N]`; unbiased.

    Σᵢ v₍ᵢ₎ · C(i−1, k−1) / C(N, k). Source: Tang et al. (ACL 2020, arXiv 2004.13705), the U-statistic.
    """
    values = np.sort(np.asarray(values, dtype=float))
    return _best_of(values.size) @ values


def expected_maximum_with_replacement(values: Array) -> Array:
    """The expected best of k of N trials `[N]`, drawn with replacement, for k = 1 to N: `[N]`.

    Σᵢ v₍ᵢ₎ · ((i/N)ᵏ − ((i−1)/N)ᵏ). Source: Dodge et al. (EMNLP 2019, arXiv 1909.03004), the expected maximum with the
    empirical distribution. As an estimate of what k new trials give it is too low, most for k near N.
    """
    values = np.sort(np.asarray(values, dtype=float))
    count, k = np.arange(values.size + 1) / max(values.size, 1), np.arange(1, values.size + 1)[:, None]
    return np.diff(count**k, axis=-1) @ values


def _best_of(count: int) -> Array:
    """The probability that the best of k of so many is the i-th lowest, `[k, i]`."""
    k, i = np.arange(1, count + 1)[:, None], np.arange(1, count + 1)
    with np.errstate(invalid="ignore"):
        log = _log_choose(i - 1, k - 1) - _log_choose(count, k)
    return np.where(i >= k, np.exp(log), 0.0)


def _log_choose(n: Array | int, k: Array) -> Array:
    n = np.maximum(n, k)  # others are not used
    return gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)


class TuningCurve(NamedTuple):
    """The score to expect after trying k rates, with its 95 % interval, `[trials]` each."""

    trials: Array
    expected: Array
    low: Array
    high: Array


def tuning_curve(grid: RateGrid) -> TuningCurve:
    """The expected value of the best of k rates of the grid, drawn without replacement, for each k up to all of them.

    A trial is a rate with all its seeds, judged by their mean. `expected_maximum` of the means, less the optimism of
    choosing by them: what is drawn anew, and the interval, are those of `best_value`, which is the last point. Rates
    without a score on all seeds are no trials, unless they have a floor. Source: Dodge et al. 2019, Tang et al. 2020,
    who take single runs as trials and do not take off the optimism.
    """
    (values,) = sorted_seeds(grid.values[grid.complete])
    found = _ranked(values[None], _best_of(len(values)))
    expected = found.mean - found.optimism
    low, high, _ = _interval(expected, found.by_seed, found.draws)
    return TuningCurve(np.arange(1, len(values) + 1), expected, low, high)
