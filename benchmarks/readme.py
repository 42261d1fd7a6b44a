"""Train what the README shows and store what it says: ``python -m benchmarks.readme``, half an hour.

Writes docs/readme/results.json (commands, seconds, seeds, scores, an example), the printed tables beside it and the two
figures. tests/project/test_readme.py holds the README to these files, and these files to the present defaults.
``--only ablation`` does one of the sweeps again and keeps the others; ``--only clipping``, as any study that
docs/studies.md shows, writes its table and its figure to docs/studies/.
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
from pathlib import Path

import yaml

from benchmarks.parts.common import ROOT, machine

RESULTS, STUDIED = ROOT / "docs" / "readme", ROOT / "docs" / "studies"
SWEEPS = {
    "ablation": ["-m", "norm=local,global,hybrid"],
    "confirmation": ["-m", "norm=local,global,hybrid", "seed=range(300,320)"],
    "lecture": ["study=lecture17"],
    "lecture_again": ["study=lecture17_again"],
    "norms": ["study=norms"],
}
STUDIES = ("clipping", "aggregation", "filtering", "group_size", "model")
STUDIES += ("lecture17_solved", "grpo_tcr", "grpo_tcr_judges", "grpo_tcr_clip", "grpo_tcr_penalty", "rlhf")
STUDIES += ("overoptimisation", "overoptimisation_learned", "trl_notes", "critic")
OVER_TIME = ("overoptimisation", "overoptimisation_learned")  # of which curves say more than effects
DEFAULT = "norm=local,seed=0"  # the run of the ablation that the default recipe is
FIGURES = ("effects.svg", "curves.svg")
WIDTH = "92"  # characters of a line in the README's tables


def main() -> None:
    """Train, compare, store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="SWEEP", help="this sweep alone")
    chosen = parser.parse_args().only
    for name in [chosen] if chosen else SWEEPS:
        results = RESULTS if name in SWEEPS else STUDIED
        results.mkdir(exist_ok=True)
        path = results / "results.json"
        stored = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        with tempfile.TemporaryDirectory() as folder:
            stored[name] = sweep(name, Path(folder) / name, results)
        path.write_text(json.dumps(stored, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def sweep(name: str, folder: Path, results: Path) -> dict[str, object]:
    """Train one sweep into ``folder`` and store its table and figures in ``results``; return what is said of it."""
    arguments = SWEEPS.get(name, [f"study={name}"])
    started = time.perf_counter()
    run("rlexp.train", *arguments, f"hydra.sweep.dir={folder}")
    seconds = time.perf_counter() - started
    printed, _, _ = run("analysis.compare", str(folder)).rpartition("\n\n")  # the last paragraph names the files
    lines = [line.rstrip() for line in printed.splitlines()]
    (results / f"{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    found = {}
    if name == "ablation":
        found = {"config": config_of(folder / DEFAULT), "samples": samples(folder / DEFAULT)}
        for figure in FIGURES:
            shutil.copy(next(folder.glob(f"analysis/**/{figure}")), results)
    if name not in SWEEPS:
        figures = reversed(FIGURES) if name in OVER_TIME else FIGURES  # of several strata the first
        patterns = [figure.replace(".svg", "*.svg") for figure in figures]
        drawn = (found for pattern in patterns for found in sorted(folder.glob(f"analysis/**/{pattern}")))
        shutil.copy(next(drawn), results / f"{name}.svg")
    summaries = [json.loads(file.read_text(encoding="utf-8")) for file in sorted(folder.glob("*/summary.json"))]
    return {
        "command": " ".join(["python -m rlexp.train", *arguments]),
        "seconds": round(seconds),
        "scores": {each["name"]: each["score"] for each in summaries},
        "machine": machine(),
        **found,
    }


def config_of(folder: Path) -> dict[str, object]:
    """Return what a run was set to."""
    return yaml.safe_load((folder / "config.yaml").read_text(encoding="utf-8"))


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
