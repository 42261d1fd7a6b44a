"""Train the base arm of each task with room and write what it does into its page: ``python -m benchmarks.tasks``.

Six starts a task, each pretrained on the task's corpus (``sort_long``, ``tool``: on right answers), then 200 steps of
the default algorithm without an entropy bonus. Writes docs/tasks/NAME.json and .svg, and a section of docs/NAME.md:
accuracy, pass@k, lengths and entropy before and after with their 95 % intervals over starts, and ten answers to ten
prompts, which are the first held-out ones of the first seed. ``--only NAME`` does one task;
``--steps``, ``--seeds`` and ``--with`` change what is trained; with ``--runs FOLDER`` runs are kept there, and the same
command goes on with them.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path

import numpy as np

from benchmarks.parts.common import ROOT, between, machine

SHARED = ["entropy_coef=0", "logger=none", "eval.samples=32", "eval.ks=[1,8,32]"]
TASKS = {
    "addition": ["lr=3e-4", "start=pretrained_mixture", "start.accuracy=0.3"],
    "sort_padded": ["lr=3e-4", "start=pretrained_mixture", "start.accuracy=0.3"],
    "sort_long": ["lr=3e-4", "start=sft", "start.accuracy=0.3"],
    "countdown": ["lr=1e-3", "start=pretrained_mixture", "start.accuracy=0.3"],
    "tool": ["lr=1e-3", "start=sft", "start.accuracy=0.2"],
    "two_habits": ["lr=1e-4", "start=pretrained_mixture", "start.accuracy=0.38"],
}
SHOWN = {
    "eval/sampled_accuracy": "sampled accuracy",
    "eval/greedy_accuracy": "greedy accuracy",
    "eval/pass@": "pass@",
    "eval/length": "tokens of an answer",
    "policy/entropy": "entropy, nats a token",
    "eval/corpus_loss": "loss of the corpus, nats a token",
}
PROMPTS = 10


def main() -> None:
    """Train, store, write the pages."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="NAME", choices=TASKS)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--with", dest="changes", metavar="OVERRIDE", nargs="*", default=[])
    parser.add_argument("--runs", metavar="FOLDER", type=Path, help="keep runs here, and go on with those that are")
    parser.add_argument("--docs", metavar="FOLDER", type=Path, default=ROOT / "docs", help="where the pages are")
    chosen = parser.parse_args()
    (chosen.docs / "tasks").mkdir(exist_ok=True)
    for name in [chosen.only] if chosen.only else TASKS:
        settings = [f"task={name}", *SHARED, *TASKS[name], f"steps={chosen.steps}", *chosen.changes]
        with nullcontext(chosen.runs) if chosen.runs else tempfile.TemporaryDirectory() as folder:
            found = trained(
                name, [*settings, f"seed=range({chosen.seeds})"], Path(folder).resolve() / name, chosen.docs
            )
        (chosen.docs / "tasks" / f"{name}.json").write_text(
            json.dumps(found, indent=1, ensure_ascii=False) + "\n", "utf-8"
        )
        page = chosen.docs / f"{name}.md"
        text = between(page.read_text("utf-8"), "python -m benchmarks.tasks", section(name, found))
        page.write_text(text, encoding="utf-8")


def trained(name: str, arguments: Sequence[str], folder: Path, docs: Path) -> dict[str, object]:
    """Train the sweep, copy its curves, return what its runs say before and after."""
    from rlexp.record.policies import load_policy

    command = [sys.executable, "-m", "rlexp.train", "-m", *arguments]
    subprocess.run([*command, f"hydra.sweep.dir={folder}"], cwd=ROOT, stdout=subprocess.DEVNULL, check=True)
    files = sorted(folder.glob("*/metrics.jsonl"))
    rows = [[json.loads(line) for line in file.read_text("utf-8").splitlines()] for file in files]
    shutil.copy(next(folder.glob("analysis/**/curves.svg")), docs / "tasks" / f"{name}.svg")
    first = min((file.parent for file in files), key=lambda run: int(run.name.rpartition("seed=")[2]))
    return {
        "command": " ".join(["rlexp", "-m", *arguments]),
        "start": numbers(rows, first=True),
        "end": numbers(rows, first=False),
        "samples": load_policy(first).sample(PROMPTS, 1),
        "machine": machine(),
    }


def numbers(rows: Sequence[Sequence[Mapping[str, float]]], first: bool) -> dict[str, list[float]]:
    """Return mean and 95 % t interval over runs of each metric's first or last number."""
    from rlexp.analysis.stats.estimates import mean_difference

    found = {}
    keys = {key for row in rows[0] for key in row if key.startswith(tuple(SHOWN))}
    for key in keys - {"eval/pass@1"}:  # sampled accuracy by another name
        each = [[row[key] for row in run if row.get(key) is not None] for run in rows]
        estimate = mean_difference(np.array([values[0 if first else -1] for values in each]))
        found[key] = [estimate.mean, estimate.low, estimate.high]
    return found


def section(name: str, found: Mapping[str, object]) -> str:
    """Return the part of a task's page that is measured: a table, a figure, answers."""
    start, end = found["start"], found["end"]
    order = sorted(start, key=place_of)
    table = [f"| {label(key)} | {cell(start[key])} | {cell(end[key])} |" for key in order]
    answers = [
        f"{'right' if each['correct'] else 'wrong'}  {each['prompt']}   {each['completion']}"
        for each in found["samples"]
    ]
    return "\n".join(
        [
            f"`{found['command']}`",
            "",
            "| mean [95 %] over starts | start | end |",
            "|---|---|---|",
            *table,
            "",
            f"![accuracy while training](tasks/{name}.svg)",
            "",
            "Ten answers to ten prompts after training, not chosen:",
            "",
            "```",
            *answers,
            "```",
        ]
    )


def begins_of(key: str) -> str:
    """Return the key of ``SHOWN`` that a metric begins with."""
    return next(begins for begins in SHOWN if key.startswith(begins))


def place_of(key: str) -> tuple[int, int]:
    """Say where a metric stands in the table: by its name, then by its k."""
    return [*SHOWN].index(begins_of(key)), int(key.removeprefix(begins_of(key)) or 0)


def label(key: str) -> str:
    """Name a metric."""
    return SHOWN[begins_of(key)] + key.removeprefix(begins_of(key))


def cell(found: Sequence[float]) -> str:
    """`[0.5, 0.4, 0.6]` → `"0.500 [0.400, 0.600]"`."""
    mean, low, high = (f"{value:.3g}" if abs(value) >= 10 else f"{value:.3f}" for value in found)
    return f"{mean} [{low}, {high}]"


if __name__ == "__main__":
    main()
