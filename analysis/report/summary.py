"""The answer in plain language: what was asked, what came out, how sure that is."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from analysis.data.direction import direction_sign
from analysis.data.load import SweepData
from analysis.data.variants import split_overrides, varying_keys
from analysis.stats.answer import Answer
from analysis.stats.columns import MIN_SEEDS
from analysis.stats.comparison import Comparison, can_be_significant
from analysis.stats.formatting import decimal_places, format_interval, format_number, format_p
from analysis.stats.inference.significance import ALPHA, seeds_for_p
from analysis.stats.notes import below_floor

MAX_NAMED = 4  # variants named in a sentence
OPEN = "What the variants change is still open: train longer, or choose an easier task or a finer score."

SCOPE = "All of it holds for this task, this model and this many steps."


class Summary(NamedTuple):
    """Sentences for whoever reads nothing else; lists have a line for each stratum, most often one."""

    asked: str
    found: list[str]
    sure: list[str]


class Outcome(NamedTuple):
    """The variants beside the baseline, by what the corrected p says of them; each in the order of its difference."""

    higher: list[str]
    lower: list[str]
    undecided: list[str]
    """Could have been told apart from the baseline, and were not."""
    untestable: list[str]
    """No p of so few seeds could be small enough."""


def summarise(data: SweepData, result: Answer) -> Summary:
    """The summary of an answer, for all strata."""
    counts = Counter(verdict.verdict for verdict in result.verdicts)
    listed = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
    judged = f"Of the study's {len(result.verdicts)} expectations: {listed}." if counts else result.no_verdict
    found = _by_stratum(result.comparisons, _found)
    sure = _by_stratum(result.comparisons, _sure)
    return Summary(_asked(data, result), list(filter(None, [*found, judged, _losses(result)])), sure)


def _by_stratum(comparisons: Sequence[Comparison], write: Callable[[Comparison], str]) -> list[str]:
    """A line for each stratum, or one if all say the same."""
    texts = [write(comparison) for comparison in comparisons]
    if len(set(texts)) == 1:
        return texts[:1]
    return [f"{comparison.stratum}: {text}" for comparison, text in zip(comparisons, texts, strict=True)]


def _join(sentences: Sequence[str]) -> str:
    return " ".join(filter(None, sentences))


def _asked(data: SweepData, result: Answer) -> str:
    first, arms = result.comparisons[0], result.data.variants
    seeds = int(result.data.runs["seed"].nunique())
    each = f"{seeds} seed{'s' * (seeds != 1)}"
    strata = [comparison.stratum for comparison in result.comparisons if comparison.stratum]
    apart = f", apart for {_listed(strata, len(strata))}" if strata else ""
    if len(arms) == 1:
        return _join(
            [data.study.get("question"), f"What does one variant reach by {first.heading}, over {each}{apart}?"]
        )
    axes = _listed(varying_keys({arm: split_overrides(arm) for arm in arms}) or ["variant"], MAX_NAMED)
    asks = (
        f"Which choice of {axes} is best by {first.heading}"
        if first.better
        else f"What does {axes} change in {first.heading}"
    )
    compared = f"{len(arms)} variants ran with {each} each, and are compared with {first.labels[first.baseline]}"
    return _join([data.study.get("question"), f"{asks}{apart}? {compared}, seed by seed."])


def _listed(names: Sequence[str], most: int) -> str:
    shown = list(names[:most])
    rest = len(names) - len(shown)
    if rest > 0:
        return f"{', '.join(shown)} and {rest} more"
    return " and ".join(filter(None, [", ".join(shown[:-1]), *shown[-1:]]))


def _losses(result: Answer) -> str:
    """Runs that did not complete or collapsed, as far as there are any."""
    runs = result.data.runs
    unfinished = runs.loc[runs["status"] != "completed", "status"].value_counts()
    collapsed = int(runs.loc[runs["status"] == "completed", "collapsed"].fillna(False).sum())
    listed, lost = ", ".join(f"{count} {status}" for status, count in unfinished.items()), int(unfinished.sum())
    missing = f"{lost} of {len(runs)} runs did not complete ({listed}), and count{'s' * (lost == 1)} nowhere."
    some = 0 < collapsed < (runs["status"] == "completed").sum()
    few = f"{collapsed} run{'s' * (collapsed > 1)} collapsed: below the floor of the score at the end, and counted."
    return _join([missing if lost else "", few if some else ""])


def outcome(comparison: Comparison) -> Outcome:
    """What the corrected p says of each variant."""
    table = comparison.table.loc[comparison.others]
    table = table[table["n_pairs"] > 0].sort_values("difference", ascending=comparison.better == "lower", kind="stable")
    groups = Outcome([], [], [], [])
    for variant, row in table.iterrows():
        if row["p_holm"] < ALPHA:
            above = comparison.way.points_to(comparison.differences(variant)) > 0
            (groups.higher if above else groups.lower).append(variant)
        else:
            testable = can_be_significant(row, comparison.family)
            (groups.undecided if testable else groups.untestable).append(variant)
    return groups


def _nothing_learned(comparison: Comparison) -> str:
    """Why no difference can be shown at all; empty if one can."""
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


def _found(comparison: Comparison) -> str:
    return _join([_differences(comparison), below_floor(comparison)])


def _differences(comparison: Comparison) -> str:
    if nothing := _nothing_learned(comparison):
        return nothing
    digits = decimal_places(comparison.scores.to_numpy().ravel())
    level = comparison.table.loc[comparison.baseline]
    reached = format_interval(level["iqm"], level["iqm_low"], level["iqm_high"], digits)
    own = f"{comparison.labels[comparison.baseline]} itself reaches {reached}."
    if not comparison.others:
        return f"It reaches {reached}, the interquartile mean over {level['n']:g} seeds with its 95 % interval."
    groups = outcome(comparison)
    if not (groups.higher or groups.lower):
        return _join([_undecided(comparison, groups, digits), own])
    high, low = {"higher": ("Better", "Worse"), "lower": ("Worse", "Better")}.get(
        comparison.better, ("Higher", "Lower")
    )
    claims = [(high, groups.higher), (low, groups.lower[::-1])]
    told = [_claim(comparison, word, names, digits) for word, names in sorted(claims, key=lambda claim: claim[0])]
    rest = [comparison.labels[variant] for variant in (*groups.undecided, *groups.untestable)]
    open_ = f"Not told apart from {comparison.labels[comparison.baseline]}: {_listed(rest, MAX_NAMED)}." if rest else ""
    return _join([*told, open_, own])


def _claim(comparison: Comparison, word: str, variants: Sequence[str], digits: int) -> str:
    """`Better than local: hybrid +0.164 [+0.142, +0.185].`"""
    if not variants:
        return ""
    if len(variants) == 1:
        row = comparison.table.loc[variants[0]]
        size, low, high = (format_number(row[f"difference{end}"], digits, signed=True) for end in ("", "_low", "_high"))
        name = f"{comparison.labels[variants[0]]} is {word.lower()} than {comparison.labels[comparison.baseline]}"
        how = "in the median" if comparison.ranked else "on average"
        return f"{name}: {size} {how} (95 % interval {low} to {high})."
    differences = [f"{comparison.labels[variant]} {_difference(comparison, variant, digits)}" for variant in variants]
    return f"{word} than {comparison.labels[comparison.baseline]}: {_listed(differences, MAX_NAMED)}."


def _difference(comparison: Comparison, variant: str, digits: int) -> str:
    row = comparison.table.loc[variant]
    return format_interval(row["difference"], row["difference_low"], row["difference_high"], digits, signed=True)


def _undecided(comparison: Comparison, groups: Outcome, digits: int) -> str:
    candidates = [*groups.undecided, *groups.untestable]
    baseline = comparison.labels[comparison.baseline]
    if not candidates:
        return f"No variant shares a seed with {baseline}, so none can be compared."
    sizes = direction_sign(comparison.better) * comparison.table.loc[candidates, "difference"]
    first = (sizes if comparison.better else sizes.abs()).idxmax()
    seen = f"The largest difference is that of {comparison.labels[first]}, {_difference(comparison, first, digits)}."
    if comparison.better and sizes[first] <= 0:
        seen = f"None has a better mean than {baseline} either."
    why = "" if groups.undecided else ", as there are too few seeds"
    return _join([f"No variant can be told apart from {baseline}{why}.", seen])


def _sure(comparison: Comparison) -> str:
    if _nothing_learned(comparison):
        return OPEN
    if not comparison.others:
        return "The interval says what other seeds could have given. There is nothing to compare with."
    groups, table = outcome(comparison), comparison.table
    claimed = [*groups.higher, *groups.lower]
    parts = []
    if claimed:
        largest = format_p(table.loc[claimed, "p_holm"].max())
        p = largest.replace("<", "below ") if len(claimed) == 1 else f"at most {largest.lstrip('<')}"
        names = _listed([comparison.labels[variant] for variant in claimed], MAX_NAMED)
        differ = f"{names} differ{'s' * (len(claimed) == 1)} from {comparison.labels[comparison.baseline]}"
        parts.append(f"That {differ} is hardly luck of the seeds: p (Holm) is {p}.")
    if groups.untestable:
        parts.append(_too_few(comparison, groups.untestable))
    if groups.undecided and (size := table.loc[groups.undecided, "detectable"].max()) > 0:
        digits = decimal_places(comparison.scores.to_numpy().ravel())
        parts.append(
            "“Not told apart” is not “equal”: these seeds find a true difference of "
            f"{format_number(size, digits)} four times out of five, and smaller ones less often."
        )
    return _join([*parts, "" if comparison.stratum else SCOPE])


def _too_few(comparison: Comparison, variants: Sequence[str]) -> str:
    n = int(comparison.table.loc[variants, "n_pairs"].max())
    seeds = f"{n} shared seed{'s' * (n > 1)}"
    family = f" and {comparison.family} comparisons" if comparison.family > 1 else ""
    needed = f"a claim takes {seeds_for_p(comparison.family)} seeds"
    first_look = "A first look only" if n < MIN_SEEDS else "Not sure"
    return f"{first_look}: with {seeds}{family} no difference, however large, can be told from luck; {needed}."
