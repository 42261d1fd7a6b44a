"""A sweep's folder as two tidy tables. Pandas is imported on the first call, so that importing this costs nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from analysis.read import AnalysisError, read_lines, read_object, read_yaml
from analysis.variants import DEFAULT, key_value, short_labels, split, varying_keys, without_seed

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

METRICS_FILE, SUMMARY_FILE, INDEX_FILE = "metrics.jsonl", "summary.json", "jobs.jsonl"
RUN_COLUMNS = ["name", "variant", "seed", "status", "reason", "score", "collapsed"]
RUN_COLUMNS += ["completions", "tokens", "wall_time_s"]


class Problem(NamedTuple):
    """A run that is not as it should be, and why; `run` is a folder name, or a file of the sweep."""

    run: str
    reason: str


class Data(NamedTuple):
    """What a sweep left behind."""

    folder: Path
    runs: pd.DataFrame
    """One row per run: RUN_COLUMNS and one column per override key that varies. Only completed runs have a score."""
    metrics: pd.DataFrame
    """One row per run and logged step: name, variant, seed, step, then one column per metric, NaN where null."""
    variants: list[str]
    """In order of first appearance; the first is the baseline unless another is named."""
    labels: dict[str, str]
    """Short label of each variant, for tables and figures."""
    axis: str
    """What the labels are values of: the one override key that varies, or "variant"."""
    score_metric: str | None
    """The metric whose late mean is the score."""
    config: dict[str, Any]
    """The configuration of the first run that has one: for what is the same in all runs, such as the study."""
    problems: list[Problem]

    @property
    def study(self) -> dict[str, Any]:
        """The question and its expectations; empty if the sweep is not a study."""
        return block(self.config, "study")

    @property
    def share(self) -> float:
        """Over which last share of its evaluations a score is the mean."""
        return float(block(self.config, "score").get("share") or 0.1)

    @property
    def planned_baseline(self) -> str | None:
        """The baseline that the configuration or the study names."""
        return self.config.get("baseline") or self.study.get("baseline")


class _Run(NamedTuple):
    facts: dict[str, Any]
    overrides: list[str]
    score_metric: str | None
    columns: dict[str, np.ndarray]


def load(folder: str | Path, metrics: Collection[str] | None = None) -> Data:
    """Read all runs of a sweep (or a single run). Damaged runs are listed in `problems`; no runs: AnalysisError.

    With `metrics`, only the rows that log one of these or the score or study's metric: several times faster.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise AnalysisError(f"'{folder}' is not a folder")
    problems: list[Problem] = []
    jobs = _indexed_jobs(folder, problems)
    listed = {job["name"] for job in jobs}
    jobs += [job for job in _found_jobs(folder) if job["name"] not in listed]
    if not jobs:
        raise AnalysisError(f"no runs in '{folder}': expected {INDEX_FILE}, or sub folders with {SUMMARY_FILE}")
    config = _config(folder, jobs)
    wanted = None if metrics is None else {*metrics, block(config, "study").get("metric")} - {None}
    return _collect(folder, config, [_read_run(folder, job, wanted, problems) for job in jobs], problems)


def _collect(folder: Path, config: dict[str, Any], runs: list[_Run], problems: list[Problem]) -> Data:
    from analysis.frames import metrics_frame, runs_frame

    overrides = {run.facts["variant"]: run.overrides for run in reversed(runs)}
    overrides = {run.facts["variant"]: overrides[run.facts["variant"]] for run in runs}
    axis, labels = short_labels(overrides)
    facts = [run.facts for run in runs]
    used = Counter(run.score_metric for run in runs if run.score_metric)
    if len(used) > 1:
        problems.append(Problem(SUMMARY_FILE, f"runs were scored by different metrics: {', '.join(used)}"))
    return Data(
        folder=folder,
        runs=runs_frame(facts, [dict(map(key_value, run.overrides)) for run in runs], varying_keys(overrides)),
        metrics=metrics_frame(facts, [run.columns for run in runs]),
        variants=list(overrides),
        labels=labels,
        axis=axis,
        score_metric=used.most_common(1)[0][0] if used else None,
        config=config,
        problems=problems,
    )


def _indexed_jobs(folder: Path, problems: list[Problem]) -> list[dict[str, Any]]:
    """The jobs in the sweep's index; a job that was run again counts once, with its last line."""
    if not (folder / INDEX_FILE).exists():
        return []
    rows, wrong = read_lines(folder / INDEX_FILE)
    if wrong:
        problems.append(Problem(INDEX_FILE, wrong))
    jobs = {str(row["name"]): row for row in rows if row.get("name")}
    return [{**job, "name": name} for name, job in jobs.items()]


def _found_jobs(folder: Path) -> list[dict[str, Any]]:
    """Runs found by looking: the folder itself if it is a run, else its sub folders, by Hydra's job numbers."""
    paths = [folder] if _is_run(folder) else [path for path in folder.iterdir() if path.is_dir() and _is_run(path)]
    numbered = sorted((_job_number(path), path.name, path) for path in paths)
    return [_found_job(folder, path) for _, _, path in numbered]


def _is_run(path: Path) -> bool:
    return any((path / name).exists() for name in (SUMMARY_FILE, METRICS_FILE, ".hydra/overrides.yaml"))


def _job_number(path: Path) -> int:
    config = read_yaml(path / ".hydra/hydra.yaml") or {}
    try:
        return int(config["hydra"]["job"]["num"])
    except (KeyError, TypeError, ValueError):
        return 0


def _found_job(folder: Path, path: Path) -> dict[str, Any]:
    overrides = read_yaml(path / ".hydra/overrides.yaml")
    job = {"name": "." if path == folder else path.name}
    return {**job, "overrides": [str(item) for item in overrides]} if isinstance(overrides, list) else job


def _read_run(folder: Path, job: dict[str, Any], wanted: set[str] | None, problems: list[Problem]) -> _Run:
    from analysis.frames import run_columns

    path = folder / job["name"]
    summary, no_summary = read_object(path / SUMMARY_FILE)
    score_metric = summary.get("score_metric")
    naming = () if wanted is None or not score_metric else {*wanted, score_metric}
    rows, wrong_rows = read_lines(path / METRICS_FILE, naming)
    status, reason = _status(job, summary, no_summary)
    overrides = _overrides(job, summary)
    variant = summary.get("variant") or job.get("variant") or ",".join(overrides) or DEFAULT
    seed = next((value for value in (summary.get("seed"), job.get("seed"), _seed(job)) if value is not None), None)
    score = _number(summary.get("score")) if status == "completed" else None
    complaints = [
        f"{status}: {reason}" if reason else status if status != "completed" else None,
        "completed, but has no score" if status == "completed" and score is None else None,
        wrong_rows if summary or rows else None,
    ]
    problems += [Problem(path.resolve().name, complaint) for complaint in complaints if complaint]
    facts = {key: summary.get(key) for key in RUN_COLUMNS}
    facts |= {"name": job["name"], "variant": variant, "seed": seed, "status": status, "reason": reason, "score": score}
    return _Run(facts, overrides, score_metric, run_columns(rows))


def _status(job: dict[str, Any], summary: dict[str, Any], no_summary: str | None) -> tuple[str, str | None]:
    """Status and reason; the summary is believed before the index, and without a summary no run is completed."""
    if summary.get("status"):
        return str(summary["status"]), summary.get("reason")
    if job.get("status") not in (None, "completed"):
        return str(job["status"]), job.get("reason") or no_summary
    return "interrupted", no_summary or f"{SUMMARY_FILE} has no status"


def _overrides(job: dict[str, Any], summary: dict[str, Any]) -> list[str]:
    """Overrides that make the variant: from its name, which leaves out what changes no result, else from the index."""
    named = summary.get("variant") or job.get("variant")
    if not named and isinstance(job.get("overrides"), list):
        return without_seed(map(str, job["overrides"]))
    return without_seed(split(str(named or (job["name"] if "=" in job["name"] else DEFAULT))))


def _seed(job: dict[str, Any]) -> int | None:
    values = dict(key_value(str(override)) for override in job.get("overrides") or split(job["name"]))
    return int(values["seed"]) if values.get("seed", "").isdigit() else None


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and value == value else None


def _config(folder: Path, jobs: list[dict[str, Any]]) -> dict[str, Any]:
    configs = (read_yaml(folder / job["name"] / "config.yaml") for job in jobs)
    return next((config for config in configs if isinstance(config, dict)), {})


def block(config: dict[str, Any], key: str) -> dict[str, Any]:
    """A block of a configuration; empty if it is absent, null or no mapping."""
    value = config.get(key)
    return value if isinstance(value, dict) else {}
