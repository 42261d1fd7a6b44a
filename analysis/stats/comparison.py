"""Scores of a sweep to one row of statistics per variant. Seeds that arms share are paired."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from rlexp.analysis.data.errors import AnalysisError
from rlexp.analysis.data.load import InTurns, SweepData
from rlexp.analysis.data.metric_spec import Direction, direction_note, direction_sign
from rlexp.analysis.data.run_values import RunValues, values_per_run
from rlexp.analysis.data.runs import UNFINISHED
from rlexp.analysis.data.variants import resolve_variant
from rlexp.analysis.stats import estimates, significance, unpaired
from rlexp.analysis.stats.racing import Race, race
from rlexp.analysis.stats.significance import ALPHA, MEAN_TEST, PairedTest, subtract

MIN_SEEDS = 3  # fewer: no intervals


def iqm_with_interval(scores: np.ndarray) -> tuple[float, float, float]:
    """Return the interquartile mean of scores `[n]` and its 95 % interval, which is NaN below MIN_SEEDS seeds."""
    low, high = estimates.iqm_interval(scores) if scores.size >= MIN_SEEDS else (np.nan, np.nan)
    return float(estimates.iqm(scores)), float(low), float(high)


def level_columns(scores: np.ndarray, ranked: bool = False) -> dict[str, float]:
    """Columns of one variant's scores `[n]`: n, IQM and its interval, mean, sd; of ranked ones also how many of them
    are finite, and their median.
    """
    iqm, low, high = iqm_with_interval(scores)
    finite = np.isfinite(scores)
    median = float(estimates.median_difference(scores).mean)
    columns = {
        "n": scores.size,
        "iqm": iqm,
        "iqm_low": low,
        "iqm_high": high,
        "mean": scores.mean() if scores.size else np.nan,
        "sd": scores.std(ddof=1) if scores.size > 1 and finite.all() else np.nan,
    }
    return columns | ({"arrived": int(finite.sum()), "median": median} if ranked else {})


def effect_columns(differences: np.ndarray, better: Direction = None, test: PairedTest = MEAN_TEST) -> dict[str, float]:
    """Columns of paired differences `[n]`; no intervals below MIN_SEEDS seeds, no wins unless one end is better.

    test: how they are summed up and tested.
    """
    trimmed = estimates.trimmed_difference(differences if np.isfinite(differences).all() else np.zeros(0))
    wins = estimates.win_rate(direction_sign(better) * differences if better else np.zeros(0))
    names = "difference difference_low difference_high difference_sd effect_size trimmed trimmed_low trimmed_high"
    columns = {
        "n_pairs": differences.size,
        **dict(zip(names.split(), map(float, (*test.estimate(differences), *trimmed[:3])), strict=True)),
        "wins": wins.wins if better else np.nan,
        "win_rate": wins.rate,
        "win_low": wins.low,
        "win_high": wins.high,
        "p": test.p(differences),
    }
    hidden = [] if differences.size >= MIN_SEEDS else [key for key in columns if key.endswith(("_low", "_high"))]
    return columns | dict.fromkeys(hidden, np.nan)


def unpaired_columns(scores: np.ndarray, baseline: np.ndarray) -> dict[str, float]:
    """The same columns of two arms that share no seeds, `[n]` and `[m]`; beside them what Welch's t test goes by.

    `n_pairs` is the smaller number of runs. There are neither wins nor a trimmed difference.
    """
    found = unpaired.welch_difference(scores, baseline)
    fewest = min(scores.size, baseline.size)
    ends = {} if fewest >= MIN_SEEDS else {"low": np.nan, "high": np.nan}
    mean, low, high, sd, effect_size, error, df = found._replace(**ends)
    columns = dict.fromkeys(effect_columns(np.zeros(0)), np.nan) | {"n_pairs": fewest}
    columns |= {"difference": mean, "difference_low": low, "difference_high": high}
    columns |= {"difference_sd": sd, "effect_size": effect_size, "p": unpaired.permutation_p(scores, baseline)}
    return columns | {"n_baseline": baseline.size, "standard_error": error, "df": df}


def baseline_columns() -> dict[str, float]:
    """The columns of the baseline itself: its difference is exactly 0, the rest does not apply."""
    empty = dict.fromkeys(effect_columns(np.zeros(0)), np.nan)
    return empty | {"n_pairs": 0, "difference": 0.0, "trimmed": 0.0}


def count_columns(runs: pd.DataFrame) -> dict[str, int]:
    """Columns of one variant's runs: how many there are, failed, have not ended, and collapsed (of those that say)."""
    ended = ~runs["status"].isin(UNFINISHED)
    return {
        "runs": len(runs),
        "failed": int((ended & (runs["status"] != "completed")).sum()),
        "unfinished": int((~ended).sum()),
        "collapsed": int(runs["collapsed"].sum()),
        "collapsed_of": int(runs["collapsed"].notna().sum()),
    }


class Comparison(NamedTuple):
    """One metric, every variant against one baseline."""

    table: pd.DataFrame
    """One row per variant; the columns are those of `level_columns`, `effect_columns` and `count_columns`,
    and `p_holm` and `detectable`."""
    scores: pd.DataFrame
    """One row per seed, one column per variant; NaN where a run is missing or did not complete."""
    baseline: str
    metric: str
    labels: Mapping[str, str]
    axis: str
    """Header of the labels."""
    aggregation: str = ""
    """Computation of a run's number from its rows, in words."""
    family: int = 0
    """Number of differences over which p is corrected: of all tables asked for at once, and of a study's claims."""
    stratum: str = ""
    """Of which part of the runs, such as "task=sort"; empty if of all."""
    remarks: tuple[str, ...] = ()
    """Notes on how the numbers of the runs came about, where that is not the usual way."""
    better: Direction = None
    """The better end of the metric; None where neither is."""
    tuned: bool = False
    """Whether other seeds than these chose the best point of each variant."""
    in_turns: InTurns | None = None
    """Why seeds came in turns, if they did."""
    ranked: bool = False
    """Whether numbers may be infinite, as the cost of what is never reached: differences are medians, p is of ranks."""
    score_metric: str = ""
    """The metric of the runs' scores; a run has collapsed where its score is below the floor."""
    is_score: bool = False
    """Whether the scores are compared."""
    paired: bool = True
    """Whether differences are taken on each seed. If not, the rows of `scores` are runs, each of one variant."""

    @property
    def all_collapsed(self) -> bool:
        """Whether every run ended below the floor of its score."""
        collapsed, known = self.table[["collapsed", "collapsed_of"]].sum()
        return bool(known and collapsed == known)

    def until(self, key: str) -> float | None:
        """The number of the key by which seeds were added; None if it was not this one."""
        return self.in_turns.value if self.in_turns and self.in_turns.key == key else None

    @property
    def sequential(self) -> bool:
        """Whether p and intervals hold at every look."""
        return self.in_turns is not None and self.in_turns.sequential

    @property
    def paired_test(self) -> PairedTest:
        """The summary and test of its differences."""
        return PairedTest(self.sequential, self.ranked)

    def decision(self, variant: str) -> str:
        """The decision on a variant by the seeds that were added: `higher`, `lower`, `equal`, or `open`."""
        if self.ranked:
            return "open"
        interval = significance.confidence_sequence(self.differences(variant), ALPHA / max(self.family, 1))
        return significance.decide(interval, self.until("until_decided") or 0.0)

    def half_width(self, variant: str) -> float:
        """How far the interval of a variant's difference reaches to its longer side; NaN if it has none."""
        low, middle, high = self.table.loc[variant, ["difference_low", "difference", "difference_high"]]
        return float(np.maximum(high - middle, middle - low))

    def is_open(self, variant: str) -> bool:
        """Whether the difference of a variant asks for more seeds, if they are added until enough is known."""
        width = self.until("until_width")
        return self.decision(variant) == "open" if width is None else not self.half_width(variant) <= width

    @property
    def race(self) -> Race | None:
        """Where the race stands; None if there was none, or not by these numbers."""
        margin = self.until("until_best")
        return race(self.scores, margin) if margin and self.is_score and not self.stratum else None

    @property
    def heading(self) -> str:
        return self.metric + direction_note(self.better)

    def differences(self, variant: str) -> np.ndarray:
        """Paired differences to the baseline `[n]`, over the seeds that both have; none of unpaired runs."""
        return paired_differences(self.scores, variant, self.baseline)

    def runs(self, variant: str) -> np.ndarray:
        """The numbers of a variant's runs `[n]`."""
        return self.scores[variant].dropna().to_numpy(dtype=float)

    def side(self, variant: str) -> float:
        """Above 0 if a variant is on the whole above the baseline, below 0 if it is below."""
        if not self.paired:
            return float(self.table.loc[variant, "difference"])
        return self.paired_test.side(self.differences(variant))

    @property
    def others(self) -> list[str]:
        return [variant for variant in self.table.index if variant != self.baseline]


def compare(
    data: SweepData, metric: str | None = None, baseline: str | None = None, run_values: RunValues | None = None
) -> Comparison:
    """Every variant's level and its paired difference to the baseline (the first variant unless named).

    Without a metric it is the score in the runs' summaries; a named metric is averaged over the same last share of the
    rows where it is present; any other number per run is given as `run_values`. p values are corrected (Holm) over all
    variants compared here.
    """
    baseline = resolve_variant(baseline, data.labels) if baseline else data.first_variant
    run_values = run_values or values_per_run(data, metric)
    scores = seed_table(data, run_values)
    paired = shares_seeds(data, scores)
    if not paired:
        if run_values.ranked:
            raise AnalysisError(
                f"{run_values.metric} may be infinite, and arms with other seeds have no ranks of theirs"
            )
        run_values = run_values._replace(remarks=(*run_values.remarks, *_other_seeds(data, scores)))
        scores = spread_runs(scores)
    sequential = data.in_turns is not None and data.in_turns.sequential
    ranked, test = run_values.ranked, PairedTest(sequential, run_values.ranked)
    rows = {variant: level_columns(scores[variant].dropna().to_numpy(), ranked) for variant in data.variants}
    for variant, row in rows.items():
        if variant == baseline:
            row |= baseline_columns()
        elif paired:
            row |= effect_columns(paired_differences(scores, variant, baseline), run_values.better, test)
        else:
            row |= unpaired_columns(*(scores[each].dropna().to_numpy() for each in (variant, baseline)))
        row |= count_columns(data.runs[data.runs["variant"] == variant])
    comparison = Comparison(
        table=pd.DataFrame.from_dict(rows, orient="index").rename_axis("variant"),
        scores=scores,
        baseline=baseline,
        metric=run_values.metric,
        labels=data.labels,
        axis=data.axis,
        aggregation=run_values.aggregation,
        remarks=tuple(run_values.remarks),
        better=run_values.better,
        in_turns=data.in_turns,
        ranked=ranked,
        score_metric=data.score_metric or "score",
        is_score=run_values.is_score,
        paired=paired,
    )
    return apply_holm([comparison])[0]


def apply_holm(comparisons: Sequence[Comparison], further_p: Sequence[float] = ()) -> list[Comparison]:
    """The comparisons with p corrected, and detectable effects computed, over all their differences together.

    further_p: of differences that are tested beside these, which count as much.
    """
    joined = pd.concat([comparison.table for comparison in comparisons], keys=range(len(comparisons)))
    table, family = add_holm(joined, further_p)
    return [comparison._replace(table=table.loc[place], family=family) for place, comparison in enumerate(comparisons)]


def add_holm(table: pd.DataFrame, further_p: Sequence[float] = ()) -> tuple[pd.DataFrame, int]:
    """Add to a table of effects `p_holm`, Holm's correction over its rows and `further_p`, and `detectable`.

    Returns also how many differences are tested together: the rows with pairs, and the further ones that have a p.
    """
    table = table.drop(columns=["p_holm", "detectable"], errors="ignore")
    corrected = significance.holm(np.concatenate([table["p"].to_numpy(dtype=float), further_p]))
    table.insert(table.columns.get_loc("p") + 1, "p_holm", corrected[: len(table)])
    family = int((table["n_pairs"] > 0).sum() + (~np.isnan(np.asarray(further_p, dtype=float))).sum())
    detectable = [_detectable(row, family) for _, row in table.iterrows()]
    return table.assign(detectable=detectable), family


def _detectable(row: pd.Series, family: int) -> float:
    if not np.isnan(row.get("df", np.nan)):
        return unpaired.detectable_difference(row["standard_error"], row["df"], family)
    return significance.minimum_detectable_effect(row["difference_sd"], row["n_pairs"], ALPHA, family)


def shares_seeds(data: SweepData, scores: pd.DataFrame) -> bool:
    """Whether differences are to be taken on each seed of a seed × variant table.

    Of our own runs always: a seed that an arm lacks is left out. Of others' where all arms have numbers on the same
    seeds.
    """
    if data.origin is None:
        return True
    seeds = [frozenset(scores.index[scores[variant].notna()]) for variant in scores if scores[variant].notna().any()]
    return data.origin.has_seeds and len(set(seeds)) == 1


def _other_seeds(data: SweepData, scores: pd.DataFrame) -> list[str]:
    """Say which seeds each variant has, where that is why runs are not paired."""
    if not data.origin or not data.origin.has_seeds:
        return []
    seeds = {variant: [*map(str, scores.index[scores[variant].notna()])] for variant in scores}
    texts = [
        f"{data.labels[variant]} {', '.join(found[:6])}{' …' * (len(found) > 6)}" for variant, found in seeds.items()
    ]
    shared = scores.dropna().index
    hint = f" --where seed={','.join(map(str, shared))} compares the seeds that all have." if len(shared) > 1 else ""
    return [f"The arms have not the same seeds ({'; '.join(texts)}), so runs are not paired.{hint}"]


def spread_runs(scores: pd.DataFrame) -> pd.DataFrame:
    """A row for each run of a seed × variant table: no two variants share one."""
    runs = [(variant, value) for variant in scores for value in scores[variant].dropna()]
    table = pd.DataFrame(np.nan, pd.RangeIndex(len(runs), name="run"), scores.columns)
    for place, (variant, value) in enumerate(runs):
        table.loc[place, variant] = value
    return table


def paired_differences(scores: pd.DataFrame, variant: str, versus: str) -> np.ndarray:
    """Differences `[n]` of two columns of a seed × variant table, over the seeds that both have."""
    differences = subtract(scores[variant], scores[versus])
    return differences[~np.isnan(differences)]


def seed_table(data: SweepData, run_values: RunValues) -> pd.DataFrame:
    """Seed × variant table of a number per run; completed runs only, unless the numbers are of others too.

    Where a variant has several cells it is the mean over them, of the seeds that have all of them.
    """
    values = data.runs["name"].map(run_values.values)
    runs = data.runs.assign(cell=data.runs["cell"] if "cell" in data.runs else "", value=values)
    runs["value"] = runs["value"].where(runs["status"].isin(run_values.statuses)).astype(float)
    runs = runs.sort_values("status", key=lambda status: status != "completed", kind="stable")  # completed ones first
    runs = runs.dropna(subset=["seed"]).drop_duplicates(["variant", "cell", "seed"])
    seeds = pd.Index(sorted(runs["seed"].unique()), name="seed", dtype="Int64")
    cells = runs.pivot(index=["variant", "seed"], columns="cell", values="value")
    means = {}
    for variant in data.variants:
        names = list(dict.fromkeys(runs.loc[runs["variant"] == variant, "cell"]))
        values = cells.loc[[variant], names].droplevel("variant") if names else pd.DataFrame(np.nan, seeds, [""])
        means[variant] = values.reindex(seeds).mean(axis=1, skipna=False)
    return pd.DataFrame(means, index=seeds, columns=data.variants)


def can_be_significant(row: pd.Series, comparisons: int) -> bool:
    """Whether a corrected p of this row could be at most ALPHA; if not, a table shows a dash instead."""
    if "q" in row:  # where all are discoveries a p of ALPHA will do
        return bool(row["q"] < ALPHA or reachable_p(row) <= ALPHA)
    return bool(row["p_holm"] < ALPHA or reachable_p(row, comparisons) <= ALPHA)


def reachable_p(row: pd.Series, comparisons: int = 1) -> float:
    """Smallest p that the seeds or runs of a row can give, one of so many differences."""
    if not np.isnan(row.get("n_baseline", np.nan)):
        return min(1.0, max(comparisons, 1) * unpaired.min_unpaired_p(int(row["n"]), int(row["n_baseline"])))
    return significance.reachable_p(int(row["n_pairs"]), comparisons)
