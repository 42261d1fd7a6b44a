"""The answer in plain language: the question, the findings, the confidence in them."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from rlexp.analysis.data.load import SweepData
from rlexp.analysis.data.metric_spec import direction_sign
from rlexp.analysis.data.starts import in_units
from rlexp.analysis.stats.answer import Answer
from rlexp.analysis.stats.comparison import MIN_SEEDS, Comparison, can_be_significant
from rlexp.analysis.stats.formatting import (
    decimal_places,
    format_difference,
    format_fraction,
    format_interval,
    format_number,
    format_p,
)
from rlexp.analysis.stats.noise import noise_statement
from rlexp.analysis.stats.notes import below_floor
from rlexp.analysis.stats.racing import Race
from rlexp.analysis.stats.significance import ALPHA, seeds_for_p
from rlexp.analysis.stats.unpaired import runs_for_p
from rlexp.runfolder.variants import split_overrides, varying_keys

MAX_NAMED = 4  # variants named in a sentence
OPEN = "What the variants change is still open: train longer, or choose an easier task or a finer score."
SINGLE = "Nothing can be said of a single run, unless other runs say how much seeds scatter (--noise FOLDER)."
SCOPE = "All of it holds for this task, this model and this many steps."


class Summary(NamedTuple):
    """Sentences; lists have a line for each stratum, most often one. Confidence begins with the luck of the seeds."""

    question: str
    findings: list[str]
    confidence: list[str]


class Outcome(NamedTuple):
    """The variants beside the baseline by their corrected p, each group in the order of its differences."""

    higher: list[str]
    lower: list[str]
    undecided: list[str]
    """Could have been told apart from the baseline, and were not."""
    untestable: list[str]
    """No p of so few seeds could be small enough."""


def summarize(data: SweepData, result: Answer) -> Summary:
    """Return the summary of an answer, for all strata."""
    counts = Counter(verdict.verdict for verdict in result.verdicts)
    listed = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
    verdicts = f"Of the study's {len(result.verdicts)} expectations: {listed}." if counts else result.no_verdict
    findings = _by_stratum(result.comparisons, lambda each: _join([_finding(each), below_floor(each)]))
    findings = list(filter(None, [*findings, verdicts, _lost_runs(result), *_collapses(result)]))
    noise = noise_statement(*[each for each in result.comparisons if not _nothing_learned(each)])
    confidence = _by_stratum(result.comparisons, _confidence)
    lists = [_question(data, result)], findings, [*filter(None, [noise]), *confidence]
    (question,), *others = ([in_units(line, result.unit) for line in lines] for lines in lists)
    return Summary(question, *others)


def _by_stratum(comparisons: Sequence[Comparison], write: Callable[[Comparison], str]) -> list[str]:
    """Return a line for each stratum, or one if all say the same."""
    texts = [write(comparison) for comparison in comparisons]
    if len(set(texts)) == 1:
        return texts[:1]
    return [f"{comparison.stratum}: {text}" for comparison, text in zip(comparisons, texts, strict=True)]


def _join(sentences: Sequence[str]) -> str:
    return " ".join(filter(None, sentences))


def _listed(names: Sequence[str], most: int = MAX_NAMED) -> str:
    if len(names) > most:
        return f"{', '.join(names[:most])} and {len(names) - most} more"
    return " and ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))


def _question(data: SweepData, result: Answer) -> str:
    first, arms = result.comparisons[0], result.data.variants
    seeds = int(result.data.runs["seed"].nunique())
    each = f"{seeds} seed{'s' * (seeds != 1)}"
    strata = [comparison.stratum for comparison in result.comparisons if comparison.stratum]
    apart = f", apart for {_listed(strata, len(strata))}" if strata else ""
    if len(arms) == 1:
        question = f"What does one variant reach by {first.heading}, over {each}{apart}?"
        return _join([data.study.get("question"), question])
    axes = _listed(varying_keys({arm: split_overrides(arm) for arm in arms}) or ["variant"])
    change = f"What does {axes} change in {first.heading}"
    question = f"Which choice of {axes} is best by {first.heading}" if first.better else change
    baseline = first.labels[first.baseline]
    compared = f"{len(arms)} variants ran with {each} each, and are compared with {baseline}, seed by seed."
    if not first.paired:
        counts = _listed([f"{first.labels[arm]} {n:g}" for arm, n in first.table["n"].items()], len(arms))
        compared = f"Runs of each: {counts}. They are compared with {baseline} as unpaired runs."
    return _join([data.study.get("question"), f"{question}{apart}? {compared}"])


def _lost_runs(result: Answer) -> str:
    """Count the runs that did not complete or collapsed, if there are any."""
    runs = result.data.runs
    completed = runs["status"] == "completed"
    unfinished = runs.loc[~completed, "status"].value_counts()
    collapsed = int(runs.loc[completed, "collapsed"].fillna(False).sum())
    sentences = []
    if lost := int(unfinished.sum()):
        listed = ", ".join(f"{count} {status}" for status, count in unfinished.items())
        sentences.append(
            f"{lost} of {len(runs)} runs did not complete ({listed}), and count{'s' * (lost == 1)} nowhere."
        )
    if 0 < collapsed < completed.sum():
        many = f"{collapsed} run{'s' * (collapsed > 1)} collapsed"
        sentences.append(f"{many}: below the floor of the score at the end, and counted.")
    return _join(sentences)


def _collapses(result: Answer) -> Iterator[str]:
    """Yield a sentence on each arm whose runs are shown to collapse more often, or less, than the baseline's."""
    for comparison in result.comparisons:
        table = result.collapses.get(comparison.stratum, pd.DataFrame({"q": []}))
        for variant, row in table[table["q"] < ALPHA].iterrows():
            more = "more" if row["only_here"] > row["only_baseline"] else "less"
            baseline = table.loc[comparison.baseline]
            yield (
                f"{', '.join(filter(None, [comparison.labels[variant], comparison.stratum]))} collapses {more} often: "
                f"{format_fraction(row['collapsed'], row['of'])} runs, {comparison.labels[comparison.baseline]} "
                f"{format_fraction(baseline['collapsed'], baseline['of'])}, q (BH) = {row['q']:.2g}."
            )


def outcome(comparison: Comparison) -> Outcome:
    """Group the variants by their corrected p and the sign of their difference."""
    table = comparison.table.loc[comparison.others]
    table = table[table["n_pairs"] > 0].sort_values("difference", ascending=comparison.better == "lower", kind="stable")
    groups = Outcome([], [], [], [])
    for variant, row in table.iterrows():
        if row["p_holm"] < ALPHA:
            above = comparison.side(variant) > 0
            (groups.higher if above else groups.lower).append(variant)
        else:
            testable = can_be_significant(row, comparison.family)
            (groups.undecided if testable else groups.untestable).append(variant)
    return groups


def _nothing_learned(comparison: Comparison) -> str:
    """Return why no difference can be shown at all; empty if one can."""
    scores = comparison.scores.to_numpy(dtype=float)
    scores = scores[np.isfinite(scores)]
    if not scores.size:
        return "No run has a score."
    if comparison.is_score and comparison.all_collapsed:
        highest = format_number(scores.max(), decimal_places(scores))
        return f"Nothing was learned: every run ended below the floor of the score (the highest has {highest})."
    if scores.size > 1 and np.ptp(scores) == 0 and not np.isinf(comparison.scores.to_numpy(dtype=float)).any():
        same = f"every run ended with {comparison.metric} at {format_number(scores[0], decimal_places(scores))}"
        return f"{'Nothing was learned' if comparison.is_score and scores[0] == 0 else 'No variant differs'}: {same}."
    return ""


def _finding(comparison: Comparison) -> str:
    if nothing := _nothing_learned(comparison):
        return nothing
    baseline, digits = comparison.labels[comparison.baseline], decimal_places(comparison.scores.to_numpy().ravel())
    level = comparison.table.loc[comparison.baseline]
    reached = format_interval(level["iqm"], level["iqm_low"], level["iqm_high"], digits)
    if not comparison.others:
        return f"It reaches {reached}, the interquartile mean over {level['n']:g} seeds with its 95 % interval."
    if comparison.race:
        return _winner(comparison, comparison.race, digits)
    groups = outcome(comparison)
    if not (groups.higher or groups.lower):
        sentences = [_undecided(comparison, groups, digits)]
    else:
        words = {"higher": ("Better", "Worse"), "lower": ("Worse", "Better")}.get(
            comparison.better, ("Higher", "Lower")
        )
        claims = sorted(zip(words, (groups.higher, groups.lower[::-1]), strict=True), key=lambda claim: claim[0])
        sentences = [_claim(comparison, word, names, digits) for word, names in claims]
        if rest := [comparison.labels[variant] for variant in (*groups.undecided, *groups.untestable)]:
            sentences.append(f"Not told apart from {baseline}: {_listed(rest)}.")
    return _join([*sentences, f"{baseline} itself reaches {reached}."])


def _winner(comparison: Comparison, raced: Race, digits: int) -> str:
    """Return how a race ended."""
    margin, labels = comparison.until("until_best"), comparison.labels
    stopped, left = _listed([labels[arm] for arm in raced.out]), [labels[arm] for arm in raced.left]
    worse = f"Worse than another, and stopped: {stopped}." if stopped else "None is shown to be worse than another."
    if raced.best is None:
        return f"No variant is shown to be the best but for {margin:g}. Left: {_listed(left) or 'none'}. {worse}"
    level = comparison.table.loc[raced.best]
    reached = format_interval(level["iqm"], level["iqm_low"], level["iqm_high"], digits)
    best = f"{labels[raced.best]} is the best of {len(labels)} but for {margin:g}"
    beside = [label for label in left if label != labels[raced.best]]
    rest = f"Left beside it: {_listed(beside)}." if beside else ""
    return _join([f"{best}, and reaches {reached} over {level['n']:g} seeds.", worse, rest])


def _claim(comparison: Comparison, word: str, variants: Sequence[str], digits: int) -> str:
    """Return `Better than local: hybrid +0.164 [+0.142, +0.185].`"""
    if not variants:
        return ""
    if len(variants) == 1:
        row = comparison.table.loc[variants[0]]
        size, low, high = (format_number(row[f"difference{end}"], digits, signed=True) for end in ("", "_low", "_high"))
        name = f"{comparison.labels[variants[0]]} is {word.lower()} than {comparison.labels[comparison.baseline]}"
        how = "in the median" if comparison.ranked else "on average"
        return f"{name}: {size} {how} (95 % interval {low} to {high})."
    differences = [
        f"{comparison.labels[variant]} {format_difference(comparison.table.loc[variant], digits)}"
        for variant in variants
    ]
    return f"{word} than {comparison.labels[comparison.baseline]}: {_listed(differences)}."


def _undecided(comparison: Comparison, groups: Outcome, digits: int) -> str:
    candidates = [*groups.undecided, *groups.untestable]
    baseline = comparison.labels[comparison.baseline]
    if not candidates:
        return f"No variant shares a seed with {baseline}, so none can be compared."
    sizes = direction_sign(comparison.better) * comparison.table.loc[candidates, "difference"]
    first = (sizes if comparison.better else sizes.abs()).idxmax()
    difference = format_difference(comparison.table.loc[first], digits)
    seen = f"The largest difference is that of {comparison.labels[first]}, {difference}."
    if comparison.better and sizes[first] <= 0:
        seen = f"None has a better mean than {baseline} either."
    why = "" if groups.undecided else ", as there are too few seeds"
    return _join([f"No variant can be told apart from {baseline}{why}.", seen])


def _confidence(comparison: Comparison) -> str:
    if _nothing_learned(comparison):
        return OPEN
    if not comparison.others:
        return "The interval says what other seeds could have given. There is nothing to compare with."
    if comparison.race:
        return f"A race names a wrong variant in at most 5 % of cases, if differences are symmetric. {SCOPE}"
    groups, table = outcome(comparison), comparison.table
    claimed = [*groups.higher, *groups.lower]
    parts = []
    if claimed:
        largest = format_p(table.loc[claimed, "p_holm"].max())
        p = largest.replace("<", "below ") if len(claimed) == 1 else f"at most {largest.lstrip('<')}"
        names = _listed([comparison.labels[variant] for variant in claimed])
        differ = f"{names} differ{'s' * (len(claimed) == 1)} from {comparison.labels[comparison.baseline]}"
        parts.append(f"That {differ} is hardly luck of the seeds: p (Holm) is {p}.")
    if groups.untestable:
        n = int(table.loc[groups.untestable, "n_pairs"].max())
        shared, needed = (f"{n} shared seed{'s' * (n > 1)}", f"{seeds_for_p(comparison.family)} seeds")
        if not comparison.paired:
            shared, needed = f"{n} run{'s' * (n > 1)} of an arm", f"{runs_for_p(comparison.family)} runs of each"
        family = f" and {comparison.family} comparisons" if comparison.family > 1 else ""
        if n == 1 and not comparison.paired:
            parts.append(SINGLE)
        parts.append(
            f"{'A first look only' if n < MIN_SEEDS else 'Not sure'}: with {shared}{family} no "
            "difference, however large, can be told from luck; "
            f"a claim takes {needed}."
        )
    if groups.undecided and (size := table.loc[groups.undecided, "detectable"].max()) > 0:
        digits = decimal_places(comparison.scores.to_numpy().ravel())
        parts.append(
            f"“Not told apart” is not “equal”: these {'seeds' if comparison.paired else 'runs'} find a true "
            f"difference of {format_number(size, digits)} four times out of five, and smaller ones less often."
        )
    return _join([*parts, "" if comparison.stratum else SCOPE])
