"""From a question about a sweep to its tables: which runs, which number of each, compared with what."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import pandas as pd

from analysis.data.design import balance_cells, best_runs, check_axes, regroup, select_best, split_strata
from analysis.data.direction import direction_sign
from analysis.data.errors import NothingLeft
from analysis.data.load import SweepData
from analysis.data.run_values import values_per_run
from analysis.data.variants import TASK, is_variant, parse_override, resolve_variant, split_overrides
from analysis.data.where import filter_runs
from analysis.stats.comparison import Comparison, apply_holm, compare
from analysis.stats.interactions import interactions
from analysis.stats.notes import comparison_notes
from analysis.stats.pooling import pool
from analysis.stats.question import Question, as_planned, own_question
from analysis.stats.ranking import ranking_flips, ranking_note
from analysis.stats.verdicts.claims import Study
from analysis.stats.verdicts.evidence import Compared, with_claims
from analysis.stats.verdicts.judge import Verdict, judge_study
from analysis.stats.verdicts.unjudged import without_verdict

__all__ = ["Answer", "Question", "answer"]


class Answer(NamedTuple):
    """What came out; each list has one entry per stratum, most often one."""

    data: SweepData
    """The runs that meet the conditions; their variants are the arms."""
    parts: list[SweepData]
    comparisons: list[Comparison]
    pooled: Comparison | None
    interactions: list[pd.DataFrame | None]
    flips: list[pd.DataFrame]
    study: dict[str, Any] = {}
    """The study that was asked, or is none."""
    verdicts: list[Verdict] = []
    """Of the study's expectations; none where the study was changed, is not done, or was asked something else."""
    no_verdict: str = ""
    """Why there are none, if there is a study."""
    remarks: Sequence[str] = ()
    """What a reader must know of the numbers that only claims ask for."""

    @property
    def notes(self) -> list[str]:
        """What a reader must know: what holds for all strata once, the rest with the name of its stratum."""
        notes_by_stratum = [
            [
                *comparison_notes(part, comparison),
                ranking_note(flips, "lowest" if comparison.better == "lower" else "highest"),
            ]
            for part, comparison, flips in zip(self.parts, self.comparisons, self.flips, strict=True)
        ]
        first = notes_by_stratum[0]
        everywhere = [note for note in first if note and all(note in notes for notes in notes_by_stratum)]
        specific = [
            f"{comparison.stratum}: {note}"
            for comparison, stratum_notes in zip(self.comparisons, notes_by_stratum, strict=True)
            for note in stratum_notes
            if note and note not in everywhere
        ]
        first_of_all = [self.no_verdict] if self.no_verdict else []
        return first_of_all + everywhere + specific + [*(self.pooled.remarks if self.pooled else ()), *self.remarks]


def answer(data: SweepData, question: Question) -> Answer:
    """Compare the runs as asked. A question that cannot be answered is an AnalysisError of one line.

    What is not asked is as the study has it, if the sweep is one.
    """
    question, whole = as_planned(question, data), data
    data, by, within, grid = _grouped(filter_runs(data, question.where), question)
    baseline, remarks = _baseline(data, question.baseline, by)
    runs, comparisons, missing = {}, [], {}
    for stratum, part in split_strata(data, within).items():
        runs[stratum], notes = _compared_runs(part, question, grid)
        try:
            comparison = _compare(runs[stratum], question, baseline, [*data.remarks, *remarks], notes)
        except NothingLeft as error:
            missing[stratum] = str(error)
            continue
        comparisons.append(comparison._replace(stratum=stratum, tuned=bool(grid)))
    nothing = [f"{stratum} is left out: {reason}." if stratum else reason for stratum, reason in missing.items()]
    if not comparisons:
        raise NothingLeft("; ".join(nothing))
    comparisons[0] = comparisons[0]._replace(remarks=(*comparisons[0].remarks, *nothing))
    study = Study(whole.study, comparisons[0].labels, list(runs), data.score_metric)
    return _judged(whole, data, question, Compared(study, runs, missing, comparisons), within)


def runs_at_best(data: SweepData, seeds: Sequence[int]) -> list[str]:
    """The runs on these seeds, by name, that are at the point of their arm that the sweep's own study would choose."""
    own = own_question(data)
    question = own._replace(best_of=[axis for axis in own.best_of if axis in data.axes])
    data, _, within, grid = _grouped(data, question)
    best = []
    for part in split_strata(data, within).values():
        best += best_runs(part, grid, question.asked, seeds)
    return best


class Grouped(NamedTuple):
    """Runs whose variant is their arm, and the axes of the arms, of the strata and of the grid."""

    data: SweepData
    by: tuple[str, ...]
    within: tuple[str, ...]
    grid: tuple[str, ...]


def _grouped(data: SweepData, question: Question) -> Grouped:
    grid = check_axes(data, question.best_of)
    within = _within(data, question, grid)
    by = check_axes(data, question.by) if question.by is not None else _others(data, (*within, *grid))
    if question.by is not None or within or grid:
        data = regroup(data, by, (*within, *grid))
    return Grouped(data, by, within, grid)


def _compared_runs(part: SweepData, question: Question, grid: Sequence[str]) -> tuple[SweepData, list[str]]:
    """The runs of a stratum that are compared, and how they were chosen."""
    part, notes = balance_cells(part)
    if not grid:
        return part, notes
    part, choices = select_best(part, grid, question.asked, question.choose_seeds)
    return part, [*notes, *choices]


def _compare(
    runs: SweepData, question: Question, baseline: str, remarks: Sequence[str], notes: Sequence[str]
) -> Comparison:
    """What came out in one stratum."""
    run_values = values_per_run(runs, *question.asked)
    run_values = run_values._replace(remarks=[*remarks, *run_values.remarks, *notes])
    return compare(runs, baseline=baseline, run_values=run_values)


def _judged(whole: SweepData, data: SweepData, question: Question, compared: Compared, within: Sequence[str]) -> Answer:
    """The answer with p corrected, and with the verdicts of the study if it is the study that was asked."""
    no_verdict = without_verdict(whole, question) if whole.study else ""
    verdicts, remarks = [], []
    if whole.study and not no_verdict:
        comparisons, evidence = with_claims(compared, split_strata(whole, within))
        verdicts, remarks = judge_study(evidence), list(evidence.remarks)
    else:
        comparisons = apply_holm(compared.comparisons)
    parts = [compared.runs[comparison.stratum] for comparison in comparisons]
    flips = [ranking_flips(_oriented(comparison)) for comparison in comparisons]
    tables = parts, comparisons, pool(comparisons), list(map(interactions, comparisons)), flips
    return Answer(data, *tables, whole.study, verdicts, no_verdict, remarks)


def _oriented(comparison: Comparison) -> pd.DataFrame:
    """Scores of which the highest is best; none where they may be infinite, and have no mean."""
    scores = comparison.scores.iloc[:, :0] if comparison.ranked else comparison.scores
    return direction_sign(comparison.better) * scores


def _within(data: SweepData, question: Question, grid: Sequence[str]) -> tuple[str, ...]:
    """The axes of the strata; the task by default, if it varies and is not all that does."""
    if question.within is not None:
        return check_axes(data, question.within)
    used = (*(question.by or ()), *grid)
    return (TASK,) if TASK in data.axes and TASK not in used and _others(data, (TASK, *grid)) else ()


def _others(data: SweepData, used: Sequence[str]) -> tuple[str, ...]:
    return tuple(axis for axis in data.axes if axis not in used)


def _baseline(data: SweepData, name: str | None, by: Sequence[str]) -> tuple[str, list[str]]:
    """The arm that a name means, by its axes that make arms; the planned one, or the first if that one has no run."""
    name = data.aliases.get(name, name) if name else None
    if name:
        return resolve_variant(_arm_of(name, by, data), data.labels), []
    first, planned = data.first_variant, data.aliases.get(data.planned_baseline, data.planned_baseline)
    if not planned:
        return first, []
    if is_variant(_arm_of(planned, by, data), data.labels):
        return resolve_variant(_arm_of(planned, by, data), data.labels), []
    return first, [f"The planned baseline {planned} has no run; compared with {data.labels[first]}."]


def _arm_of(name: str, by: Sequence[str], data: SweepData) -> str:
    """The name without the overrides that make no arms, if it is none as it stands."""
    arm = ",".join(part for part in split_overrides(name) if parse_override(part)[0] in by)
    return name if is_variant(name, data.labels) else arm or name
