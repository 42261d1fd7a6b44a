"""Sweeps' folders, or runs of other tools, as two tidy tables. Pandas is imported on the first call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from rlexp.analysis.data.errors import AnalysisError
from rlexp.analysis.data.read import printable, read_config, read_yaml
from rlexp.analysis.data.readers.detect import holds_logs, read_logs, reader_of
from rlexp.analysis.data.readers.logs import Columns
from rlexp.analysis.data.runs import Problem, RunRecord, find_jobs, read_run
from rlexp.analysis.data.starts import merge_starts
from rlexp.analysis.data.sweep import InTurns, SweepData, config_section
from rlexp.analysis.data.variants import equal_variants, in_order
from rlexp.runfolder.files import MULTIRUN_FILE, SUMMARY_FILE
from rlexp.runfolder.variants import IN_TURNS, parse_override, short_labels, varying_keys

__all__ = ["Columns", "InTurns", "SweepData", "config_section", "load"]


def load(
    folders: str | Path | Sequence[str | Path],
    metrics: Collection[str] | None = None,
    columns: Columns | None = Columns(),  # noqa: B008 (a tuple)
) -> SweepData:
    """Read all runs of one or several sweeps (or single runs), or logs of other tools.

    Args:
        folders: of sweeps; or files and folders of logs, of which docs/your_runs.md has the formats.
        metrics: only the rows of a sweep in which one of these names, or part of a name, or the run's score or the
            study's metric occurs: several times faster.
        columns: what of other tools' logs is the arm, the seed, the metric and the step; None reads no such logs.

    Returns:
        The runs; those that are damaged are listed in `problems`.

    Raises:
        AnalysisError: No folder, no runs in it, or logs that can be read in several ways.
    """
    given = [folders] if isinstance(folders, str | Path) else folders
    paths = list({Path(folder).resolve(): Path(folder) for folder in given}.values())  # twice the same counts once
    if missing := [path for path in paths if reader_of(path) and not path.exists()]:
        raise AnalysisError(f"'{missing[0]}': there is no such file")
    if any(map(holds_logs, paths)):
        return _load_logs(paths, columns)
    if columns and any(columns._replace(metric=None)):
        known = f"'{paths[0]}' is a sweep of rlexp, whose arms and seeds are known"
        raise AnalysisError(f"{known}; leave out --arm, --seed, --step and --better")
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


def _load_logs(paths: Sequence[Path], columns: Columns | None) -> SweepData:
    from rlexp.analysis.data.readers.mapping import sweep_data

    if own := [path for path in paths if not holds_logs(path)]:
        other = next(path for path in paths if path not in own)
        raise AnalysisError(f"'{own[0]}' is no log of another tool, and '{other}' is one: compare one kind")
    if columns is None:
        raise AnalysisError(
            f"'{paths[0]}' has runs of another tool, without configurations and checksums of rlexp; "
            "compare, better, noise, plan and report read them"
        )
    return sweep_data([read_logs(path, columns) for path in paths], columns, paths[0])


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
