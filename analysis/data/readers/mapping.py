"""Runs of other tools as the tables that `load` gives: what is the arm, the seed, the metric, and the number of a run.

What a user names holds. What can be guessed is guessed and said; what could be one thing or another is an AnalysisError
that lists what is there.

    arm     a config key or column; else the run's name without its seed; else the one config key that varies
    seed    a config key `seed`; else `seed=3`, `seed3` or `_s3` in the name; else runs have no seeds in common
    metric  the one that there is
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rlexp.analysis.data.errors import AnalysisError
from rlexp.analysis.data.metric_spec import Direction, better_direction
from rlexp.analysis.data.readers.logs import STEP, Columns, LoggedRun, Logs, listed, named
from rlexp.analysis.data.readers.tables import NO_METRICS
from rlexp.analysis.data.runs import RUN_COLUMNS, Problem
from rlexp.analysis.data.sweep import Origin, SweepData
from rlexp.analysis.data.variants import in_order
from rlexp.runfolder.rows import late_count
from rlexp.runfolder.variants import parse_override, short_labels, split_overrides, varying_keys

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

SEED_IN_NAME = re.compile(r"(?:(?<=[\W_])|^)(?:seed|s)[=_-]?(\d+)(?=[\W_]|$)", re.IGNORECASE)
EDGES = re.compile(r"^[\W_]+|[\W_]+$")
DOUBLED = re.compile(r"([-_,./ ])[-_,./ ]+")
COUNTERS = re.compile(r"(^|[/._])(global_step|num_tokens|num_input_tokens_seen|train_runtime)$|_per_second$|_runtime$")
GOOD = "reward|rewards|return|acc|accuracy|score|success|correct|solved|pass|win_?rate|f1|bleu|em"
HIGHER = re.compile(rf"(^|[/_.@ -])({GOOD})([/_.@ -]|$)")
LOWER = re.compile(r"(^|[/_.@ -])(loss|nll|perplexity|ppl|error|err|kl|cost|regret)([/_.@ -]|$)")
SHARE = 0.1  # of a run's evaluations, the last ones, whose mean is its number


class Seeds(NamedTuple):
    """The seed of each run, and how it was found."""

    values: list[int]
    known: bool
    """Whether runs with one seed belong together."""
    said: str
    key: str = ""


def sweep_data(logs: Sequence[Logs], columns: Columns, folder: Path) -> SweepData:
    """Make the tables of a sweep of other tools' runs.

    Args:
        logs: what was read, one path after another.
        columns: what the user names.
        folder: the first path.

    Raises:
        AnalysisError: There is no run, or something is ambiguous or not there.
    """
    runs = [run for log in logs for run in log.runs]
    if not runs:
        raise AnalysisError(f"no runs in '{folder}'")
    given, columns = columns, _with_found(columns, logs)
    seeds = find_seeds(runs, columns)
    arms, said_arm = find_arms(runs, columns, seeds)
    metric, said_metric = find_metric(runs, columns, {log.repeats for log in logs})
    better, said_better = find_direction(metric, columns)
    averaged = [_one_row_a_step(run, log, metric) for log in logs for run in log.runs]
    rows, remarks = [each.rows for each in averaged], _repeats_said(averaged)
    last, said_last = _last_common_step(runs, rows, metric)
    scores = [_late_mean(each, metric, last) for each in rows]
    units = seeds.values if seeds.known else _numbered(arms)
    problems = [problem for log in logs for problem in log.problems]
    problems += [Problem(run.name, f"{run.status}: {run.reason}") for run in runs if run.status != "completed"]
    problems += [
        Problem(run.name, f"has no {metric}")
        for run, score in zip(runs, scores, strict=True)
        if score is None and run.status == "completed"
    ]
    said = [
        f"{len(runs)} runs of {len(set(arms))} arm{'s' * (len(set(arms)) > 1)} read as {_kinds(logs)}",
        said_arm + " (guessed)" * (not given.arm),
        seeds.said + " (guessed)" * (seeds.known and not given.seed),
        *dict.fromkeys(text for log in logs for text in log.said),
        *filter(None, [said_metric, said_better]),
    ]
    line = "; ".join(said) + "."
    has_steps = any(STEP in run.rows for run in runs)
    rule = f"mean over the last {100 * SHARE:g} % of its evaluations" if has_steps else "as its row has it"
    origin = Origin(kind=_kinds(logs), said=line, has_seeds=seeds.known, better={metric: better}, rule=rule)
    return _tables(runs, arms, units, rows, scores, metric, folder, problems, [line, *said_last, *remarks], origin)


def _with_found(columns: Columns, logs: Sequence[Logs]) -> Columns:
    """What all readers have found out, beside what the user names."""
    first = logs[0].columns
    if any(log.columns != first for log in logs):
        raise AnalysisError("these logs have different columns of arm and seed; compare logs of one kind")
    return columns._replace(arm=first.arm or columns.arm, seed=first.seed or columns.seed)


def _kinds(logs: Sequence[Logs]) -> str:
    return " and ".join(dict.fromkeys(log.kind for log in logs))


def _config_keys(runs: Sequence[LoggedRun]) -> list[str]:
    return list(dict.fromkeys(key for run in runs for key in run.config))


def find_seeds(runs: Sequence[LoggedRun], columns: Columns) -> Seeds:
    """The seed of each run: of a config key, or of its name; their numbers where there is none.

    Raises:
        AnalysisError: Several keys could be the seed, or only some runs have one.
    """
    keys, key = _config_keys(runs), ""
    if columns.seed == "none":
        return Seeds([*range(len(runs))], False, "seeds: none, so runs are not paired")
    if columns.seed:
        key = named(columns.seed, keys, "--seed", "config keys")
    elif candidates := [each for each in keys if re.split(r"[/.]", each)[-1].lower() == "seed"]:
        key = next((each for each in candidates if each.lower() == "seed"), candidates[0])
        differing = {each for each in candidates if any(run.config.get(each) != run.config.get(key) for run in runs)}
        if differing and key.lower() != "seed":
            raise AnalysisError(f"which of these is the seed? choose with --seed, of: {listed(candidates)}")
    texts = [run.config.get(key) for run in runs] if key else [_seed_of_name(run.name) for run in runs]
    if key and len(set(texts)) == 1 and len(runs) > 1 and not columns.seed:  # a config that was not changed
        names = [_seed_of_name(run.name) for run in runs]
        key, texts = ("", names) if None not in names else (key, texts)
    numbers = [_whole(text) for text in texts]
    if None in numbers and set(numbers) != {None}:
        lacking = [run.name for run, number in zip(runs, numbers, strict=True) if number is None]
        where = f"the key {key}" if key else "the name"
        raise AnalysisError(
            f"{len(lacking)} of {len(runs)} runs have no seed in {where} ({listed(lacking[:3])}); name the key with "
            f"--seed, or say --seed none: runs are then not paired"
        )
    if None in numbers:
        if columns.seed:
            raise AnalysisError(f"--seed {columns.seed}: '{texts[0]}' is no whole number; --seed none pairs no runs")
        return Seeds([*range(len(runs))], False, "seeds: none found, so runs are not paired")
    return Seeds(numbers, True, f"seed: {key or 'in the name'}", key)


def _seed_of_name(name: str) -> str | None:
    found = SEED_IN_NAME.findall(name)
    return found[-1] if found else None


def _whole(text: str | None) -> int | None:
    try:
        value = float(text)
    except (TypeError, ValueError):
        return None
    return int(value) if value.is_integer() and abs(value) < 2**63 else None


def without_seed(name: str) -> str:
    """`grpo_seed3` → `grpo`."""
    found = list(SEED_IN_NAME.finditer(name))
    if not found:
        return name
    name = name[: found[-1].start()] + name[found[-1].end() :]
    return EDGES.sub("", DOUBLED.sub(r"\1", name)) or "all"


def find_arms(runs: Sequence[LoggedRun], columns: Columns, seeds: Seeds) -> tuple[list[str], str]:
    """The arm of each run as overrides, `method=grpo`, and how it was found.

    Raises:
        AnalysisError: No arm has two runs by name, and several config keys vary.
    """
    keys = _config_keys(runs)
    if columns.arm:
        chosen = [each if each == "name" else named(each, keys, "--arm", "config keys") for each in columns.arm]
        texts = [[without_seed(run.name) if k == "name" else run.config.get(k, "none") for k in chosen] for run in runs]
        return [_overrides(chosen, values) for values in texts], f"arm: {', '.join(chosen)}"
    names = _without_common_folders([without_seed(run.name) for run in runs])
    varying = [key for key in keys if key != seeds.key and len({run.config.get(key) for run in runs}) > 1]
    if len(set(names)) < len(names) or len(runs) == 1:
        return [_overrides(["arm"], [name]) for name in names], "arm: the name without its seed"
    usual = [key for key in varying if len({run.config.get(key) for run in runs}) < len(runs)]
    if len(usual) == 1:
        return [_overrides(usual, [run.config.get(usual[0], "none")]) for run in runs], f"arm: {usual[0]}, which varies"
    if usual:
        raise AnalysisError(
            f"no two runs have the same name but for a seed ({listed(names[:3])} …), and several config keys vary; "
            f"choose with --arm, of: {listed(usual)}"
        )
    if any(run.config for run in runs) and not varying:
        return [_overrides(["arm"], ["all"])] * len(runs), "arm: one, as all configurations are the same"
    return [_overrides(["arm"], [name]) for name in names], "arm: the name, so each run is an arm of its own"


def _without_common_folders(names: Sequence[str]) -> list[str]:
    """`project/grpo` and `project/dapo` → `grpo` and `dapo`."""
    parts = [name.split("/") for name in names]
    while len({each[0] for each in parts}) == 1 and all(len(each) > 1 for each in parts):
        parts = [each[1:] for each in parts]
    return ["/".join(each) for each in parts]


def _overrides(keys: Sequence[str], values: Iterable[str]) -> str:
    return ",".join(f"{key}={_part(value)}" for key, value in zip(keys, values, strict=True))


def _part(value: str) -> str:
    """A value without the commas at which overrides are cut."""
    whole = value.count("[") == value.count("]") and value.count("(") == value.count(")")
    text = value if whole else re.sub(r"[\[\](){}]", "_", value)
    return re.sub(r",(?![^\[\]{}()]*[\]})])", ";", text) or "none"


def find_metric(runs: Sequence[LoggedRun], columns: Columns, others: Collection[str] = ()) -> tuple[str, str]:
    """The metric, and how it was found; others: columns of numbers that are none.

    Raises:
        AnalysisError: There are several, or none.
    """
    names = list(
        dict.fromkeys(name for run in runs for name in run.rows.select_dtypes("number") if name not in (STEP, *others))
    )
    names = [name for name in names if any(name in run.rows and run.rows[name].notna().any() for run in runs)]
    if columns.metric:
        return named(columns.metric, names, "--metric", "metrics"), ""
    keys = {key for run in runs for key in run.config}
    candidates = [name for name in names if name.lower() not in NO_METRICS and not COUNTERS.search(name)]
    candidates = [name for name in candidates if name not in keys]
    candidates = [name for name in candidates if not _is_setting(name, runs)] or candidates
    if len(candidates) == 1:
        return candidates[0], f"metric: {candidates[0]}, the only one"
    if not candidates:
        raise AnalysisError(f"these runs have no metric; there are: {listed(names)}")
    raise AnalysisError(f"which metric? choose with --metric, of: {listed(candidates)}")


def _is_setting(name: str, runs: Sequence[LoggedRun]) -> bool:
    """Whether a column has one value in each run of several rows, or in all runs, as a learning rate has."""
    import pandas as pd

    values = [run.rows[name].dropna() for run in runs if name in run.rows]
    longest = max((len(each) for each in values), default=0)
    if longest > 1 and all(each.nunique() < 2 for each in values):
        return True
    return len(values) > 1 and pd.concat(values).nunique() < 2


def find_direction(metric: str, columns: Columns) -> tuple[Direction, str]:
    """The better end of a metric, by what the user says, else by its name."""
    if columns.better:
        return columns.better, ""
    if known := better_direction(metric):
        return known, f"{metric}: {known} is better, by its name"
    text = metric.lower()
    found = "lower" if LOWER.search(text) else "higher" if HIGHER.search(text) else None
    if found is None:
        return None, f"which end of {metric} is better is not known (--better)"
    return found, f"{metric}: {found} is better, by its name"


class Averaged(NamedTuple):
    """A run with one row a step."""

    rows: pd.DataFrame
    evaluations: int = 1
    """Most rows of one step."""
    within: float = np.nan
    """SD of the metric over the rows of the last step."""
    replaced: int = 0
    """Rows that a later one took the place of."""
    column: str = ""


def _one_row_a_step(run: LoggedRun, log: Logs, metric: str) -> Averaged:
    """Average the evaluations of one step, or keep the last where a run went on from a checkpoint."""
    rows = run.rows if STEP in run.rows else run.rows.assign(**{STEP: 0.0})
    rows = rows[rows[STEP].notna()]
    repeats = log.repeats if log.repeats in rows else ""
    numbers = rows.drop(columns=[repeats] if repeats else []).select_dtypes(["number", "bool"]).astype(float)
    if not numbers[STEP].duplicated().any():
        return Averaged(numbers.reset_index(drop=True))
    if log.appended and not repeats:
        merged = numbers.groupby(STEP, sort=True).last().reset_index()  # of each metric the last number of a step
        known = (int(each[metric].notna().sum()) if metric in each else 0 for each in (numbers, merged))
        return Averaged(merged, replaced=next(known) - next(known))
    groups = numbers.groupby(STEP, sort=True)
    merged = groups.mean().reset_index()
    if metric not in numbers:
        return Averaged(merged)
    known = groups[metric].count()
    last = numbers[numbers[STEP] == merged.loc[merged[metric].notna(), STEP].max()][metric].dropna()
    within = float(last.std(ddof=1)) if len(last) > 1 else np.nan
    return Averaged(merged, int(known.max()), within, column=repeats)


def _repeats_said(averaged: Sequence[Averaged]) -> list[str]:
    """Say that evaluations were averaged, and how much of the scatter of runs they make; that rows were replaced."""
    said = []
    if replaced := sum(each.replaced for each in averaged):
        said.append(f"{replaced} rows of a step that was logged again, as after a resume: the last one counts.")
    many = [each for each in averaged if each.evaluations > 1]
    if not many:
        return said
    counts = sorted({each.evaluations for each in many})
    size = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    column = f" (column {many[0].column})" if many[0].column else ""
    text = (
        f"A run has {size} evaluations of one checkpoint{column}: they are averaged within the run, and n, p and "
        "intervals count runs. Evaluations are no seeds."
    )
    variances = [(each.within**2, each.evaluations) for each in many if not np.isnan(each.within)]
    if variances:
        within = np.sqrt(np.mean([variance for variance, _ in variances]))
        alone = np.sqrt(np.mean([variance / count for variance, count in variances]))
        text += f" Their SD within a run is {within:.3g}, which alone moves the mean of a run by {alone:.3g} (SD)."
    return [*said, text]


def _last_common_step(runs: Sequence[LoggedRun], rows: Sequence[pd.DataFrame], metric: str) -> tuple[float, list[str]]:
    """The last step that all completed runs with the metric have reached, and what to say where they end apart."""
    ends = {}
    for place, (run, part) in enumerate(zip(runs, rows, strict=True)):
        if run.status == "completed" and metric in part and part[metric].notna().any():
            ends[place] = float(part.loc[part[metric].notna(), STEP].max())
    if len(set(ends.values())) < 2:
        return np.inf, []
    last, furthest = min(ends.values()), max(ends.values())
    short = [runs[place].name for place, end in ends.items() if end == last]
    return last, [
        f"Runs end apart, at step {last:g} to {furthest:g}: they are compared up to step {last:g}, the last that "
        f"all have ({', '.join(short[:3])}{' …' * (len(short) > 3)} ends there)."
    ]


def _late_mean(rows: pd.DataFrame, metric: str, last: float) -> float | None:
    """Mean of the metric over the last tenth of its evaluations up to a step; None without any."""
    if metric not in rows:
        return None
    known = rows.loc[(rows[STEP] <= last) & rows[metric].notna()].sort_values(STEP, kind="stable")[metric]
    values = known.to_numpy()[-late_count(len(known), SHARE) :] if len(known) else np.zeros(0)
    return float(values.mean()) if values.size and np.isfinite(values).all() else None


def _numbered(arms: Sequence[str]) -> list[int]:
    """The place of each run among those of its arm."""
    counts: Counter[str] = Counter()
    places = []
    for arm in arms:
        places.append(counts[arm])
        counts[arm] += 1
    return places


def _tables(
    runs: Sequence[LoggedRun],
    arms: Sequence[str],
    units: Sequence[int],
    rows: Sequence[pd.DataFrame],
    scores: Sequence[float | None],
    metric: str,
    folder: Path,
    problems: Sequence[Problem],
    remarks: Sequence[str],
    origin: Origin,
) -> SweepData:
    from rlexp.analysis.data.frames import metrics_frame, runs_frame

    twice = [pair for pair, count in Counter(zip(arms, units, strict=True)).items() if count > 1]
    if twice:
        same = [run.name for run, *pair in zip(runs, arms, units, strict=True) if tuple(pair) == twice[0]]
        raise AnalysisError(
            f"several runs are {twice[0][0]} with seed {twice[0][1]} ({listed(same)}); name what tells them apart with "
            "--arm A,B, or say --seed none"
        )
    names = _unique([run.name for run in runs])
    overrides = {arm: split_overrides(arm) for arm in in_order(arms)}
    axis, labels = short_labels(overrides)
    facts = []
    for run, name, arm, unit, score in zip(runs, names, arms, units, scores, strict=True):
        completed = run.status == "completed"
        facts.append(
            dict.fromkeys(RUN_COLUMNS)
            | {"name": name, "variant": arm, "seed": unit, "status": run.status, "reason": run.reason}
            | {"score": score if completed else None, "score_metric": metric, "sweep": folder.name}
            | {"folder": run.folder or str(folder / run.name)}
        )
    choices = [dict(map(parse_override, overrides[arm])) for arm in arms]
    keys = varying_keys(overrides)
    columns = [_columns(part, metric) for part in rows]
    return SweepData(
        folder=folder,
        runs=runs_frame(facts, choices, keys),
        metrics=metrics_frame(facts, columns),
        variants=list(overrides),
        labels=labels,
        axis=axis,
        score_metric=metric,
        config={},
        problems=list(problems),
        axes=tuple(keys),
        remarks=tuple(remarks),
        origin=origin,
    )


def _columns(rows: pd.DataFrame, metric: str) -> dict[str, np.ndarray]:
    found = {str(name): rows[name].to_numpy(dtype=float) for name in rows}
    steps = found[STEP]
    whole = bool((steps == np.floor(steps)).all())
    return found | {STEP: steps.astype(np.int64) if whole else steps}


def _unique(names: Sequence[str]) -> list[str]:
    """Names that differ, by their number where several are the same."""
    counts, seen, found = Counter(names), Counter(), []
    for name in names:
        seen[name] += 1
        found.append(name if counts[name] == 1 else f"{name} ({seen[name]})")
    return found
