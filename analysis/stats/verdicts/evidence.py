"""The evidence of a study's verdicts: scores by every metric asked for, and one family of tests over all of them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from rlexp.analysis.data.errors import AnalysisError
from rlexp.analysis.data.load import SweepData
from rlexp.analysis.data.numbers.metric_spec import MetricSpec
from rlexp.analysis.data.run_values import values_per_run
from rlexp.analysis.stats.comparison import Comparison, apply_holm, seed_table
from rlexp.analysis.stats.inference.paired import PairedTest, subtract
from rlexp.analysis.stats.inference.significance import holm
from rlexp.analysis.stats.verdicts.hypotheses import Hypothesis, Side, StudySpec, difference_key, further_tests


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


class StudyTables(NamedTuple):
    """A study's runs as its tables show them."""

    study: StudySpec
    runs: Mapping[str, SweepData]
    """The runs in the table of each stratum."""
    missing: Mapping[str, str]
    """The reason why a stratum has no table."""
    comparisons: Sequence[Comparison]


def gather_evidence(tables: StudyTables, parts: Mapping[str, SweepData]) -> tuple[list[Comparison], Evidence]:
    """Correct the p of the comparisons over the differences of hypotheses too; return both."""
    study, comparisons = tables.study, tables.comparisons
    wanted = [(study.own_spec, stratum) for stratum in study.strata]
    wanted += [(each.spec, side.stratum) for each in study.all_hypotheses() for side in each.sides]
    scores = {(spec, stratum): _stratum_scores(tables, spec, stratum) for spec, stratum in dict.fromkeys(wanted)}
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


def _stratum_scores(tables: StudyTables, spec: MetricSpec, stratum: str) -> StratumScores | str:
    if spec == tables.study.own_spec:
        found = {each.stratum: each for each in tables.comparisons}.get(stratum)
        return StratumScores(found.scores, found.metric, found.paired_test) if found else tables.missing[stratum]
    runs = tables.runs[stratum]
    try:
        values = values_per_run(runs, *spec)
    except AnalysisError as error:
        return str(error)
    metric = values.metric
    if spec.at and not spec.matched:
        metric += f" at {'equal' if spec.at.amount is None else f'{spec.at.amount:g}'} {spec.at.kind}"
    test = PairedTest(tables.comparisons[0].sequential, values.ranked)
    return StratumScores(seed_table(runs, values), metric, test, tuple(values.remarks))


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
