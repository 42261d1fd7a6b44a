"""Notes on a comparison: how its numbers were made and what they cannot show."""

from collections.abc import Iterator
from contextlib import suppress
from itertools import combinations
from pathlib import Path

import numpy as np

from rlexp.analysis.data.load import SweepData
from rlexp.analysis.data.runs import UNFINISHED, origin_note
from rlexp.analysis.stats.comparison import (
    MIN_SEEDS,
    Comparison,
    can_be_significant,
    paired_differences,
)
from rlexp.analysis.stats.significance import ALPHA, min_p, reachable_p, seeds_for_p, seeds_with_choice, symmetry_p
from rlexp.analysis.stats.unpaired import min_unpaired_p, runs_for_p
from rlexp.core.exits import RunFailed
from rlexp.runfolder.files import RUNGS_FILE, SEARCH_FILE, is_foreign, read_json

NO_WINS = "There is no win rate, because whether more of it is better is not known."
MAX_NAMED = 4  # variants named one by one in a note; of more only the range is said


def comparison_notes(data: SweepData, comparison: Comparison) -> list[str]:
    """All notes of a comparison, first what it cannot answer, then the method; empty ones are left out."""
    last = (_rule, _one_sided, _skewed, _too_wide, _race, _other_order, _few_seeds, _missed)
    before = (
        _halved(data),
        _searched(data),
        _unreachable(comparison),
        _nothing_learned(comparison),
        *_numbers(comparison),
    )
    after = *(maker(comparison) for maker in last), *_left_out(data, comparison), origin_note(data.runs)
    return [note for note in (*before, *comparison.remarks, *after) if note]


def _sweep_folders(data: SweepData) -> list[Path]:
    return sorted({Path(folder).parent for folder in data.runs.get("folder", ())})


def _halved(data: SweepData) -> str:
    """Say what the variants were chosen by, if they are what successive halving left, and what that does to scores."""
    for file in (folder / RUNGS_FILE for folder in _sweep_folders(data)):
        with suppress(RunFailed, LookupError, TypeError, ValueError):  # damaged, or anybody's
            if is_foreign(file) or (written := read_json(file)) is None:
                continue
            first, *others = written["rungs"]
            chose = {int(seed) for rung in (first, *others[:-1]) for seed in rung["seeds"]}
            left = (
                f"The variants are what successive halving left of {len(first['points'])}: rungs.json has the scores."
            )
            if chose.isdisjoint(data.runs["seed"].dropna().astype(int)):
                return f"{left} None of the seeds here has chosen, so the choice makes no score too high."
            return (
                f"{left} Seeds that have chosen are among those here: the best looks better than it is, and neither p "
                "nor an interval counts that. Train it, and what it is compared with, on other seeds."
            )
    return ""


def _searched(data: SweepData) -> str:
    """Say what is wrong with comparing arms that were asked for because of the scores that they are compared by."""
    sweeps = _sweep_folders(data)
    if not any((folder / SEARCH_FILE).exists() and not (folder / RUNGS_FILE).exists() for folder in sweeps):
        return ""
    return (
        "The variants were searched for, each because of the scores of those before it on the same seeds: the best "
        "looks better than it is, and neither p nor an interval counts that. Train it, and what it is compared with, "
        "on other seeds."
    )


def _numbers(comparison: Comparison) -> tuple[str, str]:
    """Say what the number of a run is, and what a difference, if there are two variants."""
    difference = f"The difference to {comparison.labels[comparison.baseline]} is taken on each seed that both have"
    if comparison.ranked:
        score = (
            f"The number of a run is {comparison.metric}, {comparison.aggregation}; it is infinite (∞) for a run that "
            "never gets there, and `arrived` counts the others. The IQM is the mean over seeds without the lowest and "
            "the highest quarter of them: infinite where more than a quarter never get there."
        )
        difference += (
            ", and the table has their median; in brackets, its 95 % interval (sign test, from six seeds on). It is "
            "infinite where only one of the two gets there, and 0 where neither does. The win rate counts the seeds "
            f"with a {comparison.better} number."
        )
    else:
        units = "seeds" if comparison.paired else "runs"
        score = (
            f"The score of a run is {comparison.metric}, {comparison.aggregation}. The IQM is the mean score over "
            f"{units} without the lowest and the highest quarter of them; in brackets, its 95 % interval (percentile "
            "bootstrap)."
        )
        if not comparison.paired:
            return score, _unpaired(comparison) if comparison.others else ""
        kind = "confidence sequence: it holds at every look" if comparison.sequential else "paired t"
        wins = f"The win rate counts the seeds with a {comparison.better} score." if comparison.better else NO_WINS
        difference += (
            f" and averaged; in brackets, its 95 % interval ({kind}, of each difference alone). The effect is this "
            f"difference divided by its SD over seeds. {wins}"
        )
    return score, difference if comparison.others else ""


def _unpaired(comparison: Comparison) -> str:
    return (
        "Runs are not paired. The difference is the mean of an arm less that of "
        f"{comparison.labels[comparison.baseline]}; in brackets, its 95 % interval (Welch's t, of each difference "
        "alone). The effect is this difference divided by the SD of a run (Cohen's d). There is no win rate, as no run "
        "of one arm belongs to one of another."
    )


def _rule(comparison: Comparison) -> str:
    if not compared_variants(comparison):
        return ""
    family = comparison.family
    corrected = (
        f"p corrected for looking at {family} differences" if family > 1 else "the same: there is one difference"
    )
    tossed = (
        "p is how often a difference at least this large comes about if the sign of each seed's difference is tossed "
        "like a coin (all tosses up to 14 seeds, else 9,999 random ones)."
    )
    if not comparison.paired:
        tossed = (
            "p is how often Welch's t is at least this large if the runs of both arms are shuffled between them (all "
            "ways to do so up to 19,999, else as many random ones)."
        )
    if comparison.ranked:
        tossed = (
            "p is how often a sum of signed ranks at least this large comes about if the sign of each seed's "
            "difference is tossed like a coin: differences are ranked by size, and the infinite ones come last."
        )
    if comparison.sequential:
        until = "a variant was shown to be best" if comparison.until("until_best") else "every difference was decided"
        tossed = (
            f"Seeds were added until {until}. p is therefore one that may be looked at after each: the signs of the "
            "differences are bet on one after another, and p is what the largest gain so far is worth. It is a p of "
            "the center of symmetry of the differences: of skewed ones it says nothing about the mean."
        )
    return (
        f"{tossed} p (Holm) is {corrected}. Claim a difference only where p (Holm) is below {ALPHA:g}; the intervals "
        "say how large it is."
    )


def _one_sided(comparison: Comparison) -> str:
    """Intervals are of one difference alone, so they can say otherwise than p (Holm): which does, and what holds."""
    table, texts = comparison.table, []
    for variant in compared_variants(comparison):
        row = table.loc[variant]
        leaves_out_zero = row["difference_low"] > 0 or row["difference_high"] < 0
        if not np.isnan(row["difference_low"]) and leaves_out_zero != (row["p_holm"] < ALPHA):
            texts.append(f"{comparison.labels[variant]} ({row['p_holm']:.2g})")
    if not texts:
        return ""
    why = "it only tosses signs, an interval takes the differences to be normal"
    if not comparison.paired:
        why = "it only shuffles runs, an interval takes them to be normal"
    if comparison.ranked:
        why = "it ranks the differences, an interval only counts them"
    if comparison.family > 1:
        why = f"it counts all {comparison.family} differences, an interval only its own"
    return f"The interval and p (Holm) say different things of {_some(texts)}. p (Holm) decides: {why}."


def _skewed(comparison: Comparison) -> str:
    """Name differences that are skewed, where seeds were added because of p: it then is none of their mean."""
    if not comparison.sequential or comparison.ranked:
        return ""
    texts, versus = [], (comparison.race and comparison.race.best) or comparison.baseline
    for variant in comparison.table.index.drop(versus):
        differences = paired_differences(comparison.scores, variant, versus)
        if symmetry_p(differences) < ALPHA / max(comparison.family, 1):
            middles = f"mean {differences.mean():+.3g}, median {np.median(differences):+.3g}"
            texts.append(f"{comparison.labels[variant]} ({middles})")
    if not texts:
        return ""
    return (
        f"Clearly skewed, not symmetric around a center, are the differences of {_some(texts)}. What is said of them "
        "by p, interval and decision is then that the two variants differ, not that their means do: compare the means "
        "on a number of seeds that is fixed beforehand."
    )


def _too_wide(comparison: Comparison) -> str:
    """Say how seeds were added until intervals were narrow, and which are not."""
    width = comparison.until("until_width")
    if width is None or not comparison.others:
        return ""
    wide = [variant for variant in comparison.others if comparison.is_open(variant)]
    texts = [f"{comparison.labels[variant]} (±{comparison.half_width(variant):.2g})" for variant in wide]
    left = f" The seeds ended before that for {_some(texts)}." if texts else ""
    return (
        f"Seeds were added until each interval reached no further than {width:g} to either side. That looks at no "
        f"sign, so p and intervals are nearly as good as those of a fixed number of seeds.{left}"
    )


def _race(comparison: Comparison) -> str:
    """Say what a race may get wrong, and that arms have fewer seeds because of it."""
    raced = comparison.race
    if raced is None:
        return ""
    fewer = [f"{comparison.labels[arm]} after {comparison.table.loc[arm, 'n']:g} seeds" for arm in raced.out]
    stopped = f" Stopped: {_some(fewer)}. What an arm reaches is over its own seeds, a difference over those of both."
    return (
        "In a race a variant gets no more seeds once it is shown to be worse than another. That the best one is out, "
        f"or that the one called best is worse than it by {comparison.until('until_best'):g} or more, happens in at "
        f"most 5 % of races, if differences are symmetric.{stopped if fewer else ''}"
    )


def _other_order(comparison: Comparison) -> str:
    """IQM and mean difference can rank arms in opposite order: which, and why."""
    if comparison.ranked:
        return ""
    table, labels = comparison.table, comparison.labels
    shown = [variant for variant in table.index if not np.isnan(table.loc[variant, ["iqm", "difference"]]).any()]
    size = np.nanmax(table["iqm"].abs()) if shown else 0.0
    swapped = []
    for first, second in combinations(shown, 2):
        iqm, mean = (table.loc[first, column] - table.loc[second, column] for column in ("iqm", "difference"))
        if iqm * mean < 0 and min(abs(iqm), abs(mean)) > 5e-4 * size:  # not what a table does not show
            swapped.append(f"{labels[first]} and {labels[second]}")
    if not swapped:
        return ""
    return (
        f"IQM and difference put these in opposite order: {_some(swapped, '; ')}. The IQM leaves out the lowest and "
        "the highest quarter of the seeds, the difference is one of means and counts all: a few runs far from the rest "
        "decide between them. p (Holm) tests the difference."
    )


def _some(texts: list[str], between: str = ", ") -> str:
    more = f"{between}and {len(texts) - MAX_NAMED} more" if len(texts) > MAX_NAMED else ""
    return between.join(texts[:MAX_NAMED]) + more


def _nothing_learned(comparison: Comparison) -> str:
    """Equal numbers, or every run below the floor, look like a null result and are none."""
    scores = comparison.scores.to_numpy().ravel()
    scores = scores[~np.isnan(scores)]
    if scores.size > 1 and (scores == scores[0]).all():
        return f"Every run has the same score, {scores[0]:.3g}, so there is nothing to compare."
    if comparison.is_score and comparison.all_collapsed:
        return "Every run ended below the floor of its score: nothing was learned, so equal arms say nothing."
    return below_floor(comparison)


def below_floor(comparison: Comparison) -> str:
    """The note on another number than the score where every run collapsed; else empty."""
    if comparison.is_score or not comparison.all_collapsed:
        return ""
    scored = f"its score ({comparison.score_metric})"
    return f"Every run ended below the floor of {scored}: these are policies that have not learned the task."


def _few_seeds(comparison: Comparison) -> str:
    n = comparison.table["n"]
    n = int(n[n > 0].min()) if (n > 0).any() else 0
    if n == 0:
        return ""
    if n < MIN_SEEDS:
        return f"There are no intervals for fewer than {MIN_SEEDS} seeds, and the IQM is then the plain mean."
    if n == MIN_SEEDS:
        return "With 3 seeds the IQM is the plain mean, and its interval is too narrow."
    few = "With fewer than 10 seeds the interval of the IQM is too narrow: with 5, it holds the truth 90 % of the time."
    return few if n < 10 else ""


def _unreachable(comparison: Comparison) -> str:
    compared = compared_variants(comparison)
    short = [
        variant for variant in compared if not can_be_significant(comparison.table.loc[variant], comparison.family)
    ]
    if not short:
        return ""
    if not comparison.paired:
        return _few_runs(comparison, short)
    n, family = int(comparison.table.loc[short, "n_pairs"].max()), comparison.family
    in_all = f", or {seeds_with_choice(family)} with those that choose the best points" if comparison.tuned else ""
    times = f" ({min_p(n):.2g} before Holm's correction for {family})" if family > 1 else ""
    return (
        f"With {n} paired seed{'s' * (n > 1)} p (Holm) cannot fall below {ALPHA:g}, however large the difference is: "
        f"the smallest possible is {reachable_p(n, family):.2g}{times}. It takes {seeds_for_p(family)} seeds"
        f"{in_all}."
    )


def _few_runs(comparison: Comparison, short: list[str]) -> str:
    """Say the same of arms whose runs are not paired."""
    table, family = comparison.table, comparison.family
    largest = table.loc[short, "n"].idxmax()
    n, m = int(table.loc[largest, "n"]), int(table.loc[largest, "n_baseline"])
    reachable = min(1.0, family * min_unpaired_p(n, m))
    return (
        f"With {n} and {m} runs that are not paired p (Holm) cannot fall below {ALPHA:g}, however large the difference "
        f"is: the smallest possible is {reachable:.2g}. It takes {runs_for_p(family)} runs an arm."
    )


def _missed(comparison: Comparison) -> str:
    table = comparison.table
    null = [variant for variant in compared_variants(comparison) if table.loc[variant, "p_holm"] >= ALPHA]
    sizes = {comparison.labels[variant]: table.loc[variant, "detectable"] for variant in null}
    sizes = {label: size for label, size in sizes.items() if size > 0}
    if not sizes or not any(can_be_significant(table.loc[variant], comparison.family) for variant in null):
        return ""
    named = ", ".join(f"{size:.2g} ({label})" for label, size in sizes.items())
    spread = f"{min(sizes.values()):.2g} to {max(sizes.values()):.2g} ({len(sizes)} variants, column detectable)"
    return (
        "Where no difference is shown there may still be one: these seeds find a true difference four times out of "
        f"five only if it is as large as {named if len(sizes) <= MAX_NAMED else spread}."
    )


def _left_out(data: SweepData, comparison: Comparison) -> Iterator[str]:
    """Say which runs do not count: without a partner, without an end, twice, without a score."""
    if not comparison.paired:
        yield from _not_counted(data, comparison)
        return
    scored = comparison.scores.notna()
    raced = comparison.race
    stopped = {*raced.out} if raced else set()  # of which another note says why they have fewer seeds
    last = {v: scored.index[scored[v]].max() for v in stopped}
    unpaired = {v: scored.index[scored[v] != scored[comparison.baseline]] for v in comparison.others}
    for v, seeds in unpaired.items():
        ends = [last[arm] for arm in (v, comparison.baseline) if arm in stopped]
        unpaired[v] = seeds[seeds <= min(ends)] if ends else seeds
    texts = []
    for variant, seeds in unpaired.items():
        more = f" and {len(seeds) - 10} more" if len(seeds) > 10 else ""
        if len(seeds):
            texts.append(f"{comparison.labels[variant]} {', '.join(map(str, seeds[:10]))}{more}")
    if texts:
        left_out = "Left out of the differences, as only one of the two variants has a score there: seeds of"
        yield f"{left_out} {'; '.join(texts)}."
    yield from _not_counted(data, comparison)


def _not_counted(data: SweepData, comparison: Comparison) -> Iterator[str]:
    """Say which runs do not count: without an end, twice, without a score."""
    counts = data.runs["status"].value_counts()
    if texts := [f"{counts[status]} {status}" for status in UNFINISHED if status in counts]:
        yield f"Runs that have not ended have no score, and are drawn as far as they got: {', '.join(texts)}."

    completed = data.runs[data.runs["status"] == "completed"]
    same = [column for column in ("variant", "cell", "seed") if column in completed]
    if twice := completed[completed.duplicated(same)]["name"].tolist():
        yield f"Not counted, as an earlier run has the same variant and seed: {_some(twice)}."

    if empty := [comparison.labels[variant] for variant, n in comparison.table["n"].items() if n == 0]:
        yield f"No run of these has a score: {', '.join(empty)}."


def compared_variants(comparison: Comparison) -> list[str]:
    """Variants with at least one seed paired with the baseline: what Holm's correction counts."""
    return [variant for variant in comparison.others if comparison.table.loc[variant, "n_pairs"] > 0]
