"""A study's expectations, written down before it ran, judged by what came out.

The rule, for the paired t interval [low, high] around the mean difference of two variants over shared seeds, and the
`minimum_effect` fixed in the study's YAML (an expectation's own, else the study's, else 0):

higher        reproduced      low > 0 and mean ≥ minimum
              reversed        high < 0 and mean ≤ -minimum
              not reproduced  high < minimum
lower         as higher, with the sign of the difference changed
equal         reproduced      the whole interval within ±minimum
              not reproduced  0 outside the interval and |mean| ≥ minimum
below, above  reproduced      every seed's score is below (above) `value`
              not reproduced  some seed's score is not

Lines are tried from top to bottom. Whatever fits none is `underpowered`: the data allow both the claim and its
opposite. No interval (fewer than 3 paired seeds) or a seed without a score (below, above) is underpowered too.
What names no variant or no direction is `not judged`. Intervals are not adjusted for the number of expectations.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from analysis.comparison import MIN_SEEDS, paired
from analysis.read import AnalysisError
from analysis.statistics import paired_difference
from analysis.variants import resolve

DIRECTIONS = ("higher", "lower", "equal", "below", "above")


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


def judge_difference(direction: str, mean: float, low: float, high: float, minimum: float) -> str:
    """The verdict on higher, lower or equal, by the rule above. NaN ends are underpowered."""
    if direction == "lower":
        return judge_difference("higher", -mean, -high, -low, minimum)
    if direction == "equal":
        inside, outside = -minimum <= low and high <= minimum, not low <= 0 <= high and abs(mean) >= minimum
        rules = {"reproduced": inside, "not reproduced": outside and not np.isnan(low)}
    else:
        rules = {
            "reproduced": low > 0 and mean >= minimum,
            "reversed": high < 0 and mean <= -minimum,
            "not reproduced": high < minimum,
        }
    return next((verdict for verdict, holds in rules.items() if holds), "underpowered")


def judge_level(direction: str, scores: np.ndarray, value: float) -> str:
    """The verdict on below or above for the scores `[n]` of all seeds, NaN where a run has none."""
    missing = np.isnan(scores)
    holds = scores < value if direction == "below" else scores > value
    if not (holds | missing).all():
        return "not reproduced"
    return "underpowered" if missing.any() or not scores.size else "reproduced"


def verdicts(study: Mapping[str, Any], scores: pd.DataFrame, labels: Mapping[str, str]) -> list[Verdict]:
    """One verdict per expectation of a study, from its seed × variant table of scores."""
    return [_verdict(study, expectation, scores, labels) for expectation in study.get("expect") or []]


def _verdict(study: Mapping, expectation: Any, scores: pd.DataFrame, labels: Mapping[str, str]) -> Verdict:
    try:
        if expectation["direction"] in ("below", "above"):
            return _level(expectation, scores[resolve(expectation["variant"], labels)].to_numpy(dtype=float))
        return _difference(study, expectation, scores, labels)
    except (AnalysisError, KeyError, TypeError, ValueError) as error:
        text = str(error) if isinstance(error, AnalysisError) else f"not a valid expectation ({error})"
        return Verdict(str(expectation), 0, np.nan, np.nan, np.nan, np.nan, "not judged", text)


def _level(expectation: Mapping[str, Any], scores: np.ndarray) -> Verdict:
    direction, value = expectation["direction"], float(expectation["value"])
    known = scores[~np.isnan(scores)]
    holds = known < value if direction == "below" else known > value
    worst = (known.max() if direction == "below" else known.min()) if known.size else np.nan
    reason = f"{holds.sum()}/{scores.size} seeds {direction} {value:g}"
    claim = f"{expectation['variant']} {direction} {value:g} on every seed"
    return Verdict(claim, known.size, worst, np.nan, np.nan, np.nan, judge_level(direction, scores, value), reason)


def _difference(study: Mapping, expectation: Mapping, scores: pd.DataFrame, labels: Mapping[str, str]) -> Verdict:
    direction = expectation["direction"]
    if direction not in DIRECTIONS:
        raise AnalysisError(f"direction '{direction}' is unknown; choose one of: {'  '.join(DIRECTIONS)}")
    variant, versus = expectation["variant"], expectation.get("versus") or study["baseline"]
    minimum = _first_number(expectation.get("minimum_effect"), study.get("minimum_effect"))
    differences = paired(scores, resolve(variant, labels), resolve(versus, labels))
    found = paired_difference(differences)
    low, high = (found.low, found.high) if differences.size >= MIN_SEEDS else (np.nan, np.nan)
    verdict = judge_difference(direction, float(found.mean), float(low), float(high), minimum)
    bound = f"within ±{minimum:g}" if direction == "equal" else f"by at least {minimum:g}"
    claim = f"{variant} {direction} {'to' if direction == 'equal' else 'than'} {versus}, {bound}"
    reason = f"{found.mean:+.3g} [{low:+.3g}, {high:+.3g}], n = {differences.size}"
    return Verdict(claim, differences.size, float(found.mean), float(low), float(high), minimum, verdict, reason)


def _first_number(*values: Any) -> float:
    return float(next((value for value in values if value is not None), 0.0))
