"""A study's expectations, written down before it ran, judged by what came out.

There is one rule of evidence, here and in every table: a difference is there if its p (Holm) is below 0.05, sign flips
corrected over all differences of the tables and of the study. Intervals show size and decide nothing. With the mean
difference of two variants over shared seeds and the `minimum_effect` fixed in the study's YAML (an expectation's own,
else the study's, else 0):

higher        reproduced      p (Holm) < 0.05 and mean > 0 and mean ≥ minimum
              reversed        p (Holm) < 0.05 and mean < 0 and mean ≤ -minimum
              not reproduced  the difference is smaller than the minimum
lower         as higher, with the sign of the difference changed
equal         reproduced      the difference is smaller than the minimum and larger than -minimum
              not reproduced  p (Holm) < 0.05 and |mean| ≥ minimum
below, above  reproduced      every seed's score is below (above) `value`
              not reproduced  some seed's score is not
identical     reproduced      all rows of both are the same on every seed that both have, but for the clock
              not reproduced  some are not

"Smaller than the minimum" is the same test of the differences less the minimum: its p, times the number of differences,
is below 0.05 and their mean is below 0. Lines are tried from top to bottom. Whatever fits none is `underpowered`: the
data allow both the claim and its opposite; so are a seed without a score (below, above) and too few seeds for any p to
be so small. What names no variant or no direction is `not judged`.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from analysis.data.errors import AnalysisError
from analysis.data.load import SweepData
from analysis.data.same_rows import first_unlike, twins
from analysis.data.variants import resolve_variant, variant_in_stratum
from analysis.stats.comparison import MIN_SEEDS, Comparison, apply_holm, paired_differences, paired_p
from analysis.stats.inference.estimates import mean_difference
from analysis.stats.inference.power import seeds_for_effect
from analysis.stats.inference.significance import ALPHA, holm, reachable_p, seeds_for_p

DIRECTIONS = ("higher", "lower", "equal", "below", "above", "identical")
UNTESTED = ("below", "above", "identical")  # that no p is asked for
Pair = frozenset[str]
"""Two variants: the p of their difference does not depend on which is first."""


class Verdict(NamedTuple):
    """One expectation and what became of it; `estimate` is a mean difference, or the worst seed's score of a level."""

    claim: str
    n: int
    estimate: float
    low: float
    high: float
    minimum_effect: float
    verdict: str
    reason: str
    p_holm: float = np.nan


class Evidence(NamedTuple):
    """What a study is judged on."""

    scores: pd.DataFrame
    """Seed × variant."""
    labels: Mapping[str, str]
    p_holm: Mapping[Pair, float]
    """Of every difference that is in a table or claimed."""
    family: int
    """Over how many differences p is corrected."""
    data: SweepData
    """All runs, for what is asked of their rows."""
    sequential: bool = False
    """Whether seeds were added until something was decided."""


def with_claims(
    study: Mapping[str, Any], comparisons: Sequence[Comparison], data: SweepData
) -> tuple[list[Comparison], Evidence]:
    """The comparisons with p corrected over the differences that a study claims too, and what it is judged on.

    Where there are strata, the variants of a claim name them, as `norm=center,task=sort`.
    """
    scores = pd.concat([_named_scores(comparison) for comparison in comparisons], axis=1)
    labels = comparisons[0].labels if len(comparisons) == 1 else {name: name for name in scores}
    p = {
        frozenset((_claim_name(each, variant), _claim_name(each, each.baseline))): each.table.loc[variant, "p"]
        for each in comparisons
        for variant in each.others
    }
    further = {
        frozenset(pair): paired_p(paired_differences(scores, *pair), comparisons[0].sequential)
        for pair in claimed_pairs(study, labels)
        if frozenset(pair) not in p
    }
    comparisons = apply_holm(comparisons, list(further.values()))
    p |= further
    p_holm = dict(zip(p, holm(np.array(list(p.values()), dtype=float)), strict=True))
    return comparisons, Evidence(scores, labels, p_holm, comparisons[0].family, data, comparisons[0].sequential)


def _named_scores(comparison: Comparison) -> pd.DataFrame:
    return comparison.scores.rename(columns=lambda variant: _claim_name(comparison, variant))


def _claim_name(comparison: Comparison, variant: str) -> str:
    """What a claim calls a variant: with its stratum, if there are strata."""
    return variant_in_stratum(variant, comparison.stratum)


def judge_difference(
    direction: str, differences: np.ndarray, minimum: float, p_holm: float, family: int, sequential: bool = False
) -> str:
    """The verdict on higher, lower or equal for paired differences `[n]`, by the rule above."""
    if direction == "lower":
        return judge_difference("higher", -differences, minimum, p_holm, family, sequential)
    mean = differences.mean() if differences.size else np.nan
    there, large = p_holm < ALPHA, abs(mean) >= minimum
    smaller, larger = (_beyond(each, family, sequential) for each in (minimum - differences, differences + minimum))
    if direction == "equal":
        rules = {"reproduced": smaller and larger, "not reproduced": there and large}
    else:
        rules = {
            "reproduced": there and large and mean > 0,
            "reversed": there and large and mean < 0,
            "not reproduced": smaller,
        }
    return next((verdict for verdict, holds in rules.items() if holds), "underpowered")


def _beyond(differences: np.ndarray, family: int, sequential: bool) -> bool:
    """Whether the mean is above 0 by the corrected test."""
    return bool(differences.size and differences.mean() > 0 and family * paired_p(differences, sequential) < ALPHA)


def judge_level(direction: str, scores: np.ndarray, value: float) -> str:
    """The verdict on below or above for the scores `[n]` of all seeds, NaN where a run has none."""
    missing = np.isnan(scores)
    holds = scores < value if direction == "below" else scores > value
    if not (holds | missing).all():
        return "not reproduced"
    return "underpowered" if missing.any() or not scores.size else "reproduced"


def claimed_pairs(study: Mapping[str, Any], labels: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The two variants of each expectation of a difference; those that name none are left out."""
    for expectation in study.get("expect") or []:
        try:
            if expectation["direction"] not in UNTESTED:
                yield _pair(study, expectation, labels)
        except (AnalysisError, KeyError, TypeError, ValueError, AttributeError):
            continue


def _pair(study: Mapping, expectation: Mapping, labels: Mapping[str, str]) -> tuple[str, str]:
    names = expectation["variant"], expectation.get("versus") or study["baseline"]
    return resolve_variant(names[0], labels), resolve_variant(names[1], labels)


def judge_study(study: Mapping[str, Any], evidence: Evidence) -> list[Verdict]:
    """One verdict per expectation of a study."""
    return [_verdict(study, expectation, evidence) for expectation in study.get("expect") or []]


def _verdict(study: Mapping, expectation: Any, evidence: Evidence) -> Verdict:
    try:
        if expectation["direction"] in ("below", "above"):
            variant = resolve_variant(expectation["variant"], evidence.labels)
            return _level(expectation, evidence.scores[variant].to_numpy(dtype=float))
        if expectation["direction"] == "identical":
            return _identity(study, expectation, evidence)
        return _difference(study, expectation, evidence)
    except (AnalysisError, KeyError, TypeError, ValueError) as error:
        text = str(error) if isinstance(error, AnalysisError) else f"not a valid expectation ({error})"
        return Verdict(str(expectation), 0, np.nan, np.nan, np.nan, np.nan, "not judged", text)


def _level(expectation: Mapping[str, Any], scores: np.ndarray) -> Verdict:
    direction, value = expectation["direction"], float(expectation["value"])
    present = scores[~np.isnan(scores)]
    holds = present < value if direction == "below" else present > value
    worst = (present.max() if direction == "below" else present.min()) if present.size else np.nan
    reason = f"{holds.sum()}/{scores.size} seeds {direction} {value:g}"
    claim = f"{expectation['variant']} {direction} {value:g} on every seed"
    return Verdict(claim, present.size, worst, np.nan, np.nan, np.nan, judge_level(direction, scores, value), reason)


def _identity(study: Mapping, expectation: Mapping, evidence: Evidence) -> Verdict:
    names = expectation["variant"], expectation.get("versus") or study["baseline"]
    claim = f"{names[0]} identical to {names[1]}, row by row"
    pairs = list(twins(evidence.data, *names))
    unlike = list(filter(None, map(first_unlike, pairs)))
    n = len(pairs)
    reason = "; ".join([f"{n - len(unlike)}/{n} pairs of runs have the same rows", *unlike[:1]])
    verdict = "underpowered" if not pairs else "not reproduced" if unlike else "reproduced"
    return Verdict(claim, n, np.nan, np.nan, np.nan, np.nan, verdict, reason)


def _difference(study: Mapping, expectation: Mapping, evidence: Evidence) -> Verdict:
    direction = expectation["direction"]
    if direction not in DIRECTIONS:
        raise AnalysisError(f"direction '{direction}' is unknown; choose one of: {'  '.join(DIRECTIONS)}")
    variant, versus = expectation["variant"], expectation.get("versus") or study["baseline"]
    minimum = _first_number(expectation.get("minimum_effect"), study.get("minimum_effect"))
    pair = _pair(study, expectation, evidence.labels)
    differences = paired_differences(evidence.scores, *pair)
    p_holm, n = evidence.p_holm.get(frozenset(pair), np.nan), differences.size
    estimate = mean_difference(differences)
    low, high = (estimate.low, estimate.high) if n >= MIN_SEEDS else (np.nan, np.nan)
    verdict = judge_difference(direction, differences, minimum, p_holm, evidence.family, evidence.sequential)
    bound = f"within ±{minimum:g}" if direction == "equal" else f"by at least {minimum:g}"
    claim = f"{variant} {direction} {'to' if direction == 'equal' else 'than'} {versus}, {bound}"
    reason = f"{estimate.mean:+.3g} [{low:+.3g}, {high:+.3g}], p (Holm) = {p_holm:.2g}, n = {n}"
    if p_holm < ALPHA and verdict == ("reproduced" if direction == "equal" else "not reproduced"):
        reason += f"; there is a difference, and it is smaller than {minimum:g}"
    if verdict == "underpowered" and (needed := _seeds_that_settle(differences, minimum, evidence.family)):
        reason += f"; about {needed} seeds would settle it"
    elif reachable_p(n, evidence.family) > ALPHA:
        reason += f"; it takes {seeds_for_p(evidence.family)} seeds for a p below {ALPHA:g}"
    return Verdict(claim, n, float(estimate.mean), float(low), float(high), minimum, verdict, reason, p_holm)


def _seeds_that_settle(differences: np.ndarray, minimum: float, family: int) -> int | None:
    """Seeds that find the minimum effect four times out of five; without one, the difference that there seems to be."""
    effect = minimum or abs(float(differences.mean()) if differences.size else 0.0)
    sd = float(differences.std(ddof=1)) if differences.size >= MIN_SEEDS else 0.0
    return seeds_for_effect(effect, sd, family) if effect > 0 and sd > 0 else None


def _first_number(*values: Any) -> float:
    return float(next((value for value in values if value is not None), 0.0))
