"""Pool the effects of several conditions: a random-effects mean, a prediction interval, tests of what moderates them.

What can be said depends on the number k of conditions:

k      estimate                   interval                              speaks of
1      the effect                 t of its seeds                        this condition
2      mean of both, equal parts  t, Welch-Satterthwaite degrees        these two conditions
3, ..  random-effects mean        t(k − 1): Hartung and Knapp           conditions like these

Two effects say next to nothing of how effects scatter (t(1) is 12.7), so nothing is said of other conditions.

The heterogeneity τ² is that of Paule and Mandel (1982). Of the estimators that are recommended for few studies, it and
REML (Veroniki et al. 2016), it is the one that fits Hartung and Knapp: at its root their factor
q = Σ wᵢ (yᵢ − μ)² / (k − 1) is exactly 1. Where τ² = 0 it is at most 1, the plain interval is too narrow, and max(1, q)
takes its place (Knapp & Hartung 2003; Röver, Knapp & Friede 2015). Both cases together are one formula,

    μ ± t(k − 1) / √Σ wᵢ,   wᵢ = 1 / (max(sᵢ, median s)² + τ²)

`statsmodels.stats.meta_analysis.combine_effects` has Paule and Mandel's τ² (the same numbers: tested) and the plain
interval, neither the widened one nor many sets at once, which the redraws of `words.py` need.

The median is our own addition: no condition weighs more because its error is smaller than the middle one. Where errors
differ twentyfold, as in the stored studies, the usual weights rest on one or two conditions, τ² is often found to be 0,
and 95 % intervals hold in as few as .86 of the cases; errors from few seeds add to it. With the median they hold in .94
and more (`python -m benchmarks.words`).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import fdtrc, stdtr, stdtrit

from rlexp.analysis.data.errors import AnalysisError
from rlexp.analysis.stats.estimates import Interval

Array = np.ndarray

FEWEST = 3  # conditions that say anything of others like them
DRAWS = 40_000
ROUNDS = 200  # of Newton's method, which takes about ten


class Pooled(NamedTuple):
    """The mean effect of k conditions, each number `[...]`; intervals and p are of one t distribution."""

    estimate: Array
    error: Array
    """Its standard error."""
    degrees: Array
    """Of freedom."""
    tau: Array
    """Standard deviation of true effects over conditions; NaN for fewer than three conditions."""
    k: int

    @property
    def scope(self) -> str:
        """What the estimate speaks of."""
        if self.k >= FEWEST:
            return f"conditions like these {self.k}"
        return "this condition" if self.k == 1 else "these two conditions"

    def interval(self, confidence: float = 0.95) -> Interval:
        """Both ends of the interval of the mean effect."""
        half = stdtrit(self.degrees, (1 + confidence) / 2) * self.error
        return Interval(self.estimate - half, self.estimate + half)

    def p(self, null: float = 0.0) -> Array:
        """Two-sided p of "the mean effect is `null`": below 1 − c where the interval of confidence c excludes it."""
        return 2 * stdtr(self.degrees, -np.abs(self.estimate - null) / self.error)

    def p_equal(self, margin: float) -> Array:
        """The larger p of two one-sided tests of "the mean effect is not within ±margin" (Schuirmann 1987).

        Below α where the interval of confidence 1 − 2α lies inside the margin.
        """
        return stdtr(self.degrees, -(margin - np.abs(self.estimate)) / self.error)


def pool(effects: Array, errors: Array, degrees: Array | float = np.inf) -> Pooled:
    """Pool effects of k conditions, `[..., k] → [...]`.

    Args:
        effects: One number a condition, all on one scale, as the mean of paired differences over seeds.
        errors: Their standard errors, which are independent; 0 where all seeds say the same.
        degrees: Degrees of freedom of the errors, as seeds − 1, of all or of each condition. They count for one and
            two conditions only.

    Returns:
        Their mean, as the head of this file says.

    Raises:
        AnalysisError: For no condition, numbers that are not finite, or errors most of which are 0.

    Sources: Paule & Mandel 1982; DerSimonian & Kacker 2007 (Newton's method); Hartung & Knapp 2001, with max(1, q).
    metafor's `rma(method="PM", test="adhoc")` has the same without the median.
    """
    effects, errors = _checked(effects, errors)
    k = effects.shape[-1]
    degrees = np.broadcast_to(np.asarray(degrees, dtype=float), effects.shape)
    if k < FEWEST:
        squares = (errors / k) ** 2
        own = squares.sum(-1)
        with np.errstate(divide="ignore"):
            free = np.where(k == 1, degrees[..., 0], own**2 / (squares**2 / degrees).sum(-1))
        return Pooled(effects.mean(-1), np.sqrt(own), free, np.full_like(own, np.nan), k)
    variances = np.maximum(errors, np.median(errors, -1, keepdims=True)) ** 2
    tau2 = paule_mandel(effects, variances)
    weights = 1 / (variances + tau2[..., None])
    total = weights.sum(-1)
    estimate = (weights * effects).sum(-1) / total
    return Pooled(estimate, 1 / np.sqrt(total), np.full_like(total, k - 1.0), np.sqrt(tau2), k)


def paule_mandel(effects: Array, variances: Array, levels: Array | None = None) -> Array:
    """The heterogeneity τ² at which Σ (yᵢ − μ)² / (vᵢ + τ²) is k − 1, or 0 if it is less at 0: `[..., k] → [...]`.

    Args:
        effects: Of k conditions.
        variances: The squares of their errors, above 0.
        levels: `[k, p]`, of ones and zeros: the level of a moderator that each condition has. Every level then has a
            mean of its own, and the sum is k − p.

    Newton's method from 0, which never goes beyond the root, as the sum is convex in τ².
    """
    k = effects.shape[-1]
    levels = np.ones((k, 1)) if levels is None else levels
    tau2 = np.zeros(effects.shape[:-1])
    for _ in range(ROUNDS):
        weights = 1 / (variances + tau2[..., None])
        squares = weights * (effects - _means(effects, weights, levels) @ levels.T) ** 2
        above = np.maximum(squares.sum(-1) - (k - levels.shape[1]), 0.0)
        slope = (weights * squares).sum(-1)
        step = np.divide(above, slope, out=np.zeros_like(above), where=slope > 0)
        tau2 = tau2 + step
        if (step <= 1e-10 * tau2).all():
            break
    return tau2


def _means(effects: Array, weights: Array, levels: Array) -> Array:
    """The weighted mean of each level, `[..., p]`."""
    return (weights * effects) @ levels / (weights @ levels)


def _checked(effects: Array, errors: Array) -> tuple[Array, Array]:
    effects, errors = np.asarray(effects, dtype=float), np.asarray(errors, dtype=float)
    if effects.ndim == 0 or effects.shape[-1] == 0 or effects.shape[-1] != errors.shape[-1]:
        raise AnalysisError(f"{effects.size} effects and {errors.size} errors: one of each a condition, at least one")
    if not (np.isfinite(effects).all() and np.isfinite(errors).all() and (errors >= 0).all()):
        raise AnalysisError("effects and their errors must be finite, and errors not below 0")
    if not (np.median(errors, -1) > 0).all():
        raise AnalysisError("most conditions have an error of 0: the same on every seed says nothing of its error")
    return np.broadcast_arrays(effects, errors)


def prediction_interval(effects: Array, errors: Array, confidence: float = 0.95, draws: int = DRAWS) -> Interval:
    """The interval of the true effect in one more condition like these k, `[k] → ()` twice; k < 3: NaN.

    Source: Nagashima, Noma & Furukawa 2019 (arXiv 1804.01054, Algorithm 1). They draw τ² from its confidence
    distribution, H(τ²) = 1 − F(Q; τ²), by inverting the distribution of Cochran's Q. Q is distributed as
    Σ (1 + τ² eⱼ) χⱼ² with the eigenvalues eⱼ of the weights 1/sᵢ² off their own direction, so a draw of the χⱼ² has
    one root, τ² = max(0, (Q − Σ χⱼ²) / Σ eⱼ χⱼ²), and these roots are distributed as H. The R package pimeta inverts
    numerically and prints the same numbers (tested). The random stream is fixed, and the order of conditions is free.

    Raises:
        AnalysisError: As `pool`.
    """
    effects, errors = _checked(effects, errors)
    k = effects.size
    if k < FEWEST:
        return Interval(np.float64(np.nan), np.float64(np.nan))
    order = np.lexsort((effects, errors))
    effects, errors = effects[order], np.maximum(errors[order], 1e-6 * np.median(errors))
    precision = 1 / errors**2
    q = (precision * (effects - (precision * effects).sum() / precision.sum()) ** 2).sum()
    direction = np.sqrt(precision / precision.sum())
    off = np.eye(k) - np.outer(direction, direction)
    eigenvalues = np.linalg.eigvalsh(off @ np.diag(precision) @ off)[1:]  # the smallest is that of the direction: 0
    rng = np.random.default_rng(0)
    squares = rng.chisquare(1, (draws, k - 1))
    tau2 = np.maximum(q - squares.sum(-1), 0.0) / (squares @ eigenvalues)
    weights = 1 / (errors**2 + tau2[:, None])
    total = weights.sum(-1)
    means = weights @ effects / total
    spread = np.sqrt((weights * (effects - means[:, None]) ** 2).sum(-1) / ((k - 1) * total))
    drawn = means + rng.normal(size=draws) * np.sqrt(tau2) - rng.standard_t(k - 1, draws) * spread
    low, high = np.quantile(drawn, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(low, high)


class Moderation(NamedTuple):
    """Whether effects differ between the levels of a moderator."""

    levels: tuple[str, ...]
    estimates: Array
    """The mean effect at each level."""
    low: Array
    high: Array
    """95 % intervals."""
    f: float
    degrees: tuple[float, float]
    p: float
    scope: str
    """What the test speaks of, as `Pooled.scope`."""

    @property
    def span(self) -> float:
        """How far the level with the largest effect is above that with the smallest."""
        return float(np.ptp(self.estimates))


def moderation(effects: Array, errors: Array, labels: Sequence[str], degrees: Array | float = np.inf) -> Moderation:
    """Test whether the effects `[k]` of conditions differ between the levels that `labels` say they have.

    Where some level has several conditions: a meta-regression with one mean a level and one τ² within levels (Paule and
    Mandel), and the F of Knapp & Hartung 2003 on p − 1 and k − p degrees of freedom, with max(1, q) as in `pool`. It
    speaks of conditions like these. metafor's `rma(y, v, mods=~factor(x), method="PM", test="adhoc")` has the same
    without the median. Where each has one condition nothing is known of τ², and only these conditions are compared, by
    the F of Welch 1951 for means with unequal errors.

    Args:
        effects: As for `pool`.
        errors: As for `pool`.
        labels: The level of each condition.
        degrees: As for `pool`; they count where each level has one condition.

    Raises:
        AnalysisError: As `pool`, and for a moderator that has one level, or one a condition with errors of 0.
    """
    effects, errors = _checked(effects, errors)
    names = tuple(dict.fromkeys(map(str, labels)))
    k, count = effects.size, len(names)
    if len(labels) != k or count < 2:
        raise AnalysisError(f"a moderator of {k} conditions has a level in each, two at least; here {count} differ")
    levels = np.array([[str(label) == name for name in names] for label in labels], dtype=float)
    if count == k:
        return _welch(effects, errors, names, np.broadcast_to(np.asarray(degrees, dtype=float), k))
    variances = np.maximum(errors, np.median(errors)) ** 2
    weights = 1 / (variances + paule_mandel(effects, variances, levels))
    estimates = _means(effects, weights, levels)
    free = float(k - count)
    q = max(1.0, float((weights * (effects - levels @ estimates) ** 2).sum()) / free)
    totals = weights @ levels
    between = float((totals * (estimates - (totals @ estimates) / totals.sum()) ** 2).sum())
    f = between / (count - 1) / q
    half = stdtrit(free, 0.975) * np.sqrt(q / totals)
    ends = estimates - half, estimates + half
    scope = f"conditions like these {k}"
    return Moderation(names, estimates, *ends, f, (count - 1.0, free), float(fdtrc(count - 1, free, f)), scope)


def _welch(effects: Array, errors: Array, names: tuple[str, ...], degrees: Array) -> Moderation:
    if not (errors > 0).all():
        raise AnalysisError("a condition has an error of 0: it cannot be compared with others by their errors")
    k, weights = effects.size, 1 / errors**2
    total = weights.sum()
    between = (weights * (effects - (weights * effects).sum() / total) ** 2).sum() / (k - 1)
    spread = ((1 - weights / total) ** 2 / degrees).sum() / (k**2 - 1)
    f = float(between / (1 + 2 * (k - 2) * spread))
    free = float(1 / (3 * spread)) if spread > 0 else 1e9
    half = stdtrit(degrees, 0.975) * errors
    ends = effects - half, effects + half
    return Moderation(names, effects, *ends, f, (k - 1.0, free), float(fdtrc(k - 1, free, f)), f"these {k} conditions")
