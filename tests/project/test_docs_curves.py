"""docs/curves.md: its tables and numbers are those of the files that the commands on it wrote."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

ROOT = Path(__file__).parents[2]
STORED = ROOT / "docs" / "curves"
PAGE = (ROOT / "docs" / "curves.md").read_text(encoding="utf-8")
TASKS = ("sort", "bandit", "lecture")
DEFAULT = 0.001
BLOCKS = re.findall(r"```\n(.*?)```", PAGE, re.DOTALL)


def files(task):
    """The runs and the arms of a task."""
    arms = pd.read_csv(STORED / task / "arms.csv", keep_default_na=False, na_values=[""])
    return pd.read_parquet(STORED / task / "runs.parquet"), arms


def table(task):
    """As on the page: each arm at the default rate and at its best, where that is, and how wide its plateau is."""
    runs, arms = files(task)
    lines = [f"| arm | at lr {DEFAULT:g} | at its best lr | best lr | plateau | octaves |", "|---|---|---|---|---|---|"]
    for _, arm in arms.iterrows():
        of_arm = runs[runs["arm"] == arm["arm"]]
        at = [of_arm.loc[np.isclose(of_arm["lr"], lr), "number"].mean() for lr in (DEFAULT, arm["value"])]
        end = f" ▲ {arm['edge']}" if isinstance(arm["edge"], str) else ""
        reaches = {"low": ("≤ ", ""), "high": ("", "≥ "), "both": ("≤ ", "≥ ")}.get(arm["plateau_open"], ("", ""))
        plateau = f"{reaches[0]}{arm['plateau_low']:.2g} to {reaches[1]}{arm['plateau_high']:.2g}"
        octaves = f"{'≥ ' * any(reaches)}{arm['octaves']:.1f} [{arm['octaves_low']:.1f}, {arm['octaves_high']:.1f}]"
        cells = [arm["arm"], f"{at[0]:.3f}", f"{at[1]:.3f}", f"{arm['value']:.3g}{end}", plateau, octaves]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("task", TASKS)
def test_a_task_has_its_table_and_its_figure(task):
    assert table(task) in PAGE and f"curves/{task}/rates.svg" in PAGE and (STORED / task / "rates.svg").is_file()
    assert table(task).count("\n") >= 2 + 5, "five arms"


@pytest.mark.parametrize("task", TASKS)
def test_best_rate_and_mean_are_those_of_the_runs(task):
    runs, arms = files(task)
    for _, arm in arms.iterrows():
        means = runs[runs["arm"] == arm["arm"]].groupby("lr")["on_scale"].mean()
        assert means.idxmax() == pytest.approx(arm["value"])
        assert runs.query("arm == @arm['arm'] and best")["number"].mean() == pytest.approx(arm["mean"])
        trials = [name for name in arms if name.startswith("best_of_") and not np.isnan(arm[name])]
        assert len(trials) == len(means.dropna()) and arm[trials[-1]] == pytest.approx(arm["score"])


def test_what_is_quoted_was_printed():
    printed = "\n".join(path.read_text(encoding="utf-8") for path in STORED.rglob("*.txt")).splitlines()
    quoted = [line for block in BLOCKS if "rlexp" not in block for line in block.splitlines()]
    assert quoted and [line for line in quoted if line not in printed] == []


def test_every_decimal_number_is_in_a_file_or_a_table():
    """Numbers of the prose, to the digits that it has; those in commands are the question."""
    prose = re.sub(r"```.*?```|`[^`]*`", "", PAGE, flags=re.DOTALL)
    known = "".join(map(table, TASKS)) + "".join(path.read_text("utf-8") for path in STORED.rglob("*.txt"))
    known = set(re.findall(r"\d+\.\d+", known))
    assert [number for number in re.findall(r"(?<![\d.])\d+\.\d+(?![\d.])", prose) if number not in known] == []


def test_performance_and_sensitivity_are_those_of_the_runs():
    """Plain, by loops; the file has the optimism of both choices taken off, which is less than their error."""
    found = json.loads((STORED / "sensitivity.json").read_text(encoding="utf-8"))
    runs = {task: files(task)[0] for task in found["tasks"]}
    seeds, common = min(each["seed"].nunique() for each in runs.values()), [arm["arm"] for arm in found["arms"]]
    means = {}
    for task, each in runs.items():
        kept = each[each["arm"].isin(common) & (each["seed"] < seeds)]
        low, high = np.percentile(kept["number"].dropna(), [5, 95])
        means[task] = ((kept.set_index(["arm", "lr"])["number"] - low) / (high - low)).groupby(["arm", "lr"]).mean()
    for arm in found["arms"]:
        best = np.mean([each.loc[arm["arm"]].max() for each in means.values()])
        one = max(np.mean([each.loc[(arm["arm"], lr)] for each in means.values()]) for lr in found["shared_values"])
        half = (arm["performance_high"] - arm["performance_low"]) / 2
        assert arm["performance"] <= best + 1e-9 and best - arm["performance"] < half
        assert abs(arm["sensitivity"] - (best - one)) < half
        assert arm["lr"] == pytest.approx(
            max(found["shared_values"], key=lambda lr: np.mean([each.loc[(arm["arm"], lr)] for each in means.values()]))  # noqa: B023
        )
