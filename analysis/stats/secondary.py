"""Secondary analyses of comparisons: strata pooled, two axes together, collapsed runs, the stability of a ranking.

Their p are corrected together, for false discoveries over the page (`false_discoveries`); those of the comparisons
themselves by Holm.
"""

from collections.abc import Sequence
from itertools import combinations
from math import comb
from typing import NamedTuple

import numpy as np
import pandas as pd

from rlexp.analysis.data.errors import AnalysisError
from rlexp.analysis.data.load import SweepData
from rlexp.analysis.data.metric_spec import RATES, direction_sign
from rlexp.analysis.data.run_values import rate_values
from rlexp.analysis.stats import estimates
from rlexp.analysis.stats.comparison import (
    MIN_SEEDS,
    Comparison,
    baseline_columns,
    effect_columns,
    level_columns,
    paired_differences,
    seed_table,
)
from rlexp.analysis.stats.significance import (
    ALPHA,
    false_discovery_q,
    minimum_detectable_effect,
    sign_test_p,
    subtract,
)
from rlexp.runfolder.variants import DEFAULT, parse_override, split_overrides, varying_keys

SUMMED = ("runs", "failed", "unfinished", "collapsed", "collapsed_of")


def pool(comparisons: Sequence[Comparison]) -> Comparison | None:
    """All strata in one table, whose units are the pairs of stratum and seed; None if there are not two strata.

    None, too, where seeds were added until something was decided: what holds at every look goes by their order; where
    numbers may be infinite, which have no SD; and of runs that are not paired.

    Scores are centered and divided by their SD over all runs of the stratum. The SD does not change when a variant and
    the baseline change places, so the sign flips stay exact: they test "no effect in any stratum". The interval of the
    IQM resamples runs within strata. `superiority` is P(X better than Y) of independent runs (Agarwal et al. 2021), a
    point value, mean over strata.
    """
    if len(comparisons) < 2 or any(each.sequential or each.ranked or not each.paired for each in comparisons):
        return None
    first = comparisons[0]
    standard = []
    for each in comparisons:
        sd = np.nanstd(each.scores, ddof=1) if each.scores.notna().to_numpy().sum() > 1 else 0.0
        centered = (each.scores - np.nanmean(each.scores)) if each.scores.notna().any(axis=None) else each.scores
        index = pd.Index([f"{each.stratum} seed {seed}" for seed in each.scores.index], name="seed")
        standard.append((centered / (sd if sd > 0 else 1.0)).set_axis(index))
    scores = pd.concat(standard)
    sizes = [len(comparison.scores) for comparison in comparisons]
    strata = np.repeat([comparison.stratum for comparison in comparisons], sizes)
    rows = {}
    for variant in first.table.index:
        values = scores[variant].to_numpy()
        present = ~np.isnan(values)
        row = rows[variant] = level_columns(values[present])
        if row["n"] >= MIN_SEEDS:
            row["iqm_low"], row["iqm_high"] = estimates.stratified_iqm_interval(values[present], strata[present])
        differences = paired_differences(scores, variant, first.baseline)
        row |= baseline_columns() if variant == first.baseline else effect_columns(differences, first.better)
        row |= {key: sum(int(comparison.table.loc[variant, key]) for comparison in comparisons) for key in SUMMED}
        shares = []
        for each in comparisons:
            x, y = (direction_sign(first.better) * each.scores[name].dropna() for name in (variant, each.baseline))
            if len(x) and len(y):
                shares.append(estimates.superiority(x, y))
        row["superiority"] = float(np.mean(shares)) if shares and first.better else np.nan
    table = pd.DataFrame.from_dict(rows, orient="index").rename_axis("variant")
    remark = (
        f"The pooled table puts {len(comparisons)} strata together. Its scores are in SDs of their stratum, and each "
        "seed of each stratum counts once; p asks for an effect in any stratum."
    )
    metric = " and ".join(dict.fromkeys(comparison.metric for comparison in comparisons))
    return first._replace(table=table, scores=scores, metric=metric, stratum="pooled", remarks=(remark,))


class AxisGrid(NamedTuple):
    """The two axes of a comparison and where on them each variant is."""

    axes: tuple[str, str]
    cells: dict[tuple[str, str], str]
    """Values on the two axes → variant."""


def axis_grid(comparison: Comparison) -> AxisGrid | None:
    """The two axes along which the variants differ; None if they differ along one, or along more than two."""
    overrides = {variant: split_overrides(variant) for variant in comparison.table.index}
    keys = varying_keys(overrides)
    if len(keys) != 2:
        return None
    choices = {variant: dict(map(parse_override, parts)) for variant, parts in overrides.items()}
    cells = {tuple(choice.get(key, DEFAULT) for key in keys): variant for variant, choice in choices.items()}
    return AxisGrid((keys[0], keys[1]), cells)


def interactions(comparison: Comparison) -> pd.DataFrame | None:
    """Difference of differences per seed, (y_ab - y_a0) - (y_0b - y_00), for each a and b that are not the baseline's.

    One row per variant with the values on both axes and the columns of `effect_columns`.
    0: what the two choices bring adds up. None if there are not two axes, no cell has its three partners, or runs are
    not paired.
    """
    grid = axis_grid(comparison)
    if grid is None or not comparison.paired:
        return None
    scores = comparison.scores
    a0, b0 = next(place for place, variant in grid.cells.items() if variant == comparison.baseline)
    rows = {}
    for (a, b), variant in grid.cells.items():
        partners = [grid.cells.get(place) for place in ((a, b0), (a0, b))]
        if a == a0 or b == b0 or None in partners:
            continue
        first, second = partners
        differences = interaction(scores, (variant, first), (second, comparison.baseline))
        rows[variant] = {grid.axes[0]: a, grid.axes[1]: b} | effect_columns(differences, test=comparison.paired_test)
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("variant") if rows else None


def interaction(scores: pd.DataFrame, pair: tuple[str, str], less: tuple[str, str]) -> np.ndarray:
    """By how much more the first pair of columns differs than the second, `[n]`, on the seeds that have all four."""
    first, second = (subtract(scores[one], scores[other]) for one, other in (pair, less))
    differences = subtract(first, second)
    return differences[~np.isnan(differences)]


def collapses(data: SweepData, comparison: Comparison) -> pd.DataFrame | None:
    """How many runs collapsed (or diverged), and whether other seeds did than of the baseline.

    Returns:
        One row per variant: `collapsed` runs `of` those that say; `only_here` and `only_baseline`, the seeds on which
        only one of the two collapsed; `n_pairs`; `p` of the exact sign test (McNemar's). None if no run collapsed or
        every one did, if there is one variant, or if collapses are what the comparison is about.
    """
    if not comparison.others or comparison.metric in RATES or not data.runs["collapsed"].notna().any():
        return None
    scores = seed_table(data, rate_values(data, "collapsed"))
    if np.nanmax(scores, initial=0) == 0 or np.nanmin(scores, initial=1) == 1:
        return None
    rows = {}
    for variant in comparison.table.index:
        known = scores[variant].dropna()
        differences = paired_differences(scores, variant, comparison.baseline)
        is_baseline = variant == comparison.baseline
        rows[variant] = {
            "collapsed": known.sum(),
            "of": len(known),
            "only_here": int((differences > 0).sum()),
            "only_baseline": int((differences < 0).sum()),
            "n_pairs": 0 if is_baseline else differences.size,
            "p": np.nan if is_baseline else sign_test_p(differences),
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("variant")


def false_discoveries(tables: Sequence[pd.DataFrame]) -> tuple[list[pd.DataFrame], int]:
    """Add to tables of secondary effects `q`, Benjamini and Hochberg's correction over all their rows together.

    `detectable` of those that have an SD is for a p below 0.05 / m, which has a q below 0.05 whatever the others are.

    Returns:
        The tables, and the number m of rows that have a p.
    """
    q = false_discovery_q(np.concatenate([np.zeros(0), *(table["p"] for table in tables)]))
    family, found, end = int((~np.isnan(q)).sum()), [], 0
    for each in tables:
        table, part, end = each.copy(), q[end : end + len(each)], end + len(each)
        table.insert(table.columns.get_loc("p") + 1, "q", part)
        if "difference_sd" in table:
            pairs = zip(table["difference_sd"], table["n_pairs"], strict=True)
            table["detectable"] = [minimum_detectable_effect(sd, n, ALPHA, family) for sd, n in pairs]
        found.append(table)
    return found, family


def pivot_axes(comparison: Comparison, column: str, across: str | None = None) -> pd.DataFrame | None:
    """A column of the table with one axis in the rows and the other (`across`, the second unless named) in the columns.

    Missing combinations are NaN. None if there are not two axes.
    """
    grid = axis_grid(comparison)
    if grid is None:
        return None
    if across not in (None, *grid.axes):
        raise AnalysisError(f"'{across}' is not one of the two axes: {'  '.join(grid.axes)}")
    turned = across == grid.axes[0]
    rows: dict[str, dict[str, float]] = {}
    for (a, b), variant in grid.cells.items():
        row, place = (b, a) if turned else (a, b)
        rows.setdefault(row, {})[place] = comparison.table.loc[variant, column]
    names = grid.axes[::-1] if turned else grid.axes
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis(index=names[0], columns=names[1])


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
        if comb(n, k) <= DRAWS:
            index = np.array(list(combinations(range(n), k)))
        else:
            index = np.random.default_rng(seed).random((DRAWS, n)).argsort(-1)[:, :k]
        chosen = np.zeros((len(index), n))
        np.put_along_axis(chosen, index, 1.0, axis=-1)
        means = chosen @ values / k
        other_first = means[:, all_seeds.argmax()] < means.max(-1)
        agree = np.sign(means[:, first] - means[:, second]) * order
        swapped = ((1 - agree) / 2)[:, order != 0]
        rows[k] = {"other_first": other_first.mean(), "swapped_pairs": swapped.mean() if swapped.size else 0.0}
    return pd.DataFrame.from_dict(rows, orient="index", columns=["other_first", "swapped_pairs"], dtype=float)


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
