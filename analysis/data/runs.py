"""One sweep's folder: which runs it holds, and what each of them says of itself. Nothing here raises for damage."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from analysis.data.code import code_facts
from analysis.data.disk.links import leads_out
from analysis.data.disk.seals import lacks_index, read_index, run_damage, summary_damage
from analysis.data.errors import AnalysisError
from analysis.data.read import LARGEST, printable, printable_values, read_lines, read_object, read_yaml
from analysis.data.variants import DEFAULT, parse_override, split_overrides, without_seed

if TYPE_CHECKING:
    import numpy as np

METRICS_FILE, SUMMARY_FILE, INDEX_FILE = "metrics.jsonl", "summary.json", "jobs.jsonl"
RUN_COLUMNS = ["name", "variant", "seed", "status", "reason", "score", "collapsed"]
RUN_COLUMNS += ["completions", "tokens", "wall_time_s", "sweep", "folder", "score_metric", "code", "commit", "machine"]
UNFINISHED = ("running", "interrupted")
SILENT_MINUTES = 15  # a sweep whose runs write nothing for so long has no process any more
NUMBERS = ("completions", "tokens", "wall_time_s")


class Problem(NamedTuple):
    """A run that is not as it should be, and why; `run` is a folder name, or a file of the sweep."""

    run: str
    reason: str


class Run(NamedTuple):
    """What one run left behind; `facts` has RUN_COLUMNS, `columns` its step and metrics, each `[steps]`."""

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
    """The jobs in the sweep's index; a job that was run again counts once, with its last line."""
    if lacks_index(folder):
        problems.append(Problem(INDEX_FILE, "is missing: its runs are found by looking"))
    if not (folder / INDEX_FILE).exists():
        return []
    rows, wrong = read_index(folder / INDEX_FILE)
    if wrong:
        problems.append(Problem(INDEX_FILE, wrong))
    jobs = {str(row["name"]): printable_values(row) for row in rows if row.get("name") and "\0" not in str(row["name"])}
    stopped = {} if _is_alive(folder) else {"status": "interrupted", "reason": "it wrote nothing for a while"}
    return [{**job, **(stopped if job.get("status") == "running" else {}), "name": name} for name, job in jobs.items()]


def _is_alive(folder: Path) -> bool:
    """Whether some run of the sweep wrote a row a short while ago: a killed process leaves its jobs as `running`."""
    written = [path.stat().st_mtime for path in (folder / INDEX_FILE, *folder.glob(f"*/{METRICS_FILE}"))]
    return time.time() - max(written) < 60 * SILENT_MINUTES


def _found_jobs(folder: Path) -> list[dict[str, Any]]:
    """Runs found by looking: the folder itself if it is a run, else its sub folders, by Hydra's job numbers."""
    paths = [folder] if _is_run(folder) else [path for path in folder.iterdir() if path.is_dir() and _is_run(path)]
    numbered = sorted((_job_number(path), path.name, path) for path in paths)
    return [_found_job(folder, path) for _, _, path in numbered]


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


def _found_job(folder: Path, path: Path) -> dict[str, Any]:
    overrides = read_yaml(path / ".hydra/overrides.yaml")
    job = {"name": "." if path == folder else path.name}
    return {**job, "overrides": [str(item) for item in overrides]} if isinstance(overrides, list) else job


def read_run(folder: Path, job: dict[str, Any], metrics: set[str] | None, problems: list[Problem]) -> Run:
    """One run; what is wrong with it is appended to `problems`."""
    from analysis.data.frames import run_columns

    path = folder / job["name"]
    summary, no_summary = read_object(path / SUMMARY_FILE)
    damage = summary_damage(path / SUMMARY_FILE, summary)
    summary = {} if damage else summary
    damage = damage or run_damage(path, summary, _config_for(path, summary))
    score_metric = _text(summary.get("score_metric"))
    containing = () if metrics is None or not score_metric else {*metrics, score_metric}
    rows, wrong_rows = read_lines(path / METRICS_FILE, containing)
    columns = run_columns([] if damage else rows)
    status, reason = ("damaged", damage) if damage else _status(job, summary, no_summary)
    if status == "running":
        reason = f"at step {columns['step'][-1]}" if len(columns["step"]) else "not started"
    overrides = _overrides(job, summary)
    variant = _text(summary.get("variant") or job.get("variant")) or ",".join(overrides) or DEFAULT
    seeds = (summary.get("seed"), job.get("seed"), _seed(job))
    seed = next((value for value in seeds if isinstance(value, int) and abs(value) < 2**63), None)
    score = _number(summary.get("score")) if status == "completed" else None
    collapsed = summary.get("collapsed")
    complaints = [
        f"{status}: {reason}" if reason else status if status != "completed" else None,
        _no_score(summary.get("score")) if status == "completed" and score is None else None,
        wrong_rows if not damage and (summary or rows) else None,
    ]
    problems += [Problem(printable(path.resolve().name), complaint) for complaint in complaints if complaint]
    facts = dict.fromkeys(RUN_COLUMNS) | {key: _number(summary.get(key)) for key in NUMBERS}
    facts |= {"variant": variant, "seed": seed, "status": status, "reason": reason, "score": score}
    facts |= {"name": printable(job["name"]), "folder": str(path), **code_facts(summary)}
    facts |= {"collapsed": collapsed if isinstance(collapsed, bool) else None, "score_metric": score_metric}
    return Run(facts, overrides, _version(summary), columns)


def _config_for(path: Path, summary: dict[str, Any]) -> dict[str, Any] | None:
    """The configuration, where nothing but it says which rows there must be."""
    if "files" in summary:
        return None
    config = read_yaml(path / "config.yaml")
    return config if isinstance(config, dict) else None


def _no_score(value: Any) -> str:
    huge = isinstance(value, int | float) and abs(value) > LARGEST
    return "completed, but its score is too large to be one" if huge else "completed, but has no score"


def _text(value: Any) -> str | None:
    return None if value in (None, "") else str(value)


def _version(summary: dict[str, Any]) -> str | None:
    versions = summary.get("versions")
    if not isinstance(versions, dict):
        return None
    return " ".join(f"{key} {versions[key]}" for key in ("rlexp", "torch") if key in versions) or None


def _status(job: dict[str, Any], summary: dict[str, Any], no_summary: str | None) -> tuple[str, str | None]:
    """Status and reason; the summary is believed before the index, and without a summary no run is completed."""
    if summary.get("status"):
        return str(summary["status"]), _text(summary.get("reason"))
    if job.get("status") not in (None, "completed"):
        return str(job["status"]), _text(job.get("reason")) or no_summary
    return "interrupted", no_summary or f"{SUMMARY_FILE} has no status"


def _overrides(job: dict[str, Any], summary: dict[str, Any]) -> list[str]:
    """Overrides that make the variant: from its name, which leaves out what changes no result, else from the index."""
    named = summary.get("variant") or job.get("variant")
    if not named and isinstance(job.get("overrides"), list):
        return without_seed(map(str, job["overrides"]))
    return without_seed(split_overrides(str(named or (job["name"] if "=" in job["name"] else DEFAULT))))


def _seed(job: dict[str, Any]) -> int | None:
    listed = job.get("overrides")
    values = dict(map(parse_override, map(str, listed) if isinstance(listed, list) else split_overrides(job["name"])))
    return int(values["seed"]) if values.get("seed", "").isdecimal() else None


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and abs(value) <= LARGEST else None
