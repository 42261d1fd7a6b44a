"""Scores of a sweep to one row of statistics per variant. Seeds are paired with the baseline's."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd

from analysis import statistics
from analysis.load import Data
from analysis.read import AnalysisError
from analysis.variants import resolve

MIN_SEEDS = 3  # fewer: no intervals
ALPHA = 0.05


class Comparison(NamedTuple):
    """One metric, every variant against one baseline."""

    table: pd.DataFrame
    """One row per variant; the columns are those of `level`, `effect` and `counts`, and `p_holm` and `detectable`."""
    scores: pd.DataFrame
    """One row per seed, one column per variant; NaN where a run is missing or did not complete."""
    baseline: str
    metric: str
    labels: Mapping[str, str]
    axis: str
    """Header of the labels."""

    def differences(self, variant: str) -> np.ndarray:
        """Paired differences to the baseline `[n]`, over the seeds that both have."""
        return paired(self.scores, variant, self.baseline)

    @property
    def others(self) -> list[str]:
        """All variants but the baseline."""
        return [variant for variant in self.table.index if variant != self.baseline]


def compare(data: Data, metric: str | None = None, baseline: str | None = None) -> Comparison:
    """Every variant's level and its paired difference to the baseline (the first variant unless named).

    Without a metric it is the score in the runs' summaries; a named metric is averaged over the same last share of the
    rows where it is present. p values are corrected (Holm) over all variants compared here.
    """
    baseline = resolve(baseline, data.labels) if baseline else data.variants[0]
    scores = seed_scores(data, metric)
    rows = {variant: level(scores[variant].dropna().to_numpy()) for variant in data.variants}
    for variant, row in rows.items():
        row |= no_effect() if variant == baseline else effect(paired(scores, variant, baseline))
        row |= counts(data.runs[data.runs["variant"] == variant])
    table = pd.DataFrame.from_dict(rows, orient="index").rename_axis("variant")
    table.insert(table.columns.get_loc("p") + 1, "p_holm", statistics.holm(table["p"].to_numpy(dtype=float)))
    compared = int((table["n_pairs"] > 0).sum() - (table.loc[baseline, "n_pairs"] > 0))
    table["detectable"] = [
        statistics.minimum_detectable_effect(sd, n, ALPHA, compared)
        for sd, n in zip(table["difference_sd"], table["n_pairs"], strict=True)
    ]
    return Comparison(table, scores, baseline, metric or data.score_metric or "score", data.labels, data.axis)


def paired(scores: pd.DataFrame, variant: str, versus: str) -> np.ndarray:
    """Differences `[n]` of two columns of a seed × variant table, over the seeds that both have."""
    return (scores[variant] - scores[versus]).dropna().to_numpy()


def seed_scores(data: Data, metric: str | None = None) -> pd.DataFrame:
    """Seed × variant table of the stored scores, or of the late mean of a named metric; completed runs only."""
    runs = data.runs[(data.runs["status"] == "completed") & data.runs["seed"].notna()]
    runs = runs.drop_duplicates(["variant", "seed"])
    if metric is not None and metric != data.score_metric:
        runs = runs.assign(score=runs["name"].map(late_means(data, metric)))
    seeds = sorted(data.runs["seed"].dropna().unique())
    return runs.pivot(index="seed", columns="variant", values="score").reindex(index=seeds, columns=data.variants)


def late_means(data: Data, metric: str) -> pd.Series:
    """Mean per run over the last ⌈share · n⌉ (at least 1) of the n rows where the metric is present, as scores are."""
    known = [column for column in data.metrics.columns if column not in ("name", "variant", "seed", "step")]
    if metric not in known:
        raise AnalysisError(f"no run logged '{metric}'; choose one of: {'  '.join(known)}")
    present = data.metrics[["name", metric]].dropna()
    groups = present.groupby("name", sort=False)[metric]
    from_the_end = groups.cumcount(ascending=False)
    count = np.ceil((data.share * groups.transform("size")).round(9)).clip(lower=1)  # 0.07 · 100 > 7 in floats
    late = from_the_end < count
    return present[late].groupby("name")[metric].mean()


def level(scores: np.ndarray) -> dict[str, float]:
    """Columns of one variant's scores `[n]`: n, IQM and its interval, mean, sd."""
    enough = scores.size >= MIN_SEEDS
    low, high = statistics.iqm_interval(scores) if enough else (np.nan, np.nan)
    return {
        "n": scores.size,
        "iqm": float(statistics.iqm(scores)),
        "iqm_low": float(low),
        "iqm_high": float(high),
        "mean": scores.mean() if scores.size else np.nan,
        "sd": scores.std(ddof=1) if scores.size > 1 else np.nan,
    }


def effect(differences: np.ndarray) -> dict[str, float]:
    """Columns of paired differences `[n]`; no intervals with fewer than MIN_SEEDS seeds."""
    typical = statistics.trimmed_difference(differences)
    mean = statistics.paired_difference(differences)
    wins = statistics.win_rate(differences)
    columns = {
        "n_pairs": differences.size,
        "difference": float(mean.mean),
        "difference_low": float(mean.low),
        "difference_high": float(mean.high),
        "difference_sd": float(mean.sd),
        "effect_size": float(mean.effect_size),
        "trimmed": float(typical.mean),
        "trimmed_low": float(typical.low),
        "trimmed_high": float(typical.high),
        "wins": wins.wins,
        "win_rate": wins.rate,
        "win_low": wins.low,
        "win_high": wins.high,
        "p": statistics.sign_flip_p(differences),
    }
    hidden = [] if differences.size >= MIN_SEEDS else [key for key in columns if key.endswith(("_low", "_high"))]
    return columns | dict.fromkeys(hidden, np.nan)


def no_effect() -> dict[str, float]:
    """The baseline's own columns: its difference is exactly 0, the rest does not apply."""
    empty = dict.fromkeys(effect(np.zeros(0)), np.nan)
    return empty | {"n_pairs": 0, "difference": 0.0, "trimmed": 0.0}


def counts(runs: pd.DataFrame) -> dict[str, int]:
    """Columns of one variant's runs: how many there are, did not complete, and collapsed (of those that know)."""
    return {
        "runs": len(runs),
        "failed": int((runs["status"] != "completed").sum()),
        "collapsed": int(runs["collapsed"].sum()),
        "collapsed_of": int(runs["collapsed"].notna().sum()),
    }
