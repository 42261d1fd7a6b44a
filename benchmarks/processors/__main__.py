"""What would another processor have said? ``python -m benchmarks.processors``, a sweep for each of four types.

Trains README's comparison of norms with the same seeds under settings that make MKL and torch compute as on processors
of other types; each rounds differently. Says how much of the variance of a difference is the seed's, the processor's
and that of both together, which verdicts survive from type to type, and what the interval of a sweep leaves out, which
knows one processor. Writes the score of every run to processors.json and the tables to processors.txt. What the same
command wrote there on other processors stays: their types are taken together.

Runs go to ``--store``, and the same command goes on where it stopped. A type that gives the bits of another one is left
out, and named.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

from benchmarks.parts.common import ROOT, machine
from benchmarks.processors.page import NORMS, page
from rlexp.analysis.data.load import load
from rlexp.analysis.data.read import unclocked_rows
from rlexp.analysis.data.run_values import values_per_run
from rlexp.analysis.stats.comparison import seed_table
from rlexp.record.provenance import cpu

# MKL_CBWR is for products, ATEN_CPU_CAPABILITY for everything else, which torch computes with the widest vectors there
# are unless it is set. Each setting has bits of its own on processors of each maker.
TYPES = {
    "AVX512": {"MKL_CBWR": "AUTO,STRICT"},
    "AVX2": {"MKL_CBWR": "AVX2,STRICT", "ATEN_CPU_CAPABILITY": "avx2"},
    "AVX512, COMPATIBLE": {"MKL_CBWR": "COMPATIBLE"},
    "AVX2, COMPATIBLE": {"MKL_CBWR": "COMPATIBLE", "ATEN_CPU_CAPABILITY": "avx2"},
}
FEWEST_SEEDS = 3
QUESTION = ("seeds", "first", "steps")


def main() -> None:
    """Train, compare, store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20, help="how many (20)")
    parser.add_argument("--first", type=int, default=0, help="the first of them (0)")
    parser.add_argument("--steps", type=int, default=400, help="of each run (400)")
    parser.add_argument(
        "--store", metavar="FOLDER", type=Path, default=ROOT / "runs" / "processors", help="of the runs"
    )
    parser.add_argument("--results", metavar="FOLDER", type=Path, default=ROOT / "docs" / "statistics")
    options = parser.parse_args()
    if options.seeds < FEWEST_SEEDS or options.steps < 1 or options.first < 0:
        parser.exit(2, f"--seeds must be at least {FEWEST_SEEDS}, --steps at least 1 and --first at least 0\n")
    seeds = range(options.first, options.first + options.seeds)
    store = options.store.resolve() / f"steps={options.steps}"
    command = " ".join(["python -m benchmarks.processors", *(f"--{key} {vars(options)[key]}" for key in QUESTION)])
    found = elsewhere(options.results / "processors.json", command)
    for name, settings in TYPES.items():
        sweep = trained(settings, seeds, options.steps, store / name)
        found[f"{processor()} {name}"] = {"on": machine(), **sweep}
    same_bits = repeated({name: each["rows"] for name, each in found.items()})
    if len(found) - len(same_bits) < 2:
        sys.exit("all settings give the same bits on this processor: there is nothing to compare")
    stored = {
        "command": command,
        "trains": " ".join(["rlexp -m", *overrides(seeds, options.steps)]),
        "seeds": [str(seed) for seed in seeds],
        "same_bits": same_bits,
        "types": found,
    }
    options.results.mkdir(parents=True, exist_ok=True)
    text = json.dumps(stored, indent=1, ensure_ascii=False) + "\n"
    (options.results / "processors.json").write_text(text, encoding="utf-8")
    (options.results / "processors.txt").write_text(page(stored), encoding="utf-8")
    print(page(stored), end="")


def processor() -> str:
    """Return ``Intel`` or ``AMD``, the whole name of any other maker's."""
    return next((maker for maker in ("Intel", "AMD") if maker in cpu()), cpu())


def elsewhere(file: Path, command: str) -> dict[str, Any]:
    """Return what the command has stored of types of other processors."""
    stored = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    types = stored.get("types", {}) if stored.get("command") == command else {}
    return {name: each for name, each in types.items() if not name.startswith(f"{processor()} ")}


def overrides(seeds: range, steps: int) -> list[str]:
    """What is trained on each type."""
    return [f"norm={','.join(NORMS)}", f"seed=range({seeds.start},{seeds.stop})", f"steps={steps}"]


def trained(settings: dict[str, str], seeds: range, steps: int, folder: Path) -> dict[str, Any]:
    """Train what is missing of a type; return its scores by norm and seed, its code, and a hash of every row."""
    environment = {key: value for key, value in os.environ.items() if key != "ATEN_CPU_CAPABILITY"} | settings
    command = [sys.executable, "-m", "rlexp.train", "-m", *overrides(seeds, steps), "logger=none"]
    command.append(f"hydra.sweep.dir={folder}")
    done = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL)
    if done.returncode:
        sys.exit(f"training ended with {done.returncode}; the same command goes on with what is in {folder}")
    data = load(folder, metrics=[])
    runs = data.runs[data.runs["seed"].isin(seeds)].sort_values("name")  # there may be more, of an earlier command
    rows = [unclocked_rows(Path(one)) for one in runs["folder"]]
    scores = seed_table(data, values_per_run(data)).rename(columns=data.labels).loc[list(seeds)]
    return {
        "settings": settings,
        "rows": sha256(json.dumps(rows, sort_keys=True).encode()).hexdigest()[:16],
        "code": sorted({*runs["code"]}),
        "scores": {norm: {str(seed): score for seed, score in scores[norm].items()} for norm in NORMS},
    }


def repeated(rows: dict[str, str]) -> dict[str, str]:
    """Name each type whose rows are those of one before it, and that one."""
    first: dict[str, str] = {}
    return {name: first[hashed] for name, hashed in rows.items() if first.setdefault(hashed, name) != name}


if __name__ == "__main__":
    main()
