"""The rows of a run: which there must be, how many of them make a score, and which keys are the clock's."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

CLOCK = "time/"


def logged_steps(config: Mapping[str, Any], until: int) -> list[int]:
    """Return the steps up to ``until`` after which a run writes a row."""
    steps, often = config["steps"], (config["log_every"], config["eval"]["every"])
    return [step for step in range(until + 1) if step == steps or any(step % every == 0 for every in often)]


def step_in(line: bytes) -> int | None:
    """Return the step of a line; None for one that is cut or damaged."""
    try:
        number = json.loads(line)["step"] if line.endswith(b"\n") else None
    except (ValueError, RecursionError, KeyError, TypeError):
        return None
    return number if type(number) is int else None


def late_count(n: int, share: float) -> int:
    """How many of n evaluations are the last share of them: max(1, ⌈share · n⌉)."""
    return max(1, math.ceil(round(share * n, 9)))  # 0.07 · 100 is 7.000000000000001, but means 7


def score(rows: Sequence[Mapping[str, Any]], metric: str, share: float) -> float | None:
    """Mean of ``metric`` over the last max(1, ⌈share · n⌉) of the n rows that have it, rows before training included.

    None if no row has it, or if one of these values is missing or not finite: a score is never an average over fewer.
    """
    values = [row[metric] for row in rows if metric in row]
    late = values[-late_count(len(values), share) :]
    finite = all(value is not None and math.isfinite(value) for value in late)
    return fmean(late) if late and finite else None


def without_clock(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row without its times: what is the same whenever and wherever a run is trained."""
    return {key: value for key, value in row.items() if not key.startswith(CLOCK)}
