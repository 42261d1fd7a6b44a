"""CSV and Parquet: a row a step (long), a row a run (wide), or a chart as W&B exports it (a column a run).

Where columns have the usual names they are taken for what these say, and the reader says so. A table that could be read
in two ways is refused with a list of its columns.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rlexp.analysis.data.errors import AnalysisError, printable
from rlexp.analysis.data.readers.files import run_name
from rlexp.analysis.data.readers.logs import STEP, Columns, LoggedRun, Logs, as_text, listed, named
from rlexp.analysis.data.runs import Problem

if TYPE_CHECKING:
    import pandas as pd

# Columns by the names that tools give them, in lower case.
STEPS = ("step", "_step", "global_step", "train/global_step", "trainer/global_step", "steps", "iteration", "update")
RUNS = ("run", "run_name", "run_id", "name", "run_uuid", "id", "experiment", "exp_name", "experiment_name", "folder")
SEEDS = ("seed", "random_seed", "rng_seed")
ARMS = ("arm", "variant", "method", "algorithm", "algo", "condition", "treatment", "group")
REPEATS = ("item", "item_id", "eval", "eval_id", "evaluation", "repeat", "sample", "question", "problem", "prompt")
REPEATS += ("task_id", "question_id", "problem_id", "prompt_id", "example", "example_id")
STATUS = ("state", "status")
NO_METRICS = ("time", "timestamp", "_timestamp", "_runtime", "runtime", "epoch", "total_flos", "created", "wall_time")
GENERIC = (
    "progress",
    "metrics",
    "log",
    "logs",
    "history",
    "results",
    "train",
    "eval",
)  # names that say nothing of a run
STATES = {"finished": "completed", "completed": "completed", "running": "running"}  # of W&B; all others have failed


def read(files: Sequence[Path], root: Path, columns: Columns) -> Logs:
    """Runs of CSV and Parquet files.

    Args:
        files: that end in .csv, .tsv or .parquet; of several each may be a run, with its name.
        root: the folder that was named.
        columns: what the user has named.

    Raises:
        AnalysisError: A file is no such file, is empty, or can be read in several ways.
    """
    found = [read_table(file, run_name(file, root, GENERIC), columns) for file in files]
    first = found[0]
    if any((each.kind, each.columns, each.repeats) != (first.kind, first.columns, first.repeats) for each in found):
        kinds = "; ".join(f"{file.name}: {each.kind}" for file, each in zip(files, found, strict=True))
        raise AnalysisError(f"'{root}' has tables that are not alike ({kinds}); name one of them")
    return first._replace(
        runs=[run for each in found for run in each.runs],
        problems=[problem for each in found for problem in each.problems],
    )


def read_table(path: Path, name: str, columns: Columns) -> Logs:
    """Runs of one table; `name` is that of a run that has the whole file."""
    is_parquet = path.suffix == ".parquet"
    frame, problems = read_parquet(path) if is_parquet else read_csv(path)
    if charts := chart_columns(frame.columns):
        return Logs("W&B chart (CSV)", read_chart(frame, charts, path), problems)
    found = split_runs(frame, columns, "Parquet" if is_parquet else "CSV", path, name)
    return found._replace(problems=[*problems, *found.problems])


def read_parquet(path: Path) -> tuple[pd.DataFrame, list[Problem]]:
    """The table of a Parquet file, of which half is no table at all."""
    import pandas as pd

    try:
        return pd.read_parquet(path), []
    except (OSError, ValueError, TypeError) as error:
        raise AnalysisError(f"'{path}' is no Parquet file that can be read: {_first_line(error)}") from None


def read_csv(path: Path) -> tuple[pd.DataFrame, list[Problem]]:
    """The table of a CSV file, without a last line that was cut, and lines with more or fewer cells than the header."""
    import pandas as pd

    with path.open("rb") as file:
        head = file.read(2**16)
        file.seek(0, 2)
        size = file.tell()
        file.seek(max(size - 2**16, 0))
        tail = file.read()
    if not head.strip():
        raise AnalysisError(f"'{path}' is empty")
    if b"\0" in head:
        raise AnalysisError(f"'{path}' is no text, and so no CSV")
    separator = _separator(head.decode("utf-8", "replace").splitlines()[0])
    problems = []
    try:
        frame = pd.read_csv(
            path,
            sep=separator,
            engine="c",
            encoding_errors="replace",
            low_memory=False,
            on_bad_lines="skip",
        )
    except (OSError, ValueError) as error:
        raise AnalysisError(f"'{path}' is no CSV that can be read: {_first_line(error)}") from None
    if frame.shape[1] < 2 or not len(frame):
        what = "has no rows" if not len(frame) else f"has one column ({printable(str(frame.columns[0]))[:40]})"
        raise AnalysisError(f"'{path}' {what}: expected a header line and a row a run or a step")
    if not tail.endswith(b"\n") and _is_cut(tail, separator, frame.shape[1]):
        frame = frame.iloc[:-1]
        problems.append(Problem(path.name, "its last line is cut, and skipped"))
    short, lines = _short_lines(path, separator, frame.shape[1]) if size < 2**28 else ([], len(frame) + 1)
    cut = len(problems)
    if long := max(lines - 1 - len(frame) - cut, 0):
        problems.append(Problem(path.name, f"{long} damaged line{'s' * (long > 1)} skipped"))
    elif short := [place for place in short if place < len(frame)]:  # lines that pandas left out would move the others
        first = f"{len(short)} lines have" if len(short) > 1 else f"line {short[0] + 2} has"
        problems.append(Problem(path.name, f"{first} fewer cells than the header: skipped"))
        frame = frame.drop(frame.index[short])
    frame.columns = [printable(str(name)) for name in frame.columns]
    return frame, problems


def _separator(header: str) -> str:
    return max((",", "\t", ";"), key=header.count)


def _is_cut(tail: bytes, separator: str, width: int) -> bool:
    """Whether a last line without its end has fewer cells than the header."""
    last = tail.decode("utf-8", "replace").splitlines()[-1]
    return len(next(csv.reader([last], delimiter=separator), [])) < width


def _short_lines(path: Path, separator: str, width: int) -> tuple[list[int], int]:
    """The places, from 0 behind the header, of lines with fewer cells than it; and how many lines are not blank."""
    with path.open(encoding="utf-8", errors="replace", newline="") as file:
        counts = [len(line) for line in csv.reader(file, delimiter=separator) if any(map(str.strip, line))]
    return [place for place, count in enumerate(counts[1:]) if count < width], len(counts)


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:160]


def chart_columns(names: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Columns `<run> - <metric>` of a chart that W&B exported, which has `…__MIN` and `…__MAX` of each; else none."""
    names = list(names)
    plain = [name for name in names[1:] if f"{name}__MIN" in names and " - " in name]
    if not plain or len(plain) + 2 * len(plain) < len(names) - 1:
        return {}
    return {name: tuple(name.rsplit(" - ", 1)) for name in plain}


def read_chart(frame: pd.DataFrame, charts: dict[str, tuple[str, str]], path: Path) -> list[LoggedRun]:
    """A run per column of a chart; its x axis is the first column."""
    import pandas as pd

    parts: dict[str, dict[str, pd.Series]] = {}
    for column, (run, metric) in charts.items():
        parts.setdefault(run, {})[metric] = pd.to_numeric(frame[column], errors="coerce")
    step = pd.to_numeric(frame.iloc[:, 0], errors="coerce")
    runs = []
    for name, found in parts.items():
        rows = pd.DataFrame({STEP: step, **found}).dropna(subset=[STEP]).dropna(subset=list(found), how="all")
        runs.append(LoggedRun(printable(name), rows.reset_index(drop=True), {}, f"{path}/{name}"))
    return runs


def split_runs(frame: pd.DataFrame, columns: Columns, kind: str, path: Path, name: str) -> Logs:
    """The runs of a table that holds several, by its columns of arm, seed and run.

    Raises:
        AnalysisError: It can be read in several ways, or a named column is not there.
    """
    import pandas as pd

    names = [*map(str, frame.columns)]
    frame = frame.set_axis(names, axis=1)
    lower = {name.lower(): name for name in reversed(names)}

    def usual(known: Sequence[str]) -> str | None:
        return next((lower[name] for name in known if name in lower), None)

    given = {option: value for option, value in columns._asdict().items() if value and option in ("seed", "step")}
    step = named(given["step"], names, "--step", "columns") if "step" in given else usual(STEPS)
    seed = given.get("seed")
    seed = seed if seed == "none" else named(seed, names, "--seed", "columns") if seed else usual(SEEDS)
    run, repeat, status = usual(RUNS), usual(REPEATS), usual(STATUS)
    arms = [named(name, names, "--arm", "columns") for name in columns.arm]
    if repeat in (*arms, seed, step, columns.metric):
        repeat = None
    roles = {*arms, seed, step, run, repeat, status}
    said = []
    if not arms and (found := _arm_column(frame, names, roles, lower)):
        arms = [found]
    keys = list(dict.fromkeys(filter(lambda key: key not in (None, "none"), [*arms, seed, run])))
    texts = [name for name in names if name not in {*roles, *arms} and not _is_number(frame[name])]
    if not arms and len(texts) > 1:
        raise AnalysisError(f"'{path}': which column is the arm? choose with --arm, of: {listed(texts)}")
    if arms and not columns.arm and not repeat:
        _check_arm(frame, arms[0], texts, path)
    if not keys and step is None:
        raise AnalysisError(f"'{path}': no column says which arm a row is of; choose with --arm, of: {listed(names)}")
    numbers = [name for name in names if name not in {*keys, repeat, status, step} and name not in texts]
    numbers = [name for name in numbers if name.lower() not in (*NO_METRICS, *SEEDS)]
    rows = pd.DataFrame({name: pd.to_numeric(frame[name], errors="coerce") for name in numbers})
    if step:
        rows.insert(0, STEP, pd.to_numeric(frame[step], errors="coerce"))
    read = {name: rows[name] for name in numbers if columns.metric in (None, name)} | (
        {step: rows[STEP]} if step else {}
    )
    problems = [problem for name, values in read.items() for problem in _no_numbers(frame[name], values, path)]
    if repeat:
        rows[repeat] = frame[repeat]
    if seed in (None, "none") and not (run or step or repeat):  # each row is a run
        keys, frame = [*keys, "row"], frame.assign(row=range(len(frame)))
    runs = _grouped(frame, rows, keys, arms, seed, run, status, path, name)
    if seed in (None, "none") and not run and step and any(each.rows[STEP].duplicated().any() for each in runs):
        raise AnalysisError(
            f"'{path}': several rows of one arm at one step, and no column says of which run; name it with --seed, "
            f"of: {listed(names)}"
        )
    if seed not in (None, "none") and run:
        _check_one_run(frame, arms, seed, run, path)
    if step and not columns.step:
        said.append(f"step: {step} (guessed)")
    repeats = repeat or ""
    return Logs(
        kind=f"{kind}, {'a row a step' if step else 'a row a run'}" if not repeats else f"{kind}, a row an evaluation",
        runs=runs,
        problems=problems,
        said=said,
        columns=Columns(arm=tuple(arms), seed=seed),
        repeats=repeats,
        appended=False,
    )


def _arm_column(frame: pd.DataFrame, names: Sequence[str], roles: set, lower: dict[str, str]) -> str | None:
    """The column that is the arm by its name, or the only one of words."""
    by_name = [lower[name] for name in ARMS if name in lower and lower[name] not in roles]
    if len(by_name) == 1:
        return by_name[0]
    words = [name for name in names if name not in roles and not _is_number(frame[name])]
    return words[0] if len(words) == 1 and not by_name else None


def _check_arm(frame: pd.DataFrame, arm: str, texts: Sequence[str], path: Path) -> None:
    """Refuse a guess where another column of words, which is no label of rows, differs within an arm."""
    for name in texts:
        values = frame[name]
        if values.nunique() < len(values) and (frame.groupby(arm, sort=False)[name].nunique() > 1).any():
            raise AnalysisError(
                f"'{path}': the column {name} differs within one {arm}; say what makes an arm, as --arm {arm},{name} "
                f"or --arm {arm}"
            )


def _is_number(values: pd.Series) -> bool:
    """Whether a column is of numbers, but for a few cells as `NaN` or `Infinity` in words."""
    import pandas as pd

    if pd.api.types.is_bool_dtype(values) or pd.api.types.is_numeric_dtype(values):
        return True
    known = values.dropna()
    return len(known) > 0 and bool(pd.to_numeric(known, errors="coerce").notna().mean() > 0.5)


def _no_numbers(cells: pd.Series, values: pd.Series, path: Path) -> Iterator[Problem]:
    """Yield what is wrong with a column whose `values` are missing where its cells have a word that is no `None`."""
    wrong = cells[values.isna() & cells.notna()]
    wrong = wrong[~wrong.astype(str).str.strip().str.lower().isin(["", "none", "nan", "null", "na", "n/a", "-"])]
    if len(wrong):
        many = f"{len(wrong)} cells are no numbers, the first in" if len(wrong) > 1 else "no number in"
        first = f"line {wrong.index[0] + 2}: {printable(str(wrong.iloc[0]))[:40]!r}"
        yield Problem(path.name, f"{cells.name}: {many} {first}; left out")


def _grouped(
    frame: pd.DataFrame,
    rows: pd.DataFrame,
    keys: Sequence[str],
    arms: Sequence[str],
    seed: str | None,
    run: str | None,
    status: str | None,
    path: Path,
    file_name: str,
) -> list[LoggedRun]:
    """One run per combination of the keys, in the order of their first rows."""
    if not keys:
        return [LoggedRun(file_name, rows, {}, str(path))]
    runs = []
    for _, index in frame.groupby([frame[key].map(as_text) for key in keys], sort=False, dropna=False).indices.items():
        first = frame.iloc[index[0]]
        config = {key: as_text(_plain(first[key])) for key in dict.fromkeys([*arms, seed, run]) if key in frame}
        name = as_text(first[run]) if run else ",".join(f"{key}={as_text(_plain(first[key]))}" for key in keys)
        state, reason = "completed", None
        if status:
            word = as_text(frame[status].iloc[index[-1]]).lower()
            state = STATES.get(word, "failed")
            reason = None if state == "completed" else f"its {status} is {word}"
        part = rows.iloc[index].reset_index(drop=True)
        runs.append(LoggedRun(name, part, config, f"{path}/{name}", state, reason))
    return runs


def _plain(value: object) -> object:
    value = value.item() if hasattr(value, "item") else value
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _check_one_run(frame: pd.DataFrame, arms: Sequence[str], seed: str, run: str, path: Path) -> None:
    """Refuse two runs of one arm and seed: they would be no repeated evaluations of one."""
    if not arms:
        return
    counts = frame.groupby([*arms, seed], sort=False, dropna=False)[run].agg(lambda names: names.nunique())
    if (counts > 1).any():
        where = counts.index[counts > 1][0]
        place = ", ".join(f"{key}={as_text(_plain(value))}" for key, value in zip([*arms, seed], where, strict=True))
        rows = frame
        for key, value in zip([*arms, seed], where, strict=True):
            rows = rows[rows[key] == value]
        raise AnalysisError(
            f"'{path}': several runs have {place} ({listed(map(as_text, rows[run].unique()))}); name what tells them "
            "apart with --arm A,B, or say --seed none"
        )
