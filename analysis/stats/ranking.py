"""Stability of a ranking: the order that fewer of the seeds would have given."""

from itertools import combinations
from math import comb

import numpy as np
import pandas as pd

DRAWS = 1_000


def ranking_flips(scores: pd.DataFrame, seed: int = 0) -> pd.DataFrame:
    """Share of subsets of k of the n seeds that rank the variants otherwise than all n do: one row per k = 1 … n - 1.

    scores: seed × variant; only seeds that all variants have. other_first: share of the draws in which another variant
    has the highest mean; swapped_pairs: mean share of the pairs of variants in the other order (a tie is one half).
    All subsets if there are at most 1,000, else as many random ones. A subset shares seeds with the whole, so fresh
    seeds would disagree more often.
    """
    values = scores.dropna(axis=1, how="all").dropna().to_numpy(dtype=float)
    n, variants = values.shape
    all_seeds = values.mean(0) if n else np.zeros(variants)
    first, second = np.triu_indices(variants, 1)
    order = np.sign(all_seeds[first] - all_seeds[second])
    rows = {}
    for k in range(1, n) if variants > 1 else ():
        means = _subsets(n, k, seed) @ values / k
        other_first = means[:, all_seeds.argmax()] < means.max(-1)
        agree = np.sign(means[:, first] - means[:, second]) * order
        swapped = ((1 - agree) / 2)[:, order != 0]
        rows[k] = {"other_first": other_first.mean(), "swapped_pairs": swapped.mean() if swapped.size else 0.0}
    return pd.DataFrame.from_dict(rows, orient="index", columns=["other_first", "swapped_pairs"], dtype=float)


def _subsets(n: int, k: int, seed: int) -> np.ndarray:
    """Subsets of k of n seeds, as 0 or 1, `[draws, n]`."""
    if comb(n, k) <= DRAWS:
        index = np.array(list(combinations(range(n), k)))
    else:
        index = np.random.default_rng(seed).random((DRAWS, n)).argsort(-1)[:, :k]
    chosen = np.zeros((len(index), n))
    np.put_along_axis(chosen, index, 1.0, axis=-1)
    return chosen


def ranking_note(flips: pd.DataFrame, first: str) -> str:
    """Say how often another variant would have come first, with the `first` ("highest") mean; empty for one seed."""
    counts = [k for k in (1, 3, 5, 10, 20) if k in flips.index]
    if not counts:
        return ""
    whole = f"these {len(flips) + 1} seeds"
    shares = {k: f"{100 * flips.loc[k, 'other_first']:.0f} %" for k in counts}
    if set(shares.values()) == {"0 %"}:
        return f"If only some of {whole} had been run, the same variant would have had the {first} mean in all cases."
    listed = ", ".join(f"in {share} of the cases with {k} seed{'s' * (k > 1)}" for k, share in shares.items())
    return (
        f"If only some of {whole} had been run, another variant would have had the {first} mean: {listed}. New seeds "
        "would change the first place more often."
    )
