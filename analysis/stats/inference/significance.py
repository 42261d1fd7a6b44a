"""Sign flips of paired differences, Holm's correction, and how small a p so many seeds can give at all."""

from functools import cache

import numpy as np
from scipy.special import bdtr

Array = np.ndarray

EXACT_SEEDS = 14  # up to here all 2ⁿ sign flips are enumerated
RANDOM_FLIPS = 9_999
ALPHA = 0.05  # a p (Holm) below it is a difference


@cache
def _sign_flips(n: int) -> Array:
    """All sign patterns `[2ⁿ⁻¹, n]` whose last sign is +; the other half mirrors them."""
    bits = np.arange(2 ** (n - 1))[:, None] >> np.arange(n) & 1
    return 1.0 - 2.0 * bits


def sign_flip_p(differences: Array, seed: int = 0) -> float:
    """Two-sided p of "the sign of each paired difference `[n]` is a coin toss", statistic |mean|.

    Source: Fisher 1935. Exact (all 2ⁿ flips) for n ≤ 14, and for differences of one size as those of rates; else
    (1 + hits)/(1 + 9 999) random flips. n = 0: NaN.
    """
    differences = np.asarray(differences, dtype=float)
    n = differences.size
    if n == 0:
        return np.nan
    observed = abs(differences.sum()) - 1e-12 * np.abs(differences).sum()  # ties up to rounding count as hits
    # scipy.stats.permutation_test gives the same exact p (tested) but takes 100 times as long for 5 seeds and 2,000
    # times for 14; its random flips, of more seeds, are others than those of earlier tables.
    if n <= EXACT_SEEDS:
        return float((np.abs(_sign_flips(n) @ differences) >= observed).mean())
    sizes = np.abs(differences[differences != 0])
    if sizes.size and (sizes == sizes[0]).all():
        heads = int((differences > 0).sum())  # a two-sided test of coin tosses (McNemar 1947, exact)
        return float(min(1.0, 2 * bdtr(min(heads, sizes.size - heads), sizes.size, 0.5)))
    flips = np.random.default_rng(seed).choice([-1.0, 1.0], size=(RANDOM_FLIPS, n))
    return float((1 + (np.abs(flips @ differences) >= observed).sum()) / (1 + RANDOM_FLIPS))


def signed_ranks(differences: Array) -> Array:
    """The rank of each difference `[n]` by its size, with its sign; ties share their mean rank, and 0 has rank 0.

    Sign flips of ranks are the exact test of Wilcoxon (1945), which takes differences that are infinite: the largest.
    """
    differences = np.asarray(differences, dtype=float)
    sizes = np.abs(differences)
    other = sizes > 0
    below = (sizes[other][:, None] > sizes[other]).sum(-1)
    same = (sizes[other][:, None] == sizes[other]).sum(-1)
    ranks = np.zeros(differences.size)
    ranks[other] = below + (same + 1) / 2
    return np.sign(differences) * ranks


def holm(p: Array) -> Array:
    """Holm's step-down adjustment `[m] → [m]`: running maximum of (m - rank)·p₍rank₎, at most 1; NaN are not counted.

    Source: Holm 1979. Valid under any dependence, so also for variants that share one baseline.
    """
    p = np.asarray(p, dtype=float)
    order = np.argsort(p)  # NaN last
    valid = int((~np.isnan(p)).sum())
    steps = np.maximum(valid - np.arange(p.size), 1) * p[order]
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return adjusted


def min_p(n: int) -> float:
    """Smallest two-sided p that `sign_flip_p` can give with n seeds: 2/2ⁿ (0.0625 at n = 5), 1/10 000 beyond n = 14."""
    exact = 2.0 / 2.0**n if n > 0 else 1.0
    return exact if n <= EXACT_SEEDS else max(exact, 1 / (1 + RANDOM_FLIPS))


def reachable_p(n: int, comparisons: int = 1) -> float:
    """Smallest p that n seeds can give one of so many differences under Holm: comparisons · min_p(n), at most 1."""
    return min(1.0, max(comparisons, 1) * min_p(n))


def seeds_for_p(comparisons: int = 1, alpha: float = ALPHA) -> int:
    """Fewest seeds with which one of so many differences can reach alpha: reachable_p(n, comparisons) ≤ alpha."""
    n = 1
    while reachable_p(n, comparisons) > alpha and n < EXACT_SEEDS:
        n += 1
    return n


def seeds_with_choice(comparisons: int = 1, alpha: float = ALPHA) -> int:
    """Fewest seeds of a sweep in which the lower half chooses a best point and the others must reach alpha."""
    return 2 * seeds_for_p(comparisons, alpha) - 1
