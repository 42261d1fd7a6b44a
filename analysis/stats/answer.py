"""From a question about a sweep to its tables: which runs, which number of each, compared with what."""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from hashlib import sha256
from typing import Any, NamedTuple

import pandas as pd

from rlexp.analysis.data import design
from rlexp.analysis.data.errors import AnalysisError, NothingLeft
from rlexp.analysis.data.load import SweepData
from rlexp.analysis.data.metric_spec import (
    OF_WHOLE_RUNS,
    Budget,
    MetricSpec,
    Target,
    direction_sign,
    parse_metric_spec,
    with_defaults,
)
from rlexp.analysis.data.run_values import RunValues, values_per_run
from rlexp.analysis.data.runs import UNFINISHED, unlisted_runs
from rlexp.analysis.data.starts import in_units
from rlexp.analysis.data.variants import TASK, changes, is_variant, resolve_variant, study_text, sweep_overrides
from rlexp.analysis.stats.comparison import Comparison, apply_holm, compare
from rlexp.analysis.stats.endpoints import Endpoint, endpoint_values
from rlexp.analysis.stats.hypotheses import StudySpec
from rlexp.analysis.stats.notes import comparison_notes
from rlexp.analysis.stats.secondary import (
    collapses,
    false_discoveries,
    interactions,
    pool,
    ranking_flips,
    ranking_note,
)
from rlexp.analysis.stats.significance import ALPHA
from rlexp.analysis.stats.verdicts import Verdict, gather_evidence, study_verdicts
from rlexp.runfolder.variants import parse_override, split_overrides

MAX_NAME = 100  # characters of a folder


class Question(NamedTuple):
    """A question about a sweep. Axes are override keys that vary, or "sweep"."""

    metric: str | None = None
    """Another metric than the stored score, or part of its name."""
    baseline: str | None = None
    """With whom the others are compared; as planned, else the first."""
    where: Sequence[str] = ()
    """Conditions on the runs, each `axis=value,value`."""
    by: Sequence[str] | None = None
    """The axes that make the arms; all but those of `within` and `best_of`. Over the others scores are averaged."""
    within: Sequence[str] | None = None
    """The axes whose values are compared apart, then pooled; the task if it varies."""
    at: Budget | None = None
    """Compare at an equal budget."""
    matched: Target | None = None
    """Compare where a metric is first high enough."""
    best_of: Sequence[str] = ()
    """The axes of a grid, such as the learning rate, of which each arm gets its best point."""
    choose_seeds: Sequence[int] | None = None
    """On which seeds the best point is chosen; the others are reported."""
    endpoint: Endpoint | None = None
    """What is compared of a run's curve, in place of `at` and `matched`."""

    @property
    def spec(self) -> MetricSpec:
        return MetricSpec(self.metric, self.at, self.matched)

    @property
    def metrics(self) -> set[str]:
        """The metrics that it names, whose rows have to be loaded."""
        targets = (self.matched, self.endpoint)
        return {name for name in (self.metric, *(each and each.metric for each in targets)) if name}

    @property
    def read(self) -> Callable[[SweepData], RunValues]:
        """The number of each run that is asked for, of a sweep's data."""
        if self.endpoint is None:
            return partial(values_per_run, metric=self.metric, at=self.at, matched=self.matched)
        if self.at or self.matched:
            raise AnalysisError(
                f"an endpoint ({self.endpoint}) has its own budget and target; leave out at and matched"
            )
        return partial(endpoint_values, endpoint=self.endpoint, metric=self.metric)


def own_question(data: SweepData) -> Question:
    """The question of the configuration: that of the study, if there is one, with the planned baseline."""
    study = data.study
    seeds = study.get("choose_seeds")
    within = [axis for axis in study.get("within") or () if axis in data.axes]  # a study of one start has no strata
    return Question(
        **parse_metric_spec(study)._asdict(),
        baseline=data.planned_baseline,
        within=tuple(within) if within else None,
        best_of=tuple(study.get("best_of") or ()),
        choose_seeds=tuple(seeds) if seeds else None,
    )


def as_planned(question: Question, data: SweepData) -> Question:
    """The question with what the study asks wherever it names nothing itself; its baseline is left open.

    A study's metric is not that of a target's cost, and its grid is not that of other arms.
    """
    own = own_question(data)
    if question.endpoint is None:
        question = question._replace(**with_defaults(question.spec, own.spec)._asdict())
    elif question.metric is None:
        question = question._replace(metric=None if own.metric in OF_WHOLE_RUNS else own.metric)
    elif question.endpoint.kind == "cost":
        raise AnalysisError(f"{question.endpoint} names its own metric; leave out {question.metric}")
    planned: dict[str, object] = {}
    grid = tuple(axis for axis in own.best_of if axis in data.axes)
    if grid and question.by is None and not question.best_of and data.runs["seed"].nunique() > 1:
        planned |= {"best_of": grid, "choose_seeds": own.choose_seeds}
    strata = tuple(axis for axis in own.within or () if axis in data.axes)
    if strata and question.by is None and question.within is None:
        planned |= {"within": strata}
    unnamed = {key: value for key, value in planned.items() if not getattr(question, key)}
    return question._replace(**unnamed)


def question_name(question: Question, data: SweepData, **further: str | None) -> str:
    """A folder's name for a question, as `metric=eval_pass@8`; empty for the one that the configuration asks."""
    parts = {key: value for key, value in further.items() if value} | _differing(question, data)
    for key, value in parts.items():
        if isinstance(value, Endpoint):
            parts[key] = str(value)
        elif isinstance(value, Budget | Target):
            kind, amount = value
            parts[key] = kind if amount is None else f"{kind}={amount:g}"
        elif not isinstance(value, str):
            parts[key] = "+".join(map(str, value)) or "none"
    text = ",".join(f"{key}={value}" for key, value in parts.items())
    name = re.sub(r"[^\w.=,+@-]+", "_", text)
    return name if len(name) <= MAX_NAME else f"{name[:MAX_NAME]}~{sha256(text.encode()).hexdigest()[:6]}"


def _differing(question: Question, data: SweepData) -> dict[str, object]:
    """The parts of a question that the configuration does not ask."""
    own, given = own_question(data), question._replace(where=tuple(question.where))
    unnamed = {"metric": (own.metric or data.score_metric,)}
    return {
        key: value
        for key, value in given._asdict().items()
        if value not in (Question._field_defaults[key], getattr(own, key), *unnamed.get(key, ()))
    }


class Answer(NamedTuple):
    """Tables, verdicts and notes; lists have one entry per stratum, most often one, dictionaries go by its name."""

    data: SweepData
    """The runs that meet the conditions; their variants are the arms."""
    parts: list[SweepData]
    comparisons: list[Comparison]
    pooled: Comparison | None
    interactions: dict[str, pd.DataFrame]
    """Of the strata that have two axes."""
    collapses: dict[str, pd.DataFrame]
    """Of the strata in which some runs collapsed and others did not."""
    secondary: int
    """Over how many differences in the pooled table, `interactions` and `collapses` q is taken."""
    flips: dict[str, pd.DataFrame]
    study: dict[str, Any] = {}
    """The study that was asked, or is none."""
    verdicts: list[Verdict] = []
    """Of the study's expectations; none where the study was changed, is not done, or was asked something else."""
    no_verdict: str = ""
    """Why there are none, if there is a study."""
    remarks: Sequence[str] = ()
    """Notes on the numbers that only expectations ask for."""

    @property
    def notes(self) -> list[str]:
        """Notes for the reader: those of all strata once, the others with the name of their stratum."""
        by_stratum = {}
        for part, comparison in zip(self.parts, self.comparisons, strict=True):
            first = "lowest" if comparison.better == "lower" else "highest"
            notes = *comparison_notes(part, comparison), ranking_note(self.flips[comparison.stratum], first)
            by_stratum[comparison.stratum] = list(filter(None, notes))
        of_first = by_stratum[self.comparisons[0].stratum]
        everywhere = [note for note in of_first if all(note in notes for notes in by_stratum.values())]
        specific = [
            f"{stratum}: {note}" for stratum, notes in by_stratum.items() for note in notes if note not in everywhere
        ]
        pooled = self.pooled.remarks if self.pooled else ()
        notes = *filter(None, [self.no_verdict]), *everywhere, *specific, *pooled, *self._corrected(), *self.remarks
        return [in_units(note, self.unit) for note in notes]

    @property
    def unit(self) -> str:
        """What n counts: "seed", "start", or "run" where runs are not paired."""
        return self.data.unit if self.comparisons[0].paired else "run"

    def _corrected(self) -> Iterator[str]:
        pooled = {} if self.pooled is None else {"pooled": self.pooled.table}
        kinds = {"interactions": self.interactions, "collapses": self.collapses, "pooled differences": pooled}
        counts = {
            kind: sum(int(table["p"].notna().sum()) for table in tables.values()) for kind, tables in kinds.items()
        }
        if self.secondary:
            listed = ", ".join(f"{kind}: {count}" for kind, count in counts.items() if count)
            yield (
                f"q (BH) is the p of what is secondary here ({listed}), corrected for false discoveries over all of it "
                f"(Benjamini and Hochberg): of those below {ALPHA:g} at most one in twenty is false on average."
            )

    @property
    def tables(self) -> list[Comparison]:
        """The comparisons of all strata, and the pooled one if there is one."""
        return [*self.comparisons, *filter(None, [self.pooled])]


def _one_of_several(question: Question, data: SweepData, comparisons: Sequence[Comparison]) -> Iterator[str]:
    """Say what p is not corrected for where another number of the runs is asked for than their score."""
    if {"metric", "endpoint"} & _differing(question, data).keys() and any(each.others for each in comparisons):
        yield "p (Holm) is corrected within this metric: who asks several, one after another, corrects for that too."


def answer(data: SweepData, question: Question) -> Answer:
    """Compare the runs as asked. A question that cannot be answered is an AnalysisError of one line.

    What is not asked is as the study has it, if the sweep is one.
    """
    question, whole = as_planned(question, data), data
    data, by, within, grid = _group(design.filter_runs(data, question.where), question)
    baseline, remarks = _baseline(data, question.baseline, by)
    runs, comparisons, missing = {}, [], {}
    for stratum, part in design.split_strata(data, within).items():
        part, chosen = design.balance_cells(part)
        if grid:
            part, choices = design.select_best(part, grid, question.read, question.choose_seeds)
            chosen = [*chosen, *choices]
        runs[stratum] = part
        try:
            values = question.read(part)
            values = values._replace(remarks=[*data.remarks, *remarks, *values.remarks, *chosen])
            comparison = compare(part, baseline=baseline, run_values=values)
        except NothingLeft as error:
            missing[stratum] = str(error)
        else:
            comparisons.append(comparison._replace(stratum=stratum, tuned=bool(grid)))
    nothing = [f"{stratum} is left out: {reason}." if stratum else reason for stratum, reason in missing.items()]
    if not comparisons:
        raise NothingLeft("; ".join(nothing))
    comparisons[0] = comparisons[0]._replace(remarks=(*comparisons[0].remarks, *nothing))
    no_verdict = _why_no_verdict(whole, question) if whole.study else ""
    verdicts, further = [], []
    if whole.study and not no_verdict:
        study = StudySpec(whole.study, comparisons[0].labels, list(runs), data.score_metric)
        comparisons, evidence = gather_evidence(study, runs, missing, comparisons, design.split_strata(whole, within))
        verdicts, further = study_verdicts(evidence), list(evidence.remarks)
    else:
        comparisons = apply_holm(comparisons)
    pooled = pool(comparisons)
    together = {each.stratum: table for each in comparisons if (table := interactions(each)) is not None}
    collapsed = {
        each.stratum: table for each in comparisons if (table := collapses(runs[each.stratum], each)) is not None
    }
    tables, secondary = false_discoveries(
        [*together.values(), *collapsed.values(), *([] if pooled is None else [pooled.table])]
    )
    return Answer(
        data=data,
        parts=[runs[each.stratum] for each in comparisons],
        comparisons=comparisons,
        pooled=pooled and pooled._replace(table=tables[-1]),
        interactions=dict(zip(together, tables, strict=False)),
        collapses=dict(zip(collapsed, tables[len(together) :], strict=False)),
        secondary=secondary,
        # of the scores of which the highest is best; none where they may be infinite, or runs are not paired
        flips={
            each.stratum: ranking_flips(
                direction_sign(each.better) * each.scores.iloc[:, : 0 if each.ranked or not each.paired else None]
            )
            for each in comparisons
        },
        study=whole.study,
        verdicts=verdicts,
        no_verdict=no_verdict,
        remarks=[*further, *_one_of_several(question, whole, comparisons)],
    )


def runs_at_best(data: SweepData, seeds: Sequence[int]) -> list[str]:
    """The runs on these seeds, by name, that are at the point of their arm that the sweep's own study would choose."""
    own = own_question(data)
    question = own._replace(best_of=[axis for axis in own.best_of if axis in data.axes])
    data, _, within, grid = _group(data, question)
    parts = design.split_strata(data, within).values()
    return [name for part in parts for name in design.best_runs(part, grid, question.read, seeds)]


Axes = tuple[str, ...]


def _group(data: SweepData, question: Question) -> tuple[SweepData, Axes, Axes, Axes]:
    """The runs, whose variant is now their arm, and the axes of the arms, of the strata and of the grid.

    Strata are of the task by default, if it varies and is not all that does.
    """
    grid = design.check_axes(data, question.best_of)
    if question.within is not None:
        within = design.check_axes(data, question.within)
    else:
        free = TASK in data.axes and TASK not in (*(question.by or ()), *grid)
        within = (TASK,) if free and {*data.axes} - {TASK, *grid} else ()
    others = tuple(axis for axis in data.axes if axis not in (*within, *grid))
    by = others if question.by is None else design.check_axes(data, question.by)
    if question.by is not None or within or grid:
        data = design.regroup(data, by, (*within, *grid))
    return data, by, within, grid


def _baseline(data: SweepData, name: str | None, by: Sequence[str]) -> tuple[str, list[str]]:
    """The arm that a name means, by its axes that make arms; the planned one, or the first if that one has no run."""
    wanted = name or data.planned_baseline
    wanted, first = data.aliases.get(wanted, wanted), data.first_variant
    if not wanted:
        return first, []
    arm = wanted
    if not is_variant(arm, data.labels):
        arm = ",".join(part for part in split_overrides(wanted) if parse_override(part)[0] in by) or wanted
    if name or is_variant(arm, data.labels):
        return resolve_variant(arm, data.labels), []
    return first, [f"The planned baseline {wanted} has no run; compared with {data.labels[first]}."]


def _why_no_verdict(data: SweepData, question: Question) -> str:
    """Explain why a study has no verdict; empty if it has one. It has if it ran as written down before."""
    overrides = sweep_overrides(data.folder)
    unfinished = int(data.runs["status"].isin(UNFINISHED).sum())
    if overrides is None:
        reason = "the command that started it is not on record (multirun.yaml)"
    elif changed := changes(overrides):
        reason = f"it was changed on the command line ({' '.join(changed)}), so its claims were not made of these runs"
    elif data.runs["sweep"].nunique() > 1 or unlisted_runs(data.folder):
        reason = "there are runs beside its own, so its claims were not made of these runs"
    elif len({study_text(folder) for folder in data.runs["folder"]} - {None}) > 1:
        reason = "its text was changed after some of its runs were trained; a changed study is a new one"
    elif _differing(question, data):
        reason = "this is another question than the study asks; compare without options"
    elif unfinished:
        reason = f"{unfinished} of its {len(data.runs)} runs have not ended"
    else:
        return ""
    return f"No verdict on study {data.study.get('name')}: {reason}."
