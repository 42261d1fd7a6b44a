"""Trackio projects: SQLite files as `~/.cache/huggingface/trackio/<project>.db`, read without Trackio."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import orjson

from rlexp.analysis.data.errors import AnalysisError, printable
from rlexp.analysis.data.readers.logs import STEP, Columns, LoggedRun, Logs, flat_config
from rlexp.analysis.data.readers.rows import number_table
from rlexp.analysis.data.runs import Problem


def read(files: Sequence[Path], root: Path, columns: Columns) -> Logs:
    """Runs of Trackio's databases.

    Raises:
        AnalysisError: A file is no such database, or has no run.
    """
    runs, problems = [], []
    for file in files:
        try:
            with closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True)) as database:
                found = list(_runs(database, file, problems))
        except sqlite3.Error as error:
            raise AnalysisError(f"'{file}' is no Trackio project: {error}") from None
        for run in found:
            config = {"project": file.stem, **run.config} if len(files) > 1 else run.config
            runs.append(run._replace(config=config))
    if not runs:
        raise AnalysisError(f"'{root}' has no run")
    return Logs("Trackio", runs, problems)


def _runs(database: sqlite3.Connection, file: Path, problems: list[Problem]) -> Iterator[LoggedRun]:
    tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if "metrics" not in tables:
        raise AnalysisError(f"'{file}' is no Trackio project: it has no table metrics")
    columns = {row[1] for row in database.execute("PRAGMA table_info(metrics)")}
    if not {"run_name", "step", "metrics"} <= columns:
        raise AnalysisError(f"'{file}' is no Trackio project: its table metrics has other columns")
    key = "run_id" if "run_id" in columns else "run_name"  # of before runs had ids
    configs = _configs(database, tables)
    listed = f"SELECT {key}, run_name, MIN(rowid) FROM metrics GROUP BY {key} ORDER BY MIN(rowid)"
    for run, name, _ in database.execute(listed).fetchall():
        damaged: list[int] = []
        rows = number_table(_rows(database, key, run, damaged))
        if damaged:
            problems.append(Problem(printable(name), f"{len(damaged)} damaged rows skipped"))
        if len(rows):
            yield LoggedRun(printable(name), rows, configs.get(run, configs.get(name, {})), f"{file}/{name}")


def _rows(database: sqlite3.Connection, key: str, run: str, damaged: list[int]) -> Iterator[dict[str, Any]]:
    query = f"SELECT step, metrics FROM metrics WHERE {key} = ? ORDER BY rowid"
    for step, text in database.execute(query, (run,)):
        try:
            row = orjson.loads(text)
        except ValueError:
            row = None
        if isinstance(row, dict):
            yield {**row, STEP: step}
        else:
            damaged.append(step)


def _configs(database: sqlite3.Connection, tables: set[str]) -> dict[str, dict[str, str]]:
    """The configuration of each run, by its id and by its name; Trackio's own keys are left out."""
    if "configs" not in tables:
        return {}
    columns = [row[1] for row in database.execute("PRAGMA table_info(configs)")]
    found = {}
    for row in database.execute("SELECT * FROM configs"):
        facts = dict(zip(columns, row, strict=True))
        try:
            config = orjson.loads(facts["config"])
        except (KeyError, TypeError, ValueError):
            continue
        if isinstance(config, dict):
            flat = flat_config({key: value for key, value in config.items() if not str(key).startswith("_")})
            found |= {facts[key]: flat for key in ("run_name", "run_id") if facts.get(key)}
    return found
