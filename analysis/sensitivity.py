"""How much does an arm need a learning rate of its own on each task? `rlexp sensitivity runs/a runs/b runs/c`.

One folder a task, each of `rlexp ablate … --tune lr`; the arms that all of them have. Source: Adkins, Bowling and White
2024 (arXiv 2412.07165).
"""

import json
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from rich.console import Console
from rich.text import Text

from rlexp.analysis.compare import relative_path
from rlexp.analysis.data.errors import AnalysisError, CommandParser, ends_in_a_line, printable
from rlexp.analysis.data.metric_spec import direction_sign
from rlexp.analysis.data.read import inner, write_text, writing_to
from rlexp.analysis.report.tables import Terminal, TextTable, csv_text, plain, print_files, print_table
from rlexp.analysis.stats.ablation import Ablation, analyze
from rlexp.analysis.stats.formatting import format_interval
from rlexp.analysis.stats.sensitivity import (
    Dimensionality,
    Sensitivity,
    effective_dimensionality,
    normalize_scores,
    sensitivity,
)

EXAMPLES = """
examples:
  rlexp sensitivity runs/sort runs/bandit runs/lecture
  rlexp sensitivity runs/sort runs/bandit --out analysis/two_tasks
  rlexp sensitivity runs/sort runs/bandit --json | jq '.arms[] | [.arm, .sensitivity]'
"""


class Found(NamedTuple):
    """The arms of several tuned ablations, one a task."""

    key: str
    """What was tuned."""
    tasks: list[str]
    values: np.ndarray
    """Of the key, all that any task has."""
    shared: np.ndarray
    """Those that all tasks have; one of them is the value for all tasks."""
    arms: dict[str, Sensitivity]
    needed: dict[str, float]
    """The effective dimensionality of each arm, whose one hyperparameter is the key; NaN: its score is not above 0."""
    dimensionality: Dimensionality | None
    """Of two hyperparameters: which arm, and which value of the key."""
    notes: list[str]


def find(folders: Sequence[str | Path], names: Sequence[str] | None = None) -> Found:
    """Compare arms over the tasks of several folders.

    Args:
        folders: one a task.
        names: of the tasks; those of the folders unless given.

    Raises:
        AnalysisError: fewer than two folders, one that is no ablation with a tuned key, another key, no shared arm,
            fewer than two shared values, or a task whose runs all have the same score.
    """
    places = [Path(folder).resolve() for folder in folders]
    if len(set(places)) < max(len(places), 2):
        raise AnalysisError("name two folders or more, each once: a task each")
    if names is None:
        names = [printable(place.name) for place in places]
        names = names if len(set(names)) == len(names) else [str(folder) for folder in folders]
    ablations = [analyze(folder) for folder in folders]
    keys = {
        name: (each.declared["tune"] or {"key": "nothing"})["key"] for name, each in zip(names, ablations, strict=True)
    }
    if len(set(keys.values())) > 1 or "nothing" in keys.values():
        told = ", ".join(f"{key} in {name}" for name, key in keys.items())
        raise AnalysisError(f"tuned: {told}; must be the same key in all (rlexp ablate --tune lr)")
    arms = shared_arms(ablations)
    grids = [next(iter(each.grids.values())).rates for each in ablations]
    values = np.unique(np.concatenate(grids))
    shared = np.array([value for value in values if all(value in grid for grid in grids)])
    if len(shared) < 2:
        ends = ", ".join(f"{grid[0]:g} to {grid[-1]:g} in {name}" for name, grid in zip(names, grids, strict=True))
        raise AnalysisError(f"{keys[names[0]]} is {ends}: must share two values or more; name one grid for all")
    counts = {name: len(each.declared["seeds"]) for name, each in zip(names, ablations, strict=True)}
    seeds = min(counts.values())
    scores = np.full((len(arms), len(ablations), len(values), seeds), np.nan)
    for task, each in enumerate(ablations):
        sign = direction_sign(each.metric.better)
        for place, named in enumerate(arms.values()):
            grid = each.grids[named[task]]
            scores[place, task, np.isin(values, grid.rates)] = sign * each.scale.inverse(sign * grid.values[:, :seeds])
    scores = normalize_scores(scores)
    found = {arm: sensitivity(of_arm) for arm, of_arm in zip(arms, scores, strict=True)}
    notes = [
        f"{name} has {count} seeds, of which the first {seeds} count, as many as all tasks have."
        for name, count in counts.items()
        if count > seeds
    ]
    ends = [arm for arm, each in found.items() if values[each.setting] in (shared[0], shared[-1])]
    if ends:
        notes.append(
            f"The one {keys[names[0]]} for all tasks is an end of the {len(shared)} that all of them have "
            f"({shared[0]:g} to {shared[-1]:g}), so sensitivity may be less: {', '.join(ends)}."
        )
    means = scores.mean(-1)
    needed = {
        arm: each.needed if (each := _dimensionality(own)) else np.nan for arm, own in zip(arms, means, strict=True)
    }
    whole = _dimensionality(np.moveaxis(means, 0, 1))
    return Found(keys[names[0]], list(names), values, shared, found, needed, whole, notes)


def _dimensionality(means: np.ndarray) -> Dimensionality | None:
    with suppress(AnalysisError):  # a tuned score that is not above 0 has no shares
        return effective_dimensionality(means)
    return None


def shared_arms(ablations: Sequence[Ablation]) -> dict[str, list[frozenset[int]]]:
    """Return the arms that all ablations have, by their parts: the label in the first one, and the arm in each."""
    by_parts = [{frozenset(each.parts[part] for part in arm): arm for arm in each.grids} for each in ablations]
    found = {
        ablations[0].label(arm): [arms[parts] for arms in by_parts]
        for parts, arm in by_parts[0].items()
        if all(parts in arms for arms in by_parts)
    }
    if not found:
        raise AnalysisError("the folders share no arm: they need the same parts")
    return found


def frame(found: Found) -> pd.DataFrame:
    """Return a row an arm: performance, sensitivity, the value for all tasks, and that of each task."""
    rows = []
    for arm, each in found.arms.items():
        own = zip(found.tasks, each.task_settings, strict=True)
        numbers = {
            name: number for name, number in each._asdict().items() if not name.endswith(("setting", "settings"))
        }
        chosen = {found.key: found.values[each.setting]} | {
            f"{found.key} in {task}": found.values[at] for task, at in own
        }
        rows.append({"arm": arm} | numbers | {"dimensionality": found.needed[arm]} | chosen)
    return pd.DataFrame(rows)


def as_json(found: Found) -> dict[str, Any]:
    """Return all numbers; those that are missing are null."""
    whole = found.dimensionality
    choices = whole and {
        "needed": whole.needed,
        "scores": whole.scores.tolist(),
        "chosen": [[("arm", found.key)[axis] for axis in axes] for axes in whole.tuned],
    }
    return plain(
        {
            "key": found.key,
            "tasks": found.tasks,
            "shared_values": found.shared.tolist(),
            "arms": frame(found).to_dict("records"),
            "dimensionality_of_arm_and_key": choices,
            "notes": found.notes,
        }
    )


def print_found(found: Found, console: Console) -> None:
    """Print a row an arm, how many choices each task needs of its own, and what one must know beside it."""
    tasks, key = len(found.tasks), found.key
    said = (
        f"Performance: the score with {key} tuned on each of {tasks} tasks; 0 and 1 are the 5th and 95th percentile of "
    )
    said += f"a task's runs. Sensitivity: how much less it is with one {key} for all tasks."
    console.print(Text(said))
    console.print()
    rows = []
    for arm, each in found.arms.items():
        performance = format_interval(each.performance, each.performance_low, each.performance_high, 2)
        chosen = [f"{found.values[at]:.3g}" for at in (each.setting, *each.task_settings)]
        sensitive = format_interval(each.sensitivity, each.low, each.high, 2)
        rows.append([arm, performance, sensitive, f"{found.needed[arm]:g}", *chosen])
    headers = ["arm", "performance [95 %]", "sensitivity [95 %]", "d", f"{key} for all", *found.tasks]
    print_table(TextTable(headers, rows), console)
    for line in [*dimensionality_lines(found), *found.notes]:
        console.print(Text(f"- {line}"))


def dimensionality_lines(found: Found) -> list[str]:
    """Say what `d` is, and what it is of the choice of an arm and of the key."""
    of_arms = (
        f"d: whether an arm needs its own {found.key} on each task (1) to reach 95 % of its performance, or not (0)."
    )
    if found.dimensionality is None:
        return [of_arms]
    needed, (none, one, both), (_, (axis,), _) = found.dimensionality
    single = ("the arm", found.key)[axis]
    return [
        of_arms,
        f"One arm and one {found.key} for all tasks score {none:.2f}, {single} chosen for each task {one:.2f}, both "
        f"{both:.2f}. So {needed} of the 2 must be chosen for each task to reach 95 %.",
    ]


def write_files(found: Found, out: Path) -> list[Path]:
    """Write table, JSON and figure; return the paths."""
    from rlexp.analysis.figures.layout import save_figure
    from rlexp.analysis.figures.rates import draw_sensitivity

    key = "learning rate" if found.key == "lr" else found.key
    baseline = "baseline" if "baseline" in found.arms else next(iter(found.arms))
    with writing_to(out):
        table = write_text(out / "sensitivity.csv", csv_text(frame(found), index=False))
        content = write_text(out / "sensitivity.json", json.dumps(as_json(found), indent=1, ensure_ascii=False) + "\n")
        figure = draw_sensitivity(found.arms, baseline, key, len(found.tasks))
        return [table, content, *save_figure(figure, out / "sensitivity")]


@ends_in_a_line
def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; 2 if the folders have nothing to compare."""
    what = "Say how much each arm needs a learning rate of its own on each task, by tuned ablations on several tasks."
    parser = CommandParser("rlexp sensitivity", what, EXAMPLES)
    parser.add_argument("folders", nargs="+", help="folders of rlexp ablate … --tune lr, one a task")
    parser.add_argument(
        "--out", help="folder for table, JSON and figure; <last folder>/analysis/sensitivity unless named"
    )
    parser.add_argument("--json", action="store_true", help="print all as JSON, and nothing else")
    options = parser.parse_args(arguments)
    found = find(options.folders)
    files = write_files(found, Path(options.out or inner(options.folders[-1], "analysis", "sensitivity")))
    if options.json:
        print(json.dumps(as_json(found)))
        return 0
    console = Terminal()
    print_found(found, console)
    console.print()
    print_files(console, files, relative_path(files[0].parent))
    return 0


if __name__ == "__main__":
    sys.exit(main())
