"""Several strata (tasks) as one comparison: the cheap way out of few seeds, if the question is about all tasks."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from analysis import statistics
from analysis.comparison import MIN_SEEDS, Comparison, correct, effect, level, no_effect, paired
from analysis.direction import sign

SUMMED = ("runs", "failed", "collapsed", "collapsed_of")


def pool(comparisons: Sequence[Comparison]) -> Comparison | None:
    """All strata in one table, whose units are the pairs of stratum and seed; None if there are not two strata.

    Scores are centred and divided by their SD over all runs of the stratum. The SD does not change when a variant and
    the baseline change places, so the sign flips stay exact: they test "no effect in any stratum". The interval of the
    IQM resamples runs within strata. `superiority` is P(X better than Y) of independent runs (Agarwal et al. 2021), a
    point value, mean over strata.
    """
    if len(comparisons) < 2:
        return None
    first = comparisons[0]
    scores = pd.concat([_standard(each) for each in comparisons])
    strata = np.repeat([each.stratum for each in comparisons], [len(each.scores) for each in comparisons])
    rows = {variant: _row(first, scores, strata, variant) for variant in first.table.index}
    for variant, row in rows.items():
        row |= {key: sum(int(each.table.loc[variant, key]) for each in comparisons) for key in SUMMED}
        row["superiority"] = _superiority(comparisons, variant)
    table = pd.DataFrame.from_dict(rows, orient="index").rename_axis("variant")
    remark = (
        f"pooled over {len(comparisons)} strata: scores in SDs of their stratum, units are pairs of stratum and seed, "
        "p tests no effect in any stratum, Holm over this table alone."
    )
    metric = " and ".join(dict.fromkeys(each.metric for each in comparisons))
    pooled = first._replace(table=table, scores=scores, metric=metric, stratum="pooled", remarks=(remark,))
    return correct([pooled])[0]


def _standard(comparison: Comparison) -> pd.DataFrame:
    scores = comparison.scores
    sd = np.nanstd(scores, ddof=1) if scores.notna().to_numpy().sum() > 1 else 0.0
    centred = (scores - np.nanmean(scores)) if scores.notna().any(axis=None) else scores
    index = pd.Index([f"{comparison.stratum} seed {seed}" for seed in scores.index], name="seed")
    return (centred / (sd if sd > 0 else 1.0)).set_axis(index)


def _row(first: Comparison, scores: pd.DataFrame, strata: np.ndarray, variant: str) -> dict[str, float]:
    own = scores[variant].to_numpy()
    known = ~np.isnan(own)
    row = level(own[known])
    if row["n"] >= MIN_SEEDS:
        row["iqm_low"], row["iqm_high"] = statistics.stratified_iqm_interval(own[known], strata[known])
    if variant == first.baseline:
        return row | no_effect()
    return row | effect(paired(scores, variant, first.baseline), first.better)


def _superiority(comparisons: Sequence[Comparison], variant: str) -> float:
    columns = [(each.scores[variant].dropna(), each.scores[each.baseline].dropna()) for each in comparisons]
    way = sign(comparisons[0].better)
    shares = [statistics.superiority(way * x, way * y) for x, y in columns if len(x) and len(y)]
    return float(np.mean(shares)) if shares and comparisons[0].better else np.nan
