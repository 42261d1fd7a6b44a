"""Plain rows to tidy pandas tables."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd

Rows = list[dict[str, Any]]
TEXT_COLUMNS = ["name", "variant", "status", "reason"]


def runs_frame(facts: Sequence[Mapping], choices: Sequence[Mapping[str, str]], keys: Iterable[str]) -> pd.DataFrame:
    """One row per run: its facts, then one column per override key that varies (numbers where all values are numbers)."""
    frame = pd.DataFrame(facts)
    frame[TEXT_COLUMNS] = frame[TEXT_COLUMNS].astype(object)
    frame["seed"] = pd.to_numeric(frame["seed"], errors="coerce").astype("Int64")
    frame["collapsed"] = frame["collapsed"].astype("boolean")
    for column in ("score", "completions", "tokens", "wall_time_s"):
        frame[column] = pd.to_numeric(frame[column], errors="coerce").astype(float)
    for key in keys:
        if key not in frame:
            frame[key] = _numbers_if_possible([choice.get(key) for choice in choices])
    return frame


def _numbers_if_possible(values: list[str | None]) -> pd.Series:
    column = pd.Series(values, dtype=object)
    try:
        return pd.to_numeric(column)
    except (ValueError, TypeError):
        return column


def metrics_frame(tables: Sequence[tuple[Mapping[str, Any], Rows]]) -> pd.DataFrame:
    """One row per run and step from (facts, rows) of each run; after a resume the last row of a step counts."""
    parts = [(facts, _last_per_step(rows)) for facts, rows in tables]
    metrics = dict.fromkeys(chain.from_iterable(chain.from_iterable(rows for _, rows in parts)))
    counts = [len(rows) for _, rows in parts]
    identity = {key: np.repeat(_objects(facts[key] for facts, _ in parts), counts) for key in ("name", "variant")}
    seeds = pd.array([_seed(facts["seed"]) for facts, _ in parts], dtype="Int64").repeat(counts)
    steps = np.array([row["step"] for _, rows in parts for row in rows], dtype=np.int64)
    values = {key: _column(parts, key) for key in metrics if key not in (*identity, "seed", "step")}
    return pd.DataFrame({**identity, "seed": seeds, "step": steps, **values})


def _objects(values: Iterable[Any]) -> np.ndarray:
    return np.array(list(values), dtype=object)


def _seed(value: Any) -> Any:
    return value if isinstance(value, int) else pd.NA


def _last_per_step(rows: Rows) -> Rows:
    """Rows that carry a step, in order; of rows with the same step the last."""
    by_step = {row["step"]: row for row in rows if isinstance(row.get("step"), int | float)}
    return list(by_step.values())


def _column(parts: Sequence[tuple[Mapping[str, Any], Rows]], key: str) -> np.ndarray:
    return np.concatenate([_floats([row.get(key) for row in rows]) for _, rows in parts])


def _floats(values: list[Any]) -> np.ndarray:
    try:
        return np.array(values, dtype=float)  # None becomes NaN
    except (ValueError, TypeError):
        return pd.to_numeric(pd.Series(values, dtype=object), errors="coerce").to_numpy(dtype=float)
