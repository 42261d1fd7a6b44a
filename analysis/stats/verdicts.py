"""The rule by which a study's expectations, written down before it ran, get their verdicts.

There is one rule of evidence, here and in every table: a difference is there if its p (Holm) is below 0.05, sign flips
corrected over all differences of the tables and of the study. Intervals show size and decide nothing. With the mean
difference of two variants over shared seeds and the `minimum_effect` fixed in the study's YAML (an expectation's own,
else the study's, else 0; in the unit of whatever number is compared):

higher        reproduced         p (Holm) < 0.05 and mean > 0 and mean ≥ minimum
              reversed           p (Holm) < 0.05 and mean < 0 and mean ≤ -minimum
              practically equal  the difference is smaller than the minimum and larger than -minimum
              not reproduced     the difference is smaller than the minimum
lower         as higher, with the sign of the difference changed
equal         reproduced         practically equal, as above
              not reproduced     p (Holm) < 0.05 and |mean| ≥ minimum
below, above  reproduced         every seed's score is below (above) `value`
              not reproduced     some seed's score is not
flips         reproduced         with `seeds` of the seeds the two are in the other order than with all, in at least the
                                 share `value` of the subsets (`ranking_flips`)
              not reproduced     in fewer of them
identical     reproduced         all rows of both are the same on every seed that both have, but for the clock
              not reproduced     some are not

"Smaller than the minimum" is the same test of the differences less the minimum: its p, times the number of differences,
is below 0.05 and their mean is below 0. "Larger than -minimum" is that of the differences plus the minimum. Lines are
tried from top to bottom. Whatever fits none is `underpowered`: the data allow both the claim and its opposite; so are a
seed without a score (below, above), no more seeds than `seeds`, and too few seeds for any p to be so small. What names
no variant or no direction is `not judged`, and so is everything else where a control, an expectation that must hold, is
not `reproduced`.

Where `less` names two more variants, the difference is the difference of two differences, on the seeds of all four.

The cost of a target that a run never reaches is infinite, and so is its difference to one that did; the difference of
two that never reach it is 0. Such differences are ranked by size: sign flips are of their signed ranks (Wilcoxon), the
sum of which, in place of the mean, says which way they point, and their median says how large they are. The minimum
is in the unit of the cost; a difference that is infinite stays so, whatever is subtracted.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from rlexp.analysis.data.errors import AnalysisError
from rlexp.analysis.data.load import SweepData
from rlexp.analysis.data.metric_spec import MetricSpec
from rlexp.analysis.data.read import unclocked_rows
from rlexp.analysis.data.run_values import values_per_run
from rlexp.analysis.stats.comparison import MIN_SEEDS, Comparison, apply_holm, seed_table
from rlexp.analysis.stats.hypotheses import (
    INVALID,
    LEVELS,
    TESTED,
    Hypothesis,
    Side,
    StudySpec,
    difference_key,
    further_tests,
)
from rlexp.analysis.stats.secondary import ranking_flips
from rlexp.analysis.stats.significance import (
    ALPHA,
    MEAN_TEST,
    PairedTest,
    holm,
    reachable_p,
    seeds_for_effect,
    seeds_for_p,
    subtract,
)
from rlexp.runfolder.variants import split_overrides

EXPLORATORY = (
    "Exploratory: expectations are counted one by one, at learning rates that few seeds chose and without checks that "
    "a comparison is valid. A declared question is answered by `rlexp ask`."
)
"""What stands once beside the verdicts of a study, wherever they are shown."""
DIRECTIONS = (*TESTED, *LEVELS, "flips", "identical")
REPRODUCED, REVERSED, EQUAL, NOT_REPRODUCED = "reproduced", "reversed", "practically equal", "not reproduced"
UNDERPOWERED, NOT_JUDGED = "underpowered", "not judged"


def difference_verdict(
    direction: str, differences: np.ndarray, minimum: float, p_holm: float, family: int, test: PairedTest = MEAN_TEST
) -> str:
    """The verdict on higher, lower or equal for paired differences `[n]`, by the rule above."""
    if direction == "lower":
        return difference_verdict("higher", -differences, minimum, p_holm, family, test)
    size, side = float(test.estimate(differences).mean), test.side(differences)
    significant = p_holm < ALPHA
    smaller, larger = (test.is_above(each, family) for each in (minimum - differences, differences + minimum))
    if direction == "equal":
        rules = {REPRODUCED: smaller and larger, NOT_REPRODUCED: significant and abs(size) >= minimum}
    else:
        rules = {
            REPRODUCED: significant and side > 0 and size >= minimum,
            REVERSED: significant and side < 0 and size <= -minimum,
            EQUAL: smaller and larger,
            NOT_REPRODUCED: smaller,
        }
    return next((verdict for verdict, holds in rules.items() if holds), UNDERPOWERED)


def level_verdict(direction: str, scores: np.ndarray, value: float) -> str:
    """The verdict on below or above for the scores `[n]` of all seeds, NaN where a run has none."""
    missing = np.isnan(scores)
    holds = scores < value if direction == "below" else scores > value
    if not (holds | missing).all():
        return NOT_REPRODUCED
    return UNDERPOWERED if missing.any() or not scores.size else REPRODUCED


def twins(data: SweepData, variant: str, versus: str) -> Iterator[tuple[int, str, str]]:
    """Seed and folders of completed runs that differ only in that one has `variant` where the other has `versus`.

    Both names are overrides, joined by commas; of what they do not name any value will do, the same in both.
    """
    ours, theirs = ({*split_overrides(name)} for name in (variant, versus))
    completed = data.runs[(data.runs["status"] == "completed") & data.runs["seed"].notna()]
    places = {}
    for folder, text, seed in completed[["folder", "variant", "seed"]].itertuples(index=False):
        places[(frozenset(split_overrides(text)), int(seed))] = folder
    for (overrides, seed), folder in places.items():
        other = places.get(((overrides - ours) | theirs, seed)) if ours <= overrides else None
        if other is not None and other != folder:
            yield seed, folder, other


def first_unlike(seed: int, *folders: str) -> str | None:
    """The first difference between the rows of two runs, as `seed 3: step 10, policy/entropy`; None if nowhere."""
    rows = [unclocked_rows(Path(folder)) for folder in folders]
    for one, other in zip(*rows, strict=False):
        if one != other:
            name = next(key for key in {**one, **other} if one.get(key) != other.get(key))
            return f"seed {seed}: step {one.get('step')}, {name}"
    lengths = [len(each) for each in rows]
    return None if lengths[0] == lengths[1] else f"seed {seed}: {lengths[0]} and {lengths[1]} rows"


class StratumScores(NamedTuple):
    """One number of every run in one stratum."""

    scores: pd.DataFrame
    """Seed × arm."""
    metric: str
    """The number, in words."""
    test: PairedTest
    remarks: tuple[str, ...] = ()


Scores = Mapping[tuple[MetricSpec, str], StratumScores | str]
"""By metric and stratum; a text says why there are none."""


class Evidence(NamedTuple):
    """The evidence of a study's verdicts."""

    study: StudySpec
    scores: Scores
    p_holm: Mapping[object, float]
    """Of every difference that is in a table or a hypothesis, by `difference_key`."""
    family: int
    """Over how many differences p is corrected."""
    parts: Mapping[str, SweepData]
    """All runs of each stratum, for what is asked of their rows."""

    @property
    def remarks(self) -> Iterator[str]:
        """Notes on the numbers that are in no table."""
        for (spec, stratum), found in self.scores.items():
            if spec != self.study.own_spec and isinstance(found, StratumScores):
                where = f", {stratum}" if stratum else ""
                yield from (f"Of the claims on {found.metric}{where}: {remark}" for remark in found.remarks)


def gather_evidence(
    study: StudySpec,
    runs: Mapping[str, SweepData],
    missing: Mapping[str, str],
    comparisons: Sequence[Comparison],
    parts: Mapping[str, SweepData],
) -> tuple[list[Comparison], Evidence]:
    """Correct the p of the comparisons over the differences of hypotheses too; return both.

    By stratum: the runs in its table, the reason why it has no table, and all of its runs (`parts`).
    """
    wanted = [(study.own_spec, stratum) for stratum in study.strata]
    wanted += [(each.spec, side.stratum) for each in study.all_hypotheses() for side in each.sides]
    tabled = {each.stratum: each for each in comparisons}
    scores: dict[tuple[MetricSpec, str], StratumScores | str] = {}
    for spec, stratum in dict.fromkeys(wanted):
        if spec == study.own_spec:
            found = tabled.get(stratum)
            own = found and StratumScores(found.scores, found.metric, found.paired_test)
            scores[spec, stratum] = own or missing[stratum]
            continue
        try:
            values = values_per_run(runs[stratum], *spec)
        except AnalysisError as error:
            scores[spec, stratum] = str(error)
            continue
        metric = values.metric
        if spec.at and not spec.matched:
            metric += f" at {'equal' if spec.at.amount is None else f'{spec.at.amount:g}'} {spec.at.kind}"
        test = PairedTest(comparisons[0].sequential, values.ranked)
        scores[spec, stratum] = StratumScores(seed_table(runs[stratum], values), metric, test, tuple(values.remarks))
    p = {}
    for each in comparisons:
        for variant in each.others:
            sides = Side(variant, each.stratum), Side(each.baseline, each.stratum)
            p[difference_key(study.own_spec, sides)] = each.table.at[variant, "p"]
    further = {}
    for key, hypothesis in further_tests(study, comparisons[0].baseline).items():
        if key not in p:
            try:
                differences, test = differences_of(hypothesis, scores)
                further[key] = test.p(differences)
            except AnalysisError:
                further[key] = np.nan
    corrected = apply_holm(comparisons, list(further.values()))
    p |= further
    p_holm = dict(zip(p, holm(np.array(list(p.values()), dtype=float)), strict=True))
    return corrected, Evidence(study, scores, p_holm, corrected[0].family, parts)


def differences_of(hypothesis: Hypothesis, scores: Scores) -> tuple[np.ndarray, PairedTest]:
    """The paired differences `[n]` of a hypothesis, on the seeds that all its sides have, and their test."""
    columns = [scores_of(hypothesis, side, scores) for side in hypothesis.sides]
    table = pd.concat(columns, axis=1, keys=range(len(columns))).to_numpy(dtype=float)
    differences = subtract(table[:, 0], table[:, 1])
    if len(columns) == 4:
        differences = subtract(differences, subtract(table[:, 2], table[:, 3]))
    found = scores[hypothesis.spec, hypothesis.sides[0].stratum]
    return differences[~np.isnan(table).any(-1)], found.test


def scores_of(hypothesis: Hypothesis, side: Side, scores: Scores) -> pd.Series:
    """The scores of one side of a hypothesis, by seed; AnalysisError, with the reason, if there are none."""
    found = scores[hypothesis.spec, side.stratum]
    if isinstance(found, str):
        raise AnalysisError(found)
    return found.scores[side.arm]


NAN = float("nan")


class Verdict(NamedTuple):
    """One claim and what became of it.

    `estimate` is a mean difference; of a level the worst seed's score; of flips a share of cases.
    """

    claim: str
    """The hypothesis as a sentence."""
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
    verdict: str = NOT_JUDGED
    reason: str = ""
    p_holm: float = NAN
    control: bool = False
    """Whether it is a control: unless it holds nothing else has a verdict."""


def study_verdicts(evidence: Evidence) -> list[Verdict]:
    """One verdict per expectation and stratum; none but on controls if one of those does not hold."""
    verdicts = []
    for expectation in evidence.study.written.get("expect") or []:
        control = isinstance(expectation, Mapping) and bool(expectation.get("control"))
        try:
            direction = expectation["direction"]
            if direction not in DIRECTIONS:
                listed = "  ".join(DIRECTIONS)
                raise AnalysisError(f"direction '{direction}' is unknown; choose one of: {listed}")
            hypotheses = evidence.study.hypotheses(expectation)
        except INVALID as error:
            verdicts.append(Verdict(str(expectation), reason=_why(error), control=control))
        else:
            verdicts += [_verdict(each, evidence)._replace(control=control) for each in hypotheses]
    failed = [verdict for verdict in verdicts if verdict.control and verdict.verdict != REPRODUCED]
    if not failed:
        return verdicts
    more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
    reason = f"the control '{failed[0].claim}' is {failed[0].verdict}{more}"
    return [each if each.control else each._replace(verdict=NOT_JUDGED, reason=reason) for each in verdicts]


def _why(error: Exception) -> str:
    return str(error) if isinstance(error, AnalysisError) else f"not a valid expectation ({error})"


def _verdict(hypothesis: Hypothesis, evidence: Evidence) -> Verdict:
    names, direction = hypothesis.names, hypothesis.direction
    found = evidence.scores[hypothesis.spec, hypothesis.sides[0].stratum]
    metric = found.metric if isinstance(found, StratumScores) else ""
    versus = names[1] if len(names) > 1 else ""
    blank = Verdict(" ".join(names), hypothesis.stratum, direction, metric, names[0], versus)
    try:
        blank = blank._replace(claim=_sentence(hypothesis, evidence, metric))
        judge = {"flips": _flips, "identical": _identical}.get(
            direction, _level if direction in LEVELS else _difference
        )
        return blank._replace(**judge(hypothesis, evidence))
    except INVALID as error:
        return blank._replace(reason=_why(error))


def _sentence(hypothesis: Hypothesis, evidence: Evidence, metric: str) -> str:
    names, direction, expectation = hypothesis.names, hypothesis.direction, hypothesis.expectation
    of = f", in {metric}" if metric and hypothesis.spec != evidence.study.own_spec else ""
    if direction in LEVELS:
        return f"{names[0]} {direction} {float(expectation['value']):g} on every seed{of}"
    if direction == "flips":
        share = f"in at least {100 * float(expectation['value']):g} % of the cases"
        return f"{names[0]} and {names[1]} change places with {expectation['seeds']} of the seeds, {share}{of}"
    if direction == "identical":
        return f"{names[0]} identical to {names[1]}, row by row"
    minimum = evidence.study.minimum_effect(expectation)
    bound = f"within ±{minimum:g}" if direction == "equal" else f"by at least {minimum:g}"
    sides = [f"{names[0]} − {names[1]}", f"{names[2]} − {names[3]}"] if len(names) == 4 else names
    return f"{sides[0]} {direction} {'to' if direction == 'equal' else 'than'} {sides[1]}, {bound}{of}"


def _level(hypothesis: Hypothesis, evidence: Evidence) -> dict[str, Any]:
    direction, value = hypothesis.direction, float(hypothesis.expectation["value"])
    scores = scores_of(hypothesis, hypothesis.sides[0], evidence.scores).to_numpy(dtype=float)
    present = scores[~np.isnan(scores)]
    holds = present < value if direction == "below" else present > value
    worst = (present.max() if direction == "below" else present.min()) if present.size else NAN
    verdict, reason = (
        level_verdict(direction, scores, value),
        f"{holds.sum()}/{scores.size} seeds {direction} {value:g}",
    )
    return {"n": present.size, "estimate": float(worst), "verdict": verdict, "reason": reason}


def _flips(hypothesis: Hypothesis, evidence: Evidence) -> dict[str, Any]:
    few, value = int(hypothesis.expectation["seeds"]), float(hypothesis.expectation["value"])
    scores = [scores_of(hypothesis, side, evidence.scores) for side in hypothesis.sides]
    table = pd.concat(scores, axis=1, keys=range(2)).dropna()
    shares, n = ranking_flips(table)["swapped_pairs"], len(table)
    if few not in shares.index:
        return {"n": n, "verdict": UNDERPOWERED, "reason": f"there are {n} seeds in all"}
    verdict, reason = NOT_REPRODUCED, f"in {100 * shares[few]:.3g} % of the cases, n = {n}"
    if shares[few] >= value:
        verdict = REPRODUCED
    return {"n": n, "estimate": float(shares[few]), "verdict": verdict, "reason": reason}


def _identical(hypothesis: Hypothesis, evidence: Evidence) -> dict[str, Any]:
    first, second = hypothesis.sides
    pairs = list(twins(evidence.parts[first.stratum], first.arm, second.arm))
    unlike = list(filter(None, (first_unlike(*pair) for pair in pairs)))
    n = len(pairs)
    verdict = UNDERPOWERED if not pairs else NOT_REPRODUCED if unlike else REPRODUCED
    reason = "; ".join([f"{n - len(unlike)}/{n} pairs of runs have the same rows", *unlike[:1]])
    return {"metric": "", "n": n, "verdict": verdict, "reason": reason}


def _difference(hypothesis: Hypothesis, evidence: Evidence) -> dict[str, Any]:
    differences, test = differences_of(hypothesis, evidence.scores)
    minimum = evidence.study.minimum_effect(hypothesis.expectation)
    key = difference_key(hypothesis.spec, hypothesis.sides)
    p_holm, family, n = evidence.p_holm.get(key, NAN), evidence.family, differences.size
    estimate = test.estimate(differences)
    low, high = (float(estimate.low), float(estimate.high)) if n >= MIN_SEEDS else (NAN, NAN)
    verdict = difference_verdict(hypothesis.direction, differences, minimum, p_holm, family, test)
    size = f"{_number(estimate.mean)} [{_number(low)}, {_number(high)}]"
    if test.ranked:
        scores = [scores_of(hypothesis, side, evidence.scores).dropna() for side in hypothesis.sides]
        arrived = [f"{int(np.isfinite(each).sum())}/{len(each)}" for each in scores]
        size = f"median {size}, {' and '.join(arrived)} arrive"
    reason = f"{size}, p (Holm) = {p_holm:.2g}, n = {n}"
    smaller = (REPRODUCED,) if hypothesis.direction == "equal" else (EQUAL, NOT_REPRODUCED)
    if p_holm < ALPHA and verdict in smaller:
        reason += f"; there is a difference, and it is smaller than {minimum:g}"
    if verdict == UNDERPOWERED and (needed := _seeds_needed(differences, minimum, family, test)):
        reason += f"; about {needed} seeds would settle it"
    elif reachable_p(n, family) > ALPHA:
        reason += f"; it takes {seeds_for_p(family)} seeds for a p below {ALPHA:g}"
    numbers = {"n": n, "estimate": float(estimate.mean), "low": low, "high": high, "p_holm": float(p_holm)}
    return numbers | {"minimum_effect": minimum, "verdict": verdict, "reason": reason}


def _number(value: float) -> str:
    """`+0.12`; of what is infinite which of the two never arrives."""
    return f"{value:+.3g}" if not np.isinf(value) else "never" if value > 0 else "versus never"


def _seeds_needed(differences: np.ndarray, minimum: float, family: int, test: PairedTest) -> int | None:
    """Seeds that find the minimum effect four times out of five; without one, the difference that there seems to be.

    Where there are as many already, the difference lies near the minimum: those that tell it from that.
    """
    n = differences.size
    if n < MIN_SEEDS or not np.isfinite(differences).all():
        return None
    seen, sd = abs(float(test.estimate(differences).mean)), float(differences.std(ddof=1))
    for effect in (minimum or seen, abs(seen - minimum)):
        needed = seeds_for_effect(effect, sd, family) if effect > 0 and sd > 0 else None
        if needed is not None and needed > n:
            return needed
    return None
