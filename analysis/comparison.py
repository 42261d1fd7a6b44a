"""Scores of a sweep to one row of statistics per variant. Seeds are paired with the baseline's."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from analysis import statistics
from analysis.direction import Better, sign, told
from analysis.load import Data
from analysis.measure import Measured, late_means, measure
from analysis.power import minimum_detectable_effect
from analysis.variants import resolve

__all__ = ["ALPHA", "MIN_SEEDS", "Comparison", "adjust", "compare", "correct", "late_means", "seed_scores"]

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
    how: str = ""
    """How the number of a run was taken."""
    family: int = 0
    """Number of differences over which p is corrected: those of this table, or of all tables asked for at once."""
    stratum: str = ""
    """Of which part of the runs, such as "task=sort"; empty if of all."""
    remarks: tuple[str, ...] = ()
    """How the numbers of the runs came about, where that is not the usual way."""
    better: Better = None
    """Which end of the metric is the good one, if that is known."""

    @property
    def heading(self) -> str:
        """The metric, and which end of it is the good one."""
        return self.metric + told(self.better)

    def differences(self, variant: str) -> np.ndarray:
        """Paired differences to the baseline `[n]`, over the seeds that both have."""
        return paired(self.scores, variant, self.baseline)

    @property
    def others(self) -> list[str]:
        """All variants but the baseline."""
        return [variant for variant in self.table.index if variant != self.baseline]


def compare(
    data: Data, metric: str | None = None, baseline: str | None = None, measured: Measured | None = None
) -> Comparison:
    """Every variant's level and its paired difference to the baseline (the first variant unless named).

    Without a metric it is the score in the runs' summaries; a named metric is averaged over the same last share of the
    rows where it is present; any other number per run is given as `measured`. p values are corrected (Holm) over all
    variants compared here.
    """
    baseline = resolve(baseline, data.labels) if baseline else data.variants[0]
    measured = measured or measure(data, metric)
    scores = table_of(data, measured.values)
    rows = {variant: level(scores[variant].dropna().to_numpy()) for variant in data.variants}
    for variant, row in rows.items():
        row |= no_effect() if variant == baseline else effect(paired(scores, variant, baseline), measured.better)
        row |= counts(data.runs[data.runs["variant"] == variant])
    table = pd.DataFrame.from_dict(rows, orient="index").rename_axis("variant")
    comparison = Comparison(table, scores, baseline, measured.metric, data.labels, data.axis, measured.how)
    return correct([comparison._replace(remarks=tuple(measured.remarks), better=measured.better)])[0]


def correct(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """The comparisons with p corrected, and detectable effects computed, over all their differences together."""
    table = adjust(pd.concat([comparison.table for comparison in comparisons], keys=range(len(comparisons))))
    family = int((table["n_pairs"] > 0).sum())
    return [each._replace(table=table.loc[place], family=family) for place, each in enumerate(comparisons)]


def adjust(table: pd.DataFrame) -> pd.DataFrame:
    """A table of effects with the columns `p_holm`, Holm's correction over its rows, and `detectable`."""
    table = table.drop(columns=["p_holm", "detectable"], errors="ignore")
    table.insert(table.columns.get_loc("p") + 1, "p_holm", statistics.holm(table["p"].to_numpy(dtype=float)))
    family = int((table["n_pairs"] > 0).sum())
    pairs = zip(table["difference_sd"], table["n_pairs"], strict=True)
    return table.assign(detectable=[minimum_detectable_effect(sd, n, ALPHA, family) for sd, n in pairs])


def paired(scores: pd.DataFrame, variant: str, versus: str) -> np.ndarray:
    """Differences `[n]` of two columns of a seed × variant table, over the seeds that both have."""
    return (scores[variant] - scores[versus]).dropna().to_numpy()


def seed_scores(data: Data, metric: str | None = None) -> pd.DataFrame:
    """Seed × variant table of the stored scores, or of the late mean of a named metric; completed runs only."""
    return table_of(data, measure(data, metric).values)


def table_of(data: Data, values: pd.Series) -> pd.DataFrame:
    """Seed × variant table of a number per run (by name); completed runs only.

    Where a variant has several cells it is the mean over them, of the seeds that have all of them.
    """
    runs = data.runs.assign(cell=data.runs["cell"] if "cell" in data.runs else "", value=data.runs["name"].map(values))
    runs["value"] = runs["value"].where(runs["status"] == "completed").astype(float)
    runs = runs.sort_values("status", key=lambda status: status != "completed", kind="stable")  # completed ones first
    runs = runs.dropna(subset=["seed"]).drop_duplicates(["variant", "cell", "seed"])
    seeds = pd.Index(sorted(runs["seed"].unique()), name="seed", dtype="Int64")
    cells = runs.pivot(index=["variant", "seed"], columns="cell", values="value")
    means = {}
    for variant in data.variants:
        own = dict.fromkeys(runs.loc[runs["variant"] == variant, "cell"])
        values = cells.loc[[variant], list(own)].droplevel("variant") if own else pd.DataFrame(np.nan, seeds, [""])
        means[variant] = values.reindex(seeds).mean(axis=1, skipna=False)
    return pd.DataFrame(means, index=seeds, columns=data.variants)


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


def effect(differences: np.ndarray, better: Better = None) -> dict[str, float]:
    """Columns of paired differences `[n]`; no intervals with fewer than MIN_SEEDS seeds, no wins without a good end."""
    typical = statistics.trimmed_difference(differences)
    mean = statistics.paired_difference(differences)
    wins = statistics.win_rate(sign(better) * differences if better else np.zeros(0))
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
        "wins": wins.wins if better else np.nan,
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
