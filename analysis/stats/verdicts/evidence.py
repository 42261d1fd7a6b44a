"""What a study is judged on: the numbers of its runs by whatever it asks, and one family of tests over all of them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from analysis.data.errors import AnalysisError
from analysis.data.load import SweepData
from analysis.data.numbers.asked import Asked
from analysis.data.numbers.late import RunValues
from analysis.data.run_values import values_per_run
from analysis.stats.comparison import Comparison, apply_holm, seed_table
from analysis.stats.inference.paired import Paired, subtract
from analysis.stats.inference.significance import holm
from analysis.stats.verdicts.claims import Claim, Place, Study, further_tests, table_test


class Numbers(NamedTuple):
    """One number of every run in one stratum."""

    scores: pd.DataFrame
    """Seed × arm."""
    metric: str
    """What it is, in words."""
    way: Paired
    """How its differences are tested."""
    remarks: tuple[str, ...] = ()


class Evidence(NamedTuple):
    """What a study is judged on."""

    study: Study
    numbers: Mapping[tuple[Asked, str], Numbers | str]
    """By what is asked and by stratum; a text says why there are none."""
    p_holm: Mapping[object, float]
    """Of every difference that is in a table or claimed, by `Claim.tested`."""
    family: int
    """Over how many differences p is corrected."""
    parts: Mapping[str, SweepData]
    """All runs of each stratum, for what is asked of their rows."""

    @property
    def remarks(self) -> Iterator[str]:
        """What a reader must know of numbers that are in no table."""
        for (asked, stratum), numbers in self.numbers.items():
            if asked != self.study.own and isinstance(numbers, Numbers):
                where = f", {stratum}" if stratum else ""
                yield from (f"Of the claims on {numbers.metric}{where}: {remark}" for remark in numbers.remarks)


class Compared(NamedTuple):
    """A study's runs as its tables show them."""

    study: Study
    runs: Mapping[str, SweepData]
    """Of each stratum, those of its table."""
    missing: Mapping[str, str]
    """Why a stratum has no table."""
    comparisons: Sequence[Comparison]


def with_claims(compared: Compared, parts: Mapping[str, SweepData]) -> tuple[list[Comparison], Evidence]:
    """The comparisons with p corrected over the differences that a study claims too, and what it is judged on."""
    study, comparisons = compared.study, compared.comparisons
    numbers = {(asked, stratum): _numbers(compared, asked, stratum) for asked, stratum in _wanted(study)}
    p = {
        table_test(study.own, Place(variant, each.stratum), Place(each.baseline, each.stratum)): each.table.at[
            variant, "p"
        ]
        for each in comparisons
        for variant in each.others
    }
    further = {
        test: way.p(differences)
        for test, claim in further_tests(study, comparisons[0].baseline).items()
        for differences, way in [differences_or_none(claim, numbers)]
    }
    further = {test: value for test, value in further.items() if test not in p}
    corrected = apply_holm(comparisons, list(further.values()))
    p |= further
    p_holm = dict(zip(p, holm(np.array(list(p.values()), dtype=float)), strict=True))
    return corrected, Evidence(study, numbers, p_holm, corrected[0].family, parts)


def _wanted(study: Study) -> list[tuple[Asked, str]]:
    """What is asked, and in which strata; first of all runs."""
    own = [(study.own, stratum) for stratum in study.strata]
    claimed = [(claim.asked, place.stratum) for claim in study.all_claims() for place in claim.places]
    return list(dict.fromkeys([*own, *claimed]))


def _numbers(compared: Compared, asked: Asked, stratum: str) -> Numbers | str:
    if asked == compared.study.own:
        found = {each.stratum: each for each in compared.comparisons}.get(stratum)
        return Numbers(found.scores, found.metric, found.way) if found else compared.missing[stratum]
    runs = compared.runs[stratum]
    try:
        run_values = values_per_run(runs, *asked)
    except AnalysisError as error:
        return str(error)
    way = Paired(compared.comparisons[0].sequential, run_values.ranked)
    return Numbers(seed_table(runs, run_values), metric_text(run_values, asked), way, tuple(run_values.remarks))


def metric_text(run_values: RunValues, asked: Asked) -> str:
    """What a number is, with the budget that it was taken at: `eval/greedy_accuracy at equal tokens`."""
    if asked.at is None or asked.matched:
        return run_values.metric
    amount = "equal" if asked.at.amount is None else f"{asked.at.amount:g}"
    return f"{run_values.metric} at {amount} {asked.at.kind}"


def differences_of(claim: Claim, numbers: Mapping[tuple[Asked, str], Numbers | str]) -> tuple[np.ndarray, Paired]:
    """The paired differences `[n]` of a claim, on the seeds that all its places have, and how they are tested."""
    found = [numbers_of(claim, place, numbers) for place in claim.places]
    columns = [each.scores[place.arm] for each, place in zip(found, claim.places, strict=True)]
    table = pd.concat(columns, axis=1, keys=range(len(columns))).to_numpy(dtype=float)
    differences = subtract(table[:, 0], table[:, 1])
    if len(columns) == 4:
        differences = subtract(differences, subtract(table[:, 2], table[:, 3]))
    return differences[~np.isnan(table).any(-1)], found[0].way


def differences_or_none(claim: Claim, numbers: Mapping[tuple[Asked, str], Numbers | str]) -> tuple[np.ndarray, Paired]:
    """The same, none where a stratum has no numbers."""
    try:
        return differences_of(claim, numbers)
    except AnalysisError:
        return np.zeros(0), Paired()


def numbers_of(claim: Claim, place: Place, numbers: Mapping[tuple[Asked, str], Numbers | str]) -> Numbers:
    """The numbers of a claim at a place; AnalysisError, with the reason, if there are none."""
    found = numbers[claim.asked, place.stratum]
    if isinstance(found, str):
        raise AnalysisError(found)
    return found
