"""Do effects have the same size in two sweeps? Slope and correlations, with the noise of both taken into account.

Effects are of the arms to the mean of the arms of their stratum, which is all that effects to a baseline say, and does
not hang on which arm that is. What is computed of them follows from the differences of all pairs: over the k arms of a
stratum Σ (xₐ − x̄)² is Σ (xₐ − x_b)² over pairs / k.

slope          of the largest sweep's effects on the smaller one's, with errors in both: of all lines that which is
               nearest to the points, in units of the errors (Deming 1943). Their ratio is λ = V_y / V_x, where V is
               the mean squared standard error of an effect
correlation    Pearson's; and Spearman's, of ranks within strata
disattenuated  Pearson's without what noise takes off it, r / √(ρ_x ρ_y), where the reliability ρ = 1 − V / variance is
               the share of the effects' scatter that is no noise (Spearman 1904). NaN where one of them is below ½: the
               correction is then a guess

Intervals are quantiles over bootstrap draws of the units of both sweeps; the arms stay the same. A draw adds the noise
of the effects once more, which leaves the slope where it is, and is taken off the variances for the disattenuated
correlation. The intervals of Pearson's and Spearman's are of the correlation that other units would give. In the same
simulations as for decision accuracy .85 to 1 of the intervals of the slope hold the true one, .87 to 1 those of
Pearson's, and .86 to 1 those of the disattenuated correlation, where there was one.
"""

from typing import NamedTuple

import numpy as np

from rlexp.analysis.stats.comparison import MIN_SEEDS
from rlexp.analysis.stats.decision import Pairs, arm_ranks, pair_places
from rlexp.analysis.stats.estimates import TAILS

Array = np.ndarray
FEWEST_ARMS = 3
RELIABLE = 0.5


class Measured(NamedTuple):
    """A number with its 95 % interval."""

    value: float
    low: float
    high: float


class EffectAgreement(NamedTuple):
    """How the effects of a smaller sweep go with those of the largest."""

    arms: int
    """In all strata together; fewer than FEWEST_ARMS in every stratum: all is NaN."""
    slope: Measured
    pearson: Measured
    spearman: Measured
    disattenuated: Measured
    reliability: tuple[float, float]
    """Of the effects of the smaller sweep, and of the largest."""


class Moments(NamedTuple):
    """Sums over all arms of all strata, of products of effects, `[...]` each."""

    xx: Array
    yy: Array
    xy: Array


def moments(x: Array, y: Array, sizes: Array) -> Moments:
    """Return the moments of effects, from differences of pairs `[..., pairs]`.

    sizes: the arms in the stratum of each pair, `[pairs]`.
    """
    return Moments((x * x / sizes).sum(-1), (y * y / sizes).sum(-1), (x * y / sizes).sum(-1))


def deming_angle(found: Moments, ratio: float) -> Array:
    """Angle of the line that is nearest to the points, in radians from −π/2 to π/2, y in units of √ratio.

    Half of the angle of (S_xx − S_yy/λ, 2 S_xy/√λ): the principal axis, whose slope is Deming's over √λ.
    """
    return np.arctan2(2 * found.xy / np.sqrt(ratio), found.xx - found.yy / ratio) / 2


def correlation(found: Moments, noise: tuple[float, float] = (0.0, 0.0)) -> Array:
    """Return S_xy / √((S_xx − noise_x)(S_yy − noise_y)), within [−1, 1]; NaN where nothing varies."""
    xx, yy = found.xx - noise[0], found.yy - noise[1]
    positive = (xx > 0) & (yy > 0)
    product = np.where(positive, xx * yy, np.nan)
    return np.clip(found.xy / np.sqrt(product), -1, 1)


def rank_differences(differences: Array, sizes: Array) -> Array:
    """Differences of pairs `[..., pairs]` as differences of the ranks of their arms within their stratum."""
    parts, start = [], 0
    while start < sizes.size:
        arms = int(sizes[start])
        first, second = pair_places(arms)
        ranks = arm_ranks(differences[..., start : start + first.size], arms)
        parts.append(ranks[..., first] - ranks[..., second])
        start += first.size
    return np.concatenate(parts, axis=-1)


def effect_agreement(small: Pairs, large: Pairs, arms: list[int]) -> EffectAgreement:
    """Compare the effects of the same arms in two sweeps, whose draws have different streams.

    arms: how many each stratum has. Intervals are NaN below MIN_SEEDS units.
    """
    nothing = Measured(*(np.nan,) * 3)
    if max(arms) < FEWEST_ARMS:
        return EffectAgreement(sum(arms), nothing, nothing, nothing, nothing, (np.nan, np.nan))
    sizes = np.repeat(arms, [k * (k - 1) // 2 for k in arms])
    found = moments(small.difference, large.difference, sizes)
    drawn = moments(small.draws, large.draws, sizes)
    noise = tuple(float((np.nan_to_num(each.error) ** 2 / sizes).sum()) for each in (small, large))
    ranks = [rank_differences(each.difference, sizes) for each in (small, large)]
    drawn_ranks = [rank_differences(each.draws, sizes) for each in (small, large)]
    with np.errstate(invalid="ignore", divide="ignore"):
        reliability = 1 - noise[0] / found.xx, 1 - noise[1] / found.yy
        disattenuated = correlation(found, noise), correlation(drawn, (2 * noise[0], 2 * noise[1]))
    if not min(reliability) >= RELIABLE:
        disattenuated = np.nan, np.full_like(drawn.xy, np.nan)
    has_interval = min(small.n.min(), large.n.min()) >= MIN_SEEDS
    return EffectAgreement(
        sum(arms),
        slope_with_interval(found, drawn, noise, has_interval),
        _measured(correlation(found), correlation(drawn), has_interval),
        _measured(correlation(moments(*ranks, sizes)), correlation(moments(*drawn_ranks, sizes)), has_interval),
        _measured(*disattenuated, has_interval),
        tuple(map(float, reliability)),
    )


def slope_with_interval(found: Moments, drawn: Moments, noise: tuple[float, float], has_interval: bool) -> Measured:
    """Deming's slope; its interval is that of the angle of the line, and reaches to infinity where that may be upright.

    noise: sums of squared errors of the effects of both sweeps; of none in either they count as equal, and of none in
        one only as almost none.
    """
    ratio = 1.0 if max(noise) == 0 else float(np.clip(noise[1] / noise[0] if noise[0] else np.inf, 1e-12, 1e12))
    angle = deming_angle(found, ratio)
    value = np.sqrt(ratio) * np.tan(angle)
    if not has_interval:
        return Measured(float(value), np.nan, np.nan)
    apart = (deming_angle(drawn, ratio) - angle + np.pi / 2) % np.pi - np.pi / 2  # a line has no direction
    low, high = angle + np.quantile(apart, TAILS)
    if low <= -np.pi / 2 or high >= np.pi / 2:
        return Measured(float(value), -np.inf, np.inf)
    return Measured(float(value), *(float(np.sqrt(ratio) * np.tan(each)) for each in (low, high)))


def _measured(value: Array, draws: Array, has_interval: bool) -> Measured:
    """A number with quantiles of its draws, those that have none left out; NaN where more than a tenth has none."""
    known = draws[~np.isnan(draws)]
    if np.isnan(value) or not has_interval or known.size < 0.9 * draws.size:
        return Measured(float(value), np.nan, np.nan)
    return Measured(float(value), *map(float, np.quantile(known, TAILS)))
