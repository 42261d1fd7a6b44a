"""Select and group the runs of a comparison: each function takes the data of a sweep and returns a part of it.

A run has a value on every axis that varies ("default" where it does not name the axis). Runs that agree on the axes of
the comparison form an arm; the other axes are strata (compared apart) or cells (averaged per seed). "sweep", the folder
of a run, can be used as an axis.
"""

from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from math import inf

import pandas as pd

from rlexp.analysis.data.errors import AnalysisError, NothingLeft
from rlexp.analysis.data.load import SweepData
from rlexp.analysis.data.metric_spec import direction_sign
from rlexp.analysis.data.run_values import RunValues, values_per_run
from rlexp.analysis.data.variants import arm_name, in_order, run_settings, stratum_name
from rlexp.runfolder.variants import DEFAULT, number, parse_override, short_labels, split_commas, split_overrides

SWEEP = "sweep"
Read = Callable[[SweepData], RunValues]


def axis_values(data: SweepData) -> pd.DataFrame:
    """One row per run (index: its name), a text column per axis and "sweep"; "default" where a run names no value."""
    settings = data.runs.get("setting", data.runs["variant"])
    choices = [dict(map(parse_override, split_overrides(setting))) for setting in settings]
    columns = {axis: [choice.get(axis, DEFAULT) for choice in choices] for axis in data.axes}
    columns[SWEEP] = data.runs[SWEEP].tolist()
    return pd.DataFrame(columns, index=pd.Index(data.runs["name"], name="name"), dtype=object)


def check_axes(data: SweepData, names: Iterable[str]) -> tuple[str, ...]:
    """The names, each once; one that does not vary is an AnalysisError."""
    names = tuple(dict.fromkeys(names))
    for name in names:
        if name not in (*data.axes, SWEEP):
            listed = "  ".join(data.axes) or "nothing"
            raise AnalysisError(f"'{name}' does not vary in these runs; what varies: {listed}")
    return names


def subset(data: SweepData, names: Iterable[str], keep_variants: bool = False) -> SweepData:
    """The runs with these names, and the variants that they have (or all of them)."""
    names = set(names)
    runs = data.runs[data.runs["name"].isin(names)].reset_index(drop=True)
    remaining = set(runs["variant"])
    variants = data.variants if keep_variants else [variant for variant in data.variants if variant in remaining]
    metrics = data.metrics[data.metrics["name"].isin(names)].reset_index(drop=True)
    labels = {variant: data.labels[variant] for variant in variants}
    return data._replace(runs=runs, metrics=metrics, variants=variants, labels=labels)


def regroup(data: SweepData, by: Sequence[str], within: Sequence[str] = ()) -> SweepData:
    """Make the values on the axes `by` the variants of the runs; the column `cell` has those on the other axes.

    The axes `within` are left out of both. What the variant was is kept in the column `setting`.
    """
    values = axis_values(data)
    arms = [arm_name(row, by) for row in values.to_dict("records")]
    cell_axes = [axis for axis in data.axes if axis not in by and axis not in within]
    cells = pd.Series([stratum_name(row, cell_axes) for row in values.to_dict("records")], dtype=object)
    setting = data.runs.get("setting", data.runs["variant"])
    return rename_variants(data._replace(runs=data.runs.assign(cell=cells, setting=setting)), arms, in_order(arms))


def rename_variants(data: SweepData, variants: Sequence[str], order: Sequence[str]) -> SweepData:
    """The data with another variant of each run; order: of the variants, each once."""
    axis, labels = short_labels({variant: split_overrides(variant) for variant in order})
    runs = data.runs.assign(variant=pd.Series(variants, dtype=object))
    names = dict(zip(runs["name"], runs["variant"], strict=True))
    metrics = data.metrics.assign(variant=data.metrics["name"].map(names).astype(object))
    return data._replace(runs=runs, metrics=metrics, variants=list(order), labels=labels, axis=axis)


def split_strata(data: SweepData, within: Sequence[str]) -> dict[str, SweepData]:
    """The runs of each combination of values on the axes `within`, by its name; all of them if there are no axes.

    Every part keeps all variants, so that the parts can be compared with each other, and is scored by its own metric.
    """
    if not within:
        return {"": data}
    values = axis_values(data)
    names = pd.Series([stratum_name(row, within) for row in values.to_dict("records")])
    parts = {
        stratum: subset(data, data.runs.loc[(names == stratum).to_numpy(), "name"], keep_variants=True)
        for stratum in dict.fromkeys(names)
    }
    for stratum, part in parts.items():
        used = part.runs.loc[part.runs["score"].notna(), "score_metric"].dropna()
        parts[stratum] = part._replace(score_metric=used.mode()[0] if len(used) else part.score_metric)
    return parts


def balance_cells(data: SweepData) -> tuple[SweepData, list[str]]:
    """The runs in cells that every variant has, so that averages over cells compare like with like; and what was cut.

    No such cell: AnalysisError.
    """
    if "cell" not in data.runs:
        return data, []
    cells = data.runs.groupby("variant", sort=False)["cell"].agg(dict.fromkeys)
    common = [cell for cell in cells.iloc[0] if all(cell in others for others in cells)]
    if not common:
        raise AnalysisError(f"no cell has all of {'  '.join(data.labels.values())}; choose with --where or --by")
    missing = [cell for cell in dict.fromkeys(data.runs["cell"]) if cell not in common]
    averaged = [f"Averaged per seed over {'; '.join(common)}."] if len(common) > 1 else []
    if not missing:
        return data, averaged
    names = data.runs.loc[data.runs["cell"].isin(common), "name"]
    left_out = f"Left out, as not every arm has it: {'; '.join(missing)}."
    return subset(data, names, keep_variants=True), [*averaged, left_out]


def select_best(
    data: SweepData, grid: Sequence[str], read: Read = values_per_run, seeds: Sequence[int] | None = None
) -> tuple[SweepData, list[str]]:
    """Each variant at the best point of its own grid, chosen on some seeds, with the runs of the other seeds; how.

    read: the number of each run, its score unless given.
    Seeds to choose on: the lower half unless they are named. No seed left to report, no end that is better:
    AnalysisError.
    """
    present = sorted(int(seed) for seed in data.runs["seed"].dropna().unique())
    choose = present[: len(present) // 2] if seeds is None else sorted(set(seeds) & set(present))
    report = [seed for seed in present if seed not in choose]
    if not choose or not report:
        reason = "a best point needs seeds to be chosen on and others to be reported on"
        raise AnalysisError(f"{reason}; there are {present}")
    runs = _with_points(data, grid)
    names, choices = [], []
    for variant, best in best_points(data, grid, read, choose).items():
        of_best = (runs["variant"] == variant) & (runs["point"] == best)
        names += runs.loc[of_best & runs["seed"].isin(report), "name"].tolist()
        tried = runs.loc[(runs["variant"] == variant) & runs["seed"].isin(choose), "point"].unique()
        numbers = [number(point.rpartition("=")[2]) for point in tried if point.count("=") == 1]
        known = len(numbers) > 1 and None not in numbers  # a best point at the end of its grid may not be the best
        at_end = known and number(best.rpartition("=")[2]) in (min(numbers), max(numbers))
        edge = ", at the edge of its grid" if at_end else ""
        choices.append(f"{data.labels[variant]} {best} (of {len(tried)}{edge})")
    rule = (
        f"Each arm has the best point of {','.join(grid)} by its mean over seeds {_listed(choose)}, and is compared on "
        f"seeds {_listed(report)}: "
    )
    return subset(data, names, keep_variants=True), [rule + ", ".join(choices) + "."]


def best_runs(data: SweepData, grid: Sequence[str], read: Read, choose: Sequence[int]) -> list[str]:
    """The runs on these seeds, by name, that are at the best point of their variant."""
    runs = _with_points(data, grid)
    best = best_points(data, grid, read, choose)
    chosen = runs["seed"].isin(choose) & (runs["point"] == runs["variant"].map(best))
    return runs.loc[chosen, "name"].tolist()


def best_points(data: SweepData, grid: Sequence[str], read: Read, choose: Sequence[int]) -> dict[str, str]:
    """The best point of each variant, by the runs on the seeds that choose and no others.

    Best is the highest mean (the lowest, where lower is better) among the points at which most runs have a number. A
    variant that has none anywhere, as it never reaches what is matched, has its best point by the score. No end that is
    better: AnalysisError.
    """
    choosing = subset(data, data.runs.loc[data.runs["seed"].isin(choose), "name"], keep_variants=True)
    runs, best = _with_points(choosing, grid), {}
    for each in (read, values_per_run):
        try:
            found = each(choosing)
        except NothingLeft:
            continue
        if found.better is None:
            raise AnalysisError(f"no point is best by {found.metric}: whether more of it is better is not known")
        values = runs["name"].map(found.values).where(runs["status"].isin(found.statuses)).astype(float)
        runs["value"] = direction_sign(found.better) * values.where(values.abs() < inf)
        for variant in data.variants:
            points = runs[runs["variant"] == variant].groupby("point", sort=False)["value"].agg(["count", "mean"])
            if variant not in best and points["count"].sum():
                best[variant] = points.loc[points["count"] == points["count"].max(), "mean"].idxmax()
        if len(best) == len(data.variants):
            break
    return {variant: best[variant] for variant in data.variants if variant in best}


def _with_points(data: SweepData, grid: Sequence[str]) -> pd.DataFrame:
    """The runs with the column `point`: where in the grid they are."""
    rows = axis_values(data).to_dict("records")
    return data.runs.assign(point=[",".join(f"{axis}={row[axis]}" for axis in grid) for row in rows])


def _listed(seeds: Sequence[int]) -> str:
    whole = len(seeds) > 2 and seeds[-1] - seeds[0] == len(seeds) - 1
    return f"{seeds[0]} to {seeds[-1]}" if whole else ", ".join(map(str, seeds))


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
    first_folders = data.runs.groupby(["sweep", "variant"], sort=False)["folder"].transform("first")
    settings = {folder: run_settings(folder) for folder in first_folders.unique()}
    configured = pd.DataFrame([settings[folder] for folder in first_folders], index=named.index, dtype=object)
    configured = configured.drop(columns="seed", errors="ignore")
    keep = pd.Series(True, index=named.index)
    for condition in conditions:
        key, text = parse_override(condition)
        columns = [frame[key] for frame in (named, configured) if key in frame]
        if not columns or not text:
            close = get_close_matches(key, [*named, *configured], n=1)
            hint = f"write axis=value,value with one of: {'  '.join(named)}, or a key of config.yaml"
            if close and close[0] != key:
                hint = f"did you mean {close[0]}?"
            raise AnalysisError(f"'{condition}' is no condition; {hint}")
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


def _comparable(value: object) -> object:
    """Numbers compare as numbers: 1e-3 is 0.001."""
    return value if not isinstance(value, str) or number(value) is None else number(value)
