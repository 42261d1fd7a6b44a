"""Plain rows to tidy pandas tables."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd

from rlexp.analysis.data.read import LARGEST

Records = list[dict[str, Any]]
Columns = dict[str, np.ndarray]
IDENTITY = ("name", "variant")
TEXT_COLUMNS = ["name", "variant", "status", "reason", "sweep", "folder", "score_metric"]


def runs_frame(facts: Sequence[Mapping], choices: Sequence[Mapping[str, str]], keys: Iterable[str]) -> pd.DataFrame:
    """One row per run: its facts, then one column per override key that varies (numbers if all values are numbers)."""
    frame = pd.DataFrame(facts, dtype=object)  # text that is no UTF-8, as of a folder's name, is left alone
    frame[TEXT_COLUMNS] = frame[TEXT_COLUMNS].astype(object)
    frame["seed"] = pd.to_numeric(frame["seed"], errors="coerce").astype("Int64")
    frame["collapsed"] = frame["collapsed"].astype("boolean")
    for column in ("score", "completions", "tokens", "wall_time_s"):
        frame[column] = pd.to_numeric(frame[column], errors="coerce").astype(float)
    for key in keys:
        if key not in frame:
            column = pd.Series([choice.get(key) for choice in choices], dtype=object)
            with suppress(ValueError, TypeError):
                column = pd.to_numeric(column)
            frame[key] = column
    return frame


def run_columns(rows: Records) -> Columns:
    """Step and metrics of one run, each `[steps]`; after a resume the last row of a step counts. Null becomes NaN."""
    by_step = {}
    for row in rows:
        step = row.get("step")
        if isinstance(step, int | float) and abs(step) < 2**53:  # beyond it a float is no exact step
            by_step[int(step)] = row
    unique_rows = list(by_step.values())
    places_by_keys: dict[tuple[str, ...], list[int]] = {}  # rows with the same keys are converted at once
    for place, row in enumerate(unique_rows):
        places_by_keys.setdefault(tuple(row), []).append(place)
    columns = {key: np.full(len(unique_rows), np.nan) for key in dict.fromkeys(chain.from_iterable(places_by_keys))}
    for keys, places in places_by_keys.items():
        values = _floats([list(unique_rows[place].values()) for place in places])
        for column, key in enumerate(keys):
            columns[key][places] = values[:, column]
    for values in columns.values():
        values[~(np.abs(values) <= LARGEST)] = np.nan
    return columns | {"step": np.array(list(by_step), dtype=np.int64)}


def _floats(rows: list[list[Any]]) -> np.ndarray:
    try:
        values = np.array(rows, dtype=float)
    except (ValueError, TypeError, OverflowError):
        values = np.empty(0)
    return values if values.ndim == 2 else np.array([[_float(value) for value in row] for row in rows])


def _float(value: Any) -> float:
    try:
        return float(value)
    except (ValueError, TypeError, OverflowError):
        return np.nan


def metrics_frame(facts: Sequence[Mapping[str, Any]], columns: Sequence[Columns]) -> pd.DataFrame:
    """One row per run and step, from the facts and the columns of each run."""
    counts = [part["step"].size for part in columns]
    seeds = pd.array([fact["seed"] if isinstance(fact["seed"], int) else None for fact in facts], dtype="Int64")
    identity = {key: np.repeat(np.array([fact[key] for fact in facts], dtype=object), counts) for key in IDENTITY}
    metrics = [key for key in dict.fromkeys(chain.from_iterable(columns)) if key not in (*IDENTITY, "seed", "step")]
    values = {
        key: np.concatenate([part[key] if key in part else np.full(part["step"].size, np.nan) for part in columns])
        for key in ("step", *metrics)
    }
    return pd.DataFrame({**identity, "seed": seeds.repeat(counts), **values})
