"""Sweeps' folders as two tidy tables. Pandas is imported on the first call, so that importing this costs nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rlexp.analysis.data.errors import AnalysisError
from rlexp.analysis.data.read import printable, read_config, read_yaml
from rlexp.analysis.data.runs import Problem, RunRecord, find_jobs, read_run
from rlexp.analysis.data.starts import merge_starts
from rlexp.analysis.data.variants import equal_variants, in_order
from rlexp.runfolder.files import MULTIRUN_FILE, SUMMARY_FILE
from rlexp.runfolder.variants import IN_TURNS, parse_override, short_labels, varying_keys

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

    @property
    def in_turns(self) -> InTurns | None:
        """Why seeds came in turns; None if they came all at once."""
        return InTurns.of(self.config)

    @property
    def planned_baseline(self) -> str | None:
        """The baseline that the configuration or the study names, if one does."""
        return self.config.get("baseline") or self.study.get("baseline")


def load(folders: str | Path | Sequence[str | Path], metrics: Collection[str] | None = None) -> SweepData:
    """Read all runs of one or several sweeps (or single runs). Damaged runs are listed in `problems`.

    With `metrics`, only the rows in which one of these names, or part of a name, or the run's score or the study's
    metric occurs: several times faster. No folder, or no runs in it: AnalysisError.
    """
    given = [folders] if isinstance(folders, str | Path) else folders
    paths = list({Path(folder).resolve(): Path(folder) for folder in given}.values())  # twice the same counts once
    names = [path.resolve().name for path in paths]
    names = names if len(set(names)) == len(names) else [str(path) for path in paths]
    problems: list[Problem] = []
    runs: list[RunRecord] = []
    config: dict[str, Any] = {}
    for path, sweep in zip(paths, map(printable, names), strict=True):
        jobs = find_jobs(path, problems)
        configs = (read_config(path / job["name"]) for job in jobs)
        config = config or next((found | last_rule(path) for found in configs if found is not None), {})
        needed = None if metrics is None else {*metrics, *_study_metrics(config_section(config, "study"))}
        for job in jobs:
            run = read_run(path, job, needed, problems)
            name = f"{sweep}/{run.facts['name']}" if len(paths) > 1 else run.facts["name"]
            runs.append(run._replace(facts=run.facts | {"name": name, "sweep": sweep}))
    if not runs:
        raise AnalysisError("no folder is named")
    return _collect(paths[0], config, runs, problems)


def last_rule(sweep: Path) -> dict[str, Any]:
    """What the last command of a sweep says of seeds in turns; empty if nothing, which undoes no earlier look."""
    record = read_yaml(sweep / MULTIRUN_FILE)
    rule = {key: record.get(key) for key in IN_TURNS} if isinstance(record, dict) else {}
    return rule if any(rule.values()) else {}


def _study_metrics(study: Mapping[str, Any]) -> set[str]:
    """To compare or to match, those of its expectations too."""
    listed = study.get("expect")
    asking = [study, *(each for each in (listed if isinstance(listed, list) else []) if isinstance(each, Mapping))]
    metrics = {str(each["metric"]) for each in asking if each.get("metric")}
    return metrics | {str(each["matched"]).rpartition("=")[0] for each in asking if each.get("matched")} - {""}


def _collect(folder: Path, config: dict[str, Any], runs: list[RunRecord], problems: list[Problem]) -> SweepData:
    from rlexp.analysis.data.frames import metrics_frame, runs_frame

    runs, remarks, aliases = _merge_equal(runs)
    runs, unit, of_starts = merge_starts(runs)
    first = {run.facts["variant"]: run.overrides for run in reversed(runs)}
    overrides = {variant: first[variant] for variant in in_order(run.facts["variant"] for run in runs)}
    axis, labels = short_labels(overrides)
    choices = [dict(map(parse_override, run.overrides)) for run in runs]
    keys = varying_keys(overrides)

    # Within a task, scores by another metric than most runs have cannot be compared with theirs.
    by_task: dict[str | None, list[dict[str, Any]]] = {}
    for choice, run in zip(choices, runs, strict=True):
        if run.facts["score"] is not None:
            by_task.setdefault(choice.get("task"), []).append(run.facts)
    for scored in by_task.values():
        usual = Counter(fact["score_metric"] for fact in scored).most_common(1)[0][0]
        for fact in (fact for fact in scored if fact["score_metric"] != usual):
            reason = f"scored by {fact['score_metric']}, most others by {usual}: its score is left out"
            problems.append(Problem(fact["name"], reason))
            fact["score"] = None

    versions = Counter(run.version for run in runs if run.version)
    if len(versions) > 1:  # they need not be comparable: said, not corrected
        counts = "; ".join(f"{version} ({count} run{'s' * (count > 1)})" for version, count in versions.items())
        problems.append(Problem(SUMMARY_FILE, f"runs of different versions: {counts}"))
    facts = [run.facts for run in runs]
    used = Counter(run.facts["score_metric"] for run in runs if run.facts["score_metric"])
    return SweepData(
        folder=folder,
        runs=runs_frame(facts, choices, keys),
        metrics=metrics_frame(facts, [run.columns for run in runs]),
        variants=list(overrides),
        labels=labels,
        axis=axis,
        score_metric=used.most_common(1)[0][0] if used else config_section(config, "score").get("metric"),
        config=config,
        problems=problems,
        axes=tuple(keys),
        remarks=(*of_starts, *remarks),
        aliases=aliases,
        unit=unit,
    )


def _merge_equal(runs: list[RunRecord]) -> tuple[list[RunRecord], list[str], dict[str, str]]:
    """The runs, those of equal configurations under one variant; what there is to say of it; the other names."""
    places = [(run.facts["sweep"], run.facts["variant"]) for run in runs]
    folders = {place: run.facts["folder"] for place, run in reversed(list(zip(places, runs, strict=True)))}
    if len(folders) < 2:
        return runs, [], {}
    names, remarks = equal_variants({place: folders[place] for place in dict.fromkeys(places)})
    overrides = {run.facts["variant"]: run.overrides for run in reversed(runs)}
    renamed = [
        run._replace(facts=run.facts | {"variant": names[place]}, overrides=overrides[names[place]])
        for place, run in zip(places, runs, strict=True)
    ]
    return renamed, remarks, {variant: name for (_, variant), name in names.items() if variant != name}


def config_section(config: dict[str, Any], key: str) -> dict[str, Any]:
    """A block of a configuration; empty if it is absent, null or no mapping."""
    value = config.get(key)
    return value if isinstance(value, dict) else {}
