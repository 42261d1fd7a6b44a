"""Which runs are compared, and as what: each function takes what a sweep left behind and returns a part of it.

A run has a value on every axis that varies ("default" where it does not name the axis). Runs that agree on the axes of
the comparison form an arm; the other axes are strata (compared apart) or cells (averaged per seed). "sweep", the folder
of a run, can be used as an axis.
"""

from collections.abc import Iterable, Mapping, Sequence

import pandas as pd

from analysis.direction import sign
from analysis.load import Data
from analysis.measure import Measured
from analysis.read import AnalysisError
from analysis.variants import DEFAULT, key_value, pieces, short_labels, split

SEED, SWEEP = "seed", "sweep"


def axis_values(data: Data) -> pd.DataFrame:
    """One row per run (index: its name), a text column per axis and "sweep"; "default" where a run names no value."""
    settings = data.runs.get("setting", data.runs["variant"])
    choices = [dict(map(key_value, split(setting))) for setting in settings]
    columns = {axis: [choice.get(axis, DEFAULT) for choice in choices] for axis in data.axes}
    columns[SWEEP] = data.runs[SWEEP].tolist()
    return pd.DataFrame(columns, index=pd.Index(data.runs["name"], name="name"), dtype=object)


def known_axes(data: Data, names: Iterable[str]) -> tuple[str, ...]:
    """The names, each once; one that does not vary is an AnalysisError."""
    names = tuple(dict.fromkeys(names))
    for name in names:
        if name not in (*data.axes, SWEEP):
            listed = "  ".join(data.axes) or "nothing"
            raise AnalysisError(f"'{name}' does not vary in these runs; what varies: {listed}")
    return names


def subset(data: Data, names: Iterable[str], keep_variants: bool = False) -> Data:
    """The runs with these names, and the variants that they have (or all of them)."""
    names = set(names)
    runs = data.runs[data.runs["name"].isin(names)].reset_index(drop=True)
    left = set(runs["variant"])
    variants = data.variants if keep_variants else [variant for variant in data.variants if variant in left]
    metrics = data.metrics[data.metrics["name"].isin(names)].reset_index(drop=True)
    labels = {variant: data.labels[variant] for variant in variants}
    return data._replace(runs=runs, metrics=metrics, variants=variants, labels=labels)


def where(data: Data, conditions: Iterable[str]) -> Data:
    """The runs that meet every condition, each `axis=value,value` or `seed=0,1`. None left: AnalysisError."""
    conditions = list(conditions)
    if not conditions:
        return data
    values = axis_values(data).assign(seed=data.runs["seed"].astype("string").fillna("").to_numpy())
    kept = pd.Series(True, index=values.index)
    for condition in conditions:
        axis, wanted = key_value(condition)
        if axis not in values or not wanted:
            listed = "  ".join(values.columns)
            raise AnalysisError(f"'{condition}' is no condition; write axis=value,value with one of: {listed}")
        known = {_comparable(text) for text in values[axis]}
        if unknown := [text for text in pieces(wanted) if _comparable(text) not in known]:
            listed = "  ".join(dict.fromkeys(values[axis]))
            raise AnalysisError(f"no run has {axis}={unknown[0]}; choose from: {listed}")
        kept &= values[axis].map(_comparable).isin([_comparable(text) for text in pieces(wanted)])
    if not kept.any():
        raise AnalysisError(f"no run meets {' and '.join(conditions)}")
    left = subset(data, values.index[kept])
    varying = axis_values(left)
    return left._replace(axes=tuple(axis for axis in data.axes if varying[axis].nunique() > 1))


def _comparable(text: str) -> str | float:
    """Numbers compare as numbers: 1e-3 is 0.001."""
    try:
        return float(text)
    except ValueError:
        return text


def regroup(data: Data, by: Sequence[str], within: Sequence[str] = ()) -> Data:
    """The same runs, whose variant is now their values on the axes `by`; the column `cell` has those on the other axes.

    The axes `within` are left out of both. What the variant was is kept in the column `setting`.
    """
    values = axis_values(data)
    arms = [_named(row, by) for row in values.to_dict("records")]
    cell_axes = [axis for axis in data.axes if axis not in by and axis not in within]
    cells = [",".join(f"{axis}={row[axis]}" for axis in cell_axes) for row in values.to_dict("records")]
    overrides = {arm: split(arm) for arm in dict.fromkeys(arms)}
    header, labels = short_labels(overrides)
    names = dict(zip(data.runs["name"], arms, strict=True))
    return data._replace(
        runs=data.runs.assign(
            variant=pd.Series(arms, dtype=object),
            cell=pd.Series(cells, dtype=object),
            setting=data.runs.get("setting", data.runs["variant"]),
        ),
        metrics=data.metrics.assign(variant=data.metrics["name"].map(names).astype(object)),
        variants=list(overrides),
        labels=labels,
        axis=header,
    )


def _named(row: Mapping[str, str], by: Sequence[str]) -> str:
    return ",".join(f"{axis}={row[axis]}" for axis in by if row[axis] != DEFAULT) or DEFAULT


def strata(data: Data, within: Sequence[str]) -> dict[str, Data]:
    """The runs of each combination of values on the axes `within`, by its name; all of them if there are no axes.

    Every part keeps all variants, so that the parts can be compared with each other, and is scored by its own metric.
    """
    if not within:
        return {"": data}
    values = axis_values(data)
    names = pd.Series([",".join(f"{axis}={row[axis]}" for axis in within) for row in values.to_dict("records")])
    parts = {
        stratum: subset(data, data.runs.loc[(names == stratum).to_numpy(), "name"], keep_variants=True)
        for stratum in dict.fromkeys(names)
    }
    return {stratum: part._replace(score_metric=_scored_by(part)) for stratum, part in parts.items()}


def _scored_by(data: Data) -> str | None:
    """The metric of most scores; that of all runs if there is none."""
    used = data.runs.loc[data.runs["score"].notna(), "score_metric"].dropna()
    return used.mode()[0] if len(used) else data.score_metric


def balanced(data: Data) -> tuple[Data, list[str]]:
    """The runs in cells that every variant has, so that averages over cells compare like with like; and what was cut.

    No such cell: AnalysisError.
    """
    if "cell" not in data.runs:
        return data, []
    cells = data.runs.groupby("variant", sort=False)["cell"].agg(dict.fromkeys)
    common = [cell for cell in cells.iloc[0] if all(cell in others for others in cells)]
    if not common:
        raise AnalysisError(f"no cell has all of {'  '.join(data.labels.values())}; choose with --where or --by")
    out = [cell for cell in dict.fromkeys(data.runs["cell"]) if cell not in common]
    averaged = [f"averaged per seed over {'; '.join(common)}."] if len(common) > 1 else []
    if not out:
        return data, averaged
    names = data.runs.loc[data.runs["cell"].isin(common), "name"]
    return subset(data, names, keep_variants=True), [*averaged, f"not in every arm, left out: {'; '.join(out)}."]


def best_of(
    data: Data, grid: Sequence[str], measured: Measured, seeds: Sequence[int] | None = None
) -> tuple[Data, list[str]]:
    """Each variant at the best point of its own grid, chosen on some seeds, with the runs of the other seeds; how.

    Best is the highest mean (the lowest, where lower is better) among the points at which most runs have a number.
    Seeds to choose on: the lower half unless they are named. No seed left to report, no end that is better:
    AnalysisError.
    """
    if measured.better is None:
        raise AnalysisError(f"no point is best by {measured.metric}: whether more of it is better is not known")
    known = sorted(int(seed) for seed in data.runs["seed"].dropna().unique())
    seeds = known[: len(known) // 2] if seeds is None else sorted(set(seeds) & set(known))
    left = [seed for seed in known if seed not in seeds]
    if not seeds or not left:
        raise AnalysisError(f"a best point needs seeds to be chosen on and others to be reported on; there are {known}")
    points = axis_values(data)
    runs = data.runs.assign(point=[_point(row, grid) for row in points.to_dict("records")])
    runs["value"] = sign(measured.better) * runs["name"].map(measured.values).where(runs["status"] == "completed")
    kept, lines = [], []
    for variant in data.variants:
        own = runs[runs["variant"] == variant]
        choice = own[own["seed"].isin(seeds)].groupby("point", sort=False)["value"].agg(["count", "mean"])
        if choice["count"].sum() == 0:
            continue
        best = choice[choice["count"] == choice["count"].max()]["mean"].idxmax()
        kept += own.loc[(own["point"] == best) & own["seed"].isin(left), "name"].tolist()
        lines.append(f"{data.labels[variant]} {best} (of {len(choice)}{_edge(best, choice.index)})")
    told = f"best of {','.join(grid)} by the mean over seeds {_span(seeds)}, reported on seeds {_span(left)}: "
    return subset(data, kept, keep_variants=True), [told + ", ".join(lines) + "."]


def _point(row: Mapping[str, str], grid: Sequence[str]) -> str:
    return ",".join(f"{axis}={row[axis]}" for axis in grid)


def _edge(best: str, points: Iterable[str]) -> str:
    """A best point at the end of its grid may not be the best there is."""
    numbers = [_comparable(point.rpartition("=")[2]) for point in points if point.count("=") == 1]
    if len(numbers) < 2 or not all(isinstance(number, float) for number in numbers):
        return ""
    return ", at the edge of its grid" if _comparable(best.rpartition("=")[2]) in (min(numbers), max(numbers)) else ""


def _span(seeds: Sequence[int]) -> str:
    whole = len(seeds) > 2 and seeds[-1] - seeds[0] == len(seeds) - 1
    return f"{seeds[0]} to {seeds[-1]}" if whole else ", ".join(map(str, seeds))
