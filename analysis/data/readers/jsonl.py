"""JSON lines: verl's `{"step": 1, "data": {…}}`, prime-rl's `{"step": 1, "time": …, …}`, or a table of several runs.

verl: `FileLogger` in verl/utils/tracking.py (`trainer.logger=["file"]`). prime-rl: `FileMonitor` in
src/prime_rl/utils/monitor/file.py. A file is one run, with the name of the file, or of its folder where it is called
`metrics.jsonl`. A file whose rows name a run, an arm or a seed is a table of runs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import orjson

from rlexp.analysis.data.errors import AnalysisError
from rlexp.analysis.data.readers.files import run_name
from rlexp.analysis.data.readers.logs import STEP, Columns, LoggedRun, Logs
from rlexp.analysis.data.readers.rows import number_table
from rlexp.analysis.data.readers.tables import ARMS, GENERIC, RUNS, SEEDS, STEPS, split_runs
from rlexp.analysis.data.runs import Problem

TABLE = {*RUNS, *SEEDS, *ARMS}  # keys of rows that are of several runs


def read(files: Sequence[Path], root: Path, columns: Columns) -> Logs:
    """Runs of JSON-lines files.

    Raises:
        AnalysisError: A file has no line that is an object, or its rows no step.
    """
    runs, problems, tables = [], [], []
    for file in files:
        damaged: list[int] = []
        first = next(_objects(file, []), None)
        if first is None:
            raise AnalysisError(f"'{file}' has no line that is a JSON object")
        rows = _objects(file, damaged)
        if TABLE & {str(key).lower() for key in first}:
            import pandas as pd

            frame = pd.json_normalize(list(rows))
            tables.append(split_runs(frame, columns, "JSON lines", file, run_name(file, root, GENERIC)))
        else:
            runs.append(_run(rows, first, file, root, columns))
        if damaged:
            problems.append(_damage(file, damaged))
    if tables and (runs or len(tables) > 1):
        raise AnalysisError(f"'{root}' has JSON lines of several kinds; name one file")
    if tables:
        return tables[0]._replace(problems=problems)
    return Logs("JSON lines", runs, problems)


def _run(rows: Iterator[dict[str, Any]], first: dict[str, Any], file: Path, root: Path, columns: Columns) -> LoggedRun:
    if isinstance(first.get("data"), dict) and "step" in first:
        rows = (
            {**row["data"], STEP: row["step"]} for row in rows if isinstance(row.get("data"), dict) and "step" in row
        )
    table = number_table(rows)
    step = columns.step or next((name for name in STEPS if name in table), None)
    if step not in table:
        raise AnalysisError(f"'{file}' has rows without a step; name its key with --step")
    table[STEP] = table[step]
    return LoggedRun(run_name(file, root, GENERIC), table, {}, str(file.parent))


def _objects(file: Path, damaged: list[int]) -> Iterator[dict[str, Any]]:
    """The objects of a file; the numbers of lines that are none go to `damaged`."""
    try:
        with file.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if not line.strip():
                    continue
                value = _parsed(line)
                if isinstance(value, dict):
                    yield value
                else:
                    damaged.append(number)
    except OSError as error:
        raise AnalysisError(f"'{file}' cannot be read: {error.strerror or error}") from None


def _parsed(line: bytes) -> Any:
    try:
        return orjson.loads(line)
    except ValueError:
        pass
    try:
        return json.loads(line)  # takes NaN
    except (ValueError, RecursionError):
        return None


def _damage(file: Path, damaged: Sequence[int]) -> Problem:
    many = f"{len(damaged)} damaged lines, the first of them line {damaged[0]}"
    return Problem(file.name, f"{f'line {damaged[0]} is damaged' if len(damaged) == 1 else many}: skipped")
