"""A study's expectations, judged by what came out."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from analysis.data.errors import AnalysisError
from analysis.data.same_rows import first_unlike, twins
from analysis.stats.columns import MIN_SEEDS
from analysis.stats.inference.paired import Paired
from analysis.stats.inference.power import seeds_for_effect
from analysis.stats.inference.significance import ALPHA, reachable_p, seeds_for_p
from analysis.stats.ranking import ranking_flips
from analysis.stats.verdicts import rule
from analysis.stats.verdicts.claims import INVALID, LEVELS, Claim
from analysis.stats.verdicts.evidence import Evidence, Numbers, differences_of, numbers_of

NAN = float("nan")


class Verdict(NamedTuple):
    """One claim and what became of it.

    `estimate` is a mean difference; of a level the worst seed's score; of flips a share of cases.
    """

    claim: str
    stratum: str = ""
    """Empty if there is one stratum, or if the claim is of several."""
    direction: str = ""
    metric: str = ""
    variant: str = ""
    """As the claim names it, with its stratum."""
    versus: str = ""
    n: int = 0
    estimate: float = NAN
    """Infinite if one of the two never arrives."""
    low: float = NAN
    high: float = NAN
    minimum_effect: float = NAN
    verdict: str = rule.NOT_JUDGED
    reason: str = ""
    p_holm: float = NAN
    control: bool = False
    """Whether it claims nothing, and must hold for the claims to be judged."""


def judge_study(evidence: Evidence) -> list[Verdict]:
    """One verdict per expectation and stratum; none but on controls if one of those does not hold."""
    expectations = evidence.study.written.get("expect") or []
    return obey_controls([verdict for each in expectations for verdict in _verdicts(each, evidence)])


def obey_controls(verdicts: list[Verdict]) -> list[Verdict]:
    """The verdicts; only those on controls if one of these is not reproduced."""
    failed = [verdict for verdict in verdicts if verdict.control and verdict.verdict != rule.REPRODUCED]
    if not failed:
        return verdicts
    more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
    reason = f"the control '{failed[0].claim}' is {failed[0].verdict}{more}"
    return [each if each.control else each._replace(verdict=rule.NOT_JUDGED, reason=reason) for each in verdicts]


def _verdicts(expectation: Any, evidence: Evidence) -> list[Verdict]:
    """Of an expectation, one for each stratum that it leaves open."""
    control = isinstance(expectation, Mapping) and bool(expectation.get("control"))
    try:
        _check_direction(expectation)
        claims = evidence.study.claims(expectation)
    except INVALID as error:
        return [Verdict(str(expectation), reason=_why(error), control=control)]
    return [_verdict(claim, evidence)._replace(control=control) for claim in claims]


def _check_direction(expectation: Mapping[str, Any]) -> None:
    direction = expectation["direction"]
    if direction not in rule.DIRECTIONS:
        raise AnalysisError(f"direction '{direction}' is unknown; choose one of: {'  '.join(rule.DIRECTIONS)}")


def _why(error: Exception) -> str:
    return str(error) if isinstance(error, AnalysisError) else f"not a valid expectation ({error})"


def _verdict(claim: Claim, evidence: Evidence) -> Verdict:
    found = evidence.numbers[claim.asked, claim.places[0].stratum]
    metric = found.metric if isinstance(found, Numbers) else ""
    versus = claim.names[1] if len(claim.names) > 1 else ""
    blank = Verdict(" ".join(claim.names), claim.stratum, claim.direction, metric, claim.names[0], versus)
    try:
        blank = blank._replace(claim=_text(claim, evidence, metric))
        if claim.direction in LEVELS:
            return _level(claim, evidence, blank)
        if claim.direction == "flips":
            return _flips(claim, evidence, blank)
        if claim.direction == "identical":
            return _identity(claim, evidence, blank._replace(metric=""))
        return _difference(claim, evidence, blank)
    except INVALID as error:
        return blank._replace(reason=_why(error))


def _text(claim: Claim, evidence: Evidence, metric: str) -> str:
    """The claim as a sentence."""
    names, direction = claim.names, claim.direction
    of = f", in {metric}" if metric and claim.asked != evidence.study.own else ""
    if direction in LEVELS:
        return f"{names[0]} {direction} {float(claim.expectation['value']):g} on every seed{of}"
    if direction == "flips":
        share = f"in at least {100 * float(claim.expectation['value']):g} % of the cases"
        return f"{names[0]} and {names[1]} change places with {claim.expectation['seeds']} of the seeds, {share}{of}"
    if direction == "identical":
        return f"{names[0]} identical to {names[1]}, row by row"
    minimum = evidence.study.minimum_effect(claim.expectation)
    bound = f"within ±{minimum:g}" if direction == "equal" else f"by at least {minimum:g}"
    sides = [f"{names[0]} − {names[1]}", f"{names[2]} − {names[3]}"] if len(names) == 4 else names
    return f"{sides[0]} {direction} {'to' if direction == 'equal' else 'than'} {sides[1]}, {bound}{of}"


def _level(claim: Claim, evidence: Evidence, blank: Verdict) -> Verdict:
    place, direction, value = claim.places[0], claim.direction, float(claim.expectation["value"])
    scores = numbers_of(claim, place, evidence.numbers).scores[place.arm].to_numpy(dtype=float)
    present = scores[~np.isnan(scores)]
    holds = present < value if direction == "below" else present > value
    worst = (present.max() if direction == "below" else present.min()) if present.size else NAN
    return blank._replace(
        n=present.size,
        estimate=float(worst),
        verdict=rule.judge_level(direction, scores, value),
        reason=f"{holds.sum()}/{scores.size} seeds {direction} {value:g}",
    )


def _flips(claim: Claim, evidence: Evidence, blank: Verdict) -> Verdict:
    few, value = int(claim.expectation["seeds"]), float(claim.expectation["value"])
    scores = [numbers_of(claim, place, evidence.numbers).scores[place.arm] for place in claim.places]
    table = pd.concat(scores, axis=1, keys=range(2)).dropna()
    shares = ranking_flips(table)["swapped_pairs"]
    if few not in shares.index:
        return blank._replace(n=len(table), verdict=rule.UNDERPOWERED, reason=f"there are {len(table)} seeds in all")
    return blank._replace(
        n=len(table),
        estimate=float(shares[few]),
        verdict=rule.REPRODUCED if shares[few] >= value else rule.NOT_REPRODUCED,
        reason=f"in {100 * shares[few]:.3g} % of the cases, n = {len(table)}",
    )


def _identity(claim: Claim, evidence: Evidence, blank: Verdict) -> Verdict:
    first, second = claim.places
    pairs = list(twins(evidence.parts[first.stratum], first.arm, second.arm))
    unlike = list(filter(None, map(first_unlike, pairs)))
    n = len(pairs)
    return blank._replace(
        n=n,
        verdict=rule.UNDERPOWERED if not pairs else rule.NOT_REPRODUCED if unlike else rule.REPRODUCED,
        reason="; ".join([f"{n - len(unlike)}/{n} pairs of runs have the same rows", *unlike[:1]]),
    )


def _difference(claim: Claim, evidence: Evidence, blank: Verdict) -> Verdict:
    differences, way = differences_of(claim, evidence.numbers)
    minimum = evidence.study.minimum_effect(claim.expectation)
    p_holm, family, n = evidence.p_holm.get(claim.tested, NAN), evidence.family, differences.size
    estimate = way.location(differences)
    low, high = (float(estimate.low), float(estimate.high)) if n >= MIN_SEEDS else (NAN, NAN)
    verdict = rule.judge_difference(claim.direction, differences, minimum, p_holm, family, way)
    size = f"{_number(estimate.mean)} [{_number(low)}, {_number(high)}]"
    if way.ranked:
        size = f"median {size}{_arrivals(claim, evidence)}"
    reason = f"{size}, p (Holm) = {p_holm:.2g}, n = {n}"
    if p_holm < ALPHA and verdict in _smaller(claim.direction):
        reason += f"; there is a difference, and it is smaller than {minimum:g}"
    if verdict == rule.UNDERPOWERED and (needed := _seeds_that_settle(differences, minimum, family, way)):
        reason += f"; about {needed} seeds would settle it"
    elif reachable_p(n, family) > ALPHA:
        reason += f"; it takes {seeds_for_p(family)} seeds for a p below {ALPHA:g}"
    return blank._replace(
        n=n,
        estimate=float(estimate.mean),
        low=low,
        high=high,
        minimum_effect=minimum,
        verdict=verdict,
        reason=reason,
        p_holm=float(p_holm),
    )


def _smaller(direction: str) -> tuple[str, ...]:
    """Verdicts that say that a difference is smaller than the minimum."""
    return (rule.REPRODUCED,) if direction == "equal" else (rule.EQUAL, rule.NOT_REPRODUCED)


def _number(value: float) -> str:
    """`+0.12`; of what is infinite which of the two never arrives."""
    return f"{value:+.3g}" if not np.isinf(value) else "never" if value > 0 else "versus never"


def _arrivals(claim: Claim, evidence: Evidence) -> str:
    """`, 8/10 and 4/10 arrive`: the variant and what it is compared with."""
    shares = []
    for place in claim.places:
        scores = numbers_of(claim, place, evidence.numbers).scores[place.arm].dropna()
        shares.append(f"{int(np.isfinite(scores).sum())}/{len(scores)}")
    return f", {' and '.join(shares)} arrive"


def _seeds_that_settle(differences: np.ndarray, minimum: float, family: int, way: Paired) -> int | None:
    """Seeds that find the minimum effect four times out of five; without one, the difference that there seems to be.

    Where there are as many already, the difference lies near the minimum: those that tell it from that.
    """
    n = differences.size
    if n < MIN_SEEDS or not np.isfinite(differences).all():
        return None
    seen, sd = abs(float(way.location(differences).mean)), float(differences.std(ddof=1))
    for effect in (minimum or seen, abs(seen - minimum)):
        needed = seeds_for_effect(effect, sd, family) if effect > 0 and sd > 0 else None
        if needed is not None and needed > n:
            return needed
    return None
