"""The runs of a declared question, condition by condition: each arm as a grid over the tuned key and the seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from rlexp.analysis.data.errors import AnalysisError, NothingLeft
from rlexp.analysis.data.load import SweepData
from rlexp.analysis.data.read import read_config
from rlexp.analysis.stats.arms import ScaledRuns, missing_note, scaled, scaled_runs
from rlexp.analysis.stats.endpoints import Endpoint, endpoint_values, missing_values, parse_endpoint
from rlexp.analysis.stats.rates import RateGrid, rate_grid
from rlexp.runfolder.variants import unit_name

ArmKey = tuple[str, str | None]
"""An arm by its overrides, joined by `+` (`default` for none), and the budget that it was trained to."""


class ConditionRuns(NamedTuple):
    """The runs of one condition, by arm, value of the tuned key, and seed."""

    name: str
    levels: Mapping[str, str]
    data: SweepData
    main: ScaledRuns
    """The question's number, by which the tuned key is chosen."""
    asserted: list[ScaledRuns]
    """The number of each assertion."""
    smallest: float
    """The smallest effect that counts of the question's number."""
    values: list[float]
    """Of the tuned key; [1.0] where none is tuned."""
    names: dict[ArmKey, list[list[str]]]
    """Of the runs' folders, by value and seed."""
    grids: dict[ArmKey, RateGrid]
    """Empty where the condition lacks numbers."""
    lacks: str = ""
    """Why: no run has a number that is asked for, or completed runs of an arm lack the question's at each value."""

    @property
    def score(self) -> ScaledRuns:
        """Where runs of the question's metric end, whatever its endpoint is."""
        asked = None if self.main.metric.is_score else self.main.metric.metric.split(", ")[0]
        return scaled_runs(self.data, Endpoint(), asked)

    def scores(self, arm: ArmKey) -> np.ndarray:
        """Return the question's number of an arm's runs on its scale, larger is better, `[values, seeds]`.

        A run without it has what it counts as, or NaN.
        """
        scores = self.main.sign * self.main.scale.forward(self.main.of(self.names[arm]))
        return scores if self.main.floor is None else np.where(np.isnan(scores), self.main.floor, scores)

    def best_names(self, arm: ArmKey) -> list[str]:
        """Return the names of the runs by which an arm is judged."""
        return self.names[arm][self.grids[arm].best]


def arm_key(overrides: Sequence[str], budget: str | None) -> ArmKey:
    return "+".join(overrides) or "default", budget


def arm_keys(assertion: Mapping[str, Any]) -> tuple[ArmKey, ArmKey]:
    """Return the arm of an assertion, and the one that it is compared with."""
    return tuple(arm_key(assertion[side], assertion["budget"]) for side in ("arm", "versus"))


def read_condition(
    data: SweepData, written: Mapping[str, Any], condition: Mapping[str, Any], notes: list[str]
) -> ConditionRuns:
    """Read the arms of one condition.

    Raises:
        AnalysisError: an arm has no run, or runs that are not completed lack a number that 0 cannot stand for.
    """
    declared, name = written["declared"], condition["name"]
    cells = [cell for cell in written["cells"] if cell["condition"] == name]
    values = written["values"].get(name) or [1.0]
    units, starts = written["seeds"][name], bool(declared.get("starts"))
    names = {
        (cell["arm"], cell["budget"]): [[unit_name(point, unit, starts) for unit in units] for point in cell["points"]]
        for cell in cells
    }
    wanted = {run for points in names.values() for row in points for run in row}
    own = restricted(data, wanted)
    present = set(own.runs["name"])
    for (arm, _), points in names.items():
        if not present & {run for row in points for run in row}:
            raise AnalysisError(f"{data.folder}: no run of {arm} in {name} is there, as {points[0][0]}")
    numbers, lacks = [], ""
    for each in (declared, *declared["assertions"]):
        endpoint, metric = parse_endpoint(each["endpoint"]), each["metric"]
        try:
            read = endpoint_values(own, endpoint, metric)
        except NothingLeft as error:
            read, lacks = missing_values(own, endpoint, metric), lacks or str(error)
        numbers.append(scaled(read, endpoint, own, declared["attainable"]))
    main, asserted = numbers[0], numbers[1:]
    smallest = declared["smallest"] or main.scale.smallest
    condition = ConditionRuns(name, condition["levels"], own, main, asserted, smallest, values, names, {}, lacks)
    for arm, points in {} if lacks else names.items():
        try:
            note = missing_note(arm[0], points, main)
        except NothingLeft as error:
            return condition._replace(grids={}, lacks=str(error))
        if note:
            notes.append(within(note, condition))
        condition.grids[arm] = rate_grid(values, condition.scores(arm))
    return condition


def restricted(data: SweepData, names: set[str]) -> SweepData:
    """Return the named runs of a sweep as a sweep of their own."""
    runs = data.runs[data.runs["name"].isin(names)]
    variants = set(runs["variant"])
    used = runs["score_metric"].dropna()
    return data._replace(
        runs=runs,
        metrics=data.metrics[data.metrics["name"].isin(names)],
        variants=[variant for variant in data.variants if variant in variants],
        score_metric=used.mode().iloc[0] if len(used) else data.score_metric,
        config=(read_config(runs["folder"].iloc[0]) if len(runs) else None) or data.config,
    )


def within(text: str, condition: ConditionRuns) -> str:
    return text if condition.name == "default" else f"{condition.name}: {text}"


def read_number(condition: ConditionRuns, pair: Sequence[ArmKey], runs: ScaledRuns, notes: list[str]) -> list[RateGrid]:
    """Return the grids of arms with another number to be read at the values that the question's number chooses."""
    grids = []
    for arm in pair:
        names = condition.names[arm]
        if note := missing_note(arm[0], names, runs):
            notes.append(within(note, condition))
        scaled = runs.scale.forward(runs.of(names))
        scaled = scaled if runs.floor is None else np.where(np.isnan(scaled), runs.floor, scaled)
        grids.append(condition.grids[arm]._replace(read=scaled))
    return grids
