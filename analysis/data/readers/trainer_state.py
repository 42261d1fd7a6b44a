"""`trainer_state.json` of Transformers' Trainer and of TRL: its `log_history` is a row a logged step.

The file in a checkpoint has the history up to there. Of a run that kept several the furthest counts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rlexp.analysis.data.errors import AnalysisError
from rlexp.analysis.data.readers.files import run_name
from rlexp.analysis.data.readers.logs import STEP, Columns, LoggedRun, Logs
from rlexp.analysis.data.readers.rows import number_table
from rlexp.analysis.data.runs import Problem

CHECKPOINT = re.compile(r"checkpoint-\d+")


def read(files: Sequence[Path], root: Path, columns: Columns) -> Logs:
    """Runs of trainer states, one per folder of a run.

    Raises:
        AnalysisError: The only file of a run is no trainer state.
    """
    runs: dict[Path, list[Path]] = {}
    for file in files:
        runs.setdefault(_run_folder(file), []).append(file)
    found, problems = [], []
    for folder, states in runs.items():
        read_states = {}
        for state in states:
            try:
                read_states[state] = _state(state)
            except AnalysisError as error:
                if len(files) == 1:
                    raise
                problems.append(Problem(state.relative_to(root).as_posix(), str(error).partition("' ")[2]))
        if not read_states:
            continue
        furthest = max(read_states, key=lambda state: read_states[state].get("global_step") or 0)
        history = read_states[furthest]["log_history"]
        rows = number_table(row for row in history if isinstance(row, dict))
        if STEP not in rows:
            problems.append(Problem(furthest.name, "has no logged step"))
            continue
        name = run_name(folder / furthest.name, root, ("trainer_state",))
        found.append(LoggedRun(name, rows, {}, str(folder)))
    return Logs("trainer_state.json", found, problems)


def _run_folder(file: Path) -> Path:
    return file.parent.parent if CHECKPOINT.fullmatch(file.parent.name) else file.parent


def _state(file: Path) -> dict[str, Any]:
    try:
        state = json.loads(file.read_text(encoding="utf-8", errors="replace"))
    except (OSError, ValueError, RecursionError):
        raise AnalysisError(f"'{file}' is damaged: no JSON") from None
    if not isinstance(state, dict) or not isinstance(state.get("log_history"), list):
        raise AnalysisError(f"'{file}' is no trainer state: it has no log_history")
    return state
