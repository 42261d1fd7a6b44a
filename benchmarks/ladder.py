"""Does the order of two tricks survive a larger model? ``python -m benchmarks.ladder sizes --runs FOLDER``.

Trains one ablation at each size, smallest first. Before the largest trains, the forecast that the smaller ones make of
it is written to docs/transfer, and the command stops until that file is committed. The same command then trains the
largest, scores the forecast, and writes tables, figure and each run's number beside it. It goes on where it was
interrupted. ``--only SIZE`` trains one size and stops. ``sizes`` has four sizes of model=llama in this project's loop
and takes about two hours; ``language`` ends with a language model that TRL trains, and takes about two hours as well.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.parts.common import ROOT

RESULTS = ROOT / "docs" / "transfer"
ONE = {**os.environ, "OMP_NUM_THREADS": "1"}  # thread for each of the starts that are made beside each other


class Size(NamedTuple):
    """What the runs of a size are told, how many there are, and what rlexp.make_model is told of each of its starts."""

    overrides: Sequence[str]
    design: Sequence[str]
    starts: Sequence[str] = ()


class Ladder(NamedTuple):
    """A folder for results; sizes by name, the largest last; the arms beside the baseline; what all sizes share."""

    results: Path
    sizes: Mapping[str, Size]
    parts: Sequence[str]
    world: Sequence[str]


THREE_STARTS = ("--starts", "3", "--seeds", "4", "--tune", "lr=1e-4,3e-4,1e-3")
FIVE_STARTS = ("--starts", "5", "--seeds", "4")
SUMS = (
    "task=addition",
    "task.shortest=3",
    "task.procedures.full=0.7",
    "task.procedures.carries=0",
    "task.cap=48",
)
OF_SUMS = (*SUMS, "backend=replicas", "start=pretrained_mixture", "start.accuracy=0.3")
LADDERS = {
    "sizes": Ladder(
        RESULTS / "ladder",
        {
            "8k": Size(("model=llama_10k",), THREE_STARTS),
            "33k": Size(("model=llama_10k", "model.width=32"), THREE_STARTS),
            "100k": Size(("model=llama_70k", "model.width=56"), THREE_STARTS),
            "300k": Size(("model=llama_300k",), THREE_STARTS),
        },
        (
            "norm=center",
            "norm=global",
            "clip=higher",
            "clip=gspo+agg=sequence",
            "clip=cispo",
            "agg=sequence",
            "agg=dr_grpo",
            "kl=k3+kl.coef=0.05",
            "entropy_coef=0.02",
        ),
        (
            "task=sort",
            "task.alphabet=10",
            "task.longest=5",
            "task.cap=8",
            "task.metric=eval/sampled_accuracy",
            "start=sft",
            "start.accuracy=0.2",
            "group_size.prompts=8",
            "minibatches=4",
            "entropy_coef=0",
            "steps=200",
            "logger=none",
        ),
    ),
    # Starts are made in this project's loop, as Hugging Face folders. One rate for all, as a grid would take TRL hours:
    # half of the best of 1e-5, 3e-5 and 1e-4 in two runs of the baseline each, at 300k.
    "language": Ladder(
        RESULTS / "language",
        {
            "300k": Size(
                ("model=llama_300k", "start=pretrained", "start.path={starts}/300k/${{start.seed}}"),
                FIVE_STARTS,
                (*OF_SUMS, "model=llama_300k"),
            ),
            "TRL": Size(
                (
                    "backend=trl",
                    "backend.max_completion_length=48",
                    "model=pretrained",
                    "model.path={starts}/TRL/${{start.seed}}",
                    "start=random",
                ),
                FIVE_STARTS,
                (*OF_SUMS, "model=llama"),
            ),
        },
        ("clip=gspo+agg=sequence", "clip=cispo", "kl=k3+kl.coef=0.05", "entropy_coef=0.02"),
        (
            *SUMS,
            "group_size.prompts=4",
            "group_size.completions=8",
            "minibatches=4",
            "entropy_coef=0",
            "lr=5e-5",
            "steps=50",
            "eval.every=50",
            "logger=none",
        ),
    ),
}


def main() -> None:
    """Train what is not there yet, write the forecast, stop; or train the largest and score it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ladder", choices=LADDERS)
    parser.add_argument("--runs", metavar="FOLDER", type=Path, required=True, help="where the runs are kept")
    parser.add_argument("--only", metavar="SIZE")
    chosen = parser.parse_args()
    ladder = LADDERS[chosen.ladder]
    if chosen.only not in (None, *ladder.sizes):
        parser.error(f"--only {chosen.only}: must be one of {', '.join(ladder.sizes)}")
    runs = Path(os.path.relpath(chosen.runs, ROOT))  # what is written down names no folder above this project
    folders, forecast = {size: runs / size for size in ladder.sizes}, ladder.results / "forecast.json"
    *smaller, largest = ladder.sizes
    for size in [chosen.only] if chosen.only else smaller:
        train(ladder, size, runs)
    if chosen.only:
        return
    if not forecast.is_file():
        ladder.results.mkdir(parents=True, exist_ok=True)
        told = ["--forecast", os.path.relpath(forecast, ROOT), "--target-name", largest]
        call("transfer", *(str(folders[size]) for size in smaller), *told)
    if not committed(forecast):
        sys.exit(f"{os.path.relpath(forecast, ROOT)}: commit it, then run the same command again to train {largest}")
    train(ladder, largest, runs)
    out = runs / "transfer"
    for name, options in {"transfer": [], "score": ["--score", os.path.relpath(forecast, ROOT)]}.items():
        said = call("transfer", *map(str, folders.values()), *options, "--out", str(out))
        (ladder.results / f"{name}.txt").write_text(said, encoding="utf-8")
    for file in sorted((ROOT / out).iterdir()):
        if file.suffix in (".svg", ".json", ".csv"):
            shutil.copy(file, ladder.results)


def train(ladder: Ladder, size: str, runs: Path) -> None:
    """Make the starts of a size, train its ablation, and keep what that says and each run's number."""
    chosen, starts = ladder.sizes[size], runs / "starts"
    if chosen.starts:
        make_starts(chosen, starts / size)
    overrides = [each.format(starts=starts) for each in chosen.overrides]
    given = ["--parts", ",".join(ladder.parts), "--add-one", *chosen.design, "--with", *ladder.world, *overrides]
    said = call("ablate", *given, "--folder", str(runs / size))
    kept = ladder.results / size
    kept.mkdir(parents=True, exist_ok=True)
    (kept / "ablation.txt").write_text(said, encoding="utf-8")
    for file in sorted((ROOT / runs / size / "ablation").rglob("*.parquet")):
        shutil.copy(file, kept)


def make_starts(size: Size, folder: Path) -> None:
    """Make the starts of a size that are not there, two at a time, as Hugging Face folders named by ``start.seed``."""
    number = int(size.design[size.design.index("--starts") + 1])
    missing = [seed for seed in range(number) if not (ROOT / folder / str(seed)).is_dir()]
    for pair in (missing[i : i + 2] for i in range(0, len(missing), 2)):
        command = [sys.executable, "-m", "rlexp.make_model"]
        made = [
            subprocess.Popen([*command, str(folder / str(seed)), *size.starts, f"start.seed={seed}"], cwd=ROOT, env=ONE)
            for seed in pair
        ]
        if any(process.wait() for process in made):
            sys.exit(f"{folder}: a start was not made")


def call(*arguments: str) -> str:
    """Run a command of rlexp; return what it printed, without lines that name folders of this machine."""
    command = [sys.executable, "-m", "rlexp", *arguments]
    said = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
    return "".join(line for line in said.splitlines(keepends=True) if str(ROOT.parent) not in line)


def committed(file: Path) -> bool:
    """Whether git has a file as it is."""
    found = subprocess.run(["git", "status", "--porcelain", "--", str(file)], cwd=ROOT, capture_output=True, text=True)
    known = subprocess.run(["git", "ls-files", "--error-unmatch", str(file)], cwd=ROOT, capture_output=True)
    return known.returncode == 0 and not found.stdout.strip()


if __name__ == "__main__":
    main()
