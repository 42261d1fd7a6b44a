"""What a reader of a comparison must know beside the numbers: how they were made and what they cannot show."""

import pandas as pd

from analysis.comparison import ALPHA, MIN_SEEDS, Comparison
from analysis.load import Data
from analysis.power import min_p, seeds_for_p

NO_WINS = "no win rate: whether more of it is better is not known"


def notes(data: Data, comparison: Comparison) -> list[str]:
    """All notes of a comparison, the method first; empty ones are left out."""
    makers = (_rule, _few_seeds, _unreachable, _missed, _unpaired, _duplicates, _without_score)
    made = [_method(data, comparison), *comparison.remarks, *(maker(data, comparison) for maker in makers)]
    return [note for note in made if note]


def _method(data: Data, comparison: Comparison) -> str:
    score = f"{comparison.metric}, {comparison.how}, per run"
    level = "IQM: interquartile mean over seeds [95 % percentile bootstrap]"
    if not comparison.others:
        return f"score: {score}. {level}."
    wins = f"win rate: seeds with a {comparison.better} score" if comparison.better else NO_WINS
    return (
        f"score: {score}. {level}. difference: mean over paired seeds to {comparison.labels[comparison.baseline]}"
        f" [95 % paired t interval, not adjusted]; effect: difference / its SD over seeds; {wins}."
    )


def _rule(data: Data, comparison: Comparison) -> str:
    compared = compared_variants(comparison)
    if not compared:
        return ""
    return (
        f"p: sign flips of paired differences (exact up to 14 seeds), Holm over {comparison.family} "
        f"difference{'s' * (comparison.family > 1)}. Claims rest on p (Holm); intervals show size."
    )


def _few_seeds(data: Data, comparison: Comparison) -> str:
    n = comparison.table["n"]
    n = int(n[n > 0].min()) if (n > 0).any() else 0
    if n == 0:
        return ""
    if n < MIN_SEEDS:
        return f"no intervals for fewer than {MIN_SEEDS} seeds; with {n} the IQM is the mean."
    if n == MIN_SEEDS:
        return "with 3 seeds the IQM is the mean, and its interval is optimistic."
    return "with fewer than 10 seeds the IQM interval is optimistic (about 90 % at n = 5)." if n < 10 else ""


def _unreachable(data: Data, comparison: Comparison) -> str:
    compared = compared_variants(comparison)
    short = [variant for variant in compared if not reachable(comparison.table.loc[variant], comparison.family)]
    if not short:
        return ""
    n = int(comparison.table.loc[short, "n_pairs"].max())
    holm = f", times {comparison.family} by Holm" if comparison.family > 1 else ""
    return (
        f"p cannot reach {ALPHA:g} with {n} paired seed{'s' * (n > 1)} (smallest p = {min_p(n):.2g}{holm}): "
        f"{seeds_for_p(comparison.family, ALPHA)} seeds are needed."
    )


def _missed(data: Data, comparison: Comparison) -> str:
    table, compared = comparison.table, compared_variants(comparison)
    null = [variant for variant in compared if _shows_nothing(table.loc[variant], comparison.family)]
    effects = ", ".join(f"{comparison.labels[variant]} {table.loc[variant, 'detectable']:.2g}" for variant in null)
    return f"no difference shown is not no difference; could have missed effects below: {effects}." if null else ""


def _shows_nothing(row: pd.Series, comparisons: int) -> bool:
    """A p that could have been small but is not; where it could not, an interval around 0."""
    around_zero = row["difference_low"] <= 0 <= row["difference_high"]
    null = row["p_holm"] >= ALPHA if reachable(row, comparisons) else around_zero
    return bool(null and row["detectable"] > 0)


def _unpaired(data: Data, comparison: Comparison) -> str:
    scored = comparison.scores.notna()
    lost = {v: scored.index[scored[v] != scored[comparison.baseline]] for v in comparison.others}
    texts = [f"{comparison.labels[variant]} {_seeds(seeds)}" for variant, seeds in lost.items() if len(seeds)]
    return f"without a partner, left out of the differences: seeds of {'; '.join(texts)}." if texts else ""


def _seeds(seeds: pd.Index) -> str:
    shown = ", ".join(str(seed) for seed in seeds[:10])
    return shown + (f" and {len(seeds) - 10} more" if len(seeds) > 10 else "")


def _duplicates(data: Data, comparison: Comparison) -> str:
    completed = data.runs[data.runs["status"] == "completed"]
    same = [column for column in ("variant", "cell", "seed") if column in completed]
    twice = completed[completed.duplicated(same)]["name"]
    return f"same variant and seed as an earlier run, not counted: {', '.join(twice)}." if len(twice) else ""


def _without_score(data: Data, comparison: Comparison) -> str:
    empty = [comparison.labels[variant] for variant, n in comparison.table["n"].items() if n == 0]
    return f"no run with a score: {', '.join(empty)}." if empty else ""


def compared_variants(comparison: Comparison) -> list[str]:
    """Variants with at least one seed paired with the baseline: what Holm's correction counts."""
    return [variant for variant in comparison.others if comparison.table.loc[variant, "n_pairs"] > 0]


def reachable(row: pd.Series, comparisons: int) -> bool:
    """Whether a corrected p of this row could be at most ALPHA; if not, a table shows a dash instead."""
    return bool(row["p_holm"] < ALPHA or comparisons * min_p(int(row["n_pairs"])) <= ALPHA)
