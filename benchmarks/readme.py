"""Train what the README shows and store what it says: ``python -m benchmarks.readme``, half an hour.

Writes docs/readme/results.json (commands, seconds, seeds, scores, an example), the printed tables beside it and the two
figures. tests/project/test_readme.py holds the README to these files, and these files to the present defaults.
``--only ablation`` does one of the sweeps again and keeps the others; ``--only clipping``, as any study that
docs/studies.md shows, writes its table and its figure to docs/studies/. ``--only real_models``, five minutes, and
``--only transfer_norm`` (agg, clip, group_size, kl), half an hour each on two cores, write to docs/transfer/. With
``--runs FOLDER`` runs are kept there, and the same command goes on with them.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.parts.common import ROOT, machine
from benchmarks.parts.transfer_table import transfer_table
from rlexp.runfolder.files import read_yaml

RESULTS, STUDIED, TRANSFERRED = (ROOT / "docs" / name for name in ("readme", "studies", "transfer"))
SWEEPS = {
    "ablation": ["-m", "norm=local,global,hybrid"],
    "confirmation": ["-m", "norm=local,global,hybrid", "seed=range(300,320)"],
    "lecture": ["study=lecture17"],
    "lecture_again": ["study=lecture17_again"],
    "norms": ["study=norms"],
}
STUDIES = ("clipping", "aggregation", "filtering", "group_size", "model")
STUDIES += ("lecture17_solved", "grpo_tcr", "grpo_tcr_judges", "grpo_tcr_clip", "grpo_tcr_penalty", "rlhf")
STUDIES += ("overoptimisation", "overoptimisation_learned", "trl_notes", "critic", "four_pillars")
TRANSFERS = ("transfer_norm", "transfer_agg", "transfer_clip", "transfer_group_size", "transfer_kl")
LANGUAGE = ["-m", "backend=trl", "model=llama", "start=mixture", "norm=local,global,hybrid", "seed=0,1,2"]
LANGUAGE += ["lr=3e-4", "steps=100", "eval.every=25"]  # the first command of docs/real_models.md
OVER_TIME = ("overoptimisation", "overoptimisation_learned")  # of which curves say more than effects
DEFAULT = "norm=local,seed=0"  # the run of the ablation that the default recipe is
FIGURES = ("effects.svg", "curves.svg")
WIDTH = "92"  # characters of a line in the README's tables


def main() -> None:
    """Train, compare, store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="SWEEP", help="this sweep alone")
    parser.add_argument("--runs", metavar="FOLDER", type=Path, help="keep runs here, and go on with those that are")
    options = parser.parse_args()
    for name in [options.only] if options.only else SWEEPS:
        results = home_of(name)
        results.mkdir(exist_ok=True)
        path = results / "results.json"
        stored = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        with kept(options.runs) as folder:
            if name in TRANSFERS:
                stored |= transfer(name, folder, results)
            else:
                stored[name] = sweep(name, folder / name, results)
        path.write_text(json.dumps(stored, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def home_of(name: str) -> Path:
    """Return the folder in which the results of a sweep are stored."""
    if name in (*TRANSFERS, "real_models"):
        return TRANSFERRED
    return RESULTS if name in SWEEPS else STUDIED


@contextmanager
def kept(folder: Path | None) -> Iterator[Path]:
    """Return a folder for runs, which is removed at the end if it is none of the user's."""
    if folder is None:
        with tempfile.TemporaryDirectory() as made:
            yield Path(made)
    else:
        yield folder.resolve()


def transfer(name: str, folder: Path, results: Path) -> dict[str, object]:
    """Train a study in both worlds, store what they say of each other; return what is said of each."""
    found = {each: sweep(each, folder / each, results, figure=False) for each in (name, f"{name}_llama")}
    out = folder / f"{name}_both"
    printed = run(
        "rlexp.analysis.transfer", *(str(folder / each) for each in found), "--out", str(out), "--names", "small,llama"
    )
    (results / f"{name}_both.txt").write_text(without_files(printed), encoding="utf-8")
    shutil.copy(out / "transfer.svg", results / f"{name}_both.svg")
    shutil.copy(out / "transfer.json", results / f"{name}_both.json")
    there = [file for each in TRANSFERS if (file := results / f"{each}_both.json").is_file()]
    (results / "table.md").write_text(transfer_table(there), encoding="utf-8")
    return found


def without_files(printed: str) -> str:
    """Return what a command printed without its last paragraph, which names the files."""
    lines = [line.rstrip() for line in printed.rpartition("\n\n")[0].splitlines()]
    return "\n".join(lines) + "\n"


def sweep(name: str, folder: Path, results: Path, figure: bool = True) -> dict[str, object]:
    """Train one sweep into ``folder`` and store its table and figures in ``results``; return what is said of it."""
    arguments = LANGUAGE if name == "real_models" else SWEEPS.get(name, [f"study={name}"])
    begun, started = folder.exists(), time.perf_counter()
    run("rlexp.train", *arguments, f"hydra.sweep.dir={folder}")
    seconds = time.perf_counter() - started
    (results / f"{name}.txt").write_text(without_files(run("rlexp.analysis.compare", str(folder))), encoding="utf-8")
    found = {}
    if name == "ablation":
        found = {"config": read_yaml(folder / DEFAULT / "config.yaml"), "samples": samples(folder / DEFAULT)}
        for figure in FIGURES:
            shutil.copy(next(folder.glob(f"analysis/**/{figure}")), results)
    if name not in SWEEPS and figure:
        figures = reversed(FIGURES) if name in OVER_TIME else FIGURES  # of several strata the first
        patterns = [figure.replace(".svg", "*.svg") for figure in figures]
        drawn = (found for pattern in patterns for found in sorted(folder.glob(f"analysis/**/{pattern}")))
        shutil.copy(next(drawn), results / f"{name}.svg")
    summaries = [json.loads(file.read_text(encoding="utf-8")) for file in sorted(folder.glob("*/summary.json"))]
    return {
        "command": " ".join(["python -m rlexp.train", *arguments]),
        "seconds": None if begun else round(seconds),
        "scores": {each["name"]: each["score"] for each in summaries},
        "machine": machine(),
        **found,
    }


def run(module: str, *arguments: str) -> str:
    """Run a command of this project; return what it printed."""
    environment = os.environ | {"COLUMNS": WIDTH}
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout


def samples(folder: Path) -> list[dict[str, object]]:
    """Return the first and the last completions that a run wrote down."""
    lines = (folder / "samples.jsonl").read_text(encoding="utf-8").splitlines()
    every = [json.loads(line) for line in lines]
    return [each for each in every if each["step"] in (every[0]["step"], every[-1]["step"])]


if __name__ == "__main__":
    main()
