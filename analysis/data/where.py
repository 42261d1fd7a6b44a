"""`--where`: the runs that meet conditions on the axes, the seed, the sweep, or any key of their configurations."""

from collections.abc import Iterable
from difflib import get_close_matches

import pandas as pd

from rlexp.analysis.data.configs import run_settings
from rlexp.analysis.data.design import axis_values, subset
from rlexp.analysis.data.errors import AnalysisError
from rlexp.analysis.data.load import SweepData
from rlexp.runfolder.variants import DEFAULT, number, parse_override, split_commas

MAX_LISTED = 12


def filter_runs(data: SweepData, conditions: Iterable[str]) -> SweepData:
    """The runs that meet every condition, each `axis=value,value` or `seed=0,1`. None left: AnalysisError.

    A key can be any of config.yaml, swept or not. An axis that a run does not name is `default`, or what its
    configuration says.
    """
    conditions = list(conditions)
    if not conditions:
        return data
    named = axis_values(data).assign(seed=data.runs["seed"].astype("string").fillna("").to_numpy())
    configured = _configured(data)
    keep = pd.Series(True, index=named.index)
    for condition in conditions:
        key, text = parse_override(condition)
        columns = [frame[key] for frame in (named, configured) if key in frame]
        if not columns or not text:
            raise AnalysisError(f"'{condition}' is no condition; {_keys(key, named, configured)}")
        wanted = split_commas(text)
        values = list(dict.fromkeys(value for column in columns for value in column.dropna()))
        present = set(map(_comparable, values))
        if unknown := [value for value in wanted if _comparable(value) not in present]:
            listed = "  ".join(values[:MAX_LISTED]) + ("  …" if len(values) > MAX_LISTED else "")
            raise AnalysisError(f"no run has {key}={unknown[0]}; choose from: {listed}")
        targets, (first, *others) = set(map(_comparable, wanted)), columns
        meets = first.map(_comparable).isin(targets)
        for other in others:  # counts where the first is `default`
            meets |= (first == DEFAULT) & other.map(_comparable).isin(targets)
        keep &= meets
    if not keep.any():
        raise AnalysisError(f"no run meets {' and '.join(conditions)}")
    remaining = subset(data, named.index[keep])
    varying = axis_values(remaining)
    return remaining._replace(axes=tuple(axis for axis in data.axes if varying[axis].nunique() > 1))


def _configured(data: SweepData) -> pd.DataFrame:
    """One row per run, a text column per key of the configurations. Runs of one variant and sweep share theirs."""
    first = data.runs.drop_duplicates(["sweep", "variant"])
    settings = {
        (sweep, variant): run_settings(folder)
        for sweep, variant, folder in zip(first["sweep"], first["variant"], first["folder"], strict=True)
    }
    rows = [settings[place] for place in zip(data.runs["sweep"], data.runs["variant"], strict=True)]
    frame = pd.DataFrame(rows, index=pd.Index(data.runs["name"], name="name"), dtype=object)
    return frame.drop(columns="seed", errors="ignore")


def _comparable(value: object) -> object:
    """Numbers compare as numbers: 1e-3 is 0.001."""
    return value if not isinstance(value, str) or number(value) is None else number(value)


def _keys(key: str, named: pd.DataFrame, configured: pd.DataFrame) -> str:
    """List the keys, or suggest the closest one."""
    close = get_close_matches(key, [*named, *configured], n=1)
    if close and close[0] != key:
        return f"did you mean {close[0]}?"
    return f"write axis=value,value with one of: {'  '.join(named)}, or a key of config.yaml"
