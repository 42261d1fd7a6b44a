"""Whether the rows of a run are those that its config asks for, where nothing else says how many there must be."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlexp.runfolder.files import METRICS_FILE, SAMPLES_FILE, Damaged, content
from rlexp.runfolder.rows import logged_steps, step_in


def rows_problem(folder: Path, config: Mapping[str, Any], until: int) -> Damaged | None:
    """Return what is wrong with the rows of a run up to a step, by its config: damage, gaps, doubles, disorder."""
    lines = (content(folder / METRICS_FILE) or b"").splitlines(keepends=True)
    steps = [step_in(line) for line in lines]
    there = [step for step in steps if step is not None and step <= until]
    damaged = None in steps[: len(there)]
    try:
        complete = there == logged_steps(config, until)
    except (KeyError, TypeError, ZeroDivisionError):
        complete = bool(there)
    if damaged or not complete:
        return Damaged(folder / METRICS_FILE, f"lacks rows, or has too many, up to step {until}")
    try:
        for line in (content(folder / SAMPLES_FILE) or b"").splitlines():
            json.loads(line)["step"]
    except (ValueError, RecursionError, KeyError, TypeError):
        return Damaged(folder / SAMPLES_FILE)
    return None
