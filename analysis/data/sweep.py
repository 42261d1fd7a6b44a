"""The tables of a sweep's runs, whoever trained them. Pandas is imported by whoever makes one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rlexp.analysis.data.metric_spec import Direction, better_direction
from rlexp.analysis.data.runs import Problem
from rlexp.runfolder.variants import IN_TURNS

if TYPE_CHECKING:
    import pandas as pd


class InTurns(NamedTuple):
    """Seeds that were added until enough was known: by which key, and its number."""

    key: str
    value: float

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> InTurns | None:
        """That of a configuration; None if it has none."""
        given = ((key, config.get(key)) for key in IN_TURNS)
        return next((cls(key, float(value)) for key, value in given if isinstance(value, int | float)), None)

    @property
    def sequential(self) -> bool:
        """Whether looks at the signs of differences decided how many seeds there are: p must hold at every look."""
        return self.key != "until_width"


class Origin(NamedTuple):
    """How runs of other tools were read."""

    kind: str
    """Their format, as `CSV, a row a run`."""
    said: str
    """What was taken for the arm, the seed and the metric, in a line."""
    has_seeds: bool
    """Whether runs of one seed belong together."""
    better: Mapping[str, Direction]
    """The better end of the metric."""
    rule: str
    """How the number of a run comes from its rows."""


class SweepData(NamedTuple):
    """The runs of one or several sweeps as tables."""

    folder: Path
    runs: pd.DataFrame
    """One row per run: RUN_COLUMNS and one column per override key that varies. Only completed runs have a score."""
    metrics: pd.DataFrame
    """One row per run and logged step: name, variant, seed, step, then one column per metric, NaN where null."""
    variants: list[str]
    """In order of first appearance, along an axis of numbers by size."""
    labels: dict[str, str]
    """Short label of each variant, for tables and figures."""
    axis: str
    """Header of the labels: the one override key that varies, or "variant"."""
    score_metric: str | None
    """The metric whose late mean is the score."""
    config: dict[str, Any]
    """The configuration of the first run that has one: for what is the same in all runs, such as the study."""
    problems: list[Problem]
    axes: tuple[str, ...] = ()
    """Override keys that vary, in order of first appearance."""
    remarks: tuple[str, ...] = ()
    """Notes for the reader on how the runs were read."""
    aliases: Mapping[str, str] = {}
    """Other names of a variant: those of the same configuration."""
    unit: str = "seed"
    """What a row of ``runs`` is: ``"seed"``, or ``"start"`` where starts vary, whose number is then its seed."""
    origin: Origin | None = None
    """How they were read, if rlexp has not trained them."""

    def __repr__(self) -> str:
        """In a line: the frames are shown by their names."""
        named = ", ".join(self.labels.values())
        return f"SweepData('{self.folder}': {len(self.runs)} runs of {self.axis} {named}; frames: .runs, .metrics)"

    @property
    def first_variant(self) -> str:
        """That of the first run: the baseline unless another is named."""
        named = self.runs["variant"]
        return next((variant for variant in named if variant in self.labels), self.variants[0])

    @property
    def unit_remarks(self) -> Sequence[str]:
        """What there is to say of starts as units; nothing where seeds are."""
        return self.remarks[:1] if self.unit == "start" else ()

    @property
    def study(self) -> dict[str, Any]:
        """The study's configuration with its expectations; empty if the sweep is not a study."""
        return config_section(self.config, "study")

    @property
    def score_share(self) -> float:
        """A score is the mean over this last share of a run's evaluations."""
        return float(config_section(self.config, "score").get("share") or 0.1)

    def better(self, metric: str) -> Direction:
        """The better end of a metric."""
        known = self.origin.better.get(metric) if self.origin else None
        return known or better_direction(metric, None if self.origin else self.score_metric)

    @property
    def in_turns(self) -> InTurns | None:
        """Why seeds came in turns; None if they came all at once."""
        return InTurns.of(self.config)

    @property
    def planned_baseline(self) -> str | None:
        """The baseline that the configuration or the study names, if one does."""
        return self.config.get("baseline") or self.study.get("baseline")


def config_section(config: dict[str, Any], key: str) -> dict[str, Any]:
    """A block of a configuration; empty if it is absent, null or no mapping."""
    value = config.get(key)
    return value if isinstance(value, dict) else {}
