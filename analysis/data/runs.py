"""One sweep's folder: which runs it holds, and what each of them says of itself. Nothing here raises for damage."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterable, Mapping
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rlexp.analysis.data import read
from rlexp.analysis.data.errors import AnalysisError
from rlexp.runfolder.files import ELIMINATED, INDEX_FILE, METRICS_FILE, MULTIRUN_FILE, SUMMARY_FILE, leads_out
from rlexp.runfolder.variants import DEFAULT, parse_override, split_overrides, without_seed

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

SETTINGS = ("MKL_CBWR", "ATEN_CPU_CAPABILITY", "MKL_ENABLE_INSTRUCTIONS")
SHORT = 8  # characters of a hash
UNKNOWN = "unknown"  # code of steps of which code.jsonl was lost


def code_facts(summary: Mapping[str, Any]) -> dict[str, str | None]:
    """`code`: the hash of the package's files, those of a run that other code went on with joined by "+"; `commit`.

    A commit ends in "+" where the files were not as committed. `machine`: what else the bits depend on, as
    `Intel … AVX2, MKL_CBWR=AUTO,STRICT`. None where the summary does not say; "unknown" where it says of later steps
    only.
    """
    listed = summary.get("code")
    entries = [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
    hashes = [UNKNOWN] if entries and entries[0].get("step", 0) != 0 else []
    commits, machines = [], []
    for entry in entries:
        hashes.append(str(entry.get("files"))[:SHORT])
        if entry.get("commit"):
            commits.append(str(entry["commit"])[:SHORT] + "+" * bool(entry.get("dirty")))
        if entry.get("cpu"):
            processor = " ".join(str(entry.get(key) or "") for key in ("cpu", "vectors"))
            machines.append(", ".join([processor, *(f"{key}={entry[key]}" for key in SETTINGS if entry.get(key))]))
    return {
        "code": "+".join(files for files, _ in groupby(hashes)) or None,
        "commit": ", ".join(commits) or None,
        "machine": ", then ".join(dict.fromkeys(machines)) or None,
    }


def origin_note(runs: pd.DataFrame) -> str:
    """Say that completed runs were trained by different code or machines; "" if they were not, or do not say."""
    notes, completed = [], runs[runs["status"] == "completed"]
    known = completed[completed["code"].notna()]
    if known["code"].nunique() > 1 or known["code"].str.contains("+", regex=False).any():
        texts = []
        for code, n, commit in known.groupby("code", sort=False)["commit"].agg(["size", "first"]).itertuples():
            files = f"files {code.replace('+', ', then ')}"
            named = f"commit {commit} ({files})" if isinstance(commit, str) else files
            texts.append(f"{named}: {n} run{'s' * (n > 1)}")
        diff = "Each summary.json has the diff to its commit."
        notes.append(f"The runs were trained by different code: {'; '.join(texts)}. {diff}")
    known = completed["machine"].dropna()
    if known.nunique() > 1 or known.str.contains(", then ", regex=False).any():
        texts = [f"{machine}: {n} run{'s' * (n > 1)}" for machine, n in known.groupby(known, sort=False).size().items()]
        notes.append(f"The runs were trained on different machines, so their bits may differ: {'; '.join(texts)}.")
    return " ".join(notes)


RUN_COLUMNS = ["name", "variant", "seed", "status", "reason", "score", "collapsed"]
RUN_COLUMNS += ["completions", "tokens", "wall_time_s", "sweep", "folder", "score_metric"]
RUN_COLUMNS += ["config", "code", "commit", "machine"]
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
    start: int | None = None
    """`start.seed`, where it was named."""


def find_jobs(folder: Path, problems: list[Problem]) -> list[dict[str, Any]]:
    """The jobs of the index and the runs found by looking, each with its folder's name. None: AnalysisError.

    What a race left out is no run.
    """
    if not folder.is_dir():
        raise AnalysisError(f"'{folder}' is not a folder")
    jobs = _indexed_jobs(folder, problems)
    jobs = [job for job in jobs if job.get("status") != ELIMINATED or (folder / job["name"]).exists()]
    listed = {job["name"] for job in jobs}
    jobs += _found_jobs(folder, listed)
    outside = [job["name"] for job in jobs if leads_out(folder / job["name"], folder)]
    problems += [
        Problem(read.printable(name), "lies outside of the folder that was named: not read") for name in outside
    ]
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
        if b"FusedLauncher" in read.content(folder / MULTIRUN_FILE):  # a launcher that keeps an index
            problems.append(Problem(INDEX_FILE, "is missing: its runs are found by looking"))
        return []
    rows, wrong = read.read_index(index)
    if wrong:
        problems.append(Problem(INDEX_FILE, wrong))
    jobs = {
        str(row["name"]): read.printable_values(row) for row in rows if row.get("name") and "\0" not in str(row["name"])
    }
    written = [path.stat().st_mtime for path in (index, *folder.glob(f"*/{METRICS_FILE}"))]
    is_alive = time.time() - max(written) < 60 * SILENT_MINUTES
    stopped = {} if is_alive else {"status": "interrupted", "reason": "it wrote nothing for a while"}
    return [{**job, **(stopped if job.get("status") == "running" else {}), "name": name} for name, job in jobs.items()]


def _found_jobs(folder: Path, listed: Collection[str]) -> list[dict[str, Any]]:
    """Runs found by looking, without those listed: the folder itself if it is a run, else its sub folders.

    By Hydra's job numbers.
    """
    names = ["."] if _is_run(folder) else [path.name for path in folder.iterdir() if path.is_dir() and _is_run(path)]
    paths = [folder / name for name in names if name not in listed]
    jobs = []
    for path in sorted(paths, key=lambda path: (_job_number(path), path.name)):
        job = {"name": "." if path == folder else path.name}
        overrides = read.read_yaml(path / ".hydra/overrides.yaml")
        jobs.append({**job, "overrides": [str(item) for item in overrides]} if isinstance(overrides, list) else job)
    return jobs


def unlisted_runs(folder: Path) -> list[str]:
    """Runs in the folder that the last command of the sweep did not list; none where there is no index."""
    listed = {job["name"] for job in _indexed_jobs(folder, [])}
    return [job["name"] for job in _found_jobs(folder, listed)] if listed else []


def _is_run(path: Path) -> bool:
    return any(os.path.exists(path / name) for name in (SUMMARY_FILE, METRICS_FILE, ".hydra/overrides.yaml"))


def _job_number(path: Path) -> int:
    config = read.read_yaml(path / ".hydra/hydra.yaml") or {}
    try:
        return int(config["hydra"]["job"]["num"])
    except (KeyError, TypeError, ValueError):
        return 0


def read_run(folder: Path, job: dict[str, Any], metrics: set[str] | None, problems: list[Problem]) -> RunRecord:
    """One run; what is wrong with it is appended to `problems`."""
    from rlexp.analysis.data.frames import run_columns

    path = folder / job["name"]
    summary, no_summary = read.read_object(path / SUMMARY_FILE)
    damage = read.summary_damage(path / SUMMARY_FILE, summary)
    summary = {} if damage else summary
    config = None if damage or "files" in summary else read.read_config(path)  # says which rows there must be
    damage = damage or read.run_damage(path, summary, config)
    score_metric = _text(summary.get("score_metric"))
    containing = () if metrics is None or not score_metric else {*metrics, score_metric}
    rows, wrong_rows = read.read_lines(path / METRICS_FILE, containing)
    columns = run_columns([] if damage else rows)
    status, reason = ("damaged", damage) if damage else _status(job, summary, no_summary)
    if status == "running":
        reason = f"at step {columns['step'][-1]}" if len(columns["step"]) else "not started"
    overrides, seed = _overrides_and_seed(job, summary)
    written_score, collapsed = summary.get("score"), summary.get("collapsed")
    score, no_score = _number(written_score) if status == "completed" else None, None
    if status == "completed" and score is None:
        huge = isinstance(written_score, int | float) and abs(written_score) > read.LARGEST
        no_score = "completed, but its score is too large to be one" if huge else "completed, but has no score"
    complaints = [
        f"{status}: {reason}" if reason else status if status != "completed" else None,
        no_score,
        wrong_rows if not damage and (summary or rows) else None,
    ]
    problems += [Problem(read.printable(path.resolve().name), complaint) for complaint in complaints if complaint]
    facts = dict.fromkeys(RUN_COLUMNS) | {key: _number(summary.get(key)) for key in NUMBERS}
    facts |= {"variant": _text(summary.get("variant") or job.get("variant")) or ",".join(overrides) or DEFAULT}
    facts |= {"seed": seed, "status": status, "reason": reason, "score": score, "score_metric": score_metric}
    facts |= {"name": read.printable(job["name"]), "folder": str(path), **code_facts(summary)}
    facts |= {"collapsed": collapsed if isinstance(collapsed, bool) else None}
    identity = summary.get("identity")
    facts["config"] = _text(identity.get("config")) if isinstance(identity, dict) else None
    versions = summary.get("versions")
    start = start_of(job.get("overrides") or (), job["name"])
    known = [key for key in ("rlexp", "torch") if key in versions] if isinstance(versions, dict) else []
    return RunRecord(facts, overrides, " ".join(f"{key} {versions[key]}" for key in known) or None, columns, start)


def _text(value: Any) -> str | None:
    return None if value in (None, "") else str(value)


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and abs(value) <= read.LARGEST else None


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


def start_of(overrides: Iterable[str], name: str) -> int | None:
    """Return the start that a run's overrides, or its name, choose; None where they do not."""
    named = dict(map(parse_override, (*overrides, *split_overrides(name))))
    value = named.get("start.seed", "")
    return int(value) if value.isdecimal() else None
