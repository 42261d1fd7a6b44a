"""The answer to a declared question: effects in each condition, what makes a condition invalid, and one word."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from rlexp.analysis.data.errors import AnalysisError, NothingLeft
from rlexp.analysis.data.load import SweepData, load
from rlexp.analysis.stats.arms import ScaledRuns
from rlexp.analysis.stats.condition_runs import ConditionRuns, arm_keys, read_condition, read_number
from rlexp.analysis.stats.endpoints import NEVER, endpoint_table, parse_endpoint
from rlexp.analysis.stats.question_secondary import secondary
from rlexp.analysis.stats.rates import BestContrast, best_contrasts, best_value
from rlexp.analysis.stats.scales import Scale
from rlexp.analysis.stats.validity import PAIR, failure
from rlexp.analysis.stats.words import Assertion, Condition, Judgment, judge
from rlexp.runfolder.files import read_json

QUESTION_FILE = "question.json"


class Effect(NamedTuple):
    """An assertion in one condition."""

    condition: str
    levels: Mapping[str, str]
    found: BestContrast
    """On the scale, arm − versus."""
    level: float
    """Of the arm that is compared with, in the metric's units."""
    own: float
    """Of the arm."""
    values: tuple[float, float]
    """The value of the tuned key of the arm, and of the other one."""
    fails: str
    """Why the condition is not valid; empty if it is."""
    arrived: str = ""
    """Of a cost: how many runs of both arms got to the target, as `8/8, 7/8`."""


class Answered(NamedTuple):
    """What came out for an assertion."""

    declared: Mapping[str, Any]
    metric: str
    scale: Scale
    smallest: float
    effects: list[Effect]
    judgment: Judgment

    @property
    def sign(self) -> int:
        """1 where a positive difference is as claimed, −1 where a negative one is."""
        return -1 if self.declared["direction"] == "lower" else 1

    @property
    def level(self) -> float:
        """The mean level of what is compared with, over valid conditions, in the metric's units; NaN if unknown."""
        levels = [each.level for each in self.effects if not each.fails] or [each.level for each in self.effects]
        known = [level for level in levels if np.isfinite(level)]
        if not known:
            return np.nan
        return float(self.scale.inverse(self.scale.forward(np.array(known)).mean()))


class Answer(NamedTuple):
    """A question with its answer."""

    folder: Path
    declared: Mapping[str, Any]
    hash: str
    """Of what was declared."""
    data: SweepData
    conditions: list[ConditionRuns]
    assertions: list[Answered]
    secondary: pd.DataFrame
    """A row a pair of arms and further number: ``arm, versus, metric, effect, low, high, shown, p, q, k``."""
    notes: list[str]


def answer(folder: str | Path) -> Answer:
    """Read the runs of a declared question and answer it.

    In each condition both arms are at their best value of the tuned key by the question's number, with the choice
    inside the interval; an assertion's own number is read there. A condition that fails a check, or in which a
    completed run lacks a number, is dropped before effects are looked at; the others are pooled and judged
    (``words.judge``). Where none is left the word is ``cannot answer``.

    Raises:
        AnalysisError: the folder holds no question, or a run that is not completed lacks a number that 0 cannot stand
            for.
    """
    folder = Path(folder)
    written = read_json(folder / QUESTION_FILE)
    if written is None:
        raise AnalysisError(f"{folder}: is no question ({QUESTION_FILE} is missing); rlexp ask makes one")
    declared, data = written["declared"], load(folder)
    notes = [*data.unit_remarks]
    conditions = [read_condition(data, written, condition, notes) for condition in declared["conditions"]]
    answered = judged(conditions, declared, notes)
    further = secondary([each for each in conditions if not each.lacks], declared, notes)
    return Answer(folder, declared, written["hash"], data, conditions, answered, further, notes)


def judged(conditions: Sequence[ConditionRuns], declared: Mapping[str, Any], notes: list[str]) -> list[Answered]:
    """Return the effects of all assertions in all conditions, and the words."""
    found = []
    for place, each in enumerate(declared["assertions"]):
        read = [condition.asserted[place] for condition in conditions]
        scale = read[0].scale
        smallest = each["smallest"] or scale.smallest
        metrics = ", ".join(dict.fromkeys(runs.metric.metric for runs in read))
        if not np.isfinite(smallest):
            raise AnalysisError(f"{metrics}: which effect counts is not known by itself; declare smallest")
        effects = [
            effect_in(condition, declared, each, runs, smallest, notes)
            for condition, runs in zip(conditions, read, strict=True)
        ]
        found.append((each, metrics, scale, smallest, effects))
        remarks = (remark for runs in read for remark in runs.metric.remarks)
        notes += [remark for remark in remarks if not remark.startswith("Arrived")]  # they are in the tables
    words = judge(
        [
            Assertion(each["kind"], smallest, [condition_of(each, effect) for effect in effects], each["moderators"])
            for each, _, _, smallest, effects in found
        ]
    )
    notes[:] = dict.fromkeys(notes)
    return [Answered(*rest, word) for rest, word in zip(found, words, strict=True)]


def no_effect(condition: str, levels: Mapping[str, str], why: str) -> Effect:
    """Return what a condition has in which an arm lacks the number."""
    return Effect(condition, levels, BestContrast(np.nan, np.nan, np.nan, 0), np.nan, np.nan, (np.nan, np.nan), why)


def condition_of(assertion: Mapping[str, Any], effect: Effect) -> Condition:
    sign = -1 if assertion["direction"] == "lower" else 1
    found = effect.found
    return Condition(effect.condition, sign * found.value, found.error, found.n - 1.0, effect.levels, effect.fails)


def effect_in(
    condition: ConditionRuns,
    declared: Mapping[str, Any],
    assertion: Mapping[str, Any],
    runs: ScaledRuns,
    smallest: float,
    notes: list[str],
) -> Effect:
    """Return an assertion's effect in a condition, with the first check that fails there."""
    if condition.lacks:
        return no_effect(condition.name, condition.levels, condition.lacks)
    pair = arm_keys(assertion)
    try:
        grids = read_number(condition, pair, runs, notes)
    except NothingLeft as error:
        return no_effect(condition.name, condition.levels, str(error))
    (found,) = best_contrasts(grids, PAIR)
    own, level = (float(runs.scale.inverse(best_value(grid).value)) for grid in grids)
    values = tuple(float(grid.rates[grid.best]) for grid in grids)
    fails = failure(condition, declared, assertion, runs.scale, level, smallest)
    arrived = arrivals(condition, assertion)
    return Effect(condition.name, condition.levels, found, level, own, values, fails, arrived)


def arrivals(condition: ConditionRuns, assertion: Mapping[str, Any]) -> str:
    """Count the runs of both arms at their best that got to the target of a cost; empty for other endpoints."""
    endpoint = parse_endpoint(assertion["endpoint"])
    if endpoint.kind != "cost":
        return ""
    table = endpoint_table(condition.data, endpoint)
    counts = []
    for arm in arm_keys(assertion):
        runs = table.reindex(condition.best_names(arm))
        counts.append(f"{int((runs['value'].notna() & runs['note'].ne(NEVER)).sum())}/{len(runs)}")
    return ", ".join(counts)
