"""Several strata (tasks) as one comparison: the cheap way out of few seeds, if the question is about all tasks."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from rlexp.analysis.data.direction import direction_sign
from rlexp.analysis.stats.columns import MIN_SEEDS, baseline_columns, effect_columns, level_columns
from rlexp.analysis.stats.comparison import Comparison, apply_holm, paired_differences
from rlexp.analysis.stats.inference import estimates

SUMMED = ("runs", "failed", "unfinished", "collapsed", "collapsed_of")


def pool(comparisons: Sequence[Comparison]) -> Comparison | None:
    """All strata in one table, whose units are the pairs of stratum and seed; None if there are not two strata.

    None, too, where seeds were added until something was decided: what holds at every look goes by their order; and
    where numbers may be infinite, which have no SD.

    Scores are centred and divided by their SD over all runs of the stratum. The SD does not change when a variant and
    the baseline change places, so the sign flips stay exact: they test "no effect in any stratum". The interval of the
    IQM resamples runs within strata. `superiority` is P(X better than Y) of independent runs (Agarwal et al. 2021), a
    point value, mean over strata.
    """
    if len(comparisons) < 2 or any(each.sequential or each.ranked for each in comparisons):
        return None
    first = comparisons[0]
    scores = pd.concat([_standard(comparison) for comparison in comparisons])
    sizes = [len(comparison.scores) for comparison in comparisons]
    strata = np.repeat([comparison.stratum for comparison in comparisons], sizes)
    rows = {variant: _row(first, scores, strata, variant) for variant in first.table.index}
    for variant, row in rows.items():
        row |= {key: sum(int(comparison.table.loc[variant, key]) for comparison in comparisons) for key in SUMMED}
        shares = []
        for comparison in comparisons:
            x, y = (
                direction_sign(first.better) * comparison.scores[v].dropna() for v in (variant, comparison.baseline)
            )
            if len(x) and len(y):
                shares.append(estimates.superiority(x, y))
        row["superiority"] = float(np.mean(shares)) if shares and first.better else np.nan
    table = pd.DataFrame.from_dict(rows, orient="index").rename_axis("variant")
    remark = (
        f"The pooled table puts {len(comparisons)} strata together. Its scores are in SDs of their stratum, and each "
        "seed of each stratum counts once; p asks for an effect in any stratum, corrected by Holm within this table."
    )
    metric = " and ".join(dict.fromkeys(comparison.metric for comparison in comparisons))
    pooled = first._replace(table=table, scores=scores, metric=metric, stratum="pooled", remarks=(remark,))
    return apply_holm([pooled])[0]


def _standard(comparison: Comparison) -> pd.DataFrame:
    scores = comparison.scores
    sd = np.nanstd(scores, ddof=1) if scores.notna().to_numpy().sum() > 1 else 0.0
    centred = (scores - np.nanmean(scores)) if scores.notna().any(axis=None) else scores
    index = pd.Index([f"{comparison.stratum} seed {seed}" for seed in scores.index], name="seed")
    return (centred / (sd if sd > 0 else 1.0)).set_axis(index)


def _row(first: Comparison, scores: pd.DataFrame, strata: np.ndarray, variant: str) -> dict[str, float]:
    values = scores[variant].to_numpy()
    present = ~np.isnan(values)
    row = level_columns(values[present])
    if row["n"] >= MIN_SEEDS:
        row["iqm_low"], row["iqm_high"] = estimates.stratified_iqm_interval(values[present], strata[present])
    if variant == first.baseline:
        return row | baseline_columns()
    return row | effect_columns(paired_differences(scores, variant, first.baseline), first.better)
