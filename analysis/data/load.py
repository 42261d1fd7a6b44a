"""Sweeps' folders as two tidy tables: which runs they hold, and what each of them says of itself.

Pandas is imported on the first call, so that importing this costs nothing.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rlexp.analysis.data.code import code_facts
from rlexp.analysis.data.configs import equal_variants
from rlexp.analysis.data.errors import AnalysisError
from rlexp.analysis.data.read import (
    LARGEST,
    content,
    printable,
    printable_values,
    read_config,
    read_index,
    read_lines,
    read_object,
    read_yaml,
    run_damage,
    summary_damage,
)
from rlexp.analysis.data.variants import in_order
from rlexp.runfolder.files import INDEX_FILE, METRICS_FILE, MULTIRUN_FILE, SUMMARY_FILE, leads_out
from rlexp.runfolder.variants import DEFAULT, parse_override, short_labels, split_overrides, varying_keys, without_seed

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd


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
    def study(self) -> dict[str, Any]:
        """The study's configuration with its expectations; empty if the sweep is not a study."""
        return config_section(self.config, "study")

    @property
    def score_share(self) -> float:
        """A score is the mean over this last share of a run's evaluations."""
        return float(config_section(self.config, "score").get("share") or 0.1)

    @property
    def until_decided(self) -> float | None:
        """The margin by which differences were to be decided, if seeds were added until they were."""
        margin = self.config.get("until_decided")
        return float(margin) if isinstance(margin, int | float) else None

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
        config = config or next((found for found in configs if found is not None), {})
        needed = None if metrics is None else {*metrics, *metrics_of(config_section(config, "study"))}
        for job in jobs:
            run = read_run(path, job, needed, problems)
            name = f"{sweep}/{run.facts['name']}" if len(paths) > 1 else run.facts["name"]
            runs.append(run._replace(facts=run.facts | {"name": name, "sweep": sweep}))
    if not runs:
        raise AnalysisError("no folder is named")
    return _collect(paths[0], config, runs, problems)


def metrics_of(study: Mapping[str, Any]) -> set[str]:
    """The metrics that a study and its expectations name, to compare or to match."""
    listed = study.get("expect")
    asking = [study, *(each for each in (listed if isinstance(listed, list) else []) if isinstance(each, Mapping))]
    metrics = {str(each["metric"]) for each in asking if each.get("metric")}
    return metrics | {str(each["matched"]).rpartition("=")[0] for each in asking if each.get("matched")} - {""}


def _collect(folder: Path, config: dict[str, Any], runs: list[RunRecord], problems: list[Problem]) -> SweepData:
    from rlexp.analysis.data.frames import metrics_frame, runs_frame

    runs, remarks, aliases = _merge_equal(runs)
    first = {run.facts["variant"]: run.overrides for run in reversed(runs)}
    overrides = {variant: first[variant] for variant in in_order(run.facts["variant"] for run in runs)}
    axis, labels = short_labels(overrides)
    choices = [dict(map(parse_override, run.overrides)) for run in runs]
    keys = varying_keys(overrides)
    _leave_out_foreign_scores(runs, choices, problems)
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
        remarks=tuple(remarks),
        aliases=aliases,
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


def _leave_out_foreign_scores(runs: list[RunRecord], choices: list[dict[str, str]], problems: list[Problem]) -> None:
    """Within a task, scores by another metric than most runs have cannot be compared with theirs."""
    tasks = [choice.get("task") for choice in choices]
    scored = [(task, run.facts) for task, run in zip(tasks, runs, strict=True) if run.facts["score"] is not None]
    for task in dict.fromkeys(tasks):
        facts = [fact for of, fact in scored if of == task]
        used = Counter(fact["score_metric"] for fact in facts).most_common(1)
        for fact in (fact for fact in facts if fact["score_metric"] != used[0][0]):
            reason = f"scored by {fact['score_metric']}, most others by {used[0][0]}: its score is left out"
            problems.append(Problem(fact["name"], reason))
            fact["score"] = None


def config_section(config: dict[str, Any], key: str) -> dict[str, Any]:
    """A block of a configuration; empty if it is absent, null or no mapping."""
    value = config.get(key)
    return value if isinstance(value, dict) else {}


RUN_COLUMNS = ["name", "variant", "seed", "status", "reason", "score", "collapsed"]
RUN_COLUMNS += ["completions", "tokens", "wall_time_s", "sweep", "folder", "score_metric", "code", "commit", "machine"]
UNFINISHED = ("running", "interrupted")
SILENT_MINUTES = 15  # a sweep whose runs write nothing for so long has no process any more
NUMBERS = ("completions", "tokens", "wall_time_s")


class Problem(NamedTuple):
    """A run that is not as it should be, and why; `run` is a folder name, or a file of the sweep."""

    run: str
    reason: str


class RunRecord(NamedTuple):
    """The files of one run, read; `facts` has RUN_COLUMNS, `columns` its step and metrics, each `[steps]`."""

    facts: dict[str, Any]
    overrides: list[str]
    version: str | None
    columns: dict[str, np.ndarray]


def find_jobs(folder: Path, problems: list[Problem]) -> list[dict[str, Any]]:
    """The jobs of the index and the runs found by looking, each with its folder's name. None: AnalysisError."""
    if not folder.is_dir():
        raise AnalysisError(f"'{folder}' is not a folder")
    jobs = _indexed_jobs(folder, problems)
    listed = {job["name"] for job in jobs}
    jobs += [job for job in _found_jobs(folder) if job["name"] not in listed]
    outside = [job["name"] for job in jobs if leads_out(folder / job["name"], folder)]
    problems += [Problem(printable(name), "lies outside of the folder that was named: not read") for name in outside]
    jobs = [job for job in jobs if job["name"] not in outside]
    if not jobs:
        raise AnalysisError(f"no runs in '{folder}': expected {INDEX_FILE}, or sub folders with {SUMMARY_FILE}")
    return jobs


def _indexed_jobs(folder: Path, problems: list[Problem]) -> list[dict[str, Any]]:
    """The jobs in the sweep's index; a job that was run again counts once, with its last line.

    A killed process leaves its jobs as `running`: they are where some run wrote a row a short while ago.
    """
    index = folder / INDEX_FILE
    if not index.exists():
        if b"FusedLauncher" in content(folder / MULTIRUN_FILE):  # a launcher that keeps an index
            problems.append(Problem(INDEX_FILE, "is missing: its runs are found by looking"))
        return []
    rows, wrong = read_index(index)
    if wrong:
        problems.append(Problem(INDEX_FILE, wrong))
    jobs = {str(row["name"]): printable_values(row) for row in rows if row.get("name") and "\0" not in str(row["name"])}
    written = [path.stat().st_mtime for path in (index, *folder.glob(f"*/{METRICS_FILE}"))]
    is_alive = time.time() - max(written) < 60 * SILENT_MINUTES
    stopped = {} if is_alive else {"status": "interrupted", "reason": "it wrote nothing for a while"}
    return [{**job, **(stopped if job.get("status") == "running" else {}), "name": name} for name, job in jobs.items()]


def _found_jobs(folder: Path) -> list[dict[str, Any]]:
    """Runs found by looking: the folder itself if it is a run, else its sub folders, by Hydra's job numbers."""
    paths = [folder] if _is_run(folder) else [path for path in folder.iterdir() if path.is_dir() and _is_run(path)]
    jobs = []
    for path in sorted(paths, key=lambda path: (_job_number(path), path.name)):
        job = {"name": "." if path == folder else path.name}
        overrides = read_yaml(path / ".hydra/overrides.yaml")
        jobs.append({**job, "overrides": [str(item) for item in overrides]} if isinstance(overrides, list) else job)
    return jobs


def unlisted_runs(folder: Path) -> list[str]:
    """Runs in the folder that the last command of the sweep did not list; none where there is no index."""
    listed = {job["name"] for job in _indexed_jobs(folder, [])}
    return [job["name"] for job in _found_jobs(folder) if job["name"] not in listed] if listed else []


def _is_run(path: Path) -> bool:
    return any(os.path.exists(path / name) for name in (SUMMARY_FILE, METRICS_FILE, ".hydra/overrides.yaml"))


def _job_number(path: Path) -> int:
    config = read_yaml(path / ".hydra/hydra.yaml") or {}
    try:
        return int(config["hydra"]["job"]["num"])
    except (KeyError, TypeError, ValueError):
        return 0


def read_run(folder: Path, job: dict[str, Any], metrics: set[str] | None, problems: list[Problem]) -> RunRecord:
    """One run; what is wrong with it is appended to `problems`."""
    from rlexp.analysis.data.frames import run_columns

    path = folder / job["name"]
    summary, no_summary = read_object(path / SUMMARY_FILE)
    damage = summary_damage(path / SUMMARY_FILE, summary)
    summary = {} if damage else summary
    config = None if damage or "files" in summary else read_config(path)  # says which rows there must be
    damage = damage or run_damage(path, summary, config)
    score_metric = _text(summary.get("score_metric"))
    containing = () if metrics is None or not score_metric else {*metrics, score_metric}
    rows, wrong_rows = read_lines(path / METRICS_FILE, containing)
    columns = run_columns([] if damage else rows)
    status, reason = ("damaged", damage) if damage else _status(job, summary, no_summary)
    if status == "running":
        reason = f"at step {columns['step'][-1]}" if len(columns["step"]) else "not started"
    overrides, seed = _overrides_and_seed(job, summary)
    written_score, collapsed = summary.get("score"), summary.get("collapsed")
    score, no_score = _number(written_score) if status == "completed" else None, None
    if status == "completed" and score is None:
        huge = isinstance(written_score, int | float) and abs(written_score) > LARGEST
        no_score = "completed, but its score is too large to be one" if huge else "completed, but has no score"
    complaints = [
        f"{status}: {reason}" if reason else status if status != "completed" else None,
        no_score,
        wrong_rows if not damage and (summary or rows) else None,
    ]
    problems += [Problem(printable(path.resolve().name), complaint) for complaint in complaints if complaint]
    facts = dict.fromkeys(RUN_COLUMNS) | {key: _number(summary.get(key)) for key in NUMBERS}
    facts |= {"variant": _text(summary.get("variant") or job.get("variant")) or ",".join(overrides) or DEFAULT}
    facts |= {"seed": seed, "status": status, "reason": reason, "score": score, "score_metric": score_metric}
    facts |= {"name": printable(job["name"]), "folder": str(path), **code_facts(summary)}
    facts |= {"collapsed": collapsed if isinstance(collapsed, bool) else None}
    versions = summary.get("versions")
    known = [key for key in ("rlexp", "torch") if key in versions] if isinstance(versions, dict) else []
    return RunRecord(facts, overrides, " ".join(f"{key} {versions[key]}" for key in known) or None, columns)


def _text(value: Any) -> str | None:
    return None if value in (None, "") else str(value)


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and abs(value) <= LARGEST else None


def _status(job: dict[str, Any], summary: dict[str, Any], no_summary: str | None) -> tuple[str, str | None]:
    """Status and reason; the summary is believed before the index, and without a summary no run is completed."""
    if summary.get("status"):
        return str(summary["status"]), _text(summary.get("reason"))
    if job.get("status") not in (None, "completed"):
        return str(job["status"]), _text(job.get("reason")) or no_summary
    return "interrupted", no_summary or f"{SUMMARY_FILE} has no status"


def _overrides_and_seed(job: dict[str, Any], summary: dict[str, Any]) -> tuple[list[str], int | None]:
    """Overrides that make the variant: from its name, which leaves out what changes no result, else from the index."""
    name, variant = job["name"], summary.get("variant") or job.get("variant")
    listed = [*map(str, job["overrides"])] if isinstance(job.get("overrides"), list) else None
    if variant or listed is None:
        overrides = without_seed(split_overrides(str(variant or (name if "=" in name else DEFAULT))))
    else:
        overrides = without_seed(listed)
    named = dict(map(parse_override, split_overrides(name) if listed is None else listed)).get("seed", "")
    seeds = (summary.get("seed"), job.get("seed"), int(named) if named.isdecimal() else None)
    seed = next((value for value in seeds if isinstance(value, int) and abs(value) < 2**63), None)
    return overrides, seed
