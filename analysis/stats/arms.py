"""The runs of an arm as one number a value of the tuned key and seed, on the scale of effects."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rlexp.analysis.data.errors import AnalysisError, NothingLeft
from rlexp.analysis.data.load import SweepData, config_section
from rlexp.analysis.data.metric_spec import direction_sign
from rlexp.analysis.data.run_values import RunValues
from rlexp.analysis.stats.endpoints import Endpoint, endpoint_values
from rlexp.analysis.stats.scales import Scale, scale_name, scale_of

Array = np.ndarray
FITTED = ("asymptote", "speed")  # endpoints that are of a fitted curve


class ScaledRuns(NamedTuple):
    """One number of each run of a sweep, with the scale that effects on it are taken on."""

    metric: RunValues
    scale: Scale
    zero_if_missing: bool = True
    """Whether a share that a run does not have counts as 0. One that is matched does not: the run was never there."""

    @property
    def sign(self) -> int:
        """1 where larger numbers are better, −1 where smaller ones are."""
        return direction_sign(self.metric.better)

    @property
    def floor(self) -> float | None:
        """What a run without a number counts as, on the scale; None where nothing stands for it."""
        return float(self.scale.forward(0.0)) if self.zero_if_missing and self.scale.name == "log-odds" else None

    def natural(self, score: float) -> float:
        """Take a score, which is on the scale and higher where better, to the units of the number."""
        return float(self.scale.inverse(self.sign * score))

    def of(self, names: Sequence[Sequence[str]]) -> Array:
        """Return the numbers of named runs as they are, NaN where a run has none."""
        numbers = self.metric.values.to_dict()
        return np.array([[numbers.get(name, np.nan) for name in row] for row in names], dtype=float)


def scaled_runs(data: SweepData, endpoint: Endpoint, metric: str | None = None, attainable: float = 1.0) -> ScaledRuns:
    """Read an endpoint of all runs.

    Args:
        data: of a sweep.
        endpoint: the number of a run.
        metric: of which; that of the score unless named.
        attainable: the largest share that can be had.

    Raises:
        AnalysisError: as ``endpoint_values``.
    """
    return scaled(endpoint_values(data, endpoint, metric), endpoint, data, attainable)


def scaled(values: RunValues, endpoint: Endpoint, data: SweepData, attainable: float = 1.0) -> ScaledRuns:
    """Put an endpoint of all runs, which may have none, on its scale."""
    counted = data.runs.loc[data.runs["status"].isin(values.statuses), "name"]
    values = values._replace(values=values.values.reindex(counted))
    scale = scale_for(values.metric, endpoint, data)._replace(attainable=attainable)
    return ScaledRuns(values, scale, zero_if_missing=endpoint.kind != "matched")


def scale_for(metric: str, endpoint: Endpoint, data: SweepData) -> Scale:
    """Return the scale of an endpoint; a share is of as many completions as an evaluation has."""
    name = "log" if endpoint.kind == "cost" else scale_name(metric)
    if endpoint.kind in FITTED or name == "start SD":  # a fit may lie beyond 1; the SD of the start is not known here
        return Scale("identity")
    if name != "log-odds" or "exact" in metric:
        return Scale(name) if name != "log-odds" else scale_of(metric)
    evaluation = config_section(data.config, "eval")
    return Scale(name, evaluation.get("prompts", 128) * (1 if "greedy" in metric else evaluation.get("samples", 1)))


def missing_note(arm: str, names: Sequence[Sequence[str]], runs: ScaledRuns) -> str:
    """Say how many runs of an arm have no number, empty if all do.

    Args:
        arm: what the line calls it.
        names: of its runs' folders, by value of the tuned key and seed.
        runs: with their numbers.

    Raises:
        AnalysisError: no value of the tuned key has a number on all seeds, and none stands for a missing one.
            NothingLeft: so it is, and all runs are completed, so that training them again would change nothing.
    """
    raw = runs.of(names)
    missing = int(np.isnan(raw).sum())
    lacking = f"{arm}: {missing} of {raw.size} runs have no {runs.metric.metric}"
    if missing and runs.floor is None and np.isnan(raw).any(axis=1).all():
        completed = runs.metric.values.index.isin([name for row in names for name in row]).sum() == raw.size
        raise (NothingLeft if completed else AnalysisError)(f"{lacking}, which cannot count as 0")
    return f"{lacking}{', which count as 0' if runs.floor is not None else ''}." if missing else ""
