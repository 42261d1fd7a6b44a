"""Decision accuracy: how many pairs of arms a smaller sweep puts in the order that they have in the largest.

Source: DataDecide (Magnusson et al., arXiv 2504.11393), whose decision accuracy is the share of all pairs of recipes
that small models rank as the largest does. Two arms in random order agree half of the time.

The order of two arms is the sign of their mean paired difference. A pair counts 1 where both sweeps have the same one
(or both no difference at all), 0 where they differ, and ½ where one of them has no difference. A sweep that does not
tell two arms apart has p ≥ ALPHA, by the paired t test and without Holm's correction: what is said is a share, not that
one pair differs, and arms that are equal in both sweeps are told apart in both only once in 400 times.

Intervals are quantiles over bootstrap draws, which draw the units of each sweep anew, independently of the other sweep
and all arms of a unit together. They are of the accuracy that other units would give, as many as there are: noise puts
arms that are alike in random order, so it is nearer to ½ than that of endless units. Of 4 and 8 arms, 5 to 20 units and
true effects of 1 to 6 standard errors, .79 to 1 of them hold it (100 simulated ladders each); fewest where few pairs
are nearly all certain, so that the accuracy has few values.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from rlexp.analysis.stats.comparison import MIN_SEEDS
from rlexp.analysis.stats.estimates import TAILS
from rlexp.analysis.stats.rates import RateGrid, best_contrasts, best_draws
from rlexp.analysis.stats.significance import ALPHA

Array = np.ndarray
CHANCE = 0.5


class Pairs(NamedTuple):
    """All pairs of arms of a sweep, stratum by stratum: the first of two arms less the second, `[pairs]` each."""

    difference: Array
    error: Array
    """Standard error; NaN of one unit."""
    n: Array
    """Units."""
    draws: Array
    """The difference in bootstrap draws of the units, `[RESAMPLES, pairs]`; NaN of one unit."""

    def decided(self, differences: Array) -> Array:
        """Whether pairs with these differences `[..., pairs]`, and the errors of this sweep, are told apart."""
        with np.errstate(invalid="ignore"):
            return np.abs(differences) > stdtrit(np.maximum(self.n - 1, 1), 1 - ALPHA / 2) * self.error


def all_pairs(strata: Sequence[Sequence[RateGrid]], stream: int = 0) -> Pairs:
    """Compare all arms of a sweep with each other, stratum by stratum, each at its best rate.

    Args:
        strata: the arms of each, all on the same units in the same order.
        stream: of the random numbers of the draws. Strata of as many units share their draws.

    Raises:
        AnalysisError: the arms of a stratum have different numbers of units.
    """
    parts = []
    for grids in strata:
        first, second = pair_places(len(grids))
        weights = np.eye(len(grids))[first] - np.eye(len(grids))[second]
        found = best_contrasts(grids, weights)
        values, errors, n = np.array([(each.value, each.error, each.n) for each in found]).T
        arms = best_draws(grids, stream)
        drawn = arms[:, first] - arms[:, second]
        drawn = values + drawn - drawn.mean(0)
        drawn[np.abs(drawn) <= 1e-12 * np.abs(arms).max()] = 0.0  # rounding, as of equal arms
        parts.append(Pairs(values, errors, n, drawn))
    return Pairs(*(np.concatenate(each, axis=-1) for each in zip(*parts, strict=True)))


def pair_places(arms: int) -> tuple[Array, Array]:
    """Return the places of the first and of the second arm of each pair, `[pairs]` each."""
    return np.triu_indices(arms, 1)


def arm_ranks(differences: Array, arms: int) -> Array:
    """Rank arms, the best highest, by the differences of their pairs `[..., pairs]`, `[..., arms]`; the mean rank is 0.

    A rank is half of the sum of the signs of the differences to the others, so equal arms share theirs.
    """
    first, second = pair_places(arms)
    return np.sign(differences) @ (np.eye(arms)[first] - np.eye(arms)[second]) / 2


def agreement_of_orders(first: Array, second: Array) -> Array:
    """Say of pairs with these differences, of equal shape, whether their order is the same: 1, 0, or ½ (see above)."""
    return 1 - np.abs(np.sign(first) - np.sign(second)) / 2


class DecisionAccuracy(NamedTuple):
    """How many pairs have the order at the largest sweep that a smaller one predicts, with 95 % bootstrap intervals."""

    pairs: int
    accuracy: float
    """Over all pairs."""
    low: float
    high: float
    decided: int
    """Pairs that both sweeps tell apart."""
    decided_accuracy: float
    """Over these; NaN of none, as its interval is."""
    decided_low: float
    decided_high: float
    abstained: tuple[int, int]
    """Pairs that the smaller sweep, and that the largest, does not tell apart; some are counted in both."""


def decision_accuracy(small: Pairs, large: Pairs) -> DecisionAccuracy:
    """Compare the orders of the same pairs in two sweeps, whose draws have different streams.

    Intervals are NaN below MIN_SEEDS units, and for pairs that are told apart of draws where some are.
    """
    told = small.decided(small.difference), large.decided(large.difference)
    both = told[0] & told[1]
    agree = agreement_of_orders(small.difference, large.difference)
    low = high = decided_low = decided_high = np.nan
    if min(small.n.min(), large.n.min()) >= MIN_SEEDS:
        drawn = agreement_of_orders(small.draws, large.draws)
        low, high = np.quantile(drawn.mean(-1), TAILS)
        counted = small.decided(small.draws) & large.decided(large.draws)
        counts = counted.sum(-1)
        if both.any() and counts.any():
            shares = (drawn * counted).sum(-1)[counts > 0] / counts[counts > 0]
            decided_low, decided_high = np.quantile(shares, TAILS)
    return DecisionAccuracy(
        pairs=agree.size,
        accuracy=float(agree.mean()),
        low=float(low),
        high=float(high),
        decided=int(both.sum()),
        decided_accuracy=float(agree[both].mean()) if both.any() else np.nan,
        decided_low=float(decided_low),
        decided_high=float(decided_high),
        abstained=(int((~told[0]).sum()), int((~told[1]).sum())),
    )
