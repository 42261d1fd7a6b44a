"""Options that say what of other tools' logs is the arm, the seed, the metric and the step."""

import sys
from argparse import ArgumentParser
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

from rlexp.analysis.data.errors import printable
from rlexp.analysis.data.readers.detect import holds_logs, is_online
from rlexp.analysis.data.readers.logs import Columns
from rlexp.analysis.data.sweep import SweepData
from rlexp.runfolder.variants import split_commas

MOST_PROBLEMS = 5
LOGS_HELP = (
    "a sweep's folder, or logs of another tool: CSV, Parquet, W&B, TensorBoard, Trackio, trainer_state.json, JSONL"
)


def add_column_options(parser: ArgumentParser) -> None:
    """Add --arm, --seed, --step and --better to a command that reads logs of other tools."""
    group = parser.add_argument_group("runs of other tools", "what is not named is guessed, and said on stderr")
    group.add_argument(
        "--arm", metavar="KEY,KEY", help="config keys or columns that make an arm; name: that of the run"
    )
    group.add_argument("--seed", metavar="KEY", help="config key or column of the seed; none: runs are not paired")
    group.add_argument("--step", metavar="KEY", help="column of the step")
    group.add_argument("--better", choices=["higher", "lower"], help="which end of the metric is better")


def take_columns(options: MutableMapping[str, Any]) -> Columns:
    """Take these options out of those of a command; its metric, or that of its endpoint, stays there too."""
    endpoint = options.get("endpoint")
    arm = options.pop("arm")
    return Columns(
        arm=tuple(split_commas(arm)) if arm else (),
        seed=options.pop("seed"),
        metric=options.get("metric") or (endpoint and endpoint.metric),
        step=options.pop("step"),
        better=options.pop("better"),
    )


def say_origin(data: SweepData) -> None:
    """Print how runs of other tools were read, to stderr; nothing for a sweep of rlexp."""
    if data.origin:
        print(f"note: {printable(data.origin.said)}", file=sys.stderr)


def say_problems(data: SweepData) -> None:
    """Print what failed, or was damaged and skipped, to stderr: of commands whose answer has no room for it."""
    for problem in data.problems[:MOST_PROBLEMS]:
        print(f"note: {printable(problem.run)}: {printable(problem.reason)}", file=sys.stderr)
    if (more := len(data.problems) - MOST_PROBLEMS) > 0:
        print(f"note: and {more} more; rlexp compare lists all", file=sys.stderr)


def output_folder(path: str | Path) -> Path:
    """The folder of what is made of runs, unless one is named: `analysis` in a folder, `x-analysis` beside x.csv."""
    path = Path(path)
    if is_online(path):
        return Path("-".join(["wandb", *path.parts[1:], "analysis"]))
    if path.is_file() and holds_logs(path):
        return path.with_name(f"{path.name.split('.')[0]}-analysis")
    return path / "analysis"
