"""Does the order of two tricks survive a larger model? ``python -m benchmarks.ladder --runs FOLDER``, about two hours.

Trains one ablation at each size of model=llama, smallest first. Before the largest trains, the forecast that the
smaller ones make of it is written to docs/transfer/ladder/forecast.json, and the command stops until that file is
committed. The same command then trains the largest, scores the forecast, and writes tables, figure and each run's
number beside it. It goes on where it was interrupted. ``--only SIZE`` trains one size and stops.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

from benchmarks.parts.common import ROOT

RESULTS = ROOT / "docs" / "transfer" / "ladder"
FORECAST = RESULTS / "forecast.json"
SIZES = {
    "8k": ("model=llama_10k",),
    "33k": ("model=llama_10k", "model.width=32"),
    "100k": ("model=llama_70k", "model.width=56"),
    "300k": ("model=llama_300k",),
}
PARTS = (
    "norm=center",
    "norm=global",
    "clip=higher",
    "clip=gspo+agg=sequence",
    "clip=cispo",
    "agg=sequence",
    "agg=dr_grpo",
    "kl=k3+kl.coef=0.05",
    "entropy_coef=0.02",
)
WORLD = (
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
)
DESIGN = ("--add-one", "--tune", "lr=1e-4,3e-4,1e-3", "--starts", "3", "--seeds", "4")


def main() -> None:
    """Train what is not there yet, write the forecast, stop; or train the largest and score it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", metavar="FOLDER", type=Path, required=True, help="where the runs are kept")
    parser.add_argument("--only", metavar="SIZE", choices=SIZES)
    chosen = parser.parse_args()
    runs = Path(os.path.relpath(chosen.runs, ROOT))  # what is written down names no folder above this project
    folders = {size: runs / size for size in SIZES}
    *smaller, largest = SIZES
    for size in [chosen.only] if chosen.only else smaller:
        train(size, folders[size])
    if chosen.only:
        return
    if not FORECAST.is_file():
        RESULTS.mkdir(parents=True, exist_ok=True)
        told = ["--forecast", os.path.relpath(FORECAST, ROOT), "--target-name", largest]
        call("transfer", *(str(folders[size]) for size in smaller), *told)
    if not committed(FORECAST):
        sys.exit(f"{FORECAST.relative_to(ROOT)}: commit it, then run the same command again to train {largest}")
    train(largest, folders[largest])
    out = runs / "transfer"
    for name, options in {"transfer": [], "score": ["--score", os.path.relpath(FORECAST, ROOT)]}.items():
        said = call("transfer", *map(str, folders.values()), *options, "--out", str(out))
        (RESULTS / f"{name}.txt").write_text(said, encoding="utf-8")
    for file in sorted((ROOT / out).iterdir()):
        if file.suffix in (".svg", ".json", ".csv"):
            shutil.copy(file, RESULTS)


def train(size: str, folder: Path) -> None:
    """Train the ablation of a size, and keep what it says and each run's number."""
    given = ["--parts", ",".join(PARTS), *DESIGN, "--with", *SIZES[size], *WORLD, "--folder", str(folder)]
    said = call("ablate", *given)
    kept = RESULTS / size
    kept.mkdir(parents=True, exist_ok=True)
    (kept / "ablation.txt").write_text(said, encoding="utf-8")
    for file in sorted((ROOT / folder / "ablation").rglob("*.parquet")):
        shutil.copy(file, kept)


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
